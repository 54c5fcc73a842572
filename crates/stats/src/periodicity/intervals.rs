//! From the intervals between gaps to a period without a stable phase.
//!
//! If every interval of a train varies a little, the train loses its phase within some dozens of turns.
//! A spectrum over seconds then shows nothing, but the intervals of the train are still similar.
//! We measure intervals between consecutive gaps within one stretch of watched time.
//! Gaps much shorter than most of the missing time are ignored as foreign.

use super::gap::{PERIOD_MAX_NS, PERIOD_MIN_NS, middle_of};
use super::observed::Observed;

/// A gap counts if it has at least this share of the middle length. Half of the missing time is in gaps of the middle length or longer.
const LENGTH_MIN: f64 = 0.4;
/// An interval is regular if it differs from the median by at most this share.
const NEAR: f64 = 0.35;
/// Regular intervals that deviate by more standard deviations than this are left out of the mean.
const NEAR_DEVIATIONS: f64 = 3.5;
const ROUNDS: u32 = 4;
/// Converts the median of deviations to a standard deviation, for normal noise.
const NORMAL: f64 = 1.4826;

/// A train of gaps, described by its intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) period_ns: f64,
    pub(super) period_error_ns: f64,
    /// The standard deviation of the intervals.
    pub(super) jitter_ns: f64,
    /// The median time for which the CPU is gone.
    pub(super) gone_ns: f64,
    /// The share of regular intervals.
    pub(super) regular: f64,
    /// The number of intervals.
    pub(super) intervals: u64,
}

/// Reusable memory.
#[derive(Debug, Default)]
pub(super) struct Room {
    lengths: Vec<f64>,
    intervals: Vec<f64>,
    apart: Vec<f64>,
}

impl Room {
    /// Memory for this many gaps.
    pub(super) fn with_capacity(gaps: usize) -> Room {
        let numbers = || Vec::with_capacity(gaps);
        Room { lengths: numbers(), intervals: numbers(), apart: numbers() }
    }
}

/// The period by intervals. None without two gaps in one stretch of watched time. The caller judges its confidence.
pub(super) fn cycle(observed: &Observed, room: &mut Room) -> Option<Cycle> {
    let Room { lengths, intervals, apart } = room;
    lengths.clear();
    lengths.extend(observed.gaps.iter().map(|(from, to)| to - from));
    lengths.sort_unstable_by(f64::total_cmp);
    let least_ns = LENGTH_MIN * middle_by_time(lengths)?;
    collect(observed, least_ns, intervals);
    let all = intervals.len();
    let middle = middle_of(intervals)?;
    intervals.retain(|interval| (interval / middle - 1.0).abs() <= NEAR);
    let regular = intervals.len() as f64 / all as f64;
    for _ in 0..ROUNDS {
        let mean = mean(intervals);
        apart.clear();
        apart.extend(intervals.iter().map(|interval| (interval - mean).abs()));
        let deviation = NORMAL * middle_of(apart)?;
        // If nearly all intervals are equal, the resolution of the clock limits the precision.
        let bound = (NEAR_DEVIATIONS * deviation).max(1000.0);
        intervals.retain(|interval| (interval - mean).abs() <= bound);
    }
    let (period_ns, count) = (mean(intervals), intervals.len());
    let squares: f64 = intervals.iter().map(|interval| (interval - period_ns) * (interval - period_ns)).sum();
    let jitter_ns = (squares / (count.max(2) - 1) as f64).sqrt();
    lengths.retain(|length| *length >= least_ns);
    let gone_ns = middle_of(lengths)?;
    Some(Cycle {
        period_ns,
        period_error_ns: jitter_ns / (count.max(1) as f64).sqrt(),
        jitter_ns,
        gone_ns,
        regular,
        intervals: count as u64,
    })
    .filter(|cycle| (PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&cycle.period_ns) && cycle.gone_ns < cycle.period_ns)
}

/// From the start of one gap to the start of the next in the same stretch of watched time.
fn collect(observed: &Observed, least_ns: f64, intervals: &mut Vec<f64>) {
    intervals.clear();
    let mut windows = observed.windows.iter();
    let mut window = windows.next();
    let mut last: Option<f64> = None;
    for (from, to) in observed.gaps.iter().filter(|(from, to)| to - from >= least_ns) {
        while window.is_some_and(|(_, end)| end <= from) {
            window = windows.next();
            last = None;
        }
        // A gap at the start of a window may have begun earlier.
        let is_whole = window.is_some_and(|(start, end)| start < from && to <= end);
        if let (Some(last), true) = (last, is_whole) {
            intervals.push(from - last);
        }
        last = is_whole.then_some(*from);
    }
}

/// The value for which half of the sum is in values of this size or more. The values must be sorted.
fn middle_by_time(sorted: &[f64]) -> Option<f64> {
    let half = sorted.iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    sorted.iter().rev().copied().find(|length| {
        sum += length;
        sum >= half
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
