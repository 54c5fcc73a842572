//! `Workload`: a server with load on it, which is measured window by window.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::caveat::WorkloadCaveat;
use crate::clock::SimulatedMachine;
use crate::error::WorkloadError;
use crate::metric::Metric;

/// What the names of the workload's own settings begin with where they are compared as knobs are: `workload.work-us`.
pub const SETTING_PREFIX: &str = "workload.";

/// The numbers of one window, by name with unit: `round_trip_us_p50`.
pub type Sample = BTreeMap<String, f64>;

/// A server with load on it that can be measured window by window while it runs on.
pub trait Workload {
    /// What it is, for the report: programs, versions, players, rates, placement.
    fn describe(&self) -> String;

    /// What of [`Workload::describe`] every start of the same workload has alike: not the number of a thread, nor what is found anew each time.
    fn identity(&self) -> String {
        self.describe()
    }

    /// The metrics that may decide a trial, the usual one first.
    fn metrics(&self) -> &[Metric];

    /// How often what its usual metric measures happens, a second, where that is known: a window is to hold some of them.
    fn events_per_s(&self) -> Option<f64> {
        None
    }

    /// Whether its packets pass a network device, which packets on loopback do not.
    fn passes_network_devices(&self) -> bool {
        false
    }

    /// Whether a quarter of a second of it is measured as well as a second: arms may then share a window in turns. Not where numbers come
    /// seldom, as lines and pages of somebody else's do.
    fn takes_turns(&self) -> bool {
        false
    }

    /// The server's processes, for what is seen from outside: CPU time, switches, properties. Empty where nothing can be told.
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The machine that it simulates, where it simulates one: the trial then runs by that machine's clock and conditions.
    fn simulated(&self) -> Option<SimulatedMachine> {
        None
    }

    /// Sets a property of the server's own process (`process.timer_slack_ns`); `None` gives it the default again.
    /// Returns the value read back.
    ///
    /// # Errors
    /// If the server can't, or did not.
    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let why = format!("{} has no way to set it while it runs", self.describe());
        Err(WorkloadError::Switch { knob: knob.to_owned(), wanted: value.unwrap_or("the default").to_owned(), why })
    }

    /// Sets something of the workload itself, as `--set NAME=VALUE` does, while it runs; `None` gives it back what it was started
    /// with. Returns the value in force, or nothing where it takes this by a new start alone.
    ///
    /// # Errors
    /// If it does not take the value, or does not answer.
    fn set_live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, WorkloadError> {
        let _ = (name, value);
        Ok(None)
    }

    /// Brings settings of the workload itself about, all at once; `None` gives each what it was started with. Those that it does
    /// not take while it runs take a new start, whatever their values are, so that all arms go one path. Returns what is in force.
    ///
    /// # Errors
    /// If it has no such setting, does not take the value, or did not come back.
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

    /// Makes the server take new sockets, for knobs that reach only those. By a new start, unless it can do better.
    ///
    /// # Errors
    /// If it did not come back.
    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.restart()
    }

    /// Starts server and load anew, for knobs that reach only a new process.
    ///
    /// # Errors
    /// If the workload can't, or it did not come back.
    fn restart(&mut self) -> Result<(), WorkloadError> {
        Err(WorkloadError::Program { program: self.describe(), why: "it can't be started anew during a trial".into() })
    }

    /// Lets the load run for `settle`, whose numbers are thrown away, and then for `window`, and returns that window's.
    /// `begin` is called between the two.
    ///
    /// # Errors
    /// If the server or its load ended, hung, or said what was not expected.
    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError>;

    /// What a sceptic should know of the workload itself, such as a load that was at its own limit.
    fn caveats(&self) -> Vec<WorkloadCaveat> {
        Vec::new()
    }

    /// Ends server and load, gracefully if they let it.
    fn stop(&mut self);
}
