//! The settings that a search compares, and a host that switches them on and off.

use std::path::Path;

use evenkeel_change::State;
use evenkeel_host::{Facts, Plan, Setting};
use evenkeel_hostfs::{HostWriter, Root};
use evenkeel_trial::{Arm, Switch, TrialError};
use evenkeel_workload::WorkloadError;

use super::sessions::Sessions;
use crate::args::StateArgs;
use crate::arms::text_of;
use crate::commands::prove::goal;
use crate::exit;
use crate::experiment;
use crate::failure::Failure;
use crate::needs::Needs;
use crate::selection;
use crate::workload_settings;

/// The settings to compare, with their plans and requirements.
pub(super) struct Compared {
    pub(super) settings: Vec<Setting>,
    plans: Vec<Plan>,
    needs: Needs,
}

impl Compared {
    /// Reads the settings from a command line, or from a goal file.
    ///
    /// # Errors
    /// If an argument is not a setting, or a setting needs more rights than the user has.
    pub(super) fn read(settings: &[String], goal: Option<&Path>, root: &Root) -> Result<Option<Compared>, Failure> {
        let texts = match goal {
            Some(file) => goal::settings(file)?,
            None => settings.to_vec(),
        };
        if texts.is_empty() {
            return Ok(None);
        }
        let parse = |text: &String| {
            workload_settings::parse(text)
                .map_err(|error| selection::wrong_setting(&format!("read the setting {text}"), error))
        };
        let settings = texts.iter().map(parse).collect::<Result<Vec<Setting>, Failure>>()?;
        selection::refuse_clash(&settings, "read the settings")?;
        let facts = Facts::probe(root);
        let needs = Needs::from_settings(&facts, &settings)?;
        needs.refuse_without_root("capacity", &settings)?;
        let plans = experiment::plans(&facts, &settings)?;
        Ok(Some(Compared { settings, plans, needs }))
    }

    /// The settings as arguments of a command line.
    pub(super) fn texts(&self) -> Vec<String> {
        self.settings.iter().map(ToString::to_string).collect()
    }

    /// Opens the journal. Returns `None` if no setting writes a file of the host.
    ///
    /// # Errors
    /// If the journal can't be opened, or an earlier change was interrupted.
    pub(super) fn state(&self, root: &Root, state: &StateArgs) -> Result<Option<State>, Failure> {
        if !self.needs.journal {
            return Ok(None);
        }
        experiment::refuse_early_if_interrupted(root, state)?;
        state.open().map(Some)
    }

    /// Records the current values in the journal.
    ///
    /// # Errors
    /// If a setting can't be switched while the machine runs.
    pub(super) fn switch<'a>(
        &self,
        root: &'a Root,
        writer: &'a HostWriter,
        state: Option<&'a mut State>,
    ) -> Result<ComparedHost<'a>, Failure> {
        let title = format!("capacity with {}", text_of(&self.settings));
        let switch = Switch::begin(root, writer, state, &title, &self.plans);
        let count = self.settings.len();
        Ok(ComparedHost {
            switch: switch.map_err(failed)?,
            arms: [Arm::as_it_was(count), Arm::planned(count)],
            in_force: None,
        })
    }
}

/// The host, which a search switches between the arms with and without the settings. Dropping it restores the host.
pub(super) struct ComparedHost<'a> {
    switch: Switch<'a>,
    arms: [Arm; 2],
    /// Whether the settings are in force in all running sessions. `None` until the first switch.
    in_force: Option<bool>,
}

impl ComparedHost<'_> {
    /// Switches all running sessions to the arm. With `is_grown`, some sessions have just started.
    /// Returns whether the call changed anything.
    ///
    /// # Errors
    /// If a value is not in force after the switch, or a session did not restart.
    pub(super) fn set(
        &mut self,
        with_settings: bool,
        is_grown: bool,
        sessions: &mut Sessions<'_>,
    ) -> Result<bool, TrialError> {
        if self.in_force == Some(with_settings) && !is_grown {
            return Ok(false);
        }
        self.in_force = None;
        self.switch.to(&self.arms[usize::from(with_settings)], sessions)?;
        self.in_force = Some(with_settings);
        Ok(true)
    }

    /// The settings that another program changed since the last switch.
    pub(super) fn changed(&self) -> Vec<String> {
        self.switch.changed()
    }

    /// Restores the host.
    ///
    /// # Errors
    /// If something is not restored.
    pub(super) fn end(self, state: &StateArgs) -> Result<(), Failure> {
        self.switch
            .end()
            .map_err(|error| Failure::new(exit::NOT_UNDONE, error).hint(format!("{} tries again", state.revert())))
    }
}

pub(super) fn failed(error: TrialError) -> Failure {
    match error {
        TrialError::Workload(error) => of_workload(error),
        error => Failure::new(exit::NOT_POSSIBLE, error),
    }
}

pub(super) fn of_workload(error: WorkloadError) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}
