//! `ArmTest`: tests an arm against the unchanged machine, pair by pair, until it is decided and no guard looks worse.

use evenkeel_stats::{Pair, Verdict};

use super::{GuardNumbers, GuardSet, Judge};
use crate::error::TrialError;

/// A decided arm continues up to this multiple of its pairs while a guard looks worse.
const GUARD_PATIENCE: usize = 2;

/// The comparisons of one arm.
pub(crate) struct ArmTest {
    /// The test of the primary metric.
    pub(crate) judge: Judge,
    /// The numbers that may not get worse.
    pub(crate) guards: GuardSet,
    /// The pairs that it took to decide, if it was decided.
    decided_at: Option<usize>,
}

impl ArmTest {
    /// Before its first pair.
    pub(crate) fn new(judge: Judge, guards: GuardSet) -> ArmTest {
        ArmTest { judge, guards, decided_at: None }
    }

    /// Adds a pair, with the guards' values in both of its windows.
    ///
    /// # Errors
    /// If a value of the primary metric has no ratio to another.
    pub(crate) fn add(&mut self, pair: Pair, guards: [&GuardNumbers; 2]) -> Result<(), TrialError> {
        self.judge.add(pair)?;
        self.guards.add(guards);
        Ok(())
    }

    /// Records that the arm is decided, once it is. Fewer pairs than `pairs_min` decide nothing.
    pub(crate) fn note_decision(&mut self, pairs_min: usize) {
        let pairs = self.judge.pairs();
        if self.decided_at.is_none() && pairs >= pairs_min && self.judge.verdict() != Verdict::Undecided {
            self.decided_at = Some(pairs);
        }
    }

    /// Whether it was decided at some time.
    pub(crate) fn was_decided(&self) -> bool {
        self.decided_at.is_some()
    }

    /// Whether it was decided, and is better.
    pub(crate) fn is_better(&self) -> bool {
        self.was_decided() && self.judge.verdict() == Verdict::Better
    }

    /// Whether it continues although B is better: a guard seems harmed, and further pairs may show it.
    pub(crate) fn waits_for_guards(&self) -> bool {
        self.is_better()
            && self.decided_at.is_some_and(|at| self.judge.pairs() < at.saturating_mul(GUARD_PATIENCE))
            && self.guards.looks_harmed()
    }

    /// The estimated ratio to the unchanged machine, inverted if higher is better, so that less is better.
    pub(crate) fn cost(&self) -> f64 {
        self.judge.look().map_or(f64::INFINITY, |seen| self.judge.cost(seen.ratio))
    }
}
