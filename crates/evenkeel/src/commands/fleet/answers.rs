//! What `fleet rollout` and `fleet prove` answer. Documented in every program, also in those without Kubernetes.

#![cfg_attr(
    not(feature = "kubernetes"),
    allow(dead_code, reason = "filled in programs for Kubernetes, and documented in all")
)]

use evenkeel_fleet::switchback::{Caveat, Power};
use evenkeel_stats::Verdict;
use serde::Serialize;

/// How far each goal came.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct RolloutAnswer {
    pub(super) goals: Vec<GoalAnswer>,
}

/// How far one goal came.
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

/// What a trial over a fleet says.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ProveAnswer {
    /// The goal.
    pub(super) goal: String,
    /// The query, as it was given.
    pub(super) metric: String,
    /// Of the settings.
    pub(super) verdict: Verdict,
    /// The number with the settings, as a ratio to that without.
    pub(super) ratio: Option<f64>,
    /// Lower end of its interval.
    pub(super) low: f64,
    /// Upper end of its interval; null until there is an interval.
    pub(super) high: Option<f64>,
    /// Hosts that were compared.
    pub(super) hosts: usize,
    /// Blocks of the trial.
    pub(super) blocks: u64,
    /// Ratios of a pair of hosts in a block.
    pub(super) ratios: usize,
    /// Time of all hosts together in the trial, in hours, blocks before it included.
    pub(super) host_hours: f64,
    /// The same comparison of the blocks before the trial, when no host had the settings: `same` or `undecided` where the fleet is fit for a trial.
    pub(super) before: Verdict,
    /// How many blocks an effect takes, from the blocks before the trial.
    pub(super) power: Vec<Power>,
    /// What limits the result.
    pub(super) caveats: Vec<Caveat>,
    /// Why the trial ended before a verdict.
    pub(super) stopped: Option<String>,
    /// The seed of the random order.
    pub(super) seed: u64,
}
