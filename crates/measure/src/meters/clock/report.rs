//! What was seen.

use serde::Serialize;

use super::across::Across;
use super::skipped::Skipped;
use crate::Samples;

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The clock source in use, as the kernel names it; none where it does not tell.
    pub source: Option<String>,
    /// Those on offer, in the kernel's order.
    pub offered: Vec<String>,
    /// The source in use first, then the others that were measured.
    pub sources: Vec<Source>,
    /// Sources on offer that were to be measured and were not.
    pub skipped: Vec<Skipped>,
    /// What somebody else changed meanwhile, in words. The numbers are then of more than one source.
    pub disturbed: Vec<String>,
    /// The cycle counter's frequency, measured against the monotonic clock.
    pub counter_hz: f64,
    /// The first CPU's clocks against the others'.
    pub across: Across,
}

/// What was seen under one clock source.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// The kernel's name of it; none where it does not tell.
    pub source: Option<String>,
    /// How `clock_gettime` is answered.
    pub clock_gettime: ClockPath,
    /// How `gettimeofday` is answered.
    pub gettimeofday: ClockPath,
    /// What one call costs, by kind, in picoseconds.
    pub costs: Vec<Samples>,
    /// What 100 million calls of `gettimeofday` in a row take, by the median cost, in seconds.
    pub loop_100m_s: Option<f64>,
    /// The same as a multiple of the source in use.
    pub loop_ratio: Option<f64>,
}

/// How a call is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockPath {
    /// In the vDSO, without the kernel.
    UserSpace,
    /// By a system call.
    SystemCall,
    /// Not known, and why.
    Unknown(String),
}
