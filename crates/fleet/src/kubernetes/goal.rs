//! `HostGoal`: the settings that a cluster wants on its hosts, and how far they were applied.

#![allow(unreachable_pub, reason = "the derive repeats each structure inside a function")]
#![allow(clippy::duplicated_attributes, reason = "each printed column has a name and a type")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::guard::{Guard, GuardState};

/// The settings of nodes.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "evenkeel.dev",
    version = "v1alpha1",
    kind = "HostGoal",
    plural = "hostgoals",
    shortname = "hg",
    status = "HostGoalStatus",
    derive = "PartialEq",
    doc = "Settings for nodes. The agent of each node applies them, verifies them, and puts them back when the goal is deleted.",
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes.selected"),
    printcolumn(name = "In force", type_ = "integer", json_path = ".status.nodes.inForce"),
    printcolumn(name = "Drifted", type_ = "integer", json_path = ".status.nodes.drifted"),
    printcolumn(name = "Refused", type_ = "integer", json_path = ".status.nodes.refused"),
    printcolumn(name = "Rollout", type_ = "string", json_path = ".status.rollout.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.advised) != (has(self.settings) && size(self.settings) > 0)").message("name either settings or advised"),
    validation = Rule::new("!has(self.rollout) || self.allow != 'audit'").message("a goal that only audits has nothing to roll out"),
    validation = Rule::new("!has(self.reboot) || self.allow == 'reboot'").message("a goal that reboots its nodes needs allow: reboot"),
    validation = Rule::new("!has(self.reboot) || has(self.rollout)").message("a goal that reboots its nodes needs a rollout, which limits how many reboot at once"),
)]
pub struct HostGoalSpec {
    /// The nodes that the goal is for; without it, all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// The settings as KNOB=VALUE, or KNOB@PLACE=VALUE for one queue or interrupt; `evenkeel explain` lists the knobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 200),
        inner(length(max = 1000), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(@[^=\n]+)?=[^\n]+$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub settings: Vec<String>,
    /// Instead of settings: all that the audit of each node advises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advised: Option<Advised>,
    /// What may happen to a node.
    #[serde(default)]
    pub allow: Allow,
    /// What the agent does when another program or a user changes a setting.
    #[serde(default)]
    pub on_drift: OnDrift,
    /// With it, each node waits until the rollout releases the goal. Without it, every node applies the goal at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// With it, the agent drains and reboots a node whose settings wait for a reboot.
    /// It needs `allow: reboot` and a rollout. Without it, the agent only reports that a reboot is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<RebootPolicy>,
}

/// How a node is drained and rebooted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebootPolicy {
    /// How long the node's pods may take to end, in seconds. If one is left then, the node is not rebooted and takes new pods again.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub drain_seconds: u32,
}

fn default_drain_seconds() -> u32 {
    3600
}

/// The audit's advice, for a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Advised {
    /// The property that the advice favours if it costs another.
    #[serde(default)]
    pub goal: AdvisedGoal,
}

/// What the advice favours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AdvisedGoal {
    /// Steady ticks and short waits.
    #[default]
    Latency,
    /// Work per second.
    Throughput,
    /// Sessions per machine.
    Density,
}

/// What may happen to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Allow {
    /// Nothing is changed. The state lists what would change.
    #[default]
    Audit,
    /// Settings of the running kernel. The agent applies them again after a boot.
    Runtime,
    /// Files that take effect at the next boot too, such as kernel arguments.
    /// The agent reports that a reboot is pending; it reboots the node only if the goal has `reboot`.
    Reboot,
}

/// What the agent does when another program or a user changes a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnDrift {
    /// It reports the drift.
    #[default]
    Report,
    /// The agent applies the setting again, up to six times an hour.
    Heal,
}

/// How a goal reaches its nodes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The nodes of the first wave: their number, or a selector of labels.
    #[serde(default)]
    pub canaries: Canaries,
    /// How many nodes may have the goal released and not yet in force: a number, or a percentage such as 10%. Nodes that still reboot for an earlier
    /// generation or another goal count too.
    #[serde(default)]
    pub max_unavailable: MaxUnavailable,
    /// How long each wave is in force before the next one, in seconds.
    #[serde(default = "default_pause_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub pause_seconds: u32,
    /// The guards that halt the rollout. Each guard has a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub guards: Vec<Guard>,
}

fn default_pause_seconds() -> u32 {
    60
}

/// The first wave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canaries {
    /// The number of nodes, in order of their names. With a selector, only selected nodes count.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub count: u32,
    /// Selects the nodes; without it, any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

fn one() -> u32 {
    1
}

impl Default for Canaries {
    fn default() -> Canaries {
        Canaries { count: 1, selector: None }
    }
}

/// A number of nodes, or a percentage of those selected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaxUnavailable(pub String);

impl Default for MaxUnavailable {
    fn default() -> MaxUnavailable {
        MaxUnavailable("10%".to_owned())
    }
}

impl schemars::JsonSchema for MaxUnavailable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MaxUnavailable".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^([1-9][0-9]{0,5}|[1-9][0-9]?%|100%)$",
            "maxLength": 6,
        })
    }
}

impl MaxUnavailable {
    /// The number of nodes out of this many; at least one.
    pub fn nodes(&self, all: usize) -> usize {
        let number = match self.0.strip_suffix('%') {
            Some(percent) => percent.parse::<usize>().ok().map(|percent| all.saturating_mul(percent) / 100),
            None => self.0.parse::<usize>().ok(),
        };
        number.unwrap_or(1).max(1)
    }
}

/// The progress of a goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostGoalStatus {
    /// The generation that this status is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// The nodes by state.
    #[serde(default)]
    pub nodes: Counts,
    /// `InForce`, `Degraded` and `Halted`, by the conventions of Kubernetes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The progress of its rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

/// Nodes by the state that they report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Nodes that the goal is for.
    pub selected: u32,
    /// All settings in force.
    pub in_force: u32,
    /// The goal only audits, and the audit is done.
    #[serde(default)]
    pub audited: u32,
    /// A setting was changed by another program or a user.
    pub drifted: u32,
    /// The node must reboot.
    pub pending_reboot: u32,
    /// The host refused the goal, and is unchanged.
    pub refused: u32,
    /// A setting could not be restored.
    #[serde(default)]
    pub not_put_back: u32,
    /// A setting does not exist on the host.
    pub not_applicable: u32,
    /// Not released yet, or the node's agent has not read it yet.
    pub waiting: u32,
}

/// The progress of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The generation of the goal that is rolled out.
    pub generation: i64,
    /// The phase of the rollout.
    #[serde(default)]
    pub phase: RolloutPhase,
    /// The number of the wave, from 1: the canaries.
    #[serde(default)]
    pub wave: u32,
    /// When the whole wave came into force, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave_in_force_since: Option<i64>,
    /// When the goal was in force on all selected nodes for the first time, in seconds since 1970.
    /// Later, the rollout halts only for nodes that get the goal then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_since: Option<i64>,
    /// Why it halted, or what it waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The measurements of each guard so far, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub guards: BTreeMap<String, GuardState>,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum RolloutPhase {
    /// Nodes are released wave by wave.
    #[default]
    Progressing,
    /// A node refused the goal, drifted or is not ready, or a guard got worse: nothing more is released.
    Halted,
    /// All selected nodes had the goal in force. The conditions show what drifted since.
    Complete,
    /// The user asked for an undo: every node reverts the goal's settings.
    Undone,
}
