//! Carries out rollouts: reads the cluster, asks [`next`], and writes releases and the status of goals. All of its state is in the API
//! server. So it may die at any time, and another controller can continue.
//!
//! A status is written only over the version of the goal from which it was decided. So a controller that was suspended, or whose answers come
//! late, never overwrites the status of another controller, or what a user asked for since.

use std::collections::BTreeMap;
use std::convert::identity;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::bounds::{MESSAGE_BYTES_MAX, short};
use super::goal::{Counts, HostGoal, HostGoalStatus, RolloutPhase, RolloutStatus};
use super::list::list;
use super::looks::{Guards, Looks, Metrics};
use super::names::{TRIAL, UNDO};
use super::releases::Releases;
use super::rollout::{ClusterView, Next, NodeInfo, next, with_release};
use super::served::Definitions;
use super::state::{HostState, Release};

const FIELD_MANAGER: &str = "evenkeel-rollout";
/// How often a step of a goal is decided while other programs write to the same goal.
const TRIES_MAX: usize = 5;

/// The progress of one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The name of the goal.
    pub goal: String,
    /// The nodes by state.
    pub nodes: Counts,
    /// The rollout of the goal; none if the goal has no rollout.
    pub rollout: Option<RolloutStatus>,
    /// How many nodes the goal is still released to, while it is being withdrawn.
    pub still_released: usize,
    /// Guards whose query failed, and why.
    pub without_numbers: Vec<String>,
    /// The id of the trial that has the goal. No rollout touches it then.
    pub trial: Option<String>,
}

/// Carries out the rollouts of a cluster.
pub struct Controller<M> {
    client: Client,
    definitions: Definitions,
    goals: Api<HostGoal>,
    releases: Releases,
    nodes: Api<Node>,
    looks: Looks<M>,
}

/// One reading of the cluster.
struct Cluster {
    goals: Vec<HostGoal>,
    nodes: Vec<NodeInfo>,
    states: BTreeMap<String, HostState>,
}

impl<M: Metrics> Controller<M> {
    /// A controller that asks `metrics` for the numbers of guards.
    pub fn new(client: Client, metrics: Option<M>) -> Controller<M> {
        Controller {
            goals: Api::all(client.clone()),
            releases: Releases::new(client.clone()),
            nodes: Api::all(client.clone()),
            client,
            definitions: Definitions::default(),
            looks: Looks::new(metrics),
        }
    }

    /// Compares the cluster's definitions with those of this program, if that is due. Returns a line if there is something new to say.
    pub async fn look_at_definitions(&mut self) -> Option<String> {
        self.definitions.look(&self.client).await
    }

    /// Takes the next step of each goal for which `is_wanted` is true, and returns the progress of each.
    ///
    /// # Errors
    /// An error of the API server. Everything written until then stays, and the next step continues from there.
    pub async fn step(&mut self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Progress>, kube::Error> {
        let mut cluster = self.read().await?;
        self.looks.begin(&cluster.goals.iter().filter_map(ResourceExt::uid).collect());
        let names: Vec<String> =
            cluster.goals.iter().map(ResourceExt::name_any).filter(|name| is_wanted(name)).collect();
        let (mut progress, mut failed) = (Vec::new(), None);
        for name in names {
            // A goal that the API server refuses to write must not stop the others.
            match self.step_of(&name, &mut cluster).await {
                Ok(done) => progress.extend(done),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.forget_deleted(&cluster).await?;
        failed.map_or(Ok(progress), Err)
    }

    async fn read(&self) -> Result<Cluster, kube::Error> {
        let goals = list(&self.goals, identity).await?;
        let nodes = list(&self.nodes, |node| NodeInfo::from_node(&node)).await?;
        let states = self.releases.list().await?.into_iter().map(|state| (state.name_any(), state)).collect();
        Ok(Cluster { goals, nodes, states })
    }

    /// Takes the next step of a goal. `None` if the goal is deleted. If the goal has changed since the cluster was read, reads the cluster again
    /// and decides anew: a user may have resumed the rollout, or another controller may have gone on with it.
    async fn step_of(&mut self, name: &str, cluster: &mut Cluster) -> Result<Option<Progress>, kube::Error> {
        for _ in 1..TRIES_MAX {
            let Some(goal) = cluster.goals.iter().find(|goal| goal.name_any() == name) else { return Ok(None) };
            match self.decide_and_write(goal, cluster).await {
                Err(kube::Error::Api(error)) if error.is_conflict() => {
                    self.looks.forget(&goal.uid().unwrap_or_default());
                    *cluster = self.read().await?;
                }
                taken => return taken,
            }
        }
        match cluster.goals.iter().find(|goal| goal.name_any() == name) {
            Some(goal) => self.decide_and_write(goal, cluster).await,
            None => Ok(None),
        }
    }

    async fn decide_and_write(&mut self, goal: &HostGoal, cluster: &Cluster) -> Result<Option<Progress>, kube::Error> {
        let now = Timestamp::now().as_second();
        let view = ClusterView { goal, nodes: &cluster.nodes, states: &cluster.states, now };
        let Guards { states, looks, without_numbers } = self.looks.look(&view);
        let Next { release, withdraw, mut rollout, counts } = next(&view, &looks);
        if let Some(rollout) = &mut rollout {
            // When all nodes have the goal, no node is left to compare with.
            let is_complete = rollout.phase == RolloutPhase::Complete;
            rollout.guards = if is_complete { BTreeMap::new() } else { states };
            if let Some(why) = without_numbers.first().filter(|_| rollout.phase == RolloutPhase::Progressing) {
                rollout.message += &format!("; {why}");
            }
            // It may quote what a node or Prometheus reports.
            rollout.message = short(&rollout.message, MESSAGE_BYTES_MAX);
        }
        // Write the status first, also if it is the same: releases must follow from the goal as it is now. If this process dies in between, the
        // wave is already counted, and it is released again.
        let has_releases = !release.is_empty() || !withdraw.is_empty();
        if !self.write_status(goal, counts, rollout.as_ref(), has_releases).await? {
            return Ok(None);
        }
        let name = goal.name_any();
        for node in &release {
            self.release(node, cluster, &name, Some(view.release())).await?;
        }
        for node in &withdraw {
            self.release(node, cluster, &name, None).await?;
        }
        let trial = goal.annotations().get(TRIAL).cloned();
        let still_released = withdraw.len();
        Ok(Some(Progress { goal: name, nodes: counts, rollout, still_released, without_numbers, trial }))
    }

    async fn release(
        &self,
        node: &str,
        cluster: &Cluster,
        goal: &str,
        release: Option<Release>,
    ) -> Result<(), kube::Error> {
        let change = |before: &[Release]| with_release(before, goal, release.clone());
        if let Some(state) = cluster.states.get(node) {
            return self.releases.change(state, change).await.map(drop);
        }
        match cluster.nodes.iter().find(|known| known.name == node) {
            Some(node) => self.releases.change_new(node, change).await.map(drop),
            None => Ok(()),
        }
    }

    async fn forget_deleted(&self, cluster: &Cluster) -> Result<(), kube::Error> {
        let uids: BTreeMap<String, String> =
            cluster.goals.iter().map(|goal| (goal.name_any(), goal.uid().unwrap_or_default())).collect();
        let exists = |release: &&Release| uids.get(&release.goal).is_some_and(|uid| release.is_of(&release.goal, uid));
        for state in cluster.states.values() {
            let kept = |before: &[Release]| before.iter().filter(exists).cloned().collect::<Vec<Release>>();
            self.releases.change(state, kept).await?;
        }
        Ok(())
    }

    /// Writes the status over this version of the goal. Returns false if the goal was deleted since it was read. A status that is the same is
    /// written only if `always`.
    async fn write_status(
        &self,
        goal: &HostGoal,
        nodes: Counts,
        rollout: Option<&RolloutStatus>,
        always: bool,
    ) -> Result<bool, kube::Error> {
        let before = goal.status.clone().unwrap_or_default();
        let generation = goal.metadata.generation.unwrap_or_default();
        let conditions = conditions(&before.conditions, nodes, rollout, generation);
        let status = HostGoalStatus { observed_generation: generation, nodes, conditions, rollout: rollout.cloned() };
        if !always && goal.status.as_ref() == Some(&status) {
            return Ok(true);
        }
        // `force` takes fields that a user's `--continue` wrote. The version makes it a conflict if the goal has changed since.
        let patch = json!({
            "apiVersion": HostGoal::api_version(&()),
            "kind": HostGoal::kind(&()),
            "metadata": { "resourceVersion": goal.resource_version() },
            "status": status,
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        found(self.goals.patch_status(&goal.name_any(), &params, &Patch::Apply(&patch)).await)
    }

    /// Requests the undo of a goal's rollout, or withdraws the request. Returns whether the goal exists.
    /// The undo takes the goal from a trial, whose program may be gone.
    ///
    /// # Errors
    /// An error of the API server.
    pub async fn ask_undo(&self, goal: &str, undo: bool) -> Result<bool, kube::Error> {
        found(self.goals.patch(goal, &PatchParams::default(), &Patch::Merge(&undo_request(undo))).await)
    }

    /// Resumes a halted rollout. Its guards start again, with the numbers from before the release.
    ///
    /// # Errors
    /// An error of the API server.
    pub async fn resume(&self, goal: &str) -> Result<bool, kube::Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(known) = self.goals.get_opt(goal).await? else { return Ok(false) };
            let Some(patch) = resumed(&known) else { return Ok(true) };
            match found(self.goals.patch_status(goal, &PatchParams::default(), &Patch::Merge(&patch)).await) {
                // A controller wrote the status since it was read.
                Err(kube::Error::Api(error)) if error.is_conflict() && tries < TRIES_MAX => {}
                done => return done,
            }
        }
    }
}

/// The change that requests the undo of a goal, or withdraws the request. While a goal is in a trial, no rollout touches it.
fn undo_request(undo: bool) -> Value {
    let annotations = if undo { json!({ UNDO: "true", TRIAL: null }) } else { json!({ UNDO: null }) };
    json!({ "metadata": { "annotations": annotations } })
}

/// The change that resumes the rollout of a goal; none if nothing of it halted.
fn resumed(goal: &HostGoal) -> Option<Value> {
    let rollout = goal.status.as_ref()?.rollout.as_ref().filter(|rollout| rollout.phase == RolloutPhase::Halted)?;
    let guards: BTreeMap<&String, Value> = rollout.guards.keys().map(|name| (name, json!({ "pairs": null }))).collect();
    let rollout = json!({ "phase": RolloutPhase::Progressing, "message": null, "guards": guards });
    // Without the version, it could overwrite that the rollout was undone in the meantime.
    Some(json!({ "metadata": { "resourceVersion": goal.resource_version() }, "status": { "rollout": rollout } }))
}

fn found(patched: Result<HostGoal, kube::Error>) -> Result<bool, kube::Error> {
    match patched {
        Err(kube::Error::Api(error)) if error.is_not_found() => Ok(false),
        patched => patched.map(|_| true),
    }
}

/// The conditions of a goal. Each has the time at which it last changed.
fn conditions(before: &[Condition], nodes: Counts, rollout: Option<&RolloutStatus>, generation: i64) -> Vec<Condition> {
    let all = nodes.selected == nodes.in_force + nodes.not_applicable && nodes.in_force > 0;
    let halted = rollout.filter(|rollout| rollout.phase == RolloutPhase::Halted);
    let bad = nodes.drifted + nodes.refused + nodes.not_put_back;
    let in_force = match nodes {
        _ if all => "AllNodes",
        Counts { selected: 0, .. } => "NoNodes",
        Counts { in_force: 0, audited: 1.., .. } => "OnlyAudited",
        _ => "SomeNodes",
    };
    let rows = [
        ("InForce", all, in_force, format!("{} of {} nodes", nodes.in_force, nodes.selected)),
        (
            "Degraded",
            bad > 0,
            if bad > 0 { "NodesDiffer" } else { "AsExpected" },
            format!("{} drifted, {} refused, {} not put back", nodes.drifted, nodes.refused, nodes.not_put_back),
        ),
        (
            "Halted",
            halted.is_some(),
            if halted.is_some() { "Halted" } else { "NotHalted" },
            halted.map(|halted| halted.message.clone()).unwrap_or_default(),
        ),
    ];
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    rows.into_iter()
        .map(|(type_, is_true, reason, message)| {
            let status = if is_true { "True" } else { "False" };
            let known = before.iter().find(|known| known.type_ == type_ && known.status == status);
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                last_transition_time: known.map_or(Time(now), |known| known.last_transition_time.clone()),
                observed_generation: Some(generation),
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
