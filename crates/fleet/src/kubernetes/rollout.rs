//! Rollouts in waves: decides from the nodes and their states what may be released next.
//! [`next`] is called again and again with the state of the cluster, and its only memory is the status of the goal.
//! So the process that calls [`next`] may die at any time.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use super::goal::{Allow, Counts, HostGoal, Rollout, RolloutPhase, RolloutStatus};
use super::guard::GuardLook;
use super::names::{TRIAL, UNDO};
use super::reboot::{REBOOT_SECONDS_MAX, RebootPhase, RebootRecord};
use super::selector::matches;
use super::state::{GoalPhase, GoalState, HostState, Release};

/// Each wave is this many times as large as all earlier waves together.
const GROWTH: usize = 2;
/// How many nodes may become canaries instead of those that are not ready.
const CANARIES_MORE: usize = 20;

/// A node, as a rollout sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// The name of the node.
    pub name: String,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Whether the node's kubelet reports that the node is ready.
    pub is_ready: bool,
    /// The last reboot of the node for goals; none if it had none.
    pub reboot: Option<RebootRecord>,
    /// The owner reference that lets Kubernetes delete the object with the node.
    pub owner: Option<OwnerReference>,
}

impl NodeInfo {
    /// Takes the fields from the node's object.
    pub fn from_node(node: &Node) -> NodeInfo {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let reboot = RebootRecord::read(node.annotations()).ok().flatten();
        NodeInfo { name: node.name_any(), labels: node.labels().clone(), is_ready, reboot, owner: node.owner_ref(&()) }
    }
}

/// The state of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    /// The goal.
    pub goal: &'a HostGoal,
    /// All nodes.
    pub nodes: &'a [NodeInfo],
    /// The states that the agents report, by node.
    pub states: &'a BTreeMap<String, HostState>,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// The next actions of a rollout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// The nodes to which the goal is to be released now.
    pub release: Vec<String>,
    /// The nodes that lose their release now, and so revert the goal.
    pub withdraw: Vec<String>,
    /// The status of the rollout from now on; none if the goal has no rollout.
    pub rollout: Option<RolloutStatus>,
    /// The nodes by state.
    pub counts: Counts,
}

impl ClusterView<'_> {
    fn generation(&self) -> i64 {
        self.goal.metadata.generation.unwrap_or_default()
    }

    /// The nodes that the goal selects, by name.
    pub fn selected(&self) -> Vec<&NodeInfo> {
        let selector = self.goal.spec.node_selector.as_ref();
        let is_selected = |node: &&NodeInfo| selector.is_none_or(|selector| matches(selector, &node.labels));
        let mut selected: Vec<&NodeInfo> = self.nodes.iter().filter(is_selected).collect();
        selected.sort_by(|a, b| a.name.cmp(&b.name));
        selected
    }

    /// The nodes that the first wave is chosen from, by name, and some more, because not all of them may be ready.
    pub(super) fn canaries(&self) -> Vec<&str> {
        let Some(Rollout { canaries, .. }) = &self.goal.spec.rollout else { return Vec::new() };
        let is_one = |node: &&NodeInfo| canaries.selector.as_ref().is_none_or(|one| matches(one, &node.labels));
        let count = canaries.count as usize + CANARIES_MORE;
        self.selected().into_iter().filter(is_one).take(count).map(|node| node.name.as_str()).collect()
    }

    /// The state of the goal's present generation on a node.
    fn state_on(&self, node: &str) -> Option<&GoalState> {
        self.any_state_on(node).filter(|state| state.generation == self.generation())
    }

    /// The state of the goal on a node, of whatever generation. A deleted goal of the same name had another uid.
    fn any_state_on(&self, node: &str) -> Option<&GoalState> {
        let status = self.states.get(node)?.status.as_ref()?;
        let Release { goal, uid, .. } = self.release();
        status.goals.iter().find(|state| state.is_of(&goal, &uid))
    }

    fn phase_on(&self, node: &str) -> Option<GoalPhase> {
        Some(self.state_on(node)?.phase)
    }

    /// The reboot of a node for the goal's present generation; none without a reboot.
    fn reboot_of<'n>(&self, node: &'n NodeInfo) -> Option<&'n RebootRecord> {
        node.reboot.as_ref().filter(|record| record.is_for(&self.release()))
    }

    /// Whether the goal has reached its final state on a node: the settings are in force, after a reboot if the goal has one.
    fn is_done_on(&self, node: &NodeInfo) -> bool {
        let is_rebooting = self.reboot_of(node).is_some_and(|record| record.phase.is_under_way());
        let waits = |state: &GoalState| self.goal.spec.reboot.is_some() && state.needs_reboot;
        self.state_on(&node.name).is_some_and(|state| state.phase.is_good() && !waits(state)) && !is_rebooting
    }

    /// Whether a node is unavailable, or will soon be, for a reboot that is not part of the present rollout: that of an earlier generation, or
    /// of another goal.
    fn reboots_for_another(&self, node: &NodeInfo) -> bool {
        let is_under_way = node.reboot.as_ref().is_some_and(|record| record.phase.is_under_way());
        let is_of_present = self.is_released(&node.name) && self.reboot_of(node).is_some();
        let earlier = self.any_state_on(&node.name).filter(|state| state.generation != self.generation());
        let will_reboot = self.goal.spec.reboot.is_some() && earlier.is_some_and(|state| state.needs_reboot);
        (is_under_way && !is_of_present) || will_reboot
    }

    /// The generation that is released to a node; none if no generation is.
    fn released_on(&self, node: &str) -> Option<i64> {
        let Release { goal, uid, .. } = self.release();
        let mut released = self.states.get(node)?.spec.released.iter();
        released.find(|release| release.is_of(&goal, &uid)).map(|release| release.generation)
    }

    /// The release of the present generation.
    pub(super) fn release(&self) -> Release {
        let uid = self.goal.uid().unwrap_or_default();
        Release { goal: self.goal.name_any(), generation: self.generation(), uid }
    }

    /// Whether the present generation is released to a node.
    pub fn is_released(&self, node: &str) -> bool {
        self.released_on(node) == Some(self.generation())
    }

    /// What the rollout of the present generation did so far. An undone rollout starts again when the annotation is removed.
    pub(super) fn so_far(&self) -> Option<&RolloutStatus> {
        let is_undone = self.goal.annotations().contains_key(UNDO);
        let status = self.goal.status.as_ref()?.rollout.as_ref()?;
        let goes_on = status.generation == self.generation() && (is_undone || status.phase != RolloutPhase::Undone);
        goes_on.then_some(status)
    }

    fn counts(&self, selected: &[&NodeInfo]) -> Counts {
        let mut counts = Counts { selected: selected.len() as u32, ..Counts::default() };
        for node in selected {
            let count = match self.phase_on(&node.name) {
                Some(GoalPhase::InForce) => &mut counts.in_force,
                Some(GoalPhase::Audited) => &mut counts.audited,
                Some(GoalPhase::Drifted) => &mut counts.drifted,
                Some(GoalPhase::PendingReboot) => &mut counts.pending_reboot,
                Some(GoalPhase::Refused) => &mut counts.refused,
                Some(GoalPhase::NotPutBack) => &mut counts.not_put_back,
                Some(GoalPhase::NotApplicable) => &mut counts.not_applicable,
                Some(GoalPhase::Waiting) | None => &mut counts.waiting,
            };
            *count += 1;
        }
        counts
    }
}

/// Decides what to do now. `guards` has the results of the goal's guards, by name.
pub fn next(view: &ClusterView<'_>, guards: &[(String, GuardLook)]) -> Next {
    let selected = view.selected();
    let counts = view.counts(&selected);
    let Some(rollout) = view.goal.spec.rollout.as_ref().filter(|_| view.goal.spec.allow > Allow::Audit) else {
        return Next { counts, ..Next::default() };
    };
    if view.goal.annotations().contains_key(TRIAL) {
        let before = view.goal.status.as_ref().and_then(|status| status.rollout.clone());
        return Next { counts, rollout: before, ..Next::default() };
    }
    let begun = RolloutStatus { generation: view.generation(), ..RolloutStatus::default() };
    let status = view.so_far().cloned().unwrap_or(begun);
    if view.goal.annotations().contains_key(UNDO) {
        return undo(view, status, counts);
    }
    if status.phase == RolloutPhase::Halted {
        return Next { counts, rollout: Some(status), ..Next::default() };
    }
    let had_all = status.complete_since.is_some();
    if let Some(why) = halt(view, &selected, guards, had_all) {
        let halted = RolloutStatus { phase: RolloutPhase::Halted, message: why, wave_in_force_since: None, ..status };
        return Next { counts, rollout: Some(halted), ..Next::default() };
    }
    let unavailable_max = rollout.max_unavailable.nodes(selected.len());
    let blind = guards.iter().find(|(_, look)| *look == GuardLook::NoNumbers).map(|(name, _)| name.as_str());
    let wave = Wave { view, selected: &selected, unavailable_max, blind };
    let (status, release) = wave.go_on(rollout.pause_seconds, status);
    Next { release, withdraw: Vec::new(), rollout: Some(status), counts }
}

fn undo(view: &ClusterView<'_>, status: RolloutStatus, counts: Counts) -> Next {
    let has_it = |name: &&String| view.released_on(name).is_some();
    let withdraw: Vec<String> = view.states.keys().filter(has_it).cloned().collect();
    let message = match withdraw.len() {
        0 => String::new(),
        left => format!("withdrawn from {left} nodes, which put it back"),
    };
    let rollout = RolloutStatus { phase: RolloutPhase::Undone, wave_in_force_since: None, message, ..status };
    Next { withdraw, counts, rollout: Some(rollout), ..Next::default() }
}

/// Why the rollout may release nothing more. `had_all` says that all selected nodes had the goal in force before.
/// In a large fleet, some node always drifts or fails later.
/// The conditions report it, and nodes that join must get the goal all the same.
fn halt(
    view: &ClusterView<'_>,
    selected: &[&NodeInfo],
    guards: &[(String, GuardLook)],
    had_all: bool,
) -> Option<String> {
    for node in selected.iter().filter(|node| view.is_released(&node.name)) {
        if let Some(record) = view.reboot_of(node) {
            let waited = view.now.saturating_sub(record.since);
            match record.phase {
                RebootPhase::Failed => {
                    return Some(format!("node {}: its reboot failed: {}", node.name, record.message));
                }
                // While it boots, the node is not ready, and its agent reports nothing new.
                RebootPhase::Rebooting if waited <= REBOOT_SECONDS_MAX => continue,
                RebootPhase::Rebooting if !node.is_ready => {
                    return Some(format!("node {} ran its reboot command {waited} s ago, and is not ready", node.name));
                }
                _ => {}
            }
        }
        match view.phase_on(&node.name) {
            Some(phase) if had_all && (phase.is_good() || phase == GoalPhase::Drifted) => {}
            Some(phase) if phase.is_bad() => return Some(format!("node {} reports {phase:?}", node.name)),
            _ if !node.is_ready => return Some(format!("node {} is not ready", node.name)),
            _ => {}
        }
    }
    guards.iter().find_map(|(name, look)| match look {
        GuardLook::Worse { why } => Some(format!("guard {name}: {why}")),
        GuardLook::Well { .. } | GuardLook::NoNumbers => None,
    })
}

/// The wave that is under way.
struct Wave<'a> {
    view: &'a ClusterView<'a>,
    selected: &'a [&'a NodeInfo],
    unavailable_max: usize,
    /// A guard that cannot compare.
    blind: Option<&'a str>,
}

impl Wave<'_> {
    fn go_on(&self, pause_seconds: u32, status: RolloutStatus) -> (RolloutStatus, Vec<String>) {
        let (released, waiting): (Vec<&NodeInfo>, Vec<&NodeInfo>) =
            self.selected.iter().copied().partition(|node| self.view.is_released(&node.name));
        // A node that drifted long after its wave does not keep the goal from nodes that join.
        let had_it = |node: &NodeInfo| {
            status.complete_since.is_some() && self.view.phase_on(&node.name) == Some(GoalPhase::Drifted)
        };
        let open: Vec<&&NodeInfo> =
            released.iter().filter(|node| !self.view.is_done_on(node) && !had_it(node)).collect();
        let progressing = RolloutStatus { phase: RolloutPhase::Progressing, message: String::new(), ..status };
        if let Some(first) = open.first() {
            let message = self.waiting(open.len(), released.len(), first);
            return (RolloutStatus { message, wave_in_force_since: None, ..progressing }, Vec::new());
        }
        let now = self.view.now;
        let since = progressing.wave_in_force_since.unwrap_or(now);
        let rest = i64::from(pause_seconds) - now.saturating_sub(since);
        // The first wave has no earlier wave to wait for.
        if !released.is_empty() && rest > 0 {
            // The text stays the same in the pause. Each change of the status is written, and all agents watch it.
            let message = format!("wave {} is in force; the pause of {pause_seconds} s is not over", progressing.wave);
            return (RolloutStatus { message, wave_in_force_since: Some(since), ..progressing }, Vec::new());
        }
        if waiting.is_empty() {
            let phase = RolloutPhase::Complete;
            let complete_since = progressing.complete_since.or(Some(now));
            let complete = RolloutStatus { phase, complete_since, wave_in_force_since: Some(since), ..progressing };
            return (complete, Vec::new());
        }
        // Without numbers from before the first wave, the guard could never compare.
        if let Some(guard) = self.blind.filter(|_| released.is_empty()) {
            let message = format!("guard {guard} has no number above 0 of a node yet, so the first wave waits");
            return (RolloutStatus { message, wave_in_force_since: None, ..progressing }, Vec::new());
        }
        let (names, message) = self.next_wave(released.len(), &waiting);
        if names.is_empty() {
            // The pause is over. It does not start again, because nothing was released since.
            let wave_in_force_since = Some(since).filter(|_| !released.is_empty());
            return (RolloutStatus { message, wave_in_force_since, ..progressing }, names);
        }
        let wave = progressing.wave + 1;
        (RolloutStatus { wave, message, wave_in_force_since: None, ..progressing }, names)
    }

    /// The nodes of the next wave, and a text about them. Nodes that reboot for an earlier generation or another goal are unavailable too, so
    /// they count against `maxUnavailable`, and none of them is in the wave.
    fn next_wave(&self, released: usize, waiting: &[&NodeInfo]) -> (Vec<String>, String) {
        let busy: Vec<&&NodeInfo> = self.selected.iter().filter(|node| self.view.reboots_for_another(node)).collect();
        let available = self.unavailable_max.saturating_sub(busy.len());
        if let Some(first) = busy.first().filter(|_| available == 0) {
            let (count, max) = (busy.len(), self.unavailable_max);
            let phase = first.reboot.as_ref().filter(|record| record.phase.is_under_way());
            let phase = phase.map_or_else(|| "waits for its reboot".to_owned(), |record| format!("{:?}", record.phase));
            let message = format!(
                "{count} nodes reboot for an earlier generation or another goal, and maxUnavailable is {max}, so this \
                 goal is released to no more nodes now; {}: {phase}",
                first.name
            );
            return (Vec::new(), message);
        }
        let idle: Vec<&NodeInfo> =
            waiting.iter().filter(|node| !self.view.reboots_for_another(node)).copied().collect();
        let names = self.choose(released, &idle, available);
        let message = match names.len() {
            0 if released == 0 => "no canary is ready, or `canaries.selector` selects none".to_owned(),
            0 => "no node that waits is ready".to_owned(),
            count => format!("released to {count} more nodes"),
        };
        (names, message)
    }

    /// Text: how many released nodes do not have the goal in force yet, and what the first of them waits for.
    fn waiting(&self, open: usize, released: usize, first: &NodeInfo) -> String {
        let text = format!("{open} of {released} released nodes do not have it in force yet");
        let reboot = self.view.reboot_of(first).filter(|record| record.phase.is_under_way());
        let state = self.view.state_on(&first.name);
        match (reboot, state) {
            (Some(record), _) if record.message.is_empty() => format!("{text}; {}: {:?}", first.name, record.phase),
            (Some(record), _) => format!("{text}; {}: {:?}, {}", first.name, record.phase, record.message),
            (None, Some(state)) if !state.message.is_empty() => format!("{text}; {}: {}", first.name, state.message),
            (None, _) => text,
        }
    }

    /// Chooses the nodes of the next wave. The first wave has the canaries. A later wave has twice as many nodes as were released before,
    /// but at most the number that may still become unavailable.
    fn choose(&self, released: usize, waiting: &[&NodeInfo], available: usize) -> Vec<String> {
        let ready = waiting.iter().filter(|node| node.is_ready);
        let canaries = self.view.goal.spec.rollout.as_ref().map(|rollout| &rollout.canaries).filter(|_| released == 0);
        match canaries {
            Some(canaries) => {
                let is_one = |node: &&&NodeInfo| {
                    canaries.selector.as_ref().is_none_or(|selector| matches(selector, &node.labels))
                };
                let count = (canaries.count as usize).min(available);
                ready.filter(is_one).take(count).map(|node| node.name.clone()).collect()
            }
            None => {
                let count = released.saturating_mul(GROWTH).min(available);
                ready.take(count).map(|node| node.name.clone()).collect()
            }
        }
    }
}

/// The releases of a node after a change of one goal: without the goal, or with this release of it.
pub fn with_release(before: &[Release], goal: &str, release: Option<Release>) -> Vec<Release> {
    let mut after: Vec<Release> = before.iter().filter(|release| release.goal != goal).cloned().collect();
    after.extend(release);
    after.sort_by(|a, b| a.goal.cmp(&b.goal));
    after
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
