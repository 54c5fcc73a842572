//! How to measure.

use evenkeel_stats::periodicity::Count;
use evenkeel_sys::CpuSet;
use serde::Serialize;

/// The probe's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Real-time where that is allowed, and no limit is set; else ordinary.
    #[default]
    Auto,
    /// Real-time (`SCHED_FIFO`) or not at all.
    Fifo,
    /// Ordinary, as a server's threads are.
    Ordinary,
}

/// In which order CPUs are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other: the others stay free.
    #[default]
    InTurn,
    /// All at once: phases are compared at one time, and a machine whose CPUs all spin is slow to answer.
    Together,
}

/// How to find the period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// All gaps of some seconds, folded.
    #[default]
    Fold,
    /// The first gap of a millisecond within 50 ms.
    #[serde(rename = "siege")]
    ThresholdBaseline,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which CPUs; none is all that this process may use.
    pub cpus: Option<CpuSet>,
    /// How long on each, in nanoseconds, from 0.1 to 600 s.
    pub duration_ns: u64,
    /// Gaps shorter than this do not count, in nanoseconds; interrupts take 5 to 20 us.
    pub threshold_ns: u64,
    /// The probe's class.
    pub class: Class,
    /// Which gaps count.
    pub count: Count,
    /// One after the other or all at once.
    pub order: Order,
    /// How to find the period.
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
