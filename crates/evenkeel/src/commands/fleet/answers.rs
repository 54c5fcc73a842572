//! The answers of `fleet rollout` and `fleet prove`. Builds without Kubernetes have them too, because every build prints their schemas.

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
    /// `Progressing`, `Halted`, `Complete` or `Undone`; null if the goal has no rollout.
    pub(super) phase: Option<String>,
    /// Why the rollout halted, or what it waits for.
    pub(super) message: String,
    /// The number of nodes that the goal is for.
    pub(super) selected: u32,
    /// The number of nodes on which all settings of the goal are in force.
    pub(super) in_force: u32,
}

/// The result of a trial over a fleet.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ProveAnswer {
    /// The goal.
    pub(super) goal: String,
    /// The query, as the user gave it.
    pub(super) metric: String,
    /// The verdict on the settings.
    pub(super) verdict: Verdict,
    /// The metric with the settings, divided by the metric without them; null without an estimate.
    pub(super) ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub(super) low: f64,
    /// Upper end of the ratio's interval; null until there is an interval.
    pub(super) high: Option<f64>,
    /// The number of hosts that were compared.
    pub(super) hosts: usize,
    /// The number of blocks of the trial.
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
    /// The caveats of the result.
    pub(super) caveats: Vec<Caveat>,
    /// Why the trial ended before a verdict; null if it did not.
    pub(super) stopped: Option<String>,
    /// The seed of the random order.
    pub(super) seed: u64,
}
