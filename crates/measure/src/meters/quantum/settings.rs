//! The settings of the quantum meter.

use evenkeel_stats::periodicity::Count;
use evenkeel_sys::CpuSet;
use serde::Serialize;

/// The scheduling class of the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Real-time if that is allowed and no limit is set. Otherwise ordinary.
    #[default]
    Auto,
    /// Real-time (`SCHED_FIFO`). It is an error if that is refused.
    Fifo,
    /// Ordinary, like a server's threads.
    Ordinary,
}

/// The order in which CPUs are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One CPU after another, so that the other CPUs stay free.
    #[default]
    InTurn,
    /// All CPUs at once. This compares phases at one time, but a machine whose CPUs all spin responds slowly.
    Together,
}

/// The method that finds the period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Folds all gaps of some seconds over one another.
    #[default]
    Fold,
    /// Takes the first gap of more than a millisecond within 50 ms.
    ThresholdBaseline,
}

/// The settings of the quantum meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The CPUs. None means all CPUs that this process may use.
    pub cpus: Option<CpuSet>,
    /// How long to measure each CPU, in nanoseconds, from 0.1 to 600 s.
    pub duration_ns: u64,
    /// The shortest gap that counts, in nanoseconds. Interrupts take 5 to 20 us.
    pub threshold_ns: u64,
    /// The probe's class.
    pub class: Class,
    /// Which gaps count: those from outside the guest, or all.
    pub count: Count,
    /// Whether to measure one CPU after another, or all at once.
    pub order: Order,
    /// The method that finds the period.
    pub method: Method,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cpus: None,
            duration_ns: 2_000_000_000,
            threshold_ns: 100_000,
            class: Class::default(),
            count: Count::default(),
            order: Order::default(),
            method: Method::default(),
        }
    }
}
