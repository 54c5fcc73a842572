//! The answers of `fleet rollout` and `fleet prove`.
//! Builds without Kubernetes also contain them, because every build prints their schemas.

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
    /// Why the rollout halted, or what the rollout waits for.
    pub(super) message: String,
    /// The number of nodes that the goal applies to.
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
    /// The ratio of the metric with the settings to the metric without them; null without an estimate.
    pub(super) ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub(super) low: f64,
    /// Upper end of the ratio's interval; null until there is an interval.
    pub(super) high: Option<f64>,
    /// The number of hosts in the comparison.
    pub(super) hosts: usize,
    /// The number of blocks of the trial.
    pub(super) blocks: u64,
    /// The number of ratios. Each ratio is from one pair of hosts in one block.
    pub(super) ratios: usize,
    /// The duration of the trial, summed over all hosts, in hours. It includes the blocks before the trial.
    pub(super) host_hours: f64,
    /// The same comparison for the blocks before the trial, when no host had the settings.
    /// In a fleet that is fit for a trial, the result is `same` or `undecided`.
    pub(super) before: Verdict,
    /// The number of blocks needed to detect an effect, estimated from the blocks before the trial.
    pub(super) power: Vec<Power>,
    /// The caveats of the result.
    pub(super) caveats: Vec<Caveat>,
    /// Why the trial ended before a verdict; null if it ended with a verdict.
    pub(super) stopped: Option<String>,
    /// The seed of the random order.
    pub(super) seed: u64,
}
