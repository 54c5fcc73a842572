//! `Ladder`: the periods to choose from, and their multiples on a CPU with time slices. The code is pure.

use std::time::Duration;

use crate::quantum::Quantum;

/// The maximum number of rungs of a ladder.
pub const RUNGS_MAX: usize = 16;
/// The shortest period. Players gain nothing from more than 100 ticks per second, and below 1 ms there is no time for the decision.
pub const RUNG_LEAST: Duration = Duration::from_millis(1);
/// The longest period.
pub const RUNG_MOST: Duration = Duration::from_secs(10);

/// If a rung is this close below a multiple of the CPU's period, the rung becomes that multiple. The value is a share of that period.
const NEAR: f64 = 0.05;
/// A rung and a multiple closer than this count as equal. The difference is an error of the detection.
const SAME: f64 = 0.001;

/// Why a ladder is invalid.
///
/// ```
/// use evenkeel_rt::rate::{LadderError, RateError, RateSettings, TickRate};
///
/// let error = TickRate::start(RateSettings { ladder: vec![], ..RateSettings::default() }).unwrap_err();
/// assert_eq!(error, RateError::Ladder(LadderError::Empty));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// The ladder has no period.
    #[error("a ladder of tick periods needs at least one")]
    Empty,
    /// The ladder has too many periods.
    #[error("a ladder of tick periods may have {RUNGS_MAX} rungs, and this one has {0}")]
    TooMany(usize),
    /// A period is out of range.
    #[error("the tick period {0:?} is not within 1 ms to 10 s")]
    OutOfRange(Duration),
}

/// The detected time slices in which this machine or server gets the CPU.
///
/// ```
/// use evenkeel_rt::Quantum;
/// use evenkeel_rt::rate::{SliceModel, TimeSlices};
///
/// let limit = Quantum::TokenBucket { quota_ns: 40_000_000, period_ns: 100_000_000 };
/// let slices = TimeSlices::from_quantum(&limit).expect("it has a period and a share");
/// assert_eq!((slices.share, slices.model), (0.4, SliceModel::Bucket));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSlices {
    /// From the start of one slice to the start of the next.
    pub period: Duration,
    /// The share of the period with the CPU, above 0 and up to 1.
    pub share: f64,
    /// The model of the slices.
    pub model: SliceModel,
}

/// The source of time slices. The source decides how a tick's duration relates to its CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceModel {
    /// A hypervisor takes the CPU at fixed times. Unused CPU time is lost.
    Slots,
    /// A CPU limit of a control group. Unused CPU time stays available until the end of the period.
    Bucket,
}

impl TimeSlices {
    /// The slices that a clock detected ([`TickClock::quantum`](crate::TickClock::quantum)).
    /// `None` if the slices are not known, or the CPU has no slices.
    pub fn from_quantum(quantum: &Quantum) -> Option<TimeSlices> {
        let (period_ns, share) = (quantum.period_ns()?, quantum.share()?);
        let model = match quantum {
            Quantum::FixedSlot(_) => SliceModel::Slots,
            _ => SliceModel::Bucket,
        };
        Some(TimeSlices { period: Duration::from_nanos(period_ns), share, model })
    }

    pub(super) fn is_sound(&self) -> bool {
        !self.period.is_zero() && self.share > 0.0 && self.share <= 1.0
    }

    /// The CPU time of a tick of this duration, if the tick began at the start of a slice.
    pub(super) fn had_ns(&self, lasted_ns: u64) -> f64 {
        let period_ns = self.period.as_nanos() as f64;
        let turn_ns = period_ns * self.share;
        let whole = (lasted_ns as f64 / period_ns).floor();
        whole * turn_ns + (lasted_ns as f64 - whole * period_ns).min(turn_ns)
    }
}

/// Rungs from the shortest period to the longest.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    asked_ns: Vec<u64>,
    /// The requested periods, moved to multiples of the CPU's own period.
    rungs_ns: Vec<u64>,
    aligned_to_ns: f64,
}

impl Ladder {
    pub(super) fn new(rungs: &[Duration]) -> Result<Ladder, LadderError> {
        if rungs.is_empty() {
            return Err(LadderError::Empty);
        }
        if rungs.len() > RUNGS_MAX {
            return Err(LadderError::TooMany(rungs.len()));
        }
        if let Some(odd) = rungs.iter().find(|rung| !(RUNG_LEAST..=RUNG_MOST).contains(*rung)) {
            return Err(LadderError::OutOfRange(*odd));
        }
        // The rungs are in range, so the number of nanoseconds fits.
        let mut asked_ns: Vec<u64> = rungs.iter().map(|rung| rung.as_nanos() as u64).collect();
        asked_ns.sort_unstable();
        asked_ns.dedup();
        Ok(Ladder { rungs_ns: asked_ns.clone(), asked_ns, aligned_to_ns: 0.0 })
    }

    pub(super) fn last(&self) -> usize {
        self.rungs_ns.len() - 1
    }

    /// The period of a rung. For a rung beyond the last one, the period of the last rung.
    pub(super) fn period_ns(&self, rung: usize) -> u64 {
        self.rungs_ns[rung.min(self.last())]
    }

    /// The rung nearest to this period, as the user named it.
    pub(super) fn nearest(&self, period: Duration) -> usize {
        let asked = period.as_nanos() as f64;
        let apart = |rung: &u64| (*rung as f64 - asked).abs();
        let rungs = self.asked_ns.iter().enumerate();
        rungs.min_by(|one, other| apart(one.1).total_cmp(&apart(other.1))).map_or(0, |(at, _)| at)
    }

    /// The first and the last rung within a range. If the range has no rung, both are the rung nearest to the start of the range.
    pub(super) fn within(&self, fastest: Duration, slowest: Duration) -> (usize, usize) {
        let low = self.asked_ns.partition_point(|rung| u128::from(*rung) < fastest.as_nanos());
        let high = self.asked_ns.partition_point(|rung| u128::from(*rung) <= slowest.as_nanos());
        if low < high { (low, high - 1) } else { (self.nearest(fastest), self.nearest(fastest)) }
    }

    /// Moves the rungs to multiples of the CPU's own period, or back to the user's values.
    /// Rungs move to longer periods: ticks may come less often than requested, but not more often.
    /// A slice period longer than the longest rung has no multiples on the ladder, and changes nothing.
    pub(super) fn align(&mut self, to: Option<Duration>) {
        let longest_ns = self.asked_ns[self.last()] as f64;
        let to_ns = to.map_or(0.0, |period| period.as_nanos() as f64);
        let to_ns = if to_ns > longest_ns * (1.0 + NEAR) { 0.0 } else { to_ns };
        if (to_ns - self.aligned_to_ns).abs() <= self.aligned_to_ns * SAME
            && (to_ns > 0.0) == (self.aligned_to_ns > 0.0)
        {
            return;
        }
        self.aligned_to_ns = to_ns;
        let mut longest_ns = 0;
        for (rung_ns, asked_ns) in self.rungs_ns.iter_mut().zip(&self.asked_ns) {
            // Two rungs at the same multiple may still differ by less than `SAME`. Keep them in order.
            *rung_ns = aligned(*asked_ns, to_ns).max(longest_ns);
            longest_ns = *rung_ns;
        }
    }
}

fn aligned(asked_ns: u64, to_ns: f64) -> u64 {
    if to_ns <= 0.0 {
        return asked_ns;
    }
    let times = asked_ns as f64 / to_ns;
    let times = if times - times.floor() <= NEAR { times.floor() } else { times.ceil() }.max(1.0);
    let multiple_ns = times * to_ns;
    if (multiple_ns - asked_ns as f64).abs() <= multiple_ns * SAME { asked_ns } else { multiple_ns.round() as u64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn usual() -> Ladder {
        Ladder::new(&[ms(30), ms(10), ms(20), ms(50), ms(20)]).unwrap()
    }

    #[test]
    fn rungs_are_moved_to_multiples() {
        let table: [(Option<u64>, [u64; 4]); 11] = [
            (None, [10_000, 20_000, 30_000, 50_000]),
            (Some(10_000), [10_000, 20_000, 30_000, 50_000]),
            (Some(10_001), [10_000, 20_000, 30_000, 50_000]),
            (Some(9_980), [9_980, 19_960, 29_940, 49_900]),
            (Some(4_000), [12_000, 20_000, 32_000, 52_000]),
            (Some(7_000), [14_000, 21_000, 35_000, 56_000]),
            (Some(15_000), [15_000, 30_000, 30_000, 60_000]),
            (Some(20_000), [20_000, 20_000, 40_000, 60_000]),
            (Some(50_000), [50_000, 50_000, 50_000, 50_000]),
            (Some(100_000), [10_000, 20_000, 30_000, 50_000]),
            (Some(1), [10_000, 20_000, 30_000, 50_000]),
        ];
        let mut ladder = usual();
        for (to_us, expected) in table {
            ladder.align(to_us.map(Duration::from_micros));
            let rungs: Vec<u64> = ladder.rungs_ns.iter().map(|ns| ns / 1000).collect();
            assert_eq!(rungs, expected, "{to_us:?}");
        }
        ladder.align(Some(ms(7)));
        ladder.align(Some(Duration::from_micros(7_003)));
        assert_eq!(ladder.period_ns(0), 14_000_000, "the noise of the detection moves no rung");
        ladder.align(None);
        assert_eq!(ladder.period_ns(99), 50_000_000);
    }

    #[test]
    fn a_range_is_of_rungs() {
        let table = [((10, 50), (0, 3)), ((20, 30), (1, 2)), ((15, 45), (1, 2)), ((60, 90), (3, 3)), ((1, 2), (0, 0))];
        for ((fastest, slowest), expected) in table.into_iter().chain([((21, 22), (1, 1)), ((50, 10), (3, 3))]) {
            assert_eq!(usual().within(ms(fastest), ms(slowest)), expected, "{fastest} to {slowest}");
        }
    }

    #[test]
    fn an_invalid_ladder_is_an_error() {
        let table = [
            (vec![], "a ladder of tick periods needs at least one"),
            (vec![ms(20); 17], "a ladder of tick periods may have 16 rungs, and this one has 17"),
            (vec![ms(20), ms(0)], "the tick period 0ns is not within 1 ms to 10 s"),
            (vec![Duration::MAX], "the tick period 18446744073709551615.999999999s is not within 1 ms to 10 s"),
        ];
        for (rungs, expected) in table {
            assert_eq!(Ladder::new(&rungs).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn turns_are_what_a_clock_found() {
        let slot = crate::Slot { period_ns: 10_000_000.4, share: 0.4, phase_ns: 7, confidence: 0.9 };
        let bucket = Quantum::TokenBucket { quota_ns: 40_000_000, period_ns: 100_000_000 };
        let turns = |period, model| Some(TimeSlices { period: ms(period), share: 0.4, model });
        assert_eq!(TimeSlices::from_quantum(&Quantum::FixedSlot(slot)), turns(10, SliceModel::Slots));
        assert_eq!(TimeSlices::from_quantum(&bucket), turns(100, SliceModel::Bucket));
        for none in [Quantum::Unknown, Quantum::None, Quantum::Irregular] {
            assert_eq!(TimeSlices::from_quantum(&none), None);
        }
    }

    #[test]
    fn time_in_the_dark_is_no_work() {
        let turns = TimeSlices { period: ms(10), share: 0.4, model: SliceModel::Slots };
        // If the CPU runs for 4 of every 10 ms, work of 3.5, 6.5 and 13 ms lasts 3.5, 12.5 and 31 ms.
        for (lasted_us, had_us) in [(3_500, 3_500), (12_500, 6_500), (31_000, 13_000), (9_000, 4_000), (10_000, 4_000)]
        {
            assert_eq!((turns.had_ns(lasted_us * 1000) / 1000.0).round() as u64, had_us, "{lasted_us}");
        }
    }

    proptest! {
        #[test]
        fn rungs_stay_in_order_and_are_multiples(
            rungs in prop::collection::vec(1_000_u64..10_000_000, 1..17), to_us in 1_u64..20_000_000,
        ) {
            let rungs: Vec<Duration> = rungs.into_iter().map(Duration::from_micros).collect();
            let mut ladder = Ladder::new(&rungs).unwrap();
            let (asked, longest) = (ladder.rungs_ns.clone(), ladder.rungs_ns[ladder.last()] as f64);
            ladder.align(Some(Duration::from_micros(to_us)));
            prop_assert!(ladder.rungs_ns.is_sorted());
            let to_ns = to_us as f64 * 1000.0;
            for (rung, asked) in ladder.rungs_ns.iter().zip(asked) {
                let times = *rung as f64 / to_ns;
                let is_multiple = (times - times.round()).abs() <= times * 0.0011;
                prop_assert!(is_multiple || to_ns > longest, "{rung} of {to_ns}");
                prop_assert!(*rung as f64 >= asked as f64 - to_ns * 0.051, "{asked} became {rung}");
            }
        }
    }
}
