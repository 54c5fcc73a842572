//! `Workload`: a server with load on it, one file each.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::design::Metric;
use crate::error::TrialError;

pub mod arena;
mod child;

/// The numbers of one window, by name with unit: `round_trip_us_p50`.
pub type Sample = BTreeMap<String, f64>;

/// A server with load on it that can be measured window by window while it runs on.
pub trait Workload {
    /// What it is, for the report: programs, players, rates, placement.
    fn describe(&self) -> String;

    /// The metrics that may decide a trial, the usual one first.
    fn metrics(&self) -> &'static [Metric];

    /// Whether its packets pass a network device, which packets on loopback do not.
    fn passes_network_devices(&self) -> bool;

    /// Sets a property of the server's own process (`process.timer_slack_ns`); `None` gives it the default again.
    /// Returns the value read back.
    ///
    /// # Errors
    /// If the server can't, or did not.
    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, TrialError>;

    /// Lets the load run for `settle`, whose numbers are thrown away, and then for `window`, and returns that window's.
    /// `begin` is called between the two.
    ///
    /// # Errors
    /// If the server or its load ended, hung, or said what was not expected.
    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, TrialError>;

    /// Ends server and load, gracefully if they let it.
    fn stop(&mut self);
}
