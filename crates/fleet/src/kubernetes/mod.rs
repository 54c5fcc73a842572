//! Goals for the hosts of a Kubernetes cluster: two custom resources, what the agent of a node decides, and rollouts in waves.
//!
//! A [`HostGoal`] holds settings, and selects the nodes that they are for.
//! The agent of each node applies them with the journal of its host, and writes the result to the [`HostState`] of its node.
//! The agent writes nothing else, except the labels and one condition of the [`Node`].
//! A rollout releases a goal to one node after another, in the `spec` of their [`HostState`]s.
//!
//! ```text
//! HostGoal ──┐
//! labels   ──┼─ decide ─▶ Step[] ─ program of the host ─▶ journal
//! released ──┘                                               │
//! HostState.status ◀─ report ◀─ history, verify ─────────────┘
//! HostState.status of all nodes ─ rollout ─▶ HostState.spec.released, HostGoal.status
//! ```
//!
//! [`Node`]: k8s_openapi::api::core::v1::Node

pub mod agent;
mod bounds;
mod connect;
pub mod controller;
mod decide;
mod desired;
#[cfg(test)]
mod fake_server;
mod goal;
mod guard;
mod host;
mod journal;
mod list;
mod looks;
pub mod manifests;
mod names;
pub mod reboot;
mod releases;
mod report;
pub mod rollout;
mod selector;
pub mod served;
mod state;
pub mod trial;
mod why;

pub use kube::Client;

pub use connect::{Requests, connect};
pub use decide::{AdviceOfGoals, NodeView, Step, decide};
pub use desired::{Desired, HEALS_PER_HOUR_MAX, Permission};
pub use goal::{
    Advised, AdvisedGoal, Allow, Canaries, Counts, HostGoal, HostGoalSpec, HostGoalStatus, MaxUnavailable, OnDrift,
    RebootPolicy, Rollout, RolloutPhase, RolloutStatus,
};
pub use guard::{Guard, GuardLook, GuardState, Worse};
pub use host::{Applied, Host, HostError};
pub use journal::{GoalOwner, Journal, OwnedTransaction, PendingKnob, SetKnob, Verified};
pub use looks::Metrics;
pub use names::{GROUP, NODE_CONDITION, REBOOT, TRIAL, UNDO};
pub use selector::matches;
pub use state::{DriftedKnob, GoalPhase, GoalState, HostState, HostStateSpec, HostStateStatus, Release};
pub use why::why;
