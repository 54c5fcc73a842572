//! `Titles`: the texts of a report.

use serde::{Deserialize, Serialize};

use crate::arm::ArmName;

/// The program that measured and the machine that it ran on. Unknown fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Identity {
    /// The version of evenkeel.
    pub evenkeel: String,
    /// When it began, UTC.
    pub begun: String,
    /// The kernel's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The processor's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The CPUs that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// The texts of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Titles {
    /// The title of the session.
    pub title: String,
    /// The values of each arm's knobs, in words.
    pub values: Vec<String>,
    /// How far each arm is from the unchanged machine, A first. Empty unless the session has several arms besides A.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<Away>,
    /// The settings of the only other arm that were in force before anything was switched, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_already: Vec<String>,
    /// The workload, in words.
    pub workload: String,
    /// The part of the description that is equal at every start, so that a session can be resumed; none in sessions of older versions, or
    /// if it is the whole description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_identity: Option<String>,
    /// How often per second the event that its metric measures happens, such as its tick rate in Hz; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_events_per_s: Option<f64>,
    /// The program and the machine.
    #[serde(default)]
    pub identity: Identity,
}

/// The distance of an arm from the current configuration. Among equally good arms, the closest one is advised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Away {
    /// The knobs that it sets.
    pub knobs: Vec<String>,
    /// How many of its settings were not in force already.
    pub settings: usize,
    /// The sum over its settings of |ln((value + 1) / (current value + 1))|; absent if one of them is not a number of at least zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<f64>,
}

impl Titles {
    /// An arm's values in words.
    pub fn values_of(&self, arm: ArmName) -> &str {
        self.values.get(arm as usize).map_or("", String::as_str)
    }
}
