//! `Settable`: a workload whose settings can be changed during a trial.
//! If a setting cannot be changed while the workload runs, the workload restarts.
//! So a trial can compare anything that `--set` accepts like a knob of the host.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::caveat::WorkloadCaveat;
use crate::clock::SimulatedMachine;
use crate::entry::{Entry, Options, unknown};
use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::workload::{SETTING_PREFIX, Sample, Workload};

/// The maximum number of caveats to keep from earlier starts.
const CAVEATS_MAX: usize = 20;

/// A running workload with its options.
pub struct Settable {
    entry: &'static Entry,
    /// The options that the user gave.
    asked: Options,
    /// The settings with which the workload runs now.
    now: BTreeMap<String, String>,
    inner: Box<dyn Workload>,
    caveats: Vec<WorkloadCaveat>,
}

impl Settable {
    /// Starts the workload, and waits until it is ready.
    ///
    /// # Errors
    /// Returns the error of the workload's start.
    pub fn start(entry: &'static Entry, options: &Options) -> Result<Settable, WorkloadError> {
        let inner = (entry.start)(options)?;
        Ok(Settable { entry, asked: options.clone(), now: options.set.clone(), inner, caveats: Vec::new() })
    }

    /// Restarts the workload with these settings. If that fails, restarts it with the previous settings, and returns the error.
    ///
    /// # Errors
    /// Fails if the workload does not start with the previous settings either.
    fn start_with(&mut self, set: BTreeMap<String, String>) -> Result<Option<WorkloadError>, WorkloadError> {
        self.keep_caveats();
        self.inner.stop();
        let start =
            |set: &BTreeMap<String, String>| (self.entry.start)(&Options { set: set.clone(), ..self.asked.clone() });
        match start(&set) {
            Ok(inner) => {
                (self.inner, self.now) = (inner, set);
                Ok(None)
            }
            Err(error) => {
                self.inner = start(&self.now)?;
                Ok(Some(error))
            }
        }
    }

    /// Changes a setting while the workload runs, and returns the value that is then in effect. None if the change needs a restart.
    fn live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, WorkloadError> {
        self.inner.set_live(name, value).map_err(|error| match error {
            WorkloadError::Setting(invalid) => refused(name, value, invalid.to_string()),
            WorkloadError::Options(why) => refused(name, value, why),
            other => other,
        })
    }

    fn keep_caveats(&mut self) {
        for caveat in self.inner.caveats() {
            if self.caveats.len() < CAVEATS_MAX && !self.has(&caveat) {
                self.caveats.push(caveat);
            }
        }
    }

    /// Whether the user has already seen the same caveat. Two caveats count as the same if their rounded figures look equal.
    fn has(&self, caveat: &WorkloadCaveat) -> bool {
        self.caveats.iter().any(|known| known.to_string() == caveat.to_string())
    }

    /// The value of a setting that the user gave, or else the workload's default.
    fn asked_for(&self, name: &str) -> Option<String> {
        let default = self.entry.settings.iter().filter_map(|(text, _)| text.split_once('='));
        let default = || default.clone().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
        self.asked.set.get(name).cloned().or_else(default)
    }
}

fn refused(name: &str, value: Option<&str>, why: String) -> WorkloadError {
    let wanted = value.unwrap_or("what it was").to_owned();
    WorkloadError::Switch { knob: format!("{SETTING_PREFIX}{name}"), wanted, why }
}

impl Workload for Settable {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn identity(&self) -> String {
        self.inner.identity()
    }

    fn metrics(&self) -> &[Metric] {
        self.inner.metrics()
    }

    fn events_per_s(&self) -> Option<f64> {
        self.inner.events_per_s()
    }

    fn ticks_per_s(&self) -> Option<f64> {
        self.inner.ticks_per_s()
    }

    fn passes_network_devices(&self) -> bool {
        self.inner.passes_network_devices()
    }

    fn takes_turns(&self) -> bool {
        self.inner.takes_turns()
    }

    fn pids(&self) -> Vec<u32> {
        self.inner.pids()
    }

    fn simulated(&self) -> Option<SimulatedMachine> {
        self.inner.simulated()
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        self.inner.set_process(knob, value)
    }

    fn set_live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, WorkloadError> {
        self.inner.set_live(name, value)
    }

    fn configure(&mut self, settings: &[(&str, Option<&str>)]) -> Result<Vec<String>, WorkloadError> {
        let mut in_force = Vec::with_capacity(settings.len());
        let (mut set, mut by_start) = (self.now.clone(), Vec::new());
        for (name, value) in settings {
            let Some(asked) = self.asked_for(name) else {
                return Err(refused(name, *value, unknown(self.entry, name).to_string()));
            };
            if let Some(found) = self.live(name, *value)? {
                in_force.push(found);
                continue;
            }
            match (value, self.asked.set.get(*name)) {
                (Some(value), _) => set.insert((*name).to_owned(), (*value).to_owned()),
                (None, Some(own)) => set.insert((*name).to_owned(), own.clone()),
                (None, None) => set.remove(*name),
            };
            by_start.push((*name, *value));
            in_force.push(value.map_or(asked, str::to_owned));
        }
        let Some(first) = by_start.first().copied() else { return Ok(in_force) };
        if let Some(error) = self.start_with(set)? {
            let is_named = |setting: &(&str, Option<&str>)| match &error {
                WorkloadError::Setting(invalid) => invalid.name == setting.0,
                _ => false,
            };
            let (name, value) = by_start.iter().copied().find(is_named).unwrap_or(first);
            return Err(refused(name, value, error.to_string()));
        }
        for (name, value) in settings.iter().filter(|setting| !by_start.contains(setting)) {
            self.live(name, *value)?;
        }
        Ok(in_force)
    }

    fn can_restart(&self) -> bool {
        self.inner.can_restart()
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.inner.reopen()
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.inner.restart()
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        self.inner.window(settle, window, begin)
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        let fresh = self.inner.caveats().into_iter().filter(|caveat| !self.has(caveat));
        self.caveats.iter().cloned().chain(fresh).collect()
    }

    fn stop(&mut self) {
        self.inner.stop();
    }
}
