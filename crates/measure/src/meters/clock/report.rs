//! The report of the clock meter.

use serde::Serialize;

use super::across::Across;
use super::skipped::Skipped;
use crate::Samples;

/// The report of the clock meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The kernel's name of the current clock source. None if the kernel does not report it.
    pub source: Option<String>,
    /// The available sources, in the kernel's order.
    pub offered: Vec<String>,
    /// The current source first, then the other measured sources.
    pub sources: Vec<Source>,
    /// Available sources that should have been measured but were not.
    pub skipped: Vec<Skipped>,
    /// Changes by another program during the run, in words. After such a change, the numbers mix several sources.
    pub disturbed: Vec<String>,
    /// The cycle counter's frequency, measured against the monotonic clock.
    pub counter_hz: f64,
    /// The first CPU's clocks compared with the clocks of the other CPUs.
    pub across: Across,
}

/// The result of one clock source.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// The kernel's name of this clock source. None if the kernel does not report it.
    pub source: Option<String>,
    /// How `clock_gettime` is served.
    pub clock_gettime: ClockPath,
    /// How `gettimeofday` is served.
    pub gettimeofday: ClockPath,
    /// The cost of one call, by kind, in picoseconds.
    pub costs: Vec<Samples>,
    /// The time of 100 million `gettimeofday` calls in a row at the median cost, in seconds.
    pub loop_100m_s: Option<f64>,
    /// `loop_100m_s` of this source, divided by `loop_100m_s` of the current source.
    pub loop_ratio: Option<f64>,
}

/// How a call is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClockPath {
    /// The vDSO serves the call and does not enter the kernel.
    UserSpace,
    /// The call is a system call.
    SystemCall,
    /// How the call is served is unknown, for this reason.
    Unknown(String),
}
