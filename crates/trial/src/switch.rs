//! `Switch`: applies the values of one arm after another to a host, and restores all values at the end.

use std::collections::BTreeSet;

use evenkeel_change::{FileUndo, Session, State, Undo};
use evenkeel_host::{Action, Knob, Plan, Step, TakesEffect, knobs};
use evenkeel_hostfs::{HeldLatency, HostWriter, Root};
use evenkeel_workload::{PLACEMENT, SETTING_PREFIX, Workload};
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Level};
use crate::error::TrialError;

/// The settings of one trial, ready to be switched.
pub struct Switch<'a> {
    writer: &'a HostWriter,
    session: Option<Session<'a>>,
    /// The steps that write files, in the order of the session. Each has the index of its setting.
    files: Vec<(usize, Step)>,
    /// The step that limits the exit latency of idle states, with the index of its setting. None without such a setting.
    hold: Option<(usize, Step)>,
    held: Option<HeldLatency>,
    /// Steps that set a property of the workload, each with the index of its setting.
    of_workload: Vec<(usize, Step)>,
    /// Steps that set a property of the server's own process, each with the index of its setting.
    process: Vec<(usize, Step)>,
    /// What the server must do for each setting to take effect.
    reaches: Vec<Reach>,
    /// The settings in which the compared arms differ. By default, all settings.
    compared: Option<BTreeSet<usize>>,
    /// The last arm that was applied. None after a failed switch.
    last: Option<Arm>,
    /// The content of each file after the last switch. None if the file could not be read.
    files_read: Vec<Option<String>>,
    /// The server's own properties that are numbers, by knob, as read back after the last switch.
    read_back: Vec<(String, f64)>,
}

/// What a server must do for a new value to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Nothing: the value takes effect at once.
    AtOnce,
    /// The server must open new sockets.
    NewSockets,
    /// The server must restart.
    Restart,
}

impl Reach {
    /// What the server must do for this step to take effect.
    pub(crate) fn from_step(step: &Step) -> Reach {
        match knobs::find(&step.knob).map(|knob| knob.takes_effect) {
            Ok(TakesEffect::NewSockets) => Reach::NewSockets,
            // This is a property of the server's own process. Some workloads set it while the server runs.
            // Other servers must restart for it.
            Ok(TakesEffect::ProcessStart) if step.action != Action::Process && !can_set(&step.knob) => Reach::Restart,
            _ => Reach::AtOnce,
        }
    }
}

impl<'a> Switch<'a> {
    /// Prepares the switches of these plans, one plan for each setting.
    /// The current content of every file is recorded in the journal.
    /// The switch needs no journal if no step writes a file.
    ///
    /// # Errors
    /// Fails if a file can't be read, if the journal can't be written, or if a step can't be switched while the machine runs.
    pub fn begin(
        root: &'a Root,
        writer: &'a HostWriter,
        state: Option<&'a mut State>,
        title: &str,
        plans: &[Plan],
    ) -> Result<Switch<'a>, TrialError> {
        let mut switch = Switch {
            writer,
            session: None,
            files: Vec::new(),
            hold: None,
            held: None,
            of_workload: Vec::new(),
            process: Vec::new(),
            reaches: vec![Reach::AtOnce; plans.len()],
            compared: None,
            last: None,
            read_back: Vec::new(),
            files_read: Vec::new(),
        };
        for (setting, plan) in plans.iter().enumerate() {
            for step in &plan.steps {
                switch.sort(setting, step)?;
            }
        }
        if !switch.files.is_empty() {
            let state = state.ok_or_else(|| {
                TrialError::Change(
                    "a state directory is needed to keep what is there now; give one with --state".into(),
                )
            })?;
            let steps: Vec<Step> = switch.files.iter().map(|(_, step)| step.clone()).collect();
            switch.session = Some(Session::begin(root, writer, state, title, &steps)?);
        }
        Ok(switch)
    }

    fn sort(&mut self, setting: usize, step: &Step) -> Result<(), TrialError> {
        let cannot =
            |why: &str| TrialError::Switch { knob: step.knob.clone(), wanted: step.wanted.clone(), why: why.into() };
        if knobs::find(&step.knob).is_ok_and(|knob| knob.takes_effect == TakesEffect::NewInterfaces) {
            return Err(cannot("it takes effect on interfaces brought up afterwards, which a trial does not do"));
        }
        if let Some(reach) = self.reaches.get_mut(setting) {
            *reach = (*reach).max(Reach::from_step(step));
        }
        match &step.action {
            Action::Write { .. } => self.files.push((setting, step.clone())),
            Action::Hold { .. } => {
                latency_us(step, &step.wanted)?;
                self.hold = Some((setting, step.clone()));
            }
            Action::Process if setting_name(&step.knob).is_some() => self.of_workload.push((setting, step.clone())),
            Action::Process => self.process.push((setting, step.clone())),
            // The server itself should have this setting. In a trial, evenkeel can set it from outside the server.
            Action::ByHand { .. } if can_set(&step.knob) => self.process.push((setting, step.clone())),
            Action::ByHand { todo } => {
                return Err(cannot(&format!(
                    "it is not set by this program, so it can't be switched between windows: {todo}"
                )));
            }
            Action::KernelArgument { .. } => {
                return Err(cannot(
                    "a kernel argument takes effect after a reboot; it can't be switched between windows",
                ));
            }
        }
        Ok(())
    }

    /// From now on, all compared arms differ only in these settings. Steps that only other settings need are skipped.
    pub fn compares(&mut self, settings: impl IntoIterator<Item = usize>) {
        self.compared = Some(settings.into_iter().collect());
    }

    /// What the server must do in a switch to this arm.
    /// The result includes all compared settings, even unchanged ones, so that all arms switch in the same way.
    /// The result also includes each other setting that changes.
    pub fn ways(&self, arm: &Arm) -> BTreeSet<Reach> {
        let reaches = self.reaches.iter().enumerate();
        reaches.filter(|(setting, _)| self.concerns(*setting, arm)).map(|(_, reach)| *reach).collect()
    }

    fn concerns(&self, setting: usize, arm: &Arm) -> bool {
        let changes = self.last.as_ref().is_none_or(|last| last.level(setting) != arm.level(setting));
        changes || self.compared.as_ref().is_none_or(|compared| compared.contains(&setting))
    }

    /// Applies an arm, and reads back that its values are in effect.
    /// The server opens new sockets or restarts if a setting needs this.
    /// The switch does this for every compared arm, so that all arms switch in the same way.
    ///
    /// # Errors
    /// Fails if the kernel or the server refuses, or if a value did not take effect.
    pub fn to(&mut self, arm: &Arm, workload: &mut dyn Workload) -> Result<(), TrialError> {
        let widest = self.ways(arm).last().copied().unwrap_or(Reach::AtOnce);
        // A server that restarts or opens new sockets may lose settings that were applied while it ran. So apply those settings again.
        let configures =
            widest > Reach::AtOnce || self.of_workload.iter().any(|(setting, _)| self.concerns(*setting, arm));
        // If a step fails, the state of the host is unknown.
        self.last = None;
        if let Some(session) = &mut self.session {
            for (index, (setting, step)) in self.files.iter().enumerate() {
                let before = session.before(index).unwrap_or_default().to_owned();
                let wanted = wanted(arm.level(*setting), step).map_or(before, str::to_owned);
                session.set(index, &wanted).map_err(|error| TrialError::Switch {
                    knob: step.knob.clone(),
                    wanted: wanted.clone(),
                    why: error.to_string(),
                })?;
            }
        }
        // Read the files after all steps, because one step may change the content of another step's file.
        let session = self.session.as_ref();
        self.files_read = (0..self.files.len()).map(|index| session?.reads(index)).collect();
        self.hold(arm)?;
        match widest {
            Reach::AtOnce => {}
            Reach::NewSockets => workload.reopen()?,
            Reach::Restart => workload.restart()?,
        }
        // The workload's own properties were read back before. They stay in effect unless they are set again.
        self.read_back.retain(|(knob, _)| !configures && setting_name(knob).is_some());
        if configures {
            self.configure(arm, workload)?;
        }
        for (setting, step) in &self.process {
            let value = wanted(arm.level(*setting), step);
            let found = workload.set_process(&step.knob, value)?;
            if value.is_some_and(|value| value != found) {
                let why = format!("the server's process reads {found} afterwards");
                let wanted = value.unwrap_or_default().into();
                return Err(TrialError::Switch { knob: step.knob.clone(), wanted, why });
            }
            self.read_back.extend(found.parse().ok().map(|number| (step.knob.clone(), number)));
        }
        self.last = Some(arm.clone());
        Ok(())
    }

    /// Sets the workload's own properties. The workload may restart for this, so the properties of its process are set later.
    fn configure(&mut self, arm: &Arm, workload: &mut dyn Workload) -> Result<(), TrialError> {
        let settings: Vec<(&str, Option<&str>)> = self
            .of_workload
            .iter()
            .filter_map(|(setting, step)| Some((setting_name(&step.knob)?, wanted(arm.level(*setting), step))))
            .collect();
        if settings.is_empty() {
            return Ok(());
        }
        let in_force = workload.configure(&settings)?;
        let numbers = self.of_workload.iter().zip(&in_force);
        self.read_back.extend(numbers.filter_map(|((_, step), found)| Some((step.knob.clone(), found.parse().ok()?))));
        Ok(())
    }

    /// A text for each file whose content changed since the last switch, because another program wrote it.
    pub fn changed(&self) -> Vec<String> {
        let Some(session) = &self.session else { return Vec::new() };
        let of = |(index, (_, step)): (usize, &(usize, Step))| {
            let (set, now) = (self.files_read.get(index)?.as_ref()?, session.reads(index)?);
            (now != *set).then(|| format!("{} from {set} to {now}", step.knob))
        };
        self.files.iter().enumerate().filter_map(of).collect()
    }

    /// The server's own properties that are numbers, by knob, as read back after the last switch.
    pub fn read_back(&self) -> Vec<(String, f64)> {
        self.read_back.clone()
    }

    fn hold(&mut self, arm: &Arm) -> Result<(), TrialError> {
        // Closing the file ends the limit, so an arm without it is the unchanged machine.
        self.held = None;
        let Some((setting, step)) = &self.hold else { return Ok(()) };
        let Some(wanted) = wanted(arm.level(*setting), step) else { return Ok(()) };
        let us = latency_us(step, wanted)?;
        let mut held = self.writer.hold_dma_latency_us(us)?;
        let in_force_us = held.in_force_us().map_err(|errno| TrialError::from(("/dev/cpu_dma_latency", errno)))?;
        if in_force_us > us {
            let why = format!("{in_force_us} us is in force afterwards");
            return Err(TrialError::Switch { knob: step.knob.clone(), wanted: wanted.into(), why });
        }
        self.held = Some(held);
        Ok(())
    }

    /// Restores every value, and records this in the journal.
    ///
    /// # Errors
    /// Fails if a value could not be restored. `evenkeel revert` can try again.
    pub fn end(mut self) -> Result<(), TrialError> {
        self.held = None;
        let Some(session) = self.session.take() else { return Ok(()) };
        let back = session.end();
        let left = |file: &FileUndo| match &file.undo {
            Undo::Failed { why } => Some(format!("{} is not back at {:?}: {why}", file.path, file.before)),
            _ => None,
        };
        let left: Vec<String> = back.files.iter().filter_map(left).collect();
        if back.all_undone { Ok(()) } else { Err(TrialError::Change(left.join("; "))) }
    }
}

/// The name of a setting of the workload itself. `None` for its placement, which is set on running processes.
pub(crate) fn setting_name(knob: &str) -> Option<&str> {
    knob.strip_prefix(SETTING_PREFIX).filter(|_| knob != PLACEMENT)
}

fn can_set(knob: &str) -> bool {
    knobs::find(knob).is_ok_and(Knob::is_set_while_it_runs)
}

/// The value that a step sets at this level. None if the level keeps the original value.
fn wanted<'s>(level: &'s Level, step: &'s Step) -> Option<&'s str> {
    match level {
        Level::AsItWas => None,
        Level::Planned => Some(&step.wanted),
        Level::Value(value) => Some(value),
    }
}

fn latency_us(step: &Step, value: &str) -> Result<i32, TrialError> {
    value.parse().map_err(|_| TrialError::Switch {
        knob: step.knob.clone(),
        wanted: value.to_owned(),
        why: "it is not a number of microseconds".into(),
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_workload::process_knob;

    use super::*;

    #[test]
    fn workloads_can_set_what_knobs_say_can_be_set_while_it_runs() {
        for knob in knobs::ALL {
            assert_eq!(can_set(knob.id), process_knob::can_set(knob.id), "{}", knob.id);
        }
    }
}
