//! Candidate periods: the spectrum of "the CPU is gone" over the watched time.
//!
//! The fundamental of a train of gaps is always the strongest line, whatever our share is. So no harmonic is mistaken for the period.
//! The mean is subtracted only in watched time: unwatched time is neither gone nor available, and contributes nothing.

use std::f64::consts::TAU;

use super::gap::{PERIOD_MAX_NS, PERIOD_MIN_NS, SEARCH_GAPS, SEARCH_NS};
use super::observed::{Observed, Stretch, total};

/// Frequencies per line width.
const FINE: f64 = 5.0;
/// The maximum number of peaks to try.
const PEAKS: usize = 6;
const NS: f64 = 1e9;

/// The maximum number of frequencies to try: five per line width, in [`SEARCH_NS`].
const FREQUENCIES: usize = (FINE * SEARCH_NS / PERIOD_MIN_NS) as usize + 1;

/// Reusable memory of a spectrum.
#[derive(Debug, Default)]
pub(super) struct Room {
    windows: Vec<Stretch>,
    gaps: Vec<Stretch>,
    edges: Vec<Edge>,
    power: Vec<f64>,
    found: Vec<usize>,
}

impl Room {
    /// Memory for this many windows and gaps.
    pub(super) fn with_capacity(windows: usize, gaps: usize) -> Room {
        Room {
            windows: Vec::with_capacity(windows + gaps),
            gaps: Vec::with_capacity(gaps),
            edges: Vec::with_capacity(2 * (windows + 2 * gaps)),
            power: Vec::with_capacity(FREQUENCIES),
            found: Vec::with_capacity(FREQUENCIES),
        }
    }
}

/// One edge of a gap or window: its rotating phasor, the rotation from one frequency to the next, and its weight.
#[derive(Debug)]
struct Edge {
    re: f64,
    im: f64,
    turn_re: f64,
    turn_im: f64,
    weight: f64,
}

/// Periods in nanoseconds, the strongest first; 0 if there are fewer.
pub(super) fn periods(observed: &Observed, room: &mut Room) -> [f64; PEAKS] {
    let end = observed.span().1;
    let many = observed.gaps.len().saturating_sub(SEARCH_GAPS);
    let from = (end - SEARCH_NS).max(if many > 0 { observed.gaps[many].0 } else { f64::MIN });
    let Room { windows, gaps, edges, power, found } = room;
    windows.clear();
    windows.extend(observed.windows.iter().filter(|(_, to)| *to > from).map(|(start, to)| (start.max(from), *to)));
    gaps.clear();
    gaps.extend(observed.gaps.iter().filter(|(start, _)| *start >= from));
    let span_s = (end - windows.first().map_or(end, |first| first.0)) / NS;
    // A period must fit several times into the watched time.
    if gaps.len() < 4 || span_s < 3.0 * PERIOD_MIN_NS / NS {
        return [0.0; PEAKS];
    }
    let (low_hz, high_hz) = ((NS / PERIOD_MAX_NS).max(3.0 / span_s), NS / PERIOD_MIN_NS);
    let step_hz = 1.0 / (FINE * span_s);
    let count = ((high_hz - low_hz) / step_hz).max(0.0) as usize;
    make_edges(windows, gaps, low_hz, step_hz, edges);
    make_power(edges, low_hz, step_hz, count, power);
    peaks(power, found).map(|at| at.map_or(0.0, |at| NS / (low_hz + at * step_hz)))
}

fn make_edges(windows: &[Stretch], gaps: &[Stretch], low_hz: f64, step_hz: f64, edges: &mut Vec<Edge>) {
    let mean = total(gaps) / total(windows).max(1.0);
    edges.clear();
    let mut edge = |at_ns: f64, weight: f64| {
        let at_s = at_ns / NS;
        let (im, re) = (-TAU * low_hz * at_s).sin_cos();
        let (turn_im, turn_re) = (-TAU * step_hz * at_s).sin_cos();
        edges.push(Edge { re, im, turn_re, turn_im, weight });
    };
    for (from, to) in gaps {
        edge(*from, 1.0);
        edge(*to, -1.0);
    }
    for (from, to) in windows {
        edge(*from, -mean);
        edge(*to, mean);
    }
}

fn make_power(edges: &mut [Edge], low_hz: f64, step_hz: f64, count: usize, power: &mut Vec<f64>) {
    power.clear();
    for at in 0..count {
        let (mut re, mut im) = (0.0, 0.0);
        for edge in &mut *edges {
            re += edge.weight * edge.re;
            im += edge.weight * edge.im;
            (edge.re, edge.im) =
                (edge.re * edge.turn_re - edge.im * edge.turn_im, edge.re * edge.turn_im + edge.im * edge.turn_re);
        }
        // The integral over a stretch is the difference of the phasors of its two edges, divided by the frequency.
        let hz = low_hz + at as f64 * step_hz;
        power.push((re * re + im * im) / (hz * hz));
    }
}

/// The strongest peaks, as fractions of steps: a parabola through the three highest points of each.
fn peaks(power: &[f64], found: &mut Vec<usize>) -> [Option<f64>; PEAKS] {
    let is_peak = |at: &usize| power[*at] >= power[*at - 1] && power[*at] > power[*at + 1];
    found.clear();
    found.extend((1..power.len().saturating_sub(1)).filter(is_peak));
    found.sort_unstable_by(|one, other| power[*other].total_cmp(&power[*one]));
    let between = |at: usize| {
        let (before, here, after) = (power[at - 1].sqrt(), power[at].sqrt(), power[at + 1].sqrt());
        let bend = before - 2.0 * here + after;
        at as f64 + if bend < 0.0 { (before - after) / (2.0 * bend) } else { 0.0 }
    };
    std::array::from_fn(|nth| found.get(nth).map(|at| between(*at)))
}
