//! `HostState`: what the agent of one node has done with each goal. It has the name of its node.

#![allow(clippy::duplicated_attributes, reason = "each printed column has a name and a type")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The goals that a node may apply; written by `evenkeel fleet rollout`.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "evenkeel.dev",
    version = "v1alpha1",
    kind = "HostState",
    plural = "hoststates",
    shortname = "hs",
    status = "HostStateStatus",
    derive = "PartialEq",
    doc = "What the agent of one node has done with each HostGoal. It has the name of its node and is deleted with it.",
    printcolumn(name = "Summary", type_ = "string", json_path = ".status.summary"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HostStateSpec {
    /// The goals that rollouts have released to this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub released: Vec<Release>,
}

/// One goal that may be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// Its name.
    pub goal: String,
    /// Its generation.
    pub generation: i64,
    /// The goal's uid. A later goal may have the same name and the same generation, and must wait for its own rollout.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 100))]
    pub uid: String,
}

impl Release {
    /// Whether this release is for the goal with this name and uid. A release without a uid is for any goal with its name.
    pub fn is_of(&self, goal: &str, uid: &str) -> bool {
        self.goal == goal && (self.uid.is_empty() || self.uid == uid)
    }
}

/// What the agent has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostStateStatus {
    /// The version of the agent.
    #[serde(default)]
    pub version: String,
    /// A summary in one line.
    #[serde(default)]
    pub summary: String,
    /// Each goal that is for this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalState>,
}

/// One goal on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoalState {
    /// Its name.
    pub goal: String,
    /// Its uid. A later goal may have the same name and the same generation, and nothing of this state is about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 100))]
    pub uid: String,
    /// The generation that the state is about.
    pub generation: i64,
    /// The state of the goal.
    pub phase: GoalPhase,
    /// Whether a setting waits for a reboot, and not only for a restart of the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_reboot: bool,
    /// The newest transaction of the host's journal that belongs to the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<u64>,
    /// The settings that another program or a user changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<DriftedKnob>,
    /// How many more of them are not listed, because an object of a cluster has a maximum size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drift_left_out: u32,
    /// The reason, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl GoalState {
    /// Whether this is about the goal of this name and uid. In contrast to a release, nobody but an agent writes a state, so the uid is never
    /// missing.
    pub fn is_of(&self, goal: &str, uid: &str) -> bool {
        self.goal == goal && self.uid == uid
    }
}

/// The state of a goal on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum GoalPhase {
    /// All settings of the goal are in force.
    InForce,
    /// The audit is done, and changed nothing.
    Audited,
    /// Not released yet.
    Waiting,
    /// The settings are written, and take effect after a reboot or a restart of the server.
    PendingReboot,
    /// Another program or a user changed a setting.
    Drifted,
    /// A setting does not exist on this host.
    NotApplicable,
    /// The host or its kernel refused the goal, or the goal contradicts another goal. None of its settings is in force.
    Refused,
    /// The goal could not be reverted completely; the message names the command to run on the host.
    NotPutBack,
}

impl GoalPhase {
    /// Whether a rollout may continue after a node with this state.
    pub fn is_good(self) -> bool {
        matches!(self, GoalPhase::InForce | GoalPhase::PendingReboot | GoalPhase::NotApplicable)
    }

    /// Whether it halts a rollout.
    pub fn is_bad(self) -> bool {
        matches!(self, GoalPhase::Drifted | GoalPhase::Refused | GoalPhase::NotPutBack)
    }
}

/// A setting that another program or a user changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedKnob {
    /// The knob.
    pub knob: String,
    /// Its place on the host.
    pub place: String,
    /// The value of the goal.
    pub wanted: String,
    /// The value found, or why it could not be read.
    pub found: String,
    /// What happened, as far as known.
    pub why: String,
    /// The command that repairs the setting on the host.
    pub mend: String,
}
