//! Writes an agent's objects to the API server: its state, one condition and the labels of its node, and events.
//! Each is written only if it differs from the watched one, so an idle node costs no request.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::super::bounds::bounded;
use super::super::goal::HostGoal;
use super::super::names::{GROUP, NODE_CONDITION};
use super::super::releases::Releases;
use super::super::rollout::NodeInfo;
use super::super::state::{GoalPhase, GoalState, HostState, HostStateStatus};
use super::super::why::why;

/// The name under which the API server records which fields the agent manages.
const FIELD_MANAGER: &str = "evenkeel-agent";
/// The API accepts 1,024 bytes, and a character has up to four bytes.
const NOTE_CHARS_MAX: usize = 256;

/// The options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the agent's node.
    pub node: String,
    /// How often the agent verifies the settings in force.
    pub verify_every: Duration,
    /// The version of the agent.
    pub version: String,
    /// Whether the agent may drain and reboot its node.
    pub reboots: bool,
    /// The labels of the node that the agent maintains, with their prefix `evenkeel.dev/`.
    pub labels: BTreeMap<String, String>,
}

pub(super) struct Cluster {
    releases: Releases,
    states: Api<HostState>,
    nodes: Api<Node>,
    recorder: Recorder,
    name: String,
    labels: BTreeMap<String, String>,
}

/// The writes that failed.
#[derive(Default)]
pub(super) struct Missed {
    /// Whether writing the state failed.
    /// The agent tries again soon, because without the state nobody sees the result of the goals.
    /// Other writes that failed are only tried again at the next change.
    pub(super) state: bool,
    /// One line for each failed write.
    pub(super) lines: Vec<String>,
    /// Whether the API server gave no answer. Each further write would wait as long as this one, while nobody looks after the host.
    is_unreachable: bool,
}

impl Missed {
    fn note(&mut self, what: &str, written: Result<(), kube::Error>) {
        let Err(error) = written else { return };
        self.is_unreachable = !matches!(error, kube::Error::Api(_));
        self.lines.push(format!("failed to write {what}: {}", why(&error)));
    }
}

impl Cluster {
    pub(super) fn new(client: Client, options: &Options) -> Cluster {
        Cluster {
            releases: Releases::new(client.clone()),
            states: Api::all(client.clone()),
            nodes: Api::all(client.clone()),
            recorder: recorder(client, &options.node),
            name: options.node.clone(),
            labels: options.labels.clone(),
        }
    }

    /// Writes what differs from the cluster. `before` is the state as the watch reported it. If the API server refuses one write, the others are
    /// still tried. `is_known` is false if the host did not answer.
    pub(super) async fn write(
        &self,
        node: &Node,
        before: Option<&HostState>,
        status: &HostStateStatus,
        goals: &[HostGoal],
        is_known: bool,
    ) -> Missed {
        let status = &bounded(status);
        let known = before.and_then(|state| state.status.as_ref());
        let known = known.map(|status| status.goals.as_slice()).unwrap_or_default();
        let mut missed = Missed::default();
        let state = self.state(node, before, status).await;
        missed.state = state.is_err();
        missed.note("the state of the node", state);
        if !missed.is_unreachable {
            missed.note("the labels of the node", self.label(node).await);
        }
        if !missed.is_unreachable {
            missed.note("the condition of the node", self.condition(node, status, is_known).await);
        }
        if !missed.is_unreachable {
            missed.note("an event", self.events(known, &status.goals, goals).await);
        }
        missed
    }

    async fn state(
        &self,
        node: &Node,
        before: Option<&HostState>,
        status: &HostStateStatus,
    ) -> Result<(), kube::Error> {
        if before.is_none() {
            self.releases.create(&NodeInfo::from_node(node), Vec::new()).await?;
        }
        let known = before.and_then(|state| state.status.as_ref());
        if known != Some(status) {
            let patch = json!({
                "apiVersion": HostState::api_version(&()),
                "kind": HostState::kind(&()),
                "status": status,
            });
            let params = PatchParams::apply(FIELD_MANAGER).force();
            self.states.patch_status(&self.name, &params, &Patch::Apply(&patch)).await?;
        }
        Ok(())
    }

    async fn label(&self, node: &Node) -> Result<(), kube::Error> {
        let is_missing = |(key, value): &(&String, &String)| node.labels().get(*key) != Some(*value);
        let missing: BTreeMap<&String, &String> = self.labels.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let patch = json!({ "metadata": { "labels": missing } });
        self.nodes.patch_metadata(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| ())
    }

    async fn condition(&self, node: &Node, status: &HostStateStatus, is_known: bool) -> Result<(), kube::Error> {
        let (value, reason) = match condition_of(&status.goals) {
            _ if !is_known => ("Unknown", "HostUnreachable"),
            (true, reason) => ("True", reason),
            (false, reason) => ("False", reason),
        };
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let before = conditions.into_iter().find(|condition| condition.type_ == NODE_CONDITION);
        let is_same = before.is_some_and(|before| {
            before.status == value
                && before.reason.as_deref() == Some(reason)
                && before.message.as_deref() == Some(status.summary.as_str())
        });
        if is_same {
            return Ok(());
        }
        let now = Timestamp::now();
        let changed =
            before.filter(|before| before.status == value).and_then(|before| before.last_transition_time.clone());
        let since = changed.map_or(now, |time| time.0);
        let patch = json!({ "status": { "conditions": [{
            "type": NODE_CONDITION,
            "status": value,
            "reason": reason,
            "message": status.summary,
            "lastHeartbeatTime": seconds(now),
            "lastTransitionTime": seconds(since),
        }] } });
        self.nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(&patch)).await.map(|_| ())
    }

    async fn events(&self, before: &[GoalState], after: &[GoalState], goals: &[HostGoal]) -> Result<(), kube::Error> {
        for state in after {
            let is_it =
                |known: &&GoalState| known.is_of(&state.goal, &state.uid) && known.generation == state.generation;
            let known = before.iter().find(is_it);
            if known.is_some_and(|known| known.phase == state.phase) || state.phase == GoalPhase::Waiting {
                continue;
            }
            // A goal that is deleted by now has no events. A later goal of its name gets none of them.
            let is_of = |goal: &&HostGoal| state.is_of(&goal.name_any(), &goal.uid().unwrap_or_default());
            let Some(goal) = goals.iter().find(is_of) else { continue };
            let reference: ObjectReference = goal.object_ref(&());
            let is_bad = state.phase.is_bad();
            let note = match state.message.as_str() {
                "" => format!("node {}, generation {}", self.name, state.generation),
                why => format!("node {}: {why}", self.name),
            };
            let event = Event {
                type_: if is_bad { EventType::Warning } else { EventType::Normal },
                reason: format!("{:?}", state.phase),
                note: Some(event_note(&note)),
                action: "Apply".to_owned(),
                secondary: None,
            };
            self.recorder.publish(&event, &reference).await?;
        }
        Ok(())
    }
}

/// Writes events in the name of the agent of a node.
pub(super) fn recorder(client: Client, node: &str) -> Recorder {
    let reporter = Reporter { controller: format!("{GROUP}/agent"), instance: Some(node.to_owned()) };
    Recorder::new(client, reporter)
}

/// The text of an event, as long as the API accepts it.
pub(super) fn event_note(text: &str) -> String {
    text.chars().take(NOTE_CHARS_MAX).collect()
}

/// Times with whole seconds, as the API has them.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Whether all goals are in force, and the reason in one word.
fn condition_of(goals: &[GoalState]) -> (bool, &'static str) {
    let any = |phase: GoalPhase| goals.iter().any(|goal| goal.phase == phase);
    if any(GoalPhase::NotPutBack) {
        (false, "NotPutBack")
    } else if any(GoalPhase::Refused) {
        (false, "Refused")
    } else if any(GoalPhase::Drifted) {
        (false, "Drifted")
    } else if any(GoalPhase::PendingReboot) {
        (false, "PendingReboot")
    } else if any(GoalPhase::Waiting) {
        (false, "Waiting")
    } else if any(GoalPhase::NotApplicable) {
        (false, "NotApplicable")
    } else {
        (true, "InForce")
    }
}
