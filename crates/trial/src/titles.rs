//! `Titles`: the texts of a report.

use serde::{Deserialize, Serialize};

use crate::arm::ArmName;

/// The program that measured, and the machine on which it ran. Unknown fields are None.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Identity {
    /// The version of evenkeel.
    pub evenkeel: String,
    /// When the session began, in UTC.
    pub begun: String,
    /// The release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The model name of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The online CPUs, as a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The name of the hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The name of the cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The instance type in that cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// The texts of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Titles {
    /// The title of the session.
    pub title: String,
    /// The values of each arm's knobs, as text.
    pub values: Vec<String>,
    /// How far each arm is from the unchanged machine, A first. Empty unless there are more than two arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<Away>,
    /// The settings of B that were already in effect before anything was switched, as texts. Empty with more than two arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_already: Vec<String>,
    /// The workload as text.
    pub workload: String,
    /// The part of the workload's text that is the same at every start.
    /// A resume recognizes the workload by this part. None if the part is the whole text, and in sessions of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_identity: Option<String>,
    /// How many events per second the workload's metric measures, such as the tick rate. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_events_per_s: Option<f64>,
    /// The program and the machine.
    #[serde(default)]
    pub identity: Identity,
}

/// How far an arm is from the current configuration. Among equally good arms, the advice is the nearest arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Away {
    /// The knobs that the arm sets.
    pub knobs: Vec<String>,
    /// The number of the arm's settings whose values were not already in effect.
    pub settings: usize,
    /// The sum over the arm's settings of |ln((value + 1) / (current value + 1))|. None if a value is not a number of at least zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<f64>,
}

impl Titles {
    /// The values of an arm's knobs, as text.
    pub fn values_of(&self, arm: ArmName) -> &str {
        self.values.get(arm as usize).map_or("", String::as_str)
    }
}
