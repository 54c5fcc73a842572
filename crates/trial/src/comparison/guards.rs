//! `GuardSet`: the metrics that must not get worse, compared over the same pairs as the primary metric.

use evenkeel_stats::{Pair, VALUE_RANGE, Verdict};

use super::{Judge, PairEffect};
use crate::design::{Guard, Stop};
use crate::error::TrialError;
use evenkeel_workload::Sample;

/// The value of each guard in one window. None if the value cannot form a ratio, such as a loss of zero.
pub(crate) type GuardNumbers = Vec<Option<f64>>;

/// The values of the guards in a window.
pub(crate) fn guard_numbers(guards: &[Guard], sample: &Sample) -> GuardNumbers {
    let of =
        |guard: &Guard| sample.get(guard.metric.name.as_ref()).copied().filter(|value| VALUE_RANGE.contains(value));
    guards.iter().map(of).collect()
}

/// Guards with their comparisons.
pub(crate) struct GuardSet(Vec<(Guard, Judge)>);

impl GuardSet {
    /// The guards of one of several comparisons. The error rate of the verdict is divided among all guards of all comparisons.
    ///
    /// # Errors
    /// Fails if the options of the guards' tests are invalid.
    pub(crate) fn new(
        guards: &[Guard],
        confidence: f64,
        comparisons: usize,
        stop: Stop,
    ) -> Result<GuardSet, TrialError> {
        let confidence = part_of(guards, confidence, comparisons);
        let judged =
            |guard: &Guard| Ok((guard.clone(), Judge::new(&guard.metric, guard.harm_ratio, confidence, stop)?));
        Ok(GuardSet(guards.iter().map(judged).collect::<Result<_, TrialError>>()?))
    }

    /// The guards of one comparison, tested once when all pairs are complete.
    pub(crate) fn at_end(guards: &[Guard], confidence: f64) -> GuardSet {
        let confidence = part_of(guards, confidence, 1);
        let judged = |guard: &Guard| (guard.clone(), Judge::at_end(&guard.metric, guard.harm_ratio, confidence));
        GuardSet(guards.iter().map(judged).collect())
    }

    /// Adds the guards' values in the two windows of a pair. A guard without a value in one of the two windows skips this pair.
    pub(crate) fn add(&mut self, [a, b]: [&GuardNumbers; 2]) {
        for ((_, judge), (a, b)) in self.0.iter_mut().zip(a.iter().zip(b)) {
            if let Some((a, b)) = a.zip(*b) {
                // If a value cannot form a ratio, the guard skips this pair.
                let _ = judge.add(Pair { a, b });
            }
        }
    }

    /// Every guard with its comparison.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Guard, &Judge)> {
        self.0.iter().map(|(guard, judge)| (guard, judge))
    }

    /// Each guard, with its effect over the pairs in which it has values.
    pub(crate) fn looks(&self) -> impl Iterator<Item = (&Guard, PairEffect)> {
        self.iter().filter_map(|(guard, judge)| Some((guard, judge.look()?)))
    }

    /// The first guard that got worse by at least its limit, at the end of the session.
    pub(crate) fn harmed(&self) -> Option<(&Guard, PairEffect)> {
        self.looks().find(|(_, seen)| seen.verdict == Verdict::Worse)
    }

    /// The first guard that is already decided to be worse, while the session runs.
    pub(crate) fn harmed_already(&self) -> Option<&Guard> {
        self.iter().find(|(_, judge)| judge.verdict() == Verdict::Worse).map(|(guard, _)| guard)
    }

    /// Whether the estimate of any undecided guard is worse by at least its limit.
    pub(crate) fn looks_harmed(&self) -> bool {
        self.looks().any(|(guard, seen)| seen.verdict == Verdict::Undecided && guard.is_harm(seen.ratio))
    }
}

/// The confidence of each guard's test when the error is divided among all guards of all comparisons.
fn part_of(guards: &[Guard], confidence: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - confidence) / (guards.len() * comparisons).max(1) as f64
}
