//! `Switch`: brings one arm's values about on a host, again and again, and puts everything back at the end.

use evenkeel_change::{FileUndo, Session, State, Undo};
use evenkeel_host::{Action, Plan, Step};
use evenkeel_sys::{Hand, HeldLatency, Root};
use serde::Serialize;

use crate::error::TrialError;
use crate::workload::Workload;

/// The name of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ArmName {
    A,
    B,
}

/// What an arm does to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Every knob at the value it had before the trial. It is written all the same, so that both arms go one path.
    AsItWas,
    /// Every knob at the value that the plan wants.
    Planned,
}

/// The knobs of one trial, ready to be switched.
pub struct Switch<'a> {
    hand: &'a Hand,
    session: Option<Session<'a>>,
    /// The steps of the session, in its order.
    files: Vec<Step>,
    /// The most that leaving idle may take, while arm B is on.
    hold_us: Option<i32>,
    held: Option<HeldLatency>,
    /// Knob and value of the server's own process.
    process: Vec<(String, String)>,
}

impl<'a> Switch<'a> {
    /// Notes in the journal what every file of the plan reads now. Without steps that write files, no state is needed.
    ///
    /// # Errors
    /// If a file can't be read, if the journal can't be written, or if a step can't be switched live.
    pub fn begin(
        root: &'a Root,
        hand: &'a Hand,
        state: Option<&'a mut State>,
        title: &str,
        plan: &Plan,
    ) -> Result<Switch<'a>, TrialError> {
        let mut switch =
            Switch { hand, session: None, files: Vec::new(), hold_us: None, held: None, process: Vec::new() };
        for step in &plan.steps {
            switch.sort(step)?;
        }
        if !switch.files.is_empty() {
            let state = state.ok_or_else(|| {
                TrialError::Change(
                    "a state directory is needed to keep what is there now; give one with --state".into(),
                )
            })?;
            let session = Session::begin(root, hand, state, title, &switch.files)
                .map_err(|error| TrialError::Change(error.to_string()))?;
            switch.session = Some(session);
        }
        Ok(switch)
    }

    fn sort(&mut self, step: &Step) -> Result<(), TrialError> {
        let cannot =
            |why: &str| TrialError::Switch { knob: step.knob.clone(), wanted: step.wanted.clone(), why: why.into() };
        match &step.action {
            Action::Write { .. } => self.files.push(step.clone()),
            Action::Hold { .. } => {
                let us = step.wanted.parse().map_err(|_| cannot("no number of microseconds"))?;
                self.hold_us = Some(us);
            }
            Action::Process => self.process.push((step.knob.clone(), step.wanted.clone())),
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

    /// Brings an arm about, and reads back that it is in force.
    ///
    /// # Errors
    /// If the kernel or the server refuses, or if a value did not take.
    pub fn to(&mut self, arm: Arm, workload: &mut dyn Workload) -> Result<(), TrialError> {
        if let Some(session) = &mut self.session {
            for (index, step) in self.files.iter().enumerate() {
                let wanted = match arm {
                    Arm::AsItWas => session.before(index).unwrap_or_default().to_owned(),
                    Arm::Planned => step.wanted.clone(),
                };
                session.set(index, &wanted).map_err(|error| TrialError::Switch {
                    knob: step.knob.clone(),
                    wanted: wanted.clone(),
                    why: error.to_string(),
                })?;
            }
        }
        self.hold(arm)?;
        for (knob, value) in &self.process {
            let value = (arm == Arm::Planned).then_some(value.as_str());
            let found = workload.set_process(knob, value)?;
            if value.is_some_and(|value| value != found) {
                let why = format!("the server's process reads {found} afterwards");
                return Err(TrialError::Switch { knob: knob.clone(), wanted: value.unwrap_or_default().into(), why });
            }
        }
        Ok(())
    }

    fn hold(&mut self, arm: Arm) -> Result<(), TrialError> {
        // Dropping what was held ends the limit, so that arm A is the machine as it was.
        self.held = None;
        let Some(us) = self.hold_us.filter(|_| arm == Arm::Planned) else { return Ok(()) };
        let mut held = self.hand.hold_dma_latency_us(us)?;
        let in_force_us = held.in_force_us().map_err(|errno| TrialError::from(("/dev/cpu_dma_latency", errno)))?;
        if in_force_us > us {
            let why = format!("{in_force_us} us is in force afterwards");
            return Err(TrialError::Switch { knob: "cpuidle.dma_latency_us".into(), wanted: us.to_string(), why });
        }
        self.held = Some(held);
        Ok(())
    }

    /// Puts every value back, and notes that in the journal.
    ///
    /// # Errors
    /// If something could not be put back: `evenkeel revert` tries again.
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
