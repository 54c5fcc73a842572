//! `ArmTest`: tests an arm against the unchanged machine, pair by pair, until the arm is decided and no guard looks worse.

use evenkeel_stats::{Pair, Verdict};

use super::{GuardNumbers, GuardSet, Judge};
use crate::error::TrialError;

/// If an arm is decided but a guard looks worse, it continues up to this multiple of its pairs.
const GUARD_PATIENCE: usize = 2;

/// The comparisons of one arm.
pub(crate) struct ArmTest {
    /// The comparison of the primary metric.
    pub(crate) judge: Judge,
    /// The comparisons of the guards.
    pub(crate) guards: GuardSet,
    /// The number of pairs when the arm was first decided. None if the arm is undecided.
    decided_at: Option<usize>,
}

impl ArmTest {
    /// A test before the arm's first pair.
    pub(crate) fn new(judge: Judge, guards: GuardSet) -> ArmTest {
        ArmTest { judge, guards, decided_at: None }
    }

    /// Adds a pair, with the guards' values in both of its windows.
    ///
    /// # Errors
    /// Fails if a value of the primary metric cannot form a ratio, such as zero.
    pub(crate) fn add(&mut self, pair: Pair, guards: [&GuardNumbers; 2]) -> Result<(), TrialError> {
        self.judge.add(pair)?;
        self.guards.add(guards);
        Ok(())
    }

    /// Records the number of pairs when the arm is first decided. An arm with fewer than `pairs_min` pairs is never decided.
    pub(crate) fn note_decision(&mut self, pairs_min: usize) {
        let pairs = self.judge.pairs();
        if self.decided_at.is_none() && pairs >= pairs_min && self.judge.verdict() != Verdict::Undecided {
            self.decided_at = Some(pairs);
        }
    }

    /// Whether the arm was ever decided.
    pub(crate) fn was_decided(&self) -> bool {
        self.decided_at.is_some()
    }

    /// Whether the arm was decided to be better.
    pub(crate) fn is_better(&self) -> bool {
        self.was_decided() && self.judge.verdict() == Verdict::Better
    }

    /// Whether the arm continues although it is better, because a guard looks worse and more pairs may clarify this.
    pub(crate) fn waits_for_guards(&self) -> bool {
        self.is_better()
            && self.decided_at.is_some_and(|at| self.judge.pairs() < at.saturating_mul(GUARD_PATIENCE))
            && self.guards.looks_harmed()
    }

    /// The estimated ratio to the unchanged machine.
    /// If higher values are better, the ratio is inverted, so that a lower cost is always better.
    pub(crate) fn cost(&self) -> f64 {
        self.judge.look().map_or(f64::INFINITY, |seen| self.judge.cost(seen.ratio))
    }
}
