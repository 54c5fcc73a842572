//! `Workload`: a server under load that is measured window by window.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::caveat::WorkloadCaveat;
use crate::clock::SimulatedMachine;
use crate::error::WorkloadError;
use crate::metric::Metric;

/// The prefix of the workload's own settings when they are compared like knobs: `workload.work-us`.
pub const SETTING_PREFIX: &str = "workload.";

/// The values of one window, by names that contain the unit: `round_trip_us_p50`.
pub type Sample = BTreeMap<String, f64>;

/// A server under load that can be measured window by window while it runs.
pub trait Workload {
    /// A description for the report: programs, versions, players, rates, placement.
    fn describe(&self) -> String;

    /// The part of [`Workload::describe`] that is the same at every start of the workload.
    /// Thread numbers and other details of one start are left out.
    fn identity(&self) -> String {
        self.describe()
    }

    /// The metrics that may decide a trial, with the default first.
    fn metrics(&self) -> &[Metric];

    /// How many of the events that the default metric measures happen per second. None if unknown. A window should contain several events.
    fn events_per_s(&self) -> Option<f64> {
        None
    }

    /// The server's tick rate in Hz, which is the number of values per second for quantiles of ticks. None if unknown.
    fn ticks_per_s(&self) -> Option<f64> {
        self.events_per_s()
    }

    /// Whether the workload's packets pass a network device. Packets on loopback do not.
    fn passes_network_devices(&self) -> bool {
        false
    }

    /// Whether a window of a quarter of a second gives as good a value as a window of one second.
    /// Only then may arms alternate within a window.
    /// False if values arrive rarely, as lines and pages of other programs do.
    fn takes_turns(&self) -> bool {
        false
    }

    /// The server's processes, for observation from outside (CPU time, switches, properties). Empty if unknown.
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The simulated machine of the workload. The trial then uses its clock and conditions. None unless the workload simulates a machine.
    fn simulated(&self) -> Option<SimulatedMachine> {
        None
    }

    /// Sets a property of the server's own process (`process.timer_slack_ns`). `None` restores the default.
    /// Returns the value that is then in effect.
    ///
    /// # Errors
    /// Fails if the property cannot be set, or if the value did not take effect.
    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let why = format!("{} has no way to set it while it runs", self.describe());
        Err(WorkloadError::Switch { knob: knob.to_owned(), wanted: value.unwrap_or("the default").to_owned(), why })
    }

    /// Changes a setting of the workload itself while it runs, as `--set NAME=VALUE` does at the start.
    /// `None` restores the start value. Returns the value that is then in effect.
    /// The result is None if the change needs a restart.
    ///
    /// # Errors
    /// Fails if the workload rejects the value, or does not answer.
    fn set_live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, WorkloadError> {
        let _ = (name, value);
        Ok(None)
    }

    /// Changes settings of the workload itself, all at once. `None` restores a start value.
    /// If any setting cannot change while the workload runs,
    /// the workload restarts for all values, so that all arms switch in the same way.
    /// Returns the values that are then in effect.
    ///
    /// # Errors
    /// Fails if the workload has no such setting, rejects the value, or does not start again.
    fn configure(&mut self, settings: &[(&str, Option<&str>)]) -> Result<Vec<String>, WorkloadError> {
        match settings.first() {
            None => Ok(Vec::new()),
            Some((name, value)) => Err(WorkloadError::Switch {
                knob: format!("{SETTING_PREFIX}{name}"),
                wanted: value.unwrap_or("what it was").to_owned(),
                why: format!("{} has no such setting", self.describe()),
            }),
        }
    }

    /// Whether [`restart`](Workload::restart) and [`reopen`](Workload::reopen) are possible. False for a server that evenkeel only observes.
    fn can_restart(&self) -> bool {
        true
    }

    /// Makes the server open new sockets, for knobs that affect only new sockets. The default restarts the server.
    ///
    /// # Errors
    /// Fails if the server does not start again.
    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.restart()
    }

    /// Restarts server and load, for knobs that affect only new processes.
    ///
    /// # Errors
    /// Fails if the workload cannot restart, or does not start again.
    fn restart(&mut self) -> Result<(), WorkloadError> {
        Err(WorkloadError::Program { program: self.describe(), why: "it cannot be restarted during a trial".into() })
    }

    /// Runs the load for `settle` and then for `window`, and returns the window's values.
    /// Values from `settle` are discarded. Calls `begin` when the window begins.
    ///
    /// # Errors
    /// Fails if the server or its load ended, hung, or answered unexpectedly.
    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError>;

    /// Caveats of the workload itself, such as a load at its own limit.
    fn caveats(&self) -> Vec<WorkloadCaveat> {
        Vec::new()
    }

    /// Ends server and load, gracefully if possible.
    fn stop(&mut self);
}
