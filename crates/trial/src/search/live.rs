//! `Live`: the system that a real search measures: the host, a server under load, and the watch on the machine.

use evenkeel_host::Plan;
use evenkeel_workload::{Clock, Workload, WorkloadError};

use super::window_result::has_a_ratio;
use super::{SearchDesign, Subject, WindowResult};
use crate::arm::Arm;
use crate::conditions::Watch;
use crate::error::TrialError;
use crate::rules::Rules;
use crate::switch::Switch;
use crate::window::Measured;

/// The maximum number of restarts of a server that ended.
const REVIVALS_MAX: usize = 20;

/// A live server with its host.
pub struct Live<'a, 'b> {
    /// The design.
    pub design: &'a SearchDesign,
    /// The plan of each candidate, in the same order.
    pub plans: &'a [Plan],
    /// Switches the host to an arm.
    pub switch: &'a mut Switch<'b>,
    /// The server with its load.
    pub workload: Box<dyn Workload>,
    /// Starts a new server after the last one has ended.
    pub revive: &'a dyn Fn() -> Result<Box<dyn Workload>, WorkloadError>,
    /// The machine's conditions.
    pub watch: &'a Watch,
    /// The rules by which a window is dropped.
    pub rules: Rules,
    /// How often the server was restarted.
    pub revivals: usize,
}

impl Subject for Live<'_, '_> {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        match self.measure(arm) {
            Err(TrialError::Switch { knob, wanted, why }) => {
                let is_it = |plan: &Plan| plan.steps.iter().any(|step| step.knob == knob);
                match self.plans.iter().position(is_it) {
                    // The server also refuses the original value of a setting, so the search cannot continue.
                    Some(setting) if !arm.is_as_it_was() => {
                        Ok(WindowResult::Refused { setting, why: format!("{wanted}: {why}") })
                    }
                    _ => Err(TrialError::Switch { knob, wanted, why }),
                }
            }
            Err(TrialError::Workload(WorkloadError::Program { program, why })) if self.revivals < REVIVALS_MAX => {
                self.revivals += 1;
                self.workload.stop();
                match self.start_anew() {
                    Ok(()) => Ok(WindowResult::Died { why: format!("{program}: {why}") }),
                    // Report why the first server ended, because that helps more than the error of the next start.
                    Err(error) => {
                        let why = format!("{why}; a restart failed: {error}");
                        Err(WorkloadError::Program { program, why }.into())
                    }
                }
            }
            seen => seen,
        }
    }

    fn clock(&self) -> Clock {
        self.watch.clock().clone()
    }

    fn compares(&mut self, knobs: &[usize]) {
        self.switch.compares(knobs.iter().copied());
    }
}

impl Live<'_, '_> {
    /// Starts a new server with unchanged settings, whatever ended the last server.
    fn start_anew(&mut self) -> Result<(), TrialError> {
        self.workload = (self.revive)()?;
        self.switch.to(&Arm::as_it_was(self.plans.len()), &mut *self.workload)
    }

    fn measure(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        let settle = self.design.settle_after(&self.switch.ways(arm));
        self.switch.to(arm, &mut *self.workload)?;
        let window = self.design.window();
        let Measured { sample, mut conditions, .. } = self.watch.measure(&mut *self.workload, settle, window)?;
        let sample = sample.unwrap_or_default();
        conditions.counters.extend(self.switch.read_back());
        conditions.changed = self.switch.changed();
        if let Some(reason) = self.rules.judge(window, &conditions) {
            return Ok(WindowResult::Dropped {
                why: reason.to_string(),
                other_trials: conditions.other_trials,
                reason: Some(reason),
            });
        }
        let name = self.design.metric.name.as_ref();
        let value = sample.get(name).copied().ok_or_else(|| TrialError::NoSuchMetric {
            metric: name.to_owned(),
            given: sample.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        if !has_a_ratio(value) && value != 0.0 {
            let why = format!("{name} was {value}, which can't be compared");
            return Err(WorkloadError::Program { program: self.workload.describe(), why }.into());
        }
        let sample = sample.into_iter().filter(|(_, number)| number.is_finite()).collect();
        Ok(WindowResult::Measured { value, sample, conditions: Some(Box::new(conditions)) })
    }
}
