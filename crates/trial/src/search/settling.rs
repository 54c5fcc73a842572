//! Finds the settle time before a search, as a trial does, but for each kind of switch separately.
//! A server takes longer to settle after a restart or with new sockets than after a value that takes effect at once.

use std::time::Duration;

use evenkeel_host::Plan;
use evenkeel_workload::{Metric, Workload, WorkloadError};
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Level};
use crate::conditions::Watch;
use crate::design::{Design, Settle};
use crate::error::TrialError;
use crate::schedule::{Pace, settle_cost};
use crate::session::{SessionWriter, SettleHow, SettleSeen, Trial, find_settle};
use crate::switch::{Reach, Switch};

/// The maximum share of the budget for finding the settle time.
const SHARE: f64 = 0.1;
/// The settle time to use if no settle time could be measured.
const UNKNOWN: Duration = Duration::from_millis(100);

/// The settle time of one kind of switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassSettle {
    /// What the server must do for the switch to take effect. None if all kinds were switched together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Reach>,
    /// The knobs that were switched together.
    pub knobs: Vec<String>,
    /// The settle time, and how it was found.
    pub settle: SettleSeen,
}

/// The inputs for finding the settle time.
pub struct Settling<'a, 'b> {
    /// The primary metric, which decides.
    pub metric: &'a Metric,
    /// The length of a window.
    pub window: Duration,
    /// The smallest effect that matters, as a share.
    pub smallest_effect_ratio: f64,
    /// The budget of the whole search.
    pub budget: Duration,
    /// The plan of each knob.
    pub plans: &'a [Plan],
    /// Switches the host to an arm.
    pub switch: &'a mut Switch<'b>,
    /// The server with its load.
    pub workload: &'a mut dyn Workload,
    /// The machine's conditions.
    pub watch: &'a Watch,
    /// Whether the user asked to stop.
    pub stop: &'a dyn Fn() -> bool,
}

impl Settling<'_, '_> {
    /// Finds the settle time for each kind of switch, or for all kinds together if the budget is too small.
    /// The list is empty if the user stopped the search. All settings are restored.
    /// If a result is a guess, the server may have ended.
    ///
    /// # Errors
    /// Fails if the host could not be restored.
    pub fn find(mut self) -> Result<Vec<ClassSettle>, TrialError> {
        let classes = self.classes();
        let each = settle_cost(&self.design());
        let affordable = |times: usize| each.as_secs_f64() * times as f64 <= self.budget.as_secs_f64() * SHARE;
        let groups: Vec<(Option<Reach>, Vec<usize>)> = if affordable(classes.len()) {
            classes.into_iter().map(|(class, knobs)| (Some(class), knobs)).collect()
        } else {
            vec![(None, (0..self.plans.len()).collect())]
        };
        let in_time = affordable(groups.len());
        let mut found = Vec::with_capacity(groups.len());
        for (class, knobs) in groups {
            let settle = match in_time {
                true => self.one(&knobs)?,
                false => Some(guess(
                    UNKNOWN,
                    format!("its measurement would take {} s, too much of the budget", each.as_secs()),
                )),
            };
            let Some(settle) = settle else { return Ok(Vec::new()) };
            found.push(ClassSettle { class, knobs: self.names(&knobs), settle });
        }
        Ok(found)
    }

    fn design(&self) -> Design {
        let mut design = Design::sequential(self.metric.clone(), 1, self.window, 1);
        design.smallest_effect_ratio = self.smallest_effect_ratio;
        let most = design.settle.most().min(self.budget.mul_f64(SHARE / 10.0)).max(design.settle.least());
        design.settle = Settle::Found { least: design.settle.least(), most };
        design
    }

    /// Groups the knobs by what the server must do for a switch.
    fn classes(&self) -> Vec<(Reach, Vec<usize>)> {
        let mut classes: Vec<(Reach, Vec<usize>)> = Vec::new();
        for (at, plan) in self.plans.iter().enumerate() {
            let class = plan.steps.iter().map(Reach::from_step).max().unwrap_or(Reach::AtOnce);
            match classes.iter_mut().find(|(known, _)| *known == class) {
                Some((_, knobs)) => knobs.push(at),
                None => classes.push((class, vec![at])),
            }
        }
        classes.sort();
        classes
    }

    fn names(&self, knobs: &[usize]) -> Vec<String> {
        knobs.iter().filter_map(|at| Some(self.plans.get(*at)?.steps.first()?.knob.clone())).collect()
    }

    /// The settle time of these knobs, switched together. None if the user stopped the search.
    fn one(&mut self, knobs: &[usize]) -> Result<Option<SettleSeen>, TrialError> {
        let design = self.design();
        let as_it_was = Arm::as_it_was(self.plans.len());
        let mut on = as_it_was.clone();
        for knob in knobs {
            on.0[*knob] = Level::Planned;
        }
        self.switch.compares(knobs.iter().copied());
        let mut keep = SessionWriter::nowhere();
        let mut trial = Trial {
            design: &design,
            arms: vec![as_it_was.clone(), on],
            switch: self.switch,
            workload: self.workload,
            watch: self.watch,
            stop: self.stop,
            keep: &mut keep,
        };
        let found = find_settle(&mut trial, Pace::new(2), Duration::ZERO);
        match found {
            // The search will find the knob that causes this error, and take that knob out.
            Err(error @ (TrialError::Switch { .. } | TrialError::Workload(WorkloadError::Program { .. }))) => {
                let why = error.to_string();
                match self.switch.to(&as_it_was, self.workload) {
                    // The caller restarts the server if a result is a guess.
                    Ok(()) | Err(TrialError::Workload(WorkloadError::Program { .. })) => Ok(Some(guess(UNKNOWN, why))),
                    Err(error) => Err(error),
                }
            }
            found => {
                let found = found?;
                match self.switch.to(&as_it_was, self.workload) {
                    Ok(()) => Ok(found),
                    Err(error @ TrialError::Workload(WorkloadError::Program { .. })) => {
                        Ok(Some(guess(UNKNOWN, error.to_string())))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// The indices of the plans that need new sockets or a restart at each switch.
pub fn restarts(plans: &[Plan]) -> Vec<usize> {
    let is_slow = |plan: &Plan| plan.steps.iter().any(|step| Reach::from_step(step) > Reach::AtOnce);
    plans.iter().enumerate().filter(|(_, plan)| is_slow(plan)).map(|(at, _)| at).collect()
}

/// The settle time that suffices after any kind of switch.
pub fn longest(settles: &[ClassSettle]) -> Option<Duration> {
    settles.iter().map(|found| found.settle.time()).max()
}

fn guess(time: Duration, why: String) -> SettleSeen {
    SettleSeen { how: SettleHow::Guessed { why }, ..SettleSeen::fixed(time) }
}
