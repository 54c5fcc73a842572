//! The answers of `fleet rollout` and `fleet prove`. They are documented in every build, also without Kubernetes.

#![cfg_attr(
    not(feature = "kubernetes"),
    allow(dead_code, reason = "filled in programs for Kubernetes, and documented in all")
)]

use evenkeel_fleet::switchback::{Caveat, Power};
use evenkeel_stats::Verdict;
use serde::Serialize;

/// The progress of each goal.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct RolloutAnswer {
    pub(super) goals: Vec<GoalAnswer>,
}

/// The progress of one goal.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct GoalAnswer {
    pub(super) goal: String,
    /// `Progressing`, `Halted`, `Complete` or `Undone`; null for a goal without a rollout.
    pub(super) phase: Option<String>,
    /// Why it halted, or what it waits for.
    pub(super) message: String,
    /// Nodes that the goal is for.
    pub(super) selected: u32,
    /// Nodes where all of its settings are in force.
    pub(super) in_force: u32,
}

/// The result of a trial over a fleet.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ProveAnswer {
    /// The goal.
    pub(super) goal: String,
    /// The query, as it was given.
    pub(super) metric: String,
    /// The verdict on the settings.
    pub(super) verdict: Verdict,
    /// The metric with the settings, divided by the metric without them.
    pub(super) ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub(super) low: f64,
    /// Upper end of the ratio's interval; null until there is an interval.
    pub(super) high: Option<f64>,
    /// Hosts that were compared.
    pub(super) hosts: usize,
    /// Blocks of the trial.
    pub(super) blocks: u64,
    /// The number of ratios, each of one pair of hosts in one block.
    pub(super) ratios: usize,
    /// The time of the trial, summed over all hosts, in hours. It includes the blocks before the trial.
    pub(super) host_hours: f64,
    /// The same comparison for the blocks before the trial, when no host had the settings. It is `same` or `undecided` if the fleet is fit for a
    /// trial.
    pub(super) before: Verdict,
    /// How many blocks it takes to detect an effect, estimated from the blocks before the trial.
    pub(super) power: Vec<Power>,
    /// What limits the result.
    pub(super) caveats: Vec<Caveat>,
    /// Why the trial ended before a verdict.
    pub(super) stopped: Option<String>,
    /// The seed of the random order.
    pub(super) seed: u64,
}
