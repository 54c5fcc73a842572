//! The objects of Kubernetes and Agones that are rendered, with the fields that we set and no others.

use serde::Serialize;

use super::names::{DnsLabel, Image, Protocol};

/// A set of equal game servers: `agones.dev/v1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: FleetSpec,
}

/// The autoscaler of a fleet: `autoscaling.agones.dev/v1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetAutoscaler {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: FleetAutoscalerSpec,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Metadata {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(super) name: DnsLabel,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub(super) namespace: Option<DnsLabel>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct FleetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replicas: Option<u32>,
    pub(super) scheduling: Scheduling,
    pub(super) template: GameServerTemplate,
}

/// Where game servers go: on as few nodes as possible, or spread over all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Scheduling {
    /// On as few nodes as possible, so that an autoscaler can remove the others.
    #[default]
    Packed,
    /// Over all nodes, for a cluster of a fixed size.
    Distributed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct GameServerTemplate {
    pub(super) spec: GameServerSpec,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct GameServerSpec {
    pub(super) container: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters: Option<Counters>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<Port>,
    pub(super) template: PodTemplate,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Counters {
    pub(super) sessions: Counter,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Counter {
    pub(super) capacity: u32,
    pub(super) count: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Port {
    pub(super) container_port: u16,
    pub(super) name: String,
    pub(super) port_policy: &'static str,
    pub(super) protocol: Protocol,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct PodTemplate {
    pub(super) spec: PodSpec,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct PodSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) affinity: Option<Affinity>,
    pub(super) containers: Vec<Container>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volumes: Vec<Volume>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Affinity {
    pub(super) node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeAffinity {
    pub(super) required_during_scheduling_ignored_during_execution: NodeSelector,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeSelector {
    pub(super) node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeSelectorTerm {
    pub(super) match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    pub(super) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) enum Operator {
    In,
    Gt,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(super) image: Image,
    pub(super) name: &'static str,
    pub(super) resources: Resources,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volume_mounts: Vec<VolumeMount>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Resources {
    #[serde(skip_serializing_if = "Quantities::is_empty")]
    pub(super) limits: Quantities,
    pub(super) requests: Quantities,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Quantities {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<String>,
}

impl Quantities {
    fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeMount {
    pub(super) mount_path: &'static str,
    pub(super) name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    pub(super) host_path: HostPath,
    pub(super) name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct HostPath {
    pub(super) path: &'static str,
    pub(super) r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct FleetAutoscalerSpec {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(super) fleet_name: DnsLabel,
    pub(super) policy: Policy,
    pub(super) sync: Sync,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type")]
pub(super) enum Policy {
    Buffer { buffer: BufferPolicy },
    Counter { counter: CounterPolicy },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct BufferPolicy {
    pub(super) buffer_size: u32,
    pub(super) max_replicas: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct CounterPolicy {
    pub(super) buffer_size: u32,
    pub(super) key: &'static str,
    pub(super) max_capacity: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Sync {
    pub(super) fixed_interval: FixedInterval,
    pub(super) r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct FixedInterval {
    pub(super) seconds: u32,
}
