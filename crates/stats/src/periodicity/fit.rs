//! Refines an approximate period by straight lines through the starts and ends of gaps over their turn numbers.
//! The fit ignores outliers, and uses a longer part of the time in each step.

use super::agreement::{Train, kappa};
use super::gap::middle_of;
use super::observed::Observed;

/// Bins of one period, used to find where edges concentrate.
const BINS: usize = 64;
/// The widest gate, as a share of the period. The fit ignores an edge that is further than this from the line.
const GATE: f64 = 0.12;
/// The gate in standard deviations of the edges, and its minimum in nanoseconds.
const GATE_DEVIATIONS: f64 = 4.0;
const GATE_MIN_NS: f64 = 30_000.0;
const ROUNDS: u32 = 6;
/// The length of time for the first line, in nanoseconds. Each further line uses twice as much.
const FIRST_SPAN_NS: f64 = 2e9;
/// Converts the median of deviations to a standard deviation, for normal noise.
const NORMAL: f64 = 1.4826;

/// A train of gaps, and its precision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub(super) period_ns: f64,
    pub(super) period_error_ns: f64,
    /// The start of a gap near the middle of the watched time, since the base.
    pub(super) gone_from_ns: f64,
    pub(super) gone_ns: f64,
    pub(super) spread_ns: f64,
    pub(super) agreement: f64,
    pub(super) seen: u64,
    pub(super) expected: u64,
    /// The share of the missing time in gaps that begin near their predicted time.
    pub(super) in_time: f64,
}

/// The line of one kind of edge: turn `k` is at `at + k * period`.
#[derive(Clone, Copy)]
struct Line {
    at: f64,
    gate: f64,
}

/// The residuals of edges from a line.
#[derive(Debug, Default)]
struct Residuals {
    /// For each edge: its turn number, and its lateness.
    points: Vec<(f64, f64)>,
}

/// Reusable memory of a fit.
#[derive(Debug, Default)]
pub(super) struct Room {
    starts: Vec<f64>,
    ends: Vec<f64>,
    of_starts: Residuals,
    of_ends: Residuals,
    left: Vec<f64>,
}

impl Room {
    /// Memory for this many gaps.
    pub(super) fn with_capacity(gaps: usize) -> Room {
        let residuals = || Residuals { points: Vec::with_capacity(gaps) };
        let edges = || Vec::with_capacity(gaps);
        Room { starts: edges(), ends: edges(), of_starts: residuals(), of_ends: residuals(), left: edges() }
    }
}

pub(super) fn refine(observed: &Observed, period_ns: f64, room: &mut Room) -> Option<Fit> {
    let (first, last) = observed.span();
    let middle = (first + last) / 2.0;
    let Room { starts, ends, of_starts, of_ends, left } = room;
    starts.clear();
    starts.extend(observed.gaps.iter().map(|gap| gap.0 - middle));
    ends.clear();
    ends.extend(observed.gaps.iter().map(|gap| gap.1 - middle));
    let mut period = period_ns;
    let mut begin = Line { at: crowd(starts, period), gate: GATE * period };
    let mut end = Line { at: crowd(ends, period), gate: GATE * period };
    let (mut span, whole) = (FIRST_SPAN_NS.min(last - first), last - first);
    loop {
        for _ in 0..ROUNDS {
            begin.residuals(starts, period, span, of_starts);
            end.residuals(ends, period, span, of_ends);
            let change = common_slope(of_starts, of_ends)?;
            // If the period moves far from the candidate, the fit belongs to another candidate.
            if !(0.97..=1.03).contains(&((period + change) / period_ns)) {
                return None;
            }
            begin.settle(of_starts, change, period, left);
            end.settle(of_ends, change, period, left);
            period += change;
        }
        if span >= whole {
            break;
        }
        span *= 2.0;
    }
    begin.residuals(starts, period, whole, of_starts);
    let spread_ns = of_starts.deviation();
    let gone_ns = (end.at - begin.at).rem_euclid(period);
    let train = Train { from_ns: middle + begin.at, gone_ns, period_ns: period };
    let expected = observed.windows.iter().map(|(from, to)| train.beginnings(from + begin.gate, to - begin.gate)).sum();
    let near = |from: f64| begin.lateness(from - middle, period).abs() <= begin.gate;
    let in_time_ns: f64 = observed.gaps.iter().filter(|(from, _)| near(*from)).map(|(from, to)| to - from).sum();
    Some(Fit {
        in_time: in_time_ns / observed.lost_ns().max(1.0),
        period_ns: period,
        period_error_ns: of_starts.slope_error(spread_ns),
        gone_from_ns: train.from_ns,
        gone_ns,
        spread_ns,
        agreement: kappa(observed, &train),
        seen: of_starts.turns(),
        expected,
    })
}

/// The point within a period where most edges lie.
fn crowd(edges: &[f64], period: f64) -> f64 {
    let mut bins = [0_u32; BINS];
    for edge in edges {
        let share = edge.rem_euclid(period) / period;
        bins[((share * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    let around = |at: usize| (0..5).map(|by| bins[(at + BINS + by - 2) % BINS]).sum::<u32>() * 4 + bins[at];
    let fullest = (0..BINS).max_by_key(|at| around(*at)).unwrap_or(0);
    (fullest as f64 + 0.5) / BINS as f64 * period
}

impl Line {
    /// The lateness of an edge from the nearest turn.
    fn lateness(&self, edge: f64, period: f64) -> f64 {
        let turn = ((edge - self.at) / period).round();
        edge - self.at - turn * period
    }

    fn residuals(&self, edges: &[f64], period: f64, span: f64, into: &mut Residuals) {
        let near = edges.iter().filter(|edge| edge.abs() <= span / 2.0);
        let point = |edge: &f64| (((edge - self.at) / period).round(), self.lateness(*edge, period));
        into.points.clear();
        into.points.extend(near.map(point).filter(|(_, late)| late.abs() <= self.gate));
    }

    /// Moves to the middle of the nearby edges, with the new slope removed, and narrows its gate.
    fn settle(&mut self, residuals: &Residuals, slope: f64, period: f64, left: &mut Vec<f64>) {
        left.clear();
        left.extend(residuals.points.iter().map(|(turn, late)| late - slope * turn));
        if let Some(by) = middle_of(left) {
            self.at += by;
            left.iter_mut().for_each(|late| *late = (*late - by).abs());
            let deviation = NORMAL * middle_of(left).unwrap_or(0.0);
            let gate = (GATE_DEVIATIONS * deviation).max(GATE_MIN_NS);
            self.gate = gate.min(GATE * period);
        }
    }
}

impl Residuals {
    fn mean_turn(&self) -> f64 {
        self.points.iter().map(|(turn, _)| turn).sum::<f64>() / self.points.len().max(1) as f64
    }

    /// The sums of squares of the turns, and of turns times lateness, around the mean.
    fn sums(&self) -> (f64, f64) {
        let mean = self.mean_turn();
        let late = self.points.iter().map(|(_, late)| late).sum::<f64>() / self.points.len().max(1) as f64;
        self.points.iter().fold((0.0, 0.0), |(squares, products), (turn, by)| {
            (squares + (turn - mean) * (turn - mean), products + (turn - mean) * (by - late))
        })
    }

    fn deviation(&self) -> f64 {
        let mean = self.points.iter().map(|(_, late)| late).sum::<f64>() / self.points.len().max(1) as f64;
        let squares: f64 = self.points.iter().map(|(_, late)| (late - mean) * (late - mean)).sum();
        (squares / self.points.len().max(1) as f64).sqrt()
    }

    fn slope_error(&self, deviation: f64) -> f64 {
        deviation / self.sums().0.max(1.0).sqrt()
    }

    /// The number of different turns: two gaps in one turn count once.
    fn turns(&self) -> u64 {
        let mut last = f64::NAN;
        self.points.iter().filter(|(turn, _)| *turn != std::mem::replace(&mut last, *turn)).count() as u64
    }
}

/// The common slope of starts and ends. None if there are too few for a line.
fn common_slope(starts: &Residuals, ends: &Residuals) -> Option<f64> {
    let (one, other) = (starts.sums(), ends.sums());
    let squares = one.0 + other.0;
    if starts.points.len() < 4 || ends.points.len() < 4 || squares <= 0.0 {
        return None;
    }
    Some((one.1 + other.1) / squares)
}
