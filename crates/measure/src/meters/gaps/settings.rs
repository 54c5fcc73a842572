//! How to measure.

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::cause::Class;
use super::tally::Keep;

/// How to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All the time: it takes the whole of each CPU.
    Spin,
    /// A short while now and then, for less than a hundredth of one CPU in all.
    Sample,
}

/// Which CPUs are watched at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All: only so a pause of the whole machine can be told.
    AllAtOnce,
    /// One after the other, each for its share of the time.
    OneAtATime,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The CPUs; none are all that this process may use.
    pub cpus: Option<CpuSet>,
    /// How long in all, in nanoseconds: up to ten days.
    pub length_ns: u64,
    /// The shortest gap that is told of, in nanoseconds: 500 or more.
    pub threshold_ns: u64,
    /// How to watch.
    pub mode: Mode,
    /// Which at a time.
    pub order: Order,
    /// How the probes are scheduled.
    pub class: Class,
    /// Which gaps are listed one by one.
    pub keep: Keep,
}
