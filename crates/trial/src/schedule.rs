//! Divides the time of a trial between the settle phase, the A/A phase and the pairs.
//! With a budget, the first two phases get a limited share of the budget.
//! The time of the pairs for a decision is reserved before the A/A phase begins. So every accepted budget is long enough for an answer.

use std::time::Duration;

use evenkeel_stats::Pair;

use crate::comparison::Judge;
use crate::design::{Design, Settle, Stop};
use crate::session::SettleSeen;

/// The settle phase takes at most this share of a budget.
const SETTLE_SHARE: f64 = 0.3;
/// The A/A phase takes at most this share of a budget, if no number of pairs was requested.
const CONTROL_SHARE: f64 = 0.25;
/// The minimum number of pairs of the A/A phase, if the user requested no number. A budget without room for these pairs is refused.
const CONTROL_LEAST: usize = 3;
/// Until a session has enough pairs for a first decision, it may exceed its budget by this factor.
/// Windows may be dropped, and the machine may be slower than planned.
const OVERRUN: f64 = 1.25;
/// The number of additional pairs for which the A/A phase leaves time, because rules drop some pairs.
const SPARE_PAIRS: usize = 2;
/// The smallest accepted budget has time for a settle time of this share of a window.
const QUIET_SHARE: f64 = 0.5;
/// The maximum number of pairs that a decision is assumed to need, at any confidence.
const CLEAREST_MAX: usize = 60;
/// The number of switches to each arm that the trial observes to find the settle time.
pub(crate) const SWITCHES: usize = 3;
/// The number of short windows after each of these switches.
pub(crate) const STEPS: usize = 8;
const STEP_MIN: Duration = Duration::from_millis(50);
const STEP_MAX: Duration = Duration::from_millis(500);
/// The minimum length of these short windows under a budget, as a share of a window. Shorter windows would contain too few ticks.
const STEP_SHARE_MIN: f64 = 0.1;

/// The number of arms and the duration of a switch, for planning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The number of arms.
    pub arms: usize,
    /// How long a switch to an arm takes, without the settle time.
    pub switch: Duration,
}

impl Pace {
    /// The pace for this number of arms if switches take no time.
    pub fn new(arms: usize) -> Pace {
        Pace { arms, switch: Duration::ZERO }
    }
}

impl Design {
    /// The budget, if there is one.
    pub(crate) fn budget(&self) -> Option<Duration> {
        match self.stop {
            Stop::Sequential { budget, .. } => budget,
            Stop::After { .. } => None,
        }
    }

    /// The minimum number of pairs that can decide between `arms` arms, if all pairs agree. The number is within the design's limits.
    pub fn pairs_to_decide(&self, arms: usize) -> usize {
        let clearest = || -> Option<usize> {
            let mut judge = Judge::of_metric(self, arms.saturating_sub(1)).ok()?;
            (1..=CLEAREST_MAX).find(|_| {
                judge.add(Pair { a: 2.0, b: 1.0 }).is_ok() && judge.verdict() != evenkeel_stats::Verdict::Undecided
            })
        };
        let least = match self.stop {
            Stop::After { pairs } => pairs,
            Stop::Sequential { pairs_min, .. } => clearest().unwrap_or(CLEAREST_MAX).max(pairs_min),
        };
        least.min(self.stop.pairs_max())
    }

    /// The number of pairs of the A/A phase: the design's own number, or less if the budget is too small.
    pub fn control_pairs_that_fit(&self, arms: usize) -> usize {
        let Some(budget) = self.budget() else { return self.control_pairs };
        let pair = self.window_takes(Pace::new(arms), self.settle.least() * self.interleaves) * 2;
        let fit = budget.mul_f64(CONTROL_SHARE).as_secs_f64() / pair.as_secs_f64().max(1e-6);
        (fit as usize).clamp(CONTROL_LEAST, self.control_pairs.max(CONTROL_LEAST)).min(self.control_pairs)
    }

    /// The shortest budget that has room for a decision, whatever the settle time is. It includes an A/A phase of `control_pairs` pairs.
    pub fn least_for(&self, pace: Pace, control_pairs: usize) -> Duration {
        let finding = match self.settle {
            Settle::Fixed { .. } => Duration::ZERO,
            Settle::Found { .. } => settle_least(self, pace),
        };
        let interleaves = self.interleaves_at(pace);
        let quiet = match self.settle {
            Settle::Fixed { time } => time * interleaves,
            Settle::Found { least, .. } => (least * interleaves).max(self.window.mul_f64(QUIET_SHARE)),
        };
        let windows = self.pairs_to_decide(pace.arms) * pace.arms + control_pairs * 2;
        finding.saturating_add(self.window_takes(pace, quiet).saturating_mul(count(windows)))
    }

    /// The minimum budget if the user did not request a number of A/A pairs.
    pub fn least_by_itself(&self, pace: Pace) -> Duration {
        self.least_for(pace, self.control_pairs.min(CONTROL_LEAST))
    }

    /// The maximum duration of a trial with `arms` arms, if the server settles at once after a switch. A shorter budget limits the duration.
    pub fn planned_for(&self, arms: usize) -> Duration {
        let pace = Pace::new(arms);
        let finding = match self.settle {
            Settle::Fixed { .. } => Duration::ZERO,
            Settle::Found { .. } => settle_cost(self) * count(arms) / 2,
        };
        let windows = self.stop.pairs_max().saturating_mul(arms).saturating_add(self.control_pairs * 2);
        let windows = self.window_takes(pace, self.settle.least() * self.interleaves).saturating_mul(count(windows));
        let all = finding.saturating_add(windows);
        self.budget().map_or(all, |budget| all.min(budget))
    }

    /// The maximum duration of a trial with two arms.
    pub fn planned(&self) -> Duration {
        self.planned_for(2)
    }

    /// The part of a budget that the settle phase may take: its share, or less if a decision would otherwise have no time.
    pub(crate) fn settle_room(&self, pace: Pace) -> Option<Duration> {
        let budget = self.budget()?;
        let least = settle_least(self, pace);
        let others = self.least_by_itself(pace).saturating_sub(least);
        Some(budget.mul_f64(SETTLE_SHARE).min(budget.saturating_sub(others)).max(least))
    }

    fn window_takes(&self, pace: Pace, quiet: Duration) -> Duration {
        self.window.saturating_add(quiet).saturating_add(pace.switch.saturating_mul(self.interleaves_at(pace)))
    }

    /// The number of interleaves of a window, if a switch takes this long. With slow switches, there is one switch per window.
    fn interleaves_at(&self, pace: Pace) -> u32 {
        if is_shared(self, pace.switch) { self.interleaves } else { 1 }
    }

    /// The longest settle time before a window that still leaves room for a decision in the rest of the budget.
    pub(crate) fn quiet_max(&self, pace: Pace, elapsed: Duration) -> Option<Duration> {
        let left = self.budget()?.saturating_sub(elapsed);
        let windows = self.pairs_to_decide(pace.arms) * pace.arms + self.control_pairs.min(CONTROL_LEAST) * 2;
        let each = left / count(windows).max(1);
        Some(each.saturating_sub(self.window_takes(pace, Duration::ZERO)).max(self.settle.least()))
    }
}

/// The timing of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed {
    /// The time since the session began.
    pub(crate) time: Duration,
    /// The duration of a window, including everything that precedes the window.
    pub(crate) window: Duration,
}

impl Elapsed {
    /// The duration of a window: the planned duration, or the average so far if that is longer.
    pub(crate) fn new(
        design: &Design,
        pace: Pace,
        settle: &SettleSeen,
        time: Duration,
        took: Option<Duration>,
    ) -> Elapsed {
        let interleaves = settle.interleaves.unwrap_or(1).max(1);
        let planned = design.window.saturating_add((settle.time() + pace.switch).saturating_mul(interleaves));
        Elapsed { time, window: took.map_or(planned, |took| took.max(planned)) }
    }

    /// Whether there is time for another pair of the A/A phase, when the time for the pairs of a decision is reserved.
    pub(crate) fn has_room_for_control(self, design: &Design, arms: usize) -> bool {
        let Some(budget) = design.budget() else { return true };
        let pairs = (design.pairs_to_decide(arms) + SPARE_PAIRS).min(design.stop.pairs_max());
        let windows = 2 + pairs * arms;
        self.time.saturating_add(self.window.saturating_mul(count(windows))) <= budget
    }

    /// The number of blocks of all arms for which the rest of the budget has time. Without a budget, the number of blocks in the design.
    pub(crate) fn blocks_that_fit(self, design: &Design, arms: usize) -> usize {
        let Some(budget) = design.budget() else { return design.stop.pairs_max() };
        let block = self.window.saturating_mul(count(arms)).max(Duration::from_micros(1));
        (budget.saturating_sub(self.time).as_secs_f64() / block.as_secs_f64()) as usize
    }

    /// Whether the budget has time for a block of `windows` windows, after `pairs` pairs of a trial with `arms` arms.
    /// Until there are enough pairs for a first decision, a small excess is allowed.
    pub(crate) fn has_room_for_block(self, design: &Design, windows: usize, pairs: usize, arms: usize) -> bool {
        let Some(budget) = design.budget() else { return true };
        let end = self.time.saturating_add(self.window.saturating_mul(count(windows)));
        let is_short = pairs < design.pairs_to_decide(arms);
        end <= if is_short { budget.mul_f64(OVERRUN) } else { budget }
    }
}

/// Whether windows can be interleaved. A switch with its settle time may take at most half of an interleave.
pub(crate) fn is_shared(design: &Design, switch: Duration) -> bool {
    switch <= design.window / design.interleaves.max(1) / 2
}

/// How long it takes to find the settle time of two arms in one round of switches, without the switches themselves.
pub(crate) fn settle_cost(design: &Design) -> Duration {
    settle_step(design, Pace::new(2)) * switches_followed(2) * STEPS as u32
}

/// How long it takes to find the settle time with the shortest windows that a budget allows.
pub(crate) fn settle_least(design: &Design, pace: Pace) -> Duration {
    (pace.switch + step_least(design) * STEPS as u32) * switches_followed(pace.arms)
}

/// The number of switches in one round that are followed by short windows.
pub(crate) fn switches_followed(arms: usize) -> u32 {
    (arms * SWITCHES) as u32
}

fn step_least(design: &Design) -> Duration {
    design.window.mul_f64(STEP_SHARE_MIN).clamp(STEP_MIN, STEP_MAX)
}

/// The length of a short window: a quarter of a window, or less if the budget has no time for that.
pub(crate) fn settle_step(design: &Design, pace: Pace) -> Duration {
    let usual = (design.window / 4).clamp(STEP_MIN, STEP_MAX);
    let Some(room) = design.settle_room(pace) else { return usual };
    let of_switch = room / switches_followed(pace.arms).max(1);
    usual.min((of_switch.saturating_sub(pace.switch) / STEPS as u32).max(step_least(design)))
}

fn count(windows: usize) -> u32 {
    u32::try_from(windows).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_workload::Metric;

    fn design(window_ms: u64) -> Design {
        let mut design = Design::sequential(Metric::us("lat_us", "latency"), 100, Duration::from_millis(window_ms), 1);
        design.interleaves = 4;
        design
    }

    fn with_budget(window_ms: u64, budget_s: u64) -> Design {
        let mut design = design(window_ms);
        if let Stop::Sequential { budget, .. } = &mut design.stop {
            *budget = Some(Duration::from_secs(budget_s));
        }
        design
    }

    #[test]
    fn a_decision_takes_seven_pairs_and_more_of_several_arms() {
        let pairs = [2, 3, 4, 8].map(|arms| design(1000).pairs_to_decide(arms));
        assert_eq!(pairs[0], 7);
        assert!(pairs.is_sorted() && pairs[3] > 7 && pairs[3] < 15, "{pairs:?}");
        let fixed = Design { stop: Stop::After { pairs: 30 }, ..design(1000) };
        assert_eq!(fixed.pairs_to_decide(2), 30, "it decides at the end");
    }

    #[test]
    fn the_least_budget_has_all_phases_in_it() {
        // The settle phase has 3 switches to each arm, with 8 windows of 100 ms after each.
        // Then come 3 A/A pairs and 7 pairs, with windows of 1 s and a settle time of half a second.
        let least = design(1000).least_by_itself(Pace::new(2));
        assert_eq!(least, Duration::from_millis(4800 + 20 * 1500));
        let slow = Pace { arms: 2, switch: Duration::from_secs(2) };
        assert_eq!(design(1000).least_by_itself(slow) - least, Duration::from_secs(2 * (6 + 20)));
        let known = Design { settle: Settle::Fixed { time: Duration::from_millis(50) }, ..design(1000) };
        assert_eq!(known.least_by_itself(Pace::new(2)), Duration::from_millis(20 * 1200));
        assert_eq!(known.least_for(Pace::new(2), 0), Duration::from_millis(14 * 1200));
    }

    #[test]
    fn a_short_budget_has_fewer_pairs_in_the_control_phase() {
        for (budget_s, expected) in [(30, 3), (60, 6), (90, 9), (600, 10)] {
            assert_eq!(with_budget(1000, budget_s).control_pairs_that_fit(2), expected, "{budget_s} s");
        }
        let none = Design { control_pairs: 0, ..with_budget(1000, 60) };
        assert_eq!(none.control_pairs_that_fit(2), 0);
        assert_eq!(design(1000).control_pairs_that_fit(2), 10, "without a budget all of them");
    }
}
