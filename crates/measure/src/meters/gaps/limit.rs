//! `Limit`: a limit on CPU time that applies to the meter itself.

use evenkeel_sys::cpu_limit::CpuLimit;
use serde::Serialize;

/// A limit on CPU time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// The group's folder.
    pub group: String,
    /// The number of CPUs that the group may use. For example, 0.4 is four tenths of one CPU.
    pub cpus: f64,
    /// The refill period, in microseconds.
    pub period_us: u64,
}

impl From<&CpuLimit> for Limit {
    fn from(limit: &CpuLimit) -> Limit {
        Limit { group: limit.group.clone(), cpus: limit.cpus(), period_us: limit.period_ns / 1000 }
    }
}
