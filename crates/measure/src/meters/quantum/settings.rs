//! The settings of the quantum meter.

use evenkeel_stats::periodicity::Count;
use evenkeel_sys::CpuSet;
use serde::Serialize;

/// The scheduling class of the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Real-time if allowed and no limit is set; otherwise ordinary.
    #[default]
    Auto,
    /// Real-time (`SCHED_FIFO`) or an error.
    Fifo,
    /// Ordinary, like a server's threads.
    Ordinary,
}

/// The order in which CPUs are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after another: the others stay free.
    #[default]
    InTurn,
    /// All at once: this compares phases at one time, but a machine whose CPUs all spin responds slowly.
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
    /// The CPUs. None means all that this process may use.
    pub cpus: Option<CpuSet>,
    /// How long to measure each CPU, in nanoseconds, from 0.1 to 600 s.
    pub duration_ns: u64,
    /// Shorter gaps do not count, in nanoseconds; interrupts take 5 to 20 us.
    pub threshold_ns: u64,
    /// The probe's class.
    pub class: Class,
    /// Which gaps count: those from outside the guest, or all.
    pub count: Count,
    /// One after another, or all at once.
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
