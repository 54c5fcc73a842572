//! The manifests, with a comment at each number that was computed.

use super::buffer::{self, Buffer, BufferAdvice, BufferError, Demand, Input};
use super::names::{DnsLabel, Image, NodeLabel, ServerPort};
use super::objects::{
    Affinity, BufferPolicy, Container, Counter, CounterPolicy, Counters, FixedInterval, Fleet, FleetAutoscaler,
    FleetAutoscalerSpec, FleetSpec, GameServerSpec, GameServerTemplate, HostPath, Metadata, NodeAffinity, NodeSelector,
    NodeSelectorTerm, Operator, PodSpec, PodTemplate, Policy, Port, Requirement, Scheduling, Sync, Volume, VolumeMount,
};
use super::size::{self, CpuMode, CpusBy, Density, NodeRoom, Size, SizeError};
use super::yaml::{self, Note};
use crate::sessions::Session;

/// The folder of the node in which sessions of several pods find each other's ticks. It is in memory, and everybody may write to it.
pub const PHASES_FOLDER: &str = "/run/evenkeel-phases";

/// The name of the server's container.
const CONTAINER: &str = "server";
/// The name of the volume with the phases.
const PHASES: &str = "phases";
/// The counter of sessions in a server.
const SESSIONS: &str = "sessions";
/// The label of a node with the number of sessions that fit, which evenkeel's agent sets.
pub const SESSIONS_LABEL: &str = "evenkeel.dev/sessions";
/// The JSON pointer to the container's requests in a fleet.
const RESOURCES: &str = "/spec/template/spec/template/spec/containers/0/resources";

/// The inputs of the manifests.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The name of the fleet and of its autoscaler.
    pub name: DnsLabel,
    /// The namespace of the fleet and its autoscaler; none for the namespace of the user who applies the manifests.
    pub namespace: Option<DnsLabel>,
    /// The image of the server.
    pub image: Image,
    /// The need of a session, and the number of sessions.
    pub session: Session,
    /// How many sessions one process of the server has.
    pub sessions_per_server: u32,
    /// How a server gets CPU time.
    pub cpus: CpuMode,
    /// The bound on a CPU's load, above 0.
    pub load_max: f64,
    /// The ports that the server opens.
    pub ports: Vec<ServerPort>,
    /// Where game servers go.
    pub scheduling: Scheduling,
    /// Labels that a node must have. If a key has several values, a node needs only one of them.
    pub node_labels: Vec<NodeLabel>,
    /// How many sessions a node must have room for. The node's label says how many it has room for.
    pub node_sessions_min: Option<u32>,
    /// Whether the sessions of a node spread their ticks over all pods.
    pub shares_phases: bool,
    /// The capacity of a node that pods may use.
    pub node: NodeRoom,
    /// Whether `node` has all CPUs of a machine, including those that Kubernetes reserves.
    pub is_node_whole: bool,
    /// The demand that the autoscaler must meet.
    pub demand: Demand,
}

/// Why there are no manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The size of a server cannot be computed.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// No buffer is possible.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

/// The manifests.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// What a server requests.
    pub size: Size,
    /// The autoscaler's buffer, or what is missing for it.
    pub buffer: BufferAdvice,
    /// The fleet.
    pub fleet: Fleet,
    /// The autoscaler of the fleet; none if the buffer is not known.
    pub autoscaler: Option<FleetAutoscaler>,
    /// What to consider before you use the manifests.
    pub caveats: Vec<String>,
    notes: Vec<Note>,
    autoscaler_notes: Vec<Note>,
}

/// Renders the manifests.
///
/// # Errors
/// If no node can run such a server, or the buffer does not fit on the nodes.
pub fn render(asked: &Asked) -> Result<Rendered, RenderError> {
    let density = Density { sessions: asked.sessions_per_server.max(1), load_max: asked.load_max };
    let size = size::size(&asked.session, density, asked.cpus, &asked.node)?;
    let buffer = buffer::buffer(&asked.demand, size.sessions_per_node)?;
    let autoscaler = match &buffer {
        BufferAdvice::Known(known) => Some(autoscaler(asked, known)),
        BufferAdvice::Unknown { .. } => None,
    };
    let is_scaled = autoscaler.is_some();
    let fleet = Fleet {
        api_version: "agones.dev/v1",
        kind: "Fleet",
        metadata: metadata(asked),
        spec: FleetSpec {
            // With an autoscaler, the manifest sets no replicas. Otherwise each `kubectl apply` would reset the autoscaler's number.
            replicas: (!is_scaled).then(|| asked.session.count.div_ceil(density.sessions)),
            scheduling: asked.scheduling,
            template: GameServerTemplate { spec: game_server(asked, &size) },
        },
    };
    Ok(Rendered {
        notes: notes(asked, &size, is_scaled),
        autoscaler_notes: autoscaler_notes(asked, &buffer),
        caveats: caveats(asked, &size),
        size,
        buffer,
        fleet,
        autoscaler,
    })
}

impl Rendered {
    /// The manifests as YAML, with comments. `source` names the input in the first line.
    ///
    /// # Errors
    /// If an object cannot be written as JSON.
    pub fn yaml(&self, source: &str) -> Result<String, serde_json::Error> {
        let mut text = yaml::comment(&format!("Rendered by `evenkeel pack agones` from {source}."), 0);
        for caveat in &self.caveats {
            text.push_str(&yaml::comment(&format!("Caveat: {caveat}."), 0));
        }
        text.push_str(&yaml::document(&serde_json::to_value(&self.fleet)?, &self.notes));
        match (&self.autoscaler, &self.buffer) {
            (Some(autoscaler), _) => {
                text.push_str("---\n");
                text.push_str(&yaml::document(&serde_json::to_value(autoscaler)?, &self.autoscaler_notes));
            }
            (None, BufferAdvice::Unknown { missing }) => {
                let names: Vec<&str> = missing.iter().map(|input| option(*input)).collect();
                let why =
                    format!("No FleetAutoscaler, because its buffer is not known. Missing: {}.", names.join(", "));
                text.push_str(&yaml::comment(&why, 0));
            }
            (None, BufferAdvice::Known(_)) => {}
        }
        Ok(text)
    }
}

/// The option that gives an input.
fn option(input: Input) -> &'static str {
    match input {
        Input::StartsPerMinute => "--starts-per-minute",
        Input::NodeStart => "--node-start",
        Input::NodesMax => "--nodes-max",
        Input::SessionsPerNode => "the sessions that fit on a node (--capacity or --node-cpus)",
    }
}

fn metadata(asked: &Asked) -> Metadata {
    Metadata { name: asked.name.clone(), namespace: asked.namespace.clone() }
}

fn game_server(asked: &Asked, size: &Size) -> GameServerSpec {
    let phases = asked.shares_phases;
    let capacity = asked.sessions_per_server;
    let container = Container {
        image: asked.image.clone(),
        name: CONTAINER,
        resources: size.resources(),
        volume_mounts: phases.then_some(VolumeMount { mount_path: PHASES_FOLDER, name: PHASES }).into_iter().collect(),
    };
    let host_path = HostPath { path: PHASES_FOLDER, r#type: "Directory" };
    let pod = PodSpec {
        affinity: affinity(asked),
        containers: vec![container],
        volumes: phases.then_some(Volume { host_path, name: PHASES }).into_iter().collect(),
    };
    let port = |(nth, port): (usize, &ServerPort)| Port {
        container_port: port.number,
        name: if nth == 0 { "default".to_owned() } else { format!("port-{}", port.number) },
        port_policy: "Dynamic",
        protocol: port.protocol,
    };
    GameServerSpec {
        container: CONTAINER,
        counters: (capacity > 1).then_some(Counters { sessions: Counter { capacity, count: 0 } }),
        ports: asked.ports.iter().enumerate().map(port).collect(),
        template: PodTemplate { spec: pod },
    }
}

fn affinity(asked: &Asked) -> Option<Affinity> {
    let mut all: Vec<Requirement> = Vec::new();
    for label in &asked.node_labels {
        match all.iter_mut().find(|one| one.key == label.key) {
            Some(one) => one.values.push(label.value.clone()),
            None => all.push(Requirement {
                key: label.key.clone(),
                operator: Operator::In,
                values: vec![label.value.clone()],
            }),
        }
    }
    all.extend(asked.node_sessions_min.map(|least| Requirement {
        key: SESSIONS_LABEL.to_owned(),
        operator: Operator::Gt,
        values: vec![least.saturating_sub(1).to_string()],
    }));
    let terms = vec![NodeSelectorTerm { match_expressions: all }];
    (!terms[0].match_expressions.is_empty()).then_some(Affinity {
        node_affinity: NodeAffinity {
            required_during_scheduling_ignored_during_execution: NodeSelector { node_selector_terms: terms },
        },
    })
}

fn autoscaler(asked: &Asked, known: &Buffer) -> FleetAutoscaler {
    let policy = match asked.sessions_per_server {
        // Both numbers fit into Agones' 32 bits, as `buffer` has checked.
        0 | 1 => Policy::Buffer {
            buffer: BufferPolicy { buffer_size: known.sessions, max_replicas: known.sessions_max as u32 },
        },
        _ => Policy::Counter {
            counter: CounterPolicy { buffer_size: known.sessions, key: SESSIONS, max_capacity: known.sessions_max },
        },
    };
    FleetAutoscaler {
        api_version: "autoscaling.agones.dev/v1",
        kind: "FleetAutoscaler",
        metadata: metadata(asked),
        spec: FleetAutoscalerSpec {
            fleet_name: asked.name.clone(),
            policy,
            sync: Sync { fixed_interval: FixedInterval { seconds: buffer::SYNC_S }, r#type: "FixedInterval" },
        },
    }
}

fn notes(asked: &Asked, size: &Size, is_scaled: bool) -> Vec<Note> {
    let note = |at: &str, text: String| Note { at: at.to_owned(), text };
    let mut notes = vec![note(RESOURCES, cpus_note(asked, size))];
    if let Some(mib) = asked.session.memory_mib {
        let text = format!(
            "Memory: {mib:.0} MiB a session as measured, and a quarter more, because the kernel ends a server at its limit."
        );
        notes.push(note(RESOURCES, text));
    }
    if is_scaled {
        notes.push(note("/spec/scheduling", "No replicas here: the FleetAutoscaler sets them.".to_owned()));
    } else {
        notes.push(note("/spec/replicas", format!("For the {} sessions of the table.", asked.session.count)));
    }
    if asked.sessions_per_server > 1 {
        let text = format!(
            "{} sessions a process. The server, or the allocation, counts each session up when it starts and down when it ends.",
            asked.sessions_per_server
        );
        notes.push(note("/spec/template/spec/counters", text));
    }
    if asked.shares_phases {
        let text = format!(
            "Sessions of several pods spread their ticks: PhaseSettings {{ folder: Some(\"{PHASES_FOLDER}\".into()) }} in evenkeel-rt."
        );
        notes.push(note("/spec/template/spec/template/spec/volumes", text));
    }
    notes
}

fn cpus_note(asked: &Asked, size: &Size) -> String {
    let sessions = asked.sessions_per_server;
    let cpus = asked.session.cpus;
    let of = match sessions {
        0 | 1 => format!("A session uses {cpus:.3} CPUs."),
        many => format!("{many} sessions use {cpus:.3} CPUs each."),
    };
    let no_limit = "No CPU limit: its quota would stop a server in the middle of a tick.";
    match (size.cpus, size.cpus_by, asked.node.cpus, asked.node.sessions) {
        (CpuMode::Pinned, ..) => format!(
            "{of} Whole CPUs, requests equal to limits: the kubelet's static CPU manager gives the server CPUs that no other pod uses."
        ),
        (CpuMode::Shared, CpusBy::Capacity, Some(node), Some(fit)) => format!(
            "{fit} sessions hold their limits on a node of {node:.2} CPUs, as `evenkeel capacity` measured. A server requests its share, less 30m for \
             Agones' own container in the pod. {no_limit}"
        ),
        (CpuMode::Shared, ..) => format!(
            "{of} Divided by {}, so that all servers of a node load its CPUs to at most that. {no_limit}",
            asked.load_max
        ),
    }
}

fn autoscaler_notes(asked: &Asked, advice: &BufferAdvice) -> Vec<Note> {
    let BufferAdvice::Known(known) = advice else { return Vec::new() };
    let nodes_max = asked.demand.nodes_max.unwrap_or_default();
    let text = format!(
        "Until a new node has a ready server, {:.0} s pass: {} s until the autoscaler looks, and the start of the node. {:.1} sessions start in this \
         time on average. {} free places are enough in 99 of 100 such waits, if no start causes another. They take {:.1} nodes of {} sessions. The most \
         are {nodes_max} nodes.",
        known.lead_s,
        buffer::SYNC_S,
        known.starts_mean,
        known.sessions,
        known.nodes,
        known.sessions_per_node,
    );
    vec![Note { at: "/spec/policy".to_owned(), text }]
}

fn caveats(asked: &Asked, size: &Size) -> Vec<String> {
    let mut caveats = Vec::new();
    if size.cpus == CpuMode::Pinned {
        caveats.push(
            "the kubelet pins only with cpuManagerPolicy: static, and only if each container of the pod has limits equal to its requests. Agones' own \
             container has none by default: install Agones with agones.image.sdk.cpuLimit=30m, agones.image.sdk.memoryRequest=64Mi and \
             agones.image.sdk.memoryLimit=64Mi"
                .to_owned(),
        );
    }
    if asked.is_node_whole && size.sessions_per_node.is_some() {
        caveats.push(
            "Kubernetes keeps a part of each node's CPUs, so fewer servers than these fit on it: name what is left with --node-cpus (allocatable CPUs, \
             less the requests of DaemonSets)"
                .to_owned(),
        );
    }
    if size.memory_mib.is_none() {
        caveats
            .push("the memory of a session is not known, so the server has no request and no limit for it".to_owned());
    }
    if asked.shares_phases {
        caveats.push(format!(
            "pods with a volume of the node need a namespace with pod-security.kubernetes.io/enforce: privileged, and they wait until their node \
             has {PHASES_FOLDER}: evenkeel's agent makes it with --phases"
        ));
    }
    if asked.node_sessions_min.is_some() || asked.node_labels.iter().any(|label| label.key.starts_with("evenkeel.dev/"))
    {
        caveats.push(
            "only nodes with evenkeel's agent have the labels evenkeel.dev/…; no server starts on others".to_owned(),
        );
    }
    caveats
}
