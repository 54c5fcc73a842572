//! Drains and reboots the node of an agent, as [`reboot`](super::super::reboot) decides, and records it in an annotation of the node.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::super::host::Host;
use super::super::names::REBOOT;
use super::super::reboot::{DrainedPod, RebootPhase, RebootRecord, RebootStep, RebootView};
use super::super::state::{GoalState, HostStateStatus};
use super::super::why::why;
use super::cluster::{event_note, recorder};
use super::node::Brought;

/// How often to check a node that is being drained.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The maximum number of pods that one pass evicts. The next passes evict the rest. A node usually has a few hundred pods at most.
const EVICTIONS_MAX: usize = 100;
/// The annotation of a pod that the kubelet runs from a file, and that the API server cannot end.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) struct Reboots {
    client: Client,
    nodes: Api<Node>,
    recorder: Recorder,
    name: String,
}

/// The result of one pass over the reboot of its node.
#[derive(Default)]
pub(super) struct Rebooted {
    /// Whether a reboot is under way, so that the next pass should follow soon.
    pub(super) is_under_way: bool,
    /// A line for each thing that was done or failed.
    pub(super) lines: Vec<String>,
}

impl Reboots {
    pub(super) fn new(client: Client, node: &str) -> Reboots {
        let recorder = recorder(client.clone(), node);
        Reboots { nodes: Api::all(client.clone()), client, recorder, name: node.to_owned() }
    }

    /// Takes the next step, if there is one. An idle node costs no request.
    pub(super) async fn step<H: Host>(&self, node: &Node, brought: &Brought, host: &Arc<H>) -> Rebooted {
        let mut rebooted = Rebooted::default();
        match self.next(node, brought, host, &mut rebooted).await {
            Ok(()) => {}
            // The node has changed since the watch showed it, so the next pass decides anew.
            Err(kube::Error::Api(error)) if error.is_conflict() => rebooted.is_under_way = true,
            Err(error) => {
                rebooted.is_under_way = true;
                rebooted.lines.push(format!("failed to reboot this node: {}", why(&error)));
            }
        }
        rebooted
    }

    async fn next<H: Host>(
        &self,
        node: &Node,
        brought: &Brought,
        host: &Arc<H>,
        rebooted: &mut Rebooted,
    ) -> Result<(), kube::Error> {
        let record = match RebootRecord::read(node.annotations()) {
            Ok(record) => record,
            Err(error) => {
                rebooted.lines.extend((!brought.reboots.is_empty()).then(|| error.to_string()));
                return Ok(());
            }
        };
        let Some(boot) = &brought.boot else {
            let is_wanted = !brought.reboots.is_empty();
            rebooted.lines.extend(is_wanted.then(|| "failed to read the id of the present boot".to_owned()));
            return Ok(());
        };
        let not_in_force = record.as_ref().map(|record| not_in_force(record, &brought.status)).unwrap_or_default();
        let view = RebootView {
            wanted: &brought.reboots,
            not_in_force: &not_in_force,
            record: record.as_ref(),
            boot,
            is_cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            pods: None,
            now: Timestamp::now().as_second(),
        };
        let mut pods = Vec::new();
        let mut step = view.next();
        if step == RebootStep::ListPods {
            pods = self.pods().await?;
            let drained: Vec<DrainedPod> = pods.iter().map(drained).collect();
            step = RebootView { pods: Some(&drained), ..view }.next();
        }
        rebooted.is_under_way = !matches!(step, RebootStep::Rest | RebootStep::End(_) | RebootStep::Cancel { .. })
            || record.as_ref().is_some_and(|record| record.phase == RebootPhase::Rebooting);
        self.take(step, node, record.as_ref(), &pods, host, rebooted).await
    }

    async fn take<H: Host>(
        &self,
        step: RebootStep,
        node: &Node,
        before: Option<&RebootRecord>,
        pods: &[Pod],
        host: &Arc<H>,
        rebooted: &mut Rebooted,
    ) -> Result<(), kube::Error> {
        match step {
            RebootStep::Rest | RebootStep::ListPods => {}
            RebootStep::Begin(record) => self.write(node, Some(&record), Some(true), rebooted).await?,
            RebootStep::Evict(record) => {
                if before != Some(&record) {
                    self.write(node, Some(&record), None, rebooted).await?;
                }
                self.evict(pods, rebooted).await;
            }
            RebootStep::Reboot(record) => {
                if before != Some(&record) {
                    self.write(node, Some(&record), None, rebooted).await?;
                }
                let host = Arc::clone(host);
                let ran = tokio::task::spawn_blocking(move || host.reboot()).await;
                rebooted.lines.push(match ran {
                    Ok(Ok(())) => "ran the reboot command".to_owned(),
                    // The command is run again until the host's time is over. Then the record says that the host did not reboot.
                    Ok(Err(error)) => format!("failed to reboot the host: {error}"),
                    Err(error) => format!("failed to reboot the host: {error}"),
                });
            }
            RebootStep::End(record) => {
                let uncordons = (!record.was_cordoned).then_some(false);
                self.write(node, Some(&record), uncordons, rebooted).await?;
            }
            RebootStep::Cancel { was_cordoned } => {
                self.write(node, None, (!was_cordoned).then_some(false), rebooted).await?;
            }
        }
        Ok(())
    }

    /// Writes the record and whether the node is cordoned, in one request.
    /// If the node has changed since it was read, nothing is written, and the next pass decides anew.
    async fn write(
        &self,
        node: &Node,
        record: Option<&RebootRecord>,
        cordons: Option<bool>,
        rebooted: &mut Rebooted,
    ) -> Result<(), kube::Error> {
        let text = record.map(|record| serde_json::to_string(record).map_err(kube::Error::SerdeError)).transpose()?;
        let mut patch = json!({
            "metadata": { "resourceVersion": node.resource_version(), "annotations": { REBOOT: text } },
        });
        if let Some(cordons) = cordons {
            let value = if cordons { Value::Bool(true) } else { Value::Null };
            patch["spec"] = json!({ "unschedulable": value });
        }
        self.nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let note = match record {
            Some(record) if record.message.is_empty() => format!("reboot of this node: {:?}", record.phase),
            Some(record) => format!("reboot of this node: {:?}: {}", record.phase, record.message),
            None => "reboot of this node: cancelled, because no goal needs it any more".to_owned(),
        };
        let is_bad = record.is_some_and(|record| record.phase == RebootPhase::Failed);
        let reason = record.map_or_else(|| "Cancelled".to_owned(), |record| format!("{:?}", record.phase));
        let event = Event {
            type_: if is_bad { EventType::Warning } else { EventType::Normal },
            reason,
            note: Some(event_note(&note)),
            action: "Reboot".to_owned(),
            secondary: None,
        };
        rebooted.lines.push(note);
        if let Err(error) = self.recorder.publish(&event, &node.object_ref(&())).await {
            rebooted.lines.push(format!("failed to write an event: {}", why(&error)));
        }
        Ok(())
    }

    /// The pods of this node that a reboot would end. Those of a DaemonSet and of the kubelet itself come back with the node.
    async fn pods(&self) -> Result<Vec<Pod>, kube::Error> {
        let all: Api<Pod> = Api::all(self.client.clone());
        let listing = ListParams::default().fields(&format!("spec.nodeName={}", self.name));
        Ok(all.list(&listing).await?.items.into_iter().filter(is_in_the_way).collect())
    }

    /// Evicts each pod. A disruption budget may refuse an eviction for now, for example of a game server with players.
    async fn evict(&self, pods: &[Pod], rebooted: &mut Rebooted) {
        let due = |pod: &&Pod| drained(pod).is_managed && pod.metadata.deletion_timestamp.is_none();
        for pod in pods.iter().filter(due).take(EVICTIONS_MAX) {
            let namespace = pod.namespace().unwrap_or_default();
            let of_namespace: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
            let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let evict = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
            match of_namespace.evict(&pod.name_any(), &evict).await {
                Ok(_) => rebooted.lines.push(format!("evicted pod {namespace}/{}", pod.name_any())),
                // The pod is gone, another pod has its name, or its disruption budget refuses the eviction for now.
                Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409 | 429) => {}
                Err(error) => {
                    rebooted.lines.push(format!("failed to evict pod {namespace}/{}: {}", pod.name_any(), why(&error)));
                    // The API server gave no answer. Each further eviction would wait as long, while nobody looks after the host.
                    if !matches!(error, kube::Error::Api(_)) {
                        return;
                    }
                }
            }
        }
    }
}

fn is_in_the_way(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let owners = pod.metadata.owner_references.iter().flatten();
    let stays = owners.into_iter().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    !is_over && !stays && !pod.annotations().contains_key(MIRROR)
}

fn drained(pod: &Pod) -> DrainedPod {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    DrainedPod { name, is_managed: owners.any(|owner| owner.controller == Some(true)) }
}

/// The goals of a reboot that are not in force now, each with the reason.
fn not_in_force(record: &RebootRecord, status: &HostStateStatus) -> Vec<String> {
    let is_its = |state: &&GoalState| {
        record.goals.iter().any(|known| known.is_of(&state.goal, &state.uid) && known.generation == state.generation)
    };
    let bad = status.goals.iter().filter(is_its);
    let bad = bad.filter(|state| state.needs_reboot || state.phase.is_bad());
    bad.map(|state| match state.message.as_str() {
        "" => format!("goal {} is {:?}", state.goal, state.phase),
        message => format!("goal {} is {:?}: {message}", state.goal, state.phase),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(owner: Option<&str>, phase: &str, annotation: Option<&str>) -> Pod {
        let owners =
            owner.map(|kind| json!([{"apiVersion": "v1", "kind": kind, "name": "x", "uid": "1", "controller": true}]));
        let annotations = annotation.map(|name| json!({ name: "x" }));
        let pod = json!({
            "metadata": {"name": "a", "namespace": "games", "ownerReferences": owners, "annotations": annotations},
            "status": {"phase": phase},
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn pods_that_a_reboot_would_end_are_drained() {
        let rows = [
            (pod(Some("GameServer"), "Running", None), true, true),
            (pod(Some("ReplicaSet"), "Pending", None), true, true),
            (pod(None, "Running", None), true, false),
            (pod(Some("ReplicaSet"), "Succeeded", None), false, true),
            (pod(Some("Job"), "Failed", None), false, true),
            (pod(Some("DaemonSet"), "Running", None), false, true),
            (pod(Some("Node"), "Running", Some(MIRROR)), false, true),
        ];
        for (pod, is_one, is_managed) in rows {
            assert_eq!(is_in_the_way(&pod), is_one, "{pod:?}");
            assert_eq!(drained(&pod), DrainedPod { name: "games/a".to_owned(), is_managed }, "{pod:?}");
        }
    }
}
