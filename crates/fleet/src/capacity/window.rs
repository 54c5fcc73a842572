//! A window of a search, and the limits that its sessions have to hold.

use serde::{Deserialize, Serialize};

/// A limit that every session has to hold in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// The metric of the workload, such as `tick_lateness_us_p99`.
    pub metric: String,
    /// The unit of the metric.
    pub unit: String,
    /// The highest allowed value, or the lowest if higher is better.
    pub value: f64,
    /// Whether larger numbers are better.
    pub is_higher_better: bool,
}

impl Limit {
    /// Whether a value is within the limit.
    pub fn is_held(&self, value: f64) -> bool {
        if self.is_higher_better { value >= self.value } else { value <= self.value }
    }

    /// The worse of two values.
    pub fn worse(&self, a: f64, b: f64) -> f64 {
        if self.is_higher_better { a.min(b) } else { a.max(b) }
    }
}

/// The use of the machine in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineUse {
    /// CPUs in use.
    pub cpus_busy: f64,
    /// The share of CPU time that the hypervisor gave to others.
    pub steal_share: f64,
    /// Available memory, in MiB.
    pub memory_available_mib: f64,
    /// UDP packets per second that found a full buffer.
    pub udp_drops_per_s: f64,
    /// How often per second the CPU quota of the control group was used up. A log of an earlier version does not have it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub throttled_per_s: f64,
}

/// A window with one number of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Whether the settings that are compared were in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_settings: bool,
    /// Running sessions.
    pub sessions: u32,
    /// For each limit, the value of the worst session; none if a session had no value.
    pub worst: Vec<Option<f64>>,
    /// The CPU time of a session on average, in CPUs; none if the workload does not count it.
    pub session_cpus: Option<f64>,
    /// The use of the machine.
    pub machine: MachineUse,
}

impl Window {
    /// Whether the window can belong to a search with these limits and at most this many sessions. A file may have any window.
    pub fn is_of(&self, limits: &[Limit], sessions_max: u32) -> bool {
        (1..=sessions_max).contains(&self.sessions) && self.worst.len() == limits.len()
    }

    /// Whether all sessions held all limits.
    pub fn is_held(&self, limits: &[Limit]) -> bool {
        limits.iter().zip(&self.worst).all(|(limit, worst)| worst.is_some_and(|value| limit.is_held(value)))
    }
}
