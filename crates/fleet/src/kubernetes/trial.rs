//! Controls the hosts of a cluster for a trial: releases a goal to some of them, and waits until each has reached the requested state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::goal::{Allow, HostGoal};
use super::list::list;
use super::names::TRIAL;
use super::releases::Releases;
use super::rollout::{ClusterView, NodeInfo, with_release};
use super::state::{GoalPhase, GoalState, HostState, Release};
use super::why::why;

/// How often to check whether the hosts have reached the requested state.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How much longer the pause between two looks is than a look, at least.
const LOOK_SHARE: u32 = 4;
/// How many passes a switch makes at most while other programs write the same states.
const SWITCHES_MAX: usize = 20;
/// How often to try to take a goal while other programs write to it.
const TAKES_MAX: usize = 20;

/// One goal, whose releases a trial owns.
pub struct TrialGoal {
    goals: Api<HostGoal>,
    releases: Releases,
    nodes: Api<Node>,
    name: String,
    /// The id of the trial.
    id: String,
}

/// Why a trial cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// An error of the API server.
    #[error("{}", why(.0))]
    Cluster(#[from] kube::Error),
    /// No goal has the name.
    #[error("no HostGoal is named {name:?}")]
    NoGoal {
        /// The name.
        name: String,
    },
    /// The goal only audits, or has no rollout. Then a trial cannot decide which nodes have the goal.
    #[error("the goal only audits, or has no `rollout`: then no trial decides which nodes have it")]
    NotReleased,
    /// Another trial has the goal.
    #[error(
        "the goal is in trial {id}; go on with that trial (--continue, with its --log), or end it: \
            evenkeel fleet rollout {goal} --undo"
    )]
    Taken {
        /// The other trial.
        id: String,
        /// The goal.
        goal: String,
    },
    /// The goal does not belong to this trial any more.
    #[error("the goal was taken from this trial: somebody undid it, or removed its annotation {TRIAL}")]
    Lost,
    /// A host is not in the state that a trial needs.
    #[error("node {node} {what}")]
    Host {
        /// The node.
        node: String,
        /// What is wrong with the node, as text.
        what: String,
    },
    /// After the maximum time, some nodes were not in the requested state.
    #[error("after {seconds} s, {nodes} nodes have not reached the requested state, {first} among them")]
    Late {
        /// The maximum time, in seconds.
        seconds: u64,
        /// The number of these nodes.
        nodes: usize,
        /// The first node by name that has not reached the state.
        first: String,
    },
    /// Other programs keep writing to the same states.
    #[error("after {times} tries, others still change the goal, or what is released to the nodes")]
    Contested {
        /// The number of tries.
        times: usize,
    },
    /// The goal was changed during the trial.
    #[error("the goal was changed during the trial, which compares generation {generation}")]
    Changed {
        /// The generation of the trial.
        generation: i64,
    },
}

impl TrialGoal {
    /// The goal of this name, for trial `id`.
    pub fn new(client: Client, name: &str, id: &str) -> TrialGoal {
        let (goals, releases) = (Api::all(client.clone()), Releases::new(client.clone()));
        TrialGoal { goals, releases, nodes: Api::all(client), name: name.to_owned(), id: id.to_owned() }
    }

    /// Takes the goal for the trial, and returns what the trial releases and the ready nodes that the goal selects.
    /// A continued trial names what it released before.
    ///
    /// # Errors
    /// If the goal cannot be in a trial, is in another, or has another generation. The goal is then unchanged.
    pub async fn take(&self, known: Option<&Release>) -> Result<(Release, Vec<String>), TrialError> {
        let nodes = self.nodes().await?;
        for _ in 0..TAKES_MAX {
            let goal = self.goals.get_opt(&self.name).await?;
            let goal = goal.ok_or_else(|| TrialError::NoGoal { name: self.name.clone() })?;
            let found = may_take(&goal, &self.id, known)?;
            if !self.annotate(Some(&self.id), goal.resource_version()).await? {
                continue;
            }
            let view = ClusterView { goal: &goal, nodes: &nodes, states: &BTreeMap::new(), now: 0 };
            let ready = view.selected().into_iter().filter(|node| node.is_ready).map(|node| node.name.clone());
            return Ok((found, ready.collect()));
        }
        Err(TrialError::Contested { times: TAKES_MAX })
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, kube::Error> {
        list(&self.nodes, |node| NodeInfo::from_node(&node)).await
    }

    /// Gives the goal back to rollouts.
    ///
    /// # Errors
    /// An error of the API server.
    pub async fn give_back(&self) -> Result<(), TrialError> {
        self.annotate(None, None).await.map(drop)
    }

    /// Whether the goal exists and belongs to this trial.
    ///
    /// # Errors
    /// An error of the API server.
    pub async fn is_ours(&self) -> Result<bool, TrialError> {
        let goal = self.goals.get_opt(&self.name).await?;
        Ok(goal.is_some_and(|goal| goal.annotations().get(TRIAL) == Some(&self.id)))
    }

    /// Writes or removes the annotation. Returns false if the goal has changed since it was read.
    async fn annotate(&self, id: Option<&str>, version: Option<String>) -> Result<bool, TrialError> {
        let mut patch = json!({ "metadata": { "annotations": { TRIAL: id } } });
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        match self.goals.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            // The goal was deleted in the meantime, so there is nothing to give back.
            Err(kube::Error::Api(error)) if error.is_not_found() && id.is_none() => Ok(true),
            Err(kube::Error::Api(error)) if error.is_conflict() => Ok(false),
            patched => Ok(patched.map(|_| true)?),
        }
    }

    /// Releases the goal to these nodes and withdraws it from all others.
    ///
    /// # Errors
    /// If the API server refuses a request, or other programs keep changing the same states.
    pub async fn switch(&self, with: &BTreeSet<String>, release: &Release) -> Result<(), TrialError> {
        for _ in 0..SWITCHES_MAX {
            if self.switched(with, release).await? == 0 {
                return Ok(());
            }
        }
        Err(TrialError::Contested { times: SWITCHES_MAX })
    }

    /// Switches the nodes that are not in the requested state, and returns how many there were.
    /// A rollout of another goal may write to the same states, so repeat this until it returns 0.
    async fn switched(&self, with: &BTreeSet<String>, release: &Release) -> Result<usize, TrialError> {
        let states = self.releases.list().await?;
        let mut written = 0;
        for state in &states {
            let wanted = with.contains(&state.name_any()).then_some(release);
            let change = |before: &[Release]| with_release(before, &self.name, wanted.cloned());
            written += usize::from(self.releases.change(state, change).await?);
        }
        let known: BTreeSet<String> = states.iter().map(ResourceExt::name_any).collect();
        if with.is_subset(&known) {
            return Ok(written);
        }
        for node in self.nodes().await? {
            if with.contains(&node.name) && !known.contains(&node.name) {
                let change = |before: &[Release]| with_release(before, &self.name, Some(release.clone()));
                written += usize::from(self.releases.change_new(&node, change).await?);
            }
        }
        Ok(written)
    }

    /// Checks that the nodes are still in the requested state.
    ///
    /// # Errors
    /// If a node has another state, or the goal was changed.
    pub async fn check(
        &self,
        with: &BTreeSet<String>,
        without: &BTreeSet<String>,
        generation: i64,
    ) -> Result<(), TrialError> {
        match self.open(with, without, generation).await?.into_iter().next() {
            None => Ok(()),
            Some(node) => Err(TrialError::Host { node, what: "did not stay in the state of its arm".to_owned() }),
        }
    }

    /// Waits until the nodes in `with` have the goal in force, and the nodes in `without` have none of its settings.
    ///
    /// # Errors
    /// If a host refuses the goal, drifts or is not ready, if the goal was changed, or if some nodes have not reached the state after
    /// `patience`.
    pub async fn settle(
        &self,
        with: &BTreeSet<String>,
        without: &BTreeSet<String>,
        generation: i64,
        patience: Duration,
    ) -> Result<(), TrialError> {
        let begun = Instant::now();
        loop {
            let looked = Instant::now();
            let open = self.open(with, without, generation).await?;
            // A look at a large cluster takes long, and is work for the API server.
            let pause = LOOK_EVERY.max(looked.elapsed() * LOOK_SHARE);
            let Some(first) = open.first() else { return Ok(()) };
            if begun.elapsed() > patience {
                return Err(TrialError::Late { seconds: patience.as_secs(), nodes: open.len(), first: first.clone() });
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The nodes that have not reached the requested state.
    async fn open(
        &self,
        with: &BTreeSet<String>,
        without: &BTreeSet<String>,
        generation: i64,
    ) -> Result<Vec<String>, TrialError> {
        let goal = self.goals.get_opt(&self.name).await?;
        let goal = goal.ok_or_else(|| TrialError::NoGoal { name: self.name.clone() })?;
        // Nodes without the goal must have no settings of any generation.
        if goal.metadata.generation != Some(generation) && !with.is_empty() {
            return Err(TrialError::Changed { generation });
        }
        if goal.annotations().get(TRIAL) != Some(&self.id) {
            return Err(TrialError::Lost);
        }
        let nodes = self.nodes().await?;
        let release = Release { goal: self.name.clone(), generation, uid: goal.uid().unwrap_or_default() };
        open_of(&release, &nodes, &self.releases.list().await?, with, without)
    }
}

/// The release that trial `id` may give to nodes.
fn may_take(goal: &HostGoal, id: &str, known: Option<&Release>) -> Result<Release, TrialError> {
    let (uid, generation) = (goal.uid().unwrap_or_default(), goal.metadata.generation.unwrap_or_default());
    let found = Release { goal: goal.name_any(), generation, uid };
    if goal.spec.rollout.is_none() || goal.spec.allow == Allow::Audit {
        return Err(TrialError::NotReleased);
    }
    if let Some(other) = goal.annotations().get(TRIAL).filter(|other| *other != id) {
        return Err(TrialError::Taken { id: other.clone(), goal: goal.name_any() });
    }
    match known {
        Some(known) if !known.is_of(&found.goal, &found.uid) || known.generation != generation => {
            Err(TrialError::Changed { generation: known.generation })
        }
        _ => Ok(found),
    }
}

/// The nodes that have not reached the requested state.
/// A node that left the cluster has no more numbers, but does not end the trial: in a cluster that scales, nodes often leave.
fn open_of(
    release: &Release,
    nodes: &[NodeInfo],
    states: &[HostState],
    with: &BTreeSet<String>,
    without: &BTreeSet<String>,
) -> Result<Vec<String>, TrialError> {
    let ours: Vec<&NodeInfo> =
        nodes.iter().filter(|node| with.contains(&node.name) || without.contains(&node.name)).collect();
    if let Some(node) = ours.iter().find(|node| !node.is_ready) {
        return Err(TrialError::Host { node: node.name.clone(), what: "is not ready".to_owned() });
    }
    let mut open: BTreeSet<&String> = ours.iter().map(|node| &node.name).collect();
    for state in states {
        let node = state.name_any();
        // Settings of a deleted goal of the same name may be left on a node. They would be in the arm without settings.
        let goals = state.status.iter().flat_map(|status| &status.goals);
        let of_name: Vec<&GoalState> = goals.filter(|found| found.goal == release.goal).collect();
        let found = of_name.iter().find(|found| found.is_of(&release.goal, &release.uid));
        let phase = found.filter(|found| found.generation == release.generation).map(|found| found.phase);
        let is_bad = |phase: &GoalPhase| phase.is_bad() || *phase == GoalPhase::NotApplicable;
        let is_stuck = of_name.iter().any(|found| found.phase == GoalPhase::NotPutBack) && without.contains(&node);
        let bad = phase.filter(|phase| is_bad(phase) && with.contains(&node));
        if let Some(bad) = bad.or(Some(GoalPhase::NotPutBack).filter(|_| is_stuck)) {
            return Err(TrialError::Host { node, what: format!("reports {bad:?}") });
        }
        let is_there = with.contains(&node) && phase == Some(GoalPhase::InForce);
        let has_nothing = of_name.iter().all(|found| found.transaction.is_none() && found.phase == GoalPhase::Waiting);
        if is_there || (without.contains(&node) && has_nothing && state.status.is_some()) {
            open.remove(&node);
        }
    }
    Ok(open.into_iter().cloned().collect())
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
