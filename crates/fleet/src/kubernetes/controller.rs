//! Carries out rollouts: reads the cluster, asks [`next`], and writes releases and the status of goals.
//! All of its state is in the API server. So it may die at any time, and another controller can continue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::goal::{Counts, HostGoal, HostGoalStatus, RolloutPhase, RolloutStatus};
use super::guard::{GuardLook, GuardState};
use super::names::{TRIAL, UNDO};
use super::releases::Releases;
use super::rollout::{ClusterView, Next, NodeInfo, next, with_release};
use super::state::{HostState, Release};

const FIELD_MANAGER: &str = "evenkeel-rollout";
/// How often guards are queried. Prometheus has new numbers only after each scrape.
const GUARDS_EVERY: Duration = Duration::from_secs(15);

/// The source of the guards' numbers.
pub trait Metrics {
    /// The result of a query: one number for each node, by the label `node`, or else `instance`.
    ///
    /// # Errors
    /// Why the query has no answer, for people.
    fn query(&self, query: &str) -> Result<BTreeMap<String, f64>, String>;
}

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
    goals: Api<HostGoal>,
    releases: Releases,
    nodes: Api<Node>,
    metrics: Option<M>,
    looked: BTreeMap<String, Instant>,
}

/// One reading of the cluster.
struct Cluster {
    goals: Vec<HostGoal>,
    nodes: Vec<NodeInfo>,
    states: BTreeMap<String, HostState>,
}

/// The guards of one goal.
#[derive(Default)]
struct Guards {
    /// The state of each guard, by the guard's name.
    states: BTreeMap<String, GuardState>,
    /// The results of the guards that were due.
    looks: Vec<(String, GuardLook)>,
    /// The guards whose query failed, and why.
    without_numbers: Vec<String>,
}

impl<M: Metrics> Controller<M> {
    /// A controller that asks `metrics` for the numbers of guards.
    pub fn new(client: Client, metrics: Option<M>) -> Controller<M> {
        let (goals, releases) = (Api::all(client.clone()), Releases::new(client.clone()));
        Controller { goals, releases, nodes: Api::all(client), metrics, looked: BTreeMap::new() }
    }

    /// Takes the next step of each goal for which `is_wanted` is true, and returns the progress of each.
    ///
    /// # Errors
    /// An error of the API server. Everything written until then stays, and the next step continues from there.
    pub async fn step(&mut self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Progress>, kube::Error> {
        let cluster = self.read().await?;
        let (mut progress, mut failed) = (Vec::new(), None);
        for goal in cluster.goals.iter().filter(|goal| is_wanted(&goal.name_any())) {
            // A goal that the API server refuses to write must not stop the others.
            match self.step_of(goal, &cluster).await {
                Ok(done) => progress.push(done),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.forget_deleted(&cluster).await?;
        failed.map_or(Ok(progress), Err)
    }

    async fn read(&self) -> Result<Cluster, kube::Error> {
        let listing = ListParams::default();
        let goals = self.goals.list(&listing).await?.items;
        let nodes = self.nodes.list(&listing).await?.items.iter().map(NodeInfo::from_node).collect();
        let states = self.releases.list().await?.into_iter().map(|state| (state.name_any(), state)).collect();
        Ok(Cluster { goals, nodes, states })
    }

    async fn step_of(&mut self, goal: &HostGoal, cluster: &Cluster) -> Result<Progress, kube::Error> {
        let now = Timestamp::now().as_second();
        let view = ClusterView { goal, nodes: &cluster.nodes, states: &cluster.states, now };
        let Guards { states, looks, without_numbers } = self.guards(&view);
        let Next { release, withdraw, mut rollout, counts } = next(&view, &looks);
        if let Some(rollout) = &mut rollout {
            // When all nodes have the goal, no node is left to compare with.
            let is_complete = rollout.phase == RolloutPhase::Complete;
            rollout.guards = if is_complete { BTreeMap::new() } else { states };
        }
        self.write_status(goal, counts, rollout.as_ref()).await?;
        // Write the status first.
        // If this process dies in between, the status already counts the wave, and the next controller releases it again.
        let name = goal.name_any();
        for node in &release {
            self.release(node, cluster, &name, Some(view.release())).await?;
        }
        for node in &withdraw {
            self.release(node, cluster, &name, None).await?;
        }
        let trial = goal.annotations().get(TRIAL).cloned();
        Ok(Progress { goal: name, nodes: counts, rollout, still_released: withdraw.len(), without_numbers, trial })
    }

    /// Queries the guards that are due. Returns their states and results, and the guards whose query failed.
    fn guards(&mut self, view: &ClusterView<'_>) -> Guards {
        let mut guards = Guards::default();
        let Some(rollout) = &view.goal.spec.rollout else { return guards };
        let before = view.so_far();
        // If nodes join after the rollout is complete, there are no numbers from before, and no node to compare with.
        let is_over = before
            .is_some_and(|before| before.phase != RolloutPhase::Progressing || before.complete_since.is_some())
            || [UNDO, TRIAL].iter().any(|name| view.goal.annotations().contains_key(*name));
        let selected: BTreeSet<&str> = view.selected().into_iter().map(|node| node.name.as_str()).collect();
        let is_begun = selected.iter().any(|node| view.is_released(node));
        for guard in &rollout.guards {
            let mut state = before.and_then(|before| before.guards.get(&guard.name)).cloned().unwrap_or_default();
            let key = format!("{}/{}", view.goal.name_any(), guard.name);
            let is_due = self.looked.get(&key).is_none_or(|at| at.elapsed() >= GUARDS_EVERY);
            if is_due && !is_over {
                self.looked.insert(key, Instant::now());
                let numbers = match &self.metrics {
                    Some(metrics) => metrics.query(&guard.query),
                    None => Err("name Prometheus with --prometheus".to_owned()),
                };
                // Other nodes may run other servers, so they are no comparison.
                let of_ours = |mut numbers: BTreeMap<String, f64>| {
                    numbers.retain(|node, _| selected.contains(node.as_str()));
                    numbers
                };
                match numbers.map(of_ours) {
                    Ok(numbers) if !is_begun => state.note_before(&numbers),
                    Ok(numbers) => {
                        let look = state.look(&numbers, |node| view.is_released(node), guard.worse);
                        if look == GuardLook::NoNumbers {
                            guards.without_numbers.push(format!("guard {}: no number of a released node", guard.name));
                        }
                        guards.looks.push((guard.name.clone(), look));
                    }
                    Err(why) => guards.without_numbers.push(format!("guard {}: {why}", guard.name)),
                }
            }
            if !is_begun && !is_over && state.before.is_empty() {
                guards.looks.push((guard.name.clone(), GuardLook::NoNumbers));
            }
            guards.states.insert(guard.name.clone(), state);
        }
        guards
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

    async fn write_status(
        &self,
        goal: &HostGoal,
        nodes: Counts,
        rollout: Option<&RolloutStatus>,
    ) -> Result<(), kube::Error> {
        let before = goal.status.clone().unwrap_or_default();
        let generation = goal.metadata.generation.unwrap_or_default();
        let conditions = conditions(&before.conditions, nodes, rollout, generation);
        let status = HostGoalStatus { observed_generation: generation, nodes, conditions, rollout: rollout.cloned() };
        if goal.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let patch = json!({
            "apiVersion": HostGoal::api_version(&()),
            "kind": HostGoal::kind(&()),
            "status": status,
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match self.goals.patch_status(&goal.name_any(), &params, &Patch::Apply(&patch)).await {
            // The goal was deleted since it was read.
            Err(kube::Error::Api(error)) if error.is_not_found() => Ok(()),
            patched => patched.map(|_| ()),
        }
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
        let Some(known) = self.goals.get_opt(goal).await? else { return Ok(false) };
        let Some(patch) = resumed(&known) else { return Ok(true) };
        found(self.goals.patch_status(goal, &PatchParams::default(), &Patch::Merge(&patch)).await)
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
    Some(json!({ "status": { "rollout": rollout } }))
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
