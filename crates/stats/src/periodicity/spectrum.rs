//! The periods worth a try: the spectrum of "the CPU is gone" over the time that was watched.
//!
//! Of a train of gaps the fundamental is always the strongest line, whatever our share is, so that no harmonic is taken for the period.
//! The mean is taken out of watched time alone: what was not watched is neither gone nor ours, and adds nothing.

use std::f64::consts::TAU;

use super::observed::{Observed, Stretch, total};
use super::{PERIOD_MAX_NS, PERIOD_MIN_NS, SEARCH_GAPS, SEARCH_NS};

/// Frequencies for each width of a line.
const FINE: f64 = 5.0;
/// Peaks that are tried.
const PEAKS: usize = 6;
const NS: f64 = 1e9;

/// One edge of a gap or window: its turning phasor, the turn from one frequency to the next, and its weight.
struct Edge {
    re: f64,
    im: f64,
    turn_re: f64,
    turn_im: f64,
    weight: f64,
}

/// Periods in nanoseconds, the strongest first.
pub(super) fn periods(observed: &Observed) -> Vec<f64> {
    let end = observed.span().1;
    let many = observed.gaps.len().saturating_sub(SEARCH_GAPS);
    let from = (end - SEARCH_NS).max(if many > 0 { observed.gaps[many].0 } else { f64::MIN });
    let windows: Vec<Stretch> =
        observed.windows.iter().filter(|(_, to)| *to > from).map(|(start, to)| (start.max(from), *to)).collect();
    let gaps: Vec<Stretch> = observed.gaps.iter().filter(|(start, _)| *start >= from).copied().collect();
    let span_s = (end - windows.first().map_or(end, |first| first.0)) / NS;
    // A period must fit some times into what was watched.
    if gaps.len() < 4 || span_s < 3.0 * PERIOD_MIN_NS / NS {
        return Vec::new();
    }
    let (low_hz, high_hz) = ((NS / PERIOD_MAX_NS).max(3.0 / span_s), NS / PERIOD_MIN_NS);
    let step_hz = 1.0 / (FINE * span_s);
    let count = ((high_hz - low_hz) / step_hz).max(0.0) as usize;
    let power = power(&windows, &gaps, low_hz, step_hz, count);
    peaks(&power).into_iter().map(|at| NS / (low_hz + at * step_hz)).collect()
}

fn power(windows: &[Stretch], gaps: &[Stretch], low_hz: f64, step_hz: f64, count: usize) -> Vec<f64> {
    let mean = total(gaps) / total(windows).max(1.0);
    let mut edges = Vec::with_capacity(2 * (gaps.len() + windows.len()));
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
    let mut power = Vec::with_capacity(count);
    for at in 0..count {
        let (mut re, mut im) = (0.0, 0.0);
        for edge in &mut edges {
            re += edge.weight * edge.re;
            im += edge.weight * edge.im;
            (edge.re, edge.im) =
                (edge.re * edge.turn_re - edge.im * edge.turn_im, edge.re * edge.turn_im + edge.im * edge.turn_re);
        }
        // The integral over a stretch is the difference of its edges' phasors by the frequency.
        let hz = low_hz + at as f64 * step_hz;
        power.push((re * re + im * im) / (hz * hz));
    }
    power
}

/// Where the strongest peaks are, as fractions of steps: a parabola through the three highest points of each.
fn peaks(power: &[f64]) -> Vec<f64> {
    let is_peak = |at: &usize| power[*at] >= power[*at - 1] && power[*at] > power[*at + 1];
    let mut found: Vec<usize> = (1..power.len().saturating_sub(1)).filter(is_peak).collect();
    found.sort_unstable_by(|one, other| power[*other].total_cmp(&power[*one]));
    found.truncate(PEAKS);
    let between = |at: usize| {
        let (before, here, after) = (power[at - 1].sqrt(), power[at].sqrt(), power[at + 1].sqrt());
        let bend = before - 2.0 * here + after;
        at as f64 + if bend < 0.0 { (before - after) / (2.0 * bend) } else { 0.0 }
    };
    found.into_iter().map(between).collect()
}
