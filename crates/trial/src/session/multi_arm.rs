//! The state of the comparison between the arms of a session: each arm against A, and each arm against the others.
//! The file also has the rules by which an arm needs no more windows, and by which the session ends.
//! The loop, the report and a resumed session all use this state on the same windows, so their results agree.
//!
//! Decisions use only the values of finished blocks. So the order within the next block is random, whatever was decided before.
//! After one arm has left, the remaining arms still form pairs in random order.

use evenkeel_stats::{Pair, Verdict};
use serde::{Deserialize, Serialize};

use crate::arm::ArmName;
use crate::comparison::{ArmTest, GuardSet, Judge, guard_numbers};
use crate::design::{Design, Guard, Stop};
use crate::error::TrialError;
use crate::session::{Record, Window};

/// All comparisons between the arms of a session.
pub(crate) struct MultiArmTest {
    guards: Vec<Guard>,
    /// The minimum number of pairs for a decision. `None` if the test is evaluated only at the end.
    pairs_min: Option<usize>,
    further: Vec<ArmState>,
    arm_pairs: Vec<ArmPair>,
}

/// An arm other than A.
pub(crate) struct ArmState {
    pub(crate) name: ArmName,
    /// The arm's comparisons with A.
    pub(crate) test: ArmTest,
    /// Why the arm has no further windows. None if the arm continues.
    pub(crate) left: Option<Left>,
}

/// Two arms other than A, compared with each other in the blocks that have both.
pub(crate) struct ArmPair {
    pub(crate) one: ArmName,
    pub(crate) other: ArmName,
    /// Compares the second arm with the first.
    pub(crate) judge: Judge,
}

/// When and why an arm left the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Left {
    /// The last block in which the arm was measured.
    pub block: usize,
    /// The reason.
    pub why: LeftWhy,
}

/// Why an arm had no further windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LeftWhy {
    /// The arm was decided to be worse than A.
    Worse,
    /// The arm was decided to be the same as A.
    Same,
    /// A guard got worse by at least its limit.
    Harm {
        /// The name of the guard's metric.
        guard: String,
    },
    /// The arm is better than A, but another arm is better still.
    Beaten {
        /// The better arm.
        by: ArmName,
    },
    /// A reason of a later version, from a report file.
    Other,
}

impl MultiArmTest {
    /// The comparisons of this number of arms, before the first block.
    ///
    /// # Errors
    /// Fails if the options of the design are invalid for a test.
    pub(crate) fn new(design: &Design, arms: usize) -> Result<MultiArmTest, TrialError> {
        let names: Vec<ArmName> = ArmName::further(arms).collect();
        let state = |name: &ArmName| -> Result<ArmState, TrialError> {
            let judge = Judge::of_metric(design, names.len())?;
            let guards = GuardSet::new(&design.guards, design.confidence, names.len(), design.stop)?;
            Ok(ArmState { name: *name, test: ArmTest::new(judge, guards), left: None })
        };
        let further = names.iter().map(state).collect::<Result<Vec<ArmState>, _>>()?;
        let among: Vec<(ArmName, ArmName)> = names
            .iter()
            .enumerate()
            .flat_map(|(at, one)| names[at + 1..].iter().map(move |other| (*one, *other)))
            .collect();
        let arm_pair = |(one, other): &(ArmName, ArmName)| -> Result<ArmPair, TrialError> {
            Ok(ArmPair { one: *one, other: *other, judge: Judge::of_metric(design, among.len())? })
        };
        let arm_pairs = among.iter().map(arm_pair).collect::<Result<Vec<ArmPair>, _>>()?;
        let pairs_min = match design.stop {
            Stop::Sequential { pairs_min, .. } => Some(pairs_min),
            Stop::After { .. } => None,
        };
        Ok(MultiArmTest { guards: design.guards.clone(), pairs_min, further, arm_pairs })
    }

    /// The comparisons with all blocks of a record.
    ///
    /// # Errors
    /// Fails as [`MultiArmTest::new`] does and [`MultiArmTest::add`].
    pub(crate) fn from_record(design: &Design, record: &Record) -> Result<MultiArmTest, TrialError> {
        let mut test = MultiArmTest::new(design, record.arms.len())?;
        for block in blocks(&record.windows) {
            test.add(block)?;
        }
        Ok(test)
    }

    /// Adds the windows of a block that count. Every two arms in the block are a pair.
    ///
    /// # Errors
    /// Fails if a value of the primary metric cannot form a ratio, such as zero.
    pub(crate) fn add(&mut self, block: &[Window]) -> Result<(), TrialError> {
        let of = |arm| block.iter().find(|window| window.arm == arm);
        let value = |windows: (&Window, &Window)| Pair { a: windows.0.value, b: windows.1.value };
        for state in self.further.iter_mut().filter(|state| state.left.is_none()) {
            let Some((a, b)) = of(ArmName::A).zip(of(state.name)) else { continue };
            let numbers = [a, b].map(|window| guard_numbers(&self.guards, &window.sample));
            state.test.add(value((a, b)), numbers.each_ref())?;
        }
        for arm_pair in &mut self.arm_pairs {
            if let Some(both) = of(arm_pair.one).zip(of(arm_pair.other)) {
                arm_pair.judge.add(value(both))?;
            }
        }
        self.watch(block.first().map_or(0, |window| window.pair));
        Ok(())
    }

    /// Records which arms are decided. With several arms, it also records which arms need no further windows.
    fn watch(&mut self, block: usize) {
        let Some(pairs_min) = self.pairs_min else { return };
        self.further.iter_mut().for_each(|state| state.test.note_decision(pairs_min));
        // If A is compared with one arm only, the session ends when that arm is decided.
        if self.arm_pairs.is_empty() {
            return;
        }
        for at in 0..self.further.len() {
            if self.further[at].left.is_none()
                && let Some(why) = self.leaves(&self.further[at])
            {
                self.further[at].left = Some(Left { block, why });
            }
        }
    }

    fn leaves(&self, state: &ArmState) -> Option<LeftWhy> {
        if let Some(guard) = state.test.guards.harmed_already() {
            return Some(LeftWhy::Harm { guard: guard.metric.name.to_string() });
        }
        if !state.test.was_decided() {
            return None;
        }
        match state.test.judge.verdict() {
            Verdict::Worse => Some(LeftWhy::Worse),
            Verdict::Same => Some(LeftWhy::Same),
            Verdict::Better => {
                let is_sound = |by: &&ArmState| by.test.is_better() && !by.test.guards.looks_harmed();
                let by = self.further.iter().filter(is_sound).find(|by| self.is_beaten(state.name, by.name))?;
                Some(LeftWhy::Beaten { by: by.name })
            }
            Verdict::Undecided => None,
        }
    }

    /// Whether the direct comparison shows that `arm` is worse than `by`.
    pub(crate) fn is_beaten(&self, arm: ArmName, by: ArmName) -> bool {
        self.arm_pairs.iter().any(|arm_pair| match arm_pair.judge.verdict_at_end() {
            Verdict::Better => arm_pair.one == arm && arm_pair.other == by,
            Verdict::Worse => arm_pair.other == arm && arm_pair.one == by,
            Verdict::Same | Verdict::Undecided => false,
        })
    }

    /// Whether further blocks would not change the result.
    pub(crate) fn is_over(&self) -> bool {
        self.further.iter().all(|state| self.is_settled(state)) && self.is_best_decided()
    }

    /// Whether an arm is decided against A, and does not continue because of a guard.
    pub(crate) fn is_settled(&self, state: &ArmState) -> bool {
        state.left.is_some() || (state.test.was_decided() && !state.test.waits_for_guards())
    }

    /// Whether the arm with the best estimate is decided to be better than, or the same as, every other arm that is better than A.
    fn is_best_decided(&self) -> bool {
        let in_it: Vec<&ArmState> =
            self.further.iter().filter(|state| state.left.is_none() && state.test.is_better()).collect();
        let best = in_it.iter().min_by(|one, other| one.test.cost().total_cmp(&other.test.cost()));
        let Some(best) = best else { return true };
        let is_open = |arm_pair: &ArmPair, other: &ArmState| {
            let is_theirs = [arm_pair.one, arm_pair.other] == [best.name, other.name]
                || [arm_pair.other, arm_pair.one] == [best.name, other.name];
            is_theirs && arm_pair.judge.verdict() == Verdict::Undecided
        };
        !in_it.iter().any(|other| self.arm_pairs.iter().any(|arm_pair| is_open(arm_pair, other)))
    }

    /// The arms to measure in the next block, A first.
    pub(crate) fn in_it(&self) -> Vec<ArmName> {
        let further = self.further.iter().filter(|state| state.left.is_none()).map(|state| state.name);
        [ArmName::A].into_iter().chain(further).collect()
    }

    /// The number of counted pairs, for the remaining arm with the fewest pairs.
    pub(crate) fn pairs(&self) -> usize {
        let in_it = self.further.iter().filter(|state| state.left.is_none());
        in_it.map(|state| state.test.judge.pairs()).min().unwrap_or(0)
    }

    /// The arms other than A.
    pub(crate) fn further(&self) -> &[ArmState] {
        &self.further
    }

    /// The comparisons among the arms other than A.
    pub(crate) fn arm_pairs(&self) -> &[ArmPair] {
        &self.arm_pairs
    }
}

/// The windows of each block, as one slice per block.
pub(crate) fn blocks(windows: &[Window]) -> impl Iterator<Item = &[Window]> {
    windows.chunk_by(|one, next| one.pair == next.pair)
}

/// The values of A and B in each pair, as `number` reads them. Pairs with a missing value are left out.
pub(crate) fn pairs_of(windows: &[Window], number: impl Fn(&Window) -> Option<f64>) -> Vec<Pair> {
    let of = |pair: &[Window], arm| pair.iter().find(|window| window.arm == arm).and_then(&number);
    blocks(windows).filter_map(|pair| Some(Pair { a: of(pair, ArmName::A)?, b: of(pair, ArmName::B)? })).collect()
}

#[cfg(test)]
mod tests;
