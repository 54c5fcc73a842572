//! `GameServer`: the game server, as the sidecar reports it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// The game server in Kubernetes, as the sidecar reports it. Missing fields are `None`.
///
/// ```
/// use evenkeel_rt::agones::{GameServer, HealthSpec, ObjectMeta, Port, Spec, Status};
///
/// let json = br#"{"object_meta": {"name": "seven"}, "status": {"state": "Ready", "ports": [{"port": 7777}]}}"#;
/// let GameServer { object_meta, spec, status } = GameServer::parse(json)?;
/// let ObjectMeta { name, .. } = object_meta;
/// let (Spec { health }, Status { state, ports, .. }) = (spec, status);
/// assert_eq!((name.as_deref(), state.as_deref()), (Some("seven"), Some("Ready")));
/// assert_eq!(ports, [Port { name: None, port: Some(7777) }]);
/// assert_eq!(health.and_then(|HealthSpec { period_seconds, .. }| period_seconds), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GameServer {
    /// Its name and labels.
    #[serde(alias = "objectMeta", deserialize_with = "or_default")]
    pub object_meta: ObjectMeta,
    /// Its requested settings.
    #[serde(deserialize_with = "or_default")]
    pub spec: Spec,
    /// Its state and address.
    #[serde(deserialize_with = "or_default")]
    pub status: Status,
}

/// Its name and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ObjectMeta {
    /// Its name in its namespace.
    pub name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Distinguishes it from all others, past ones included.
    pub uid: Option<String>,
    /// Its labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// Its requested settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// How Agones checks its health.
    pub health: Option<HealthSpec>,
}

/// How Agones checks its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HealthSpec {
    /// Whether health is not checked.
    pub disabled: Option<bool>,
    /// Seconds in which one health message is required.
    #[serde(alias = "periodSeconds")]
    pub period_seconds: Option<u32>,
    /// How many health messages may be missing in a row.
    #[serde(alias = "failureThreshold")]
    pub failure_threshold: Option<u32>,
    /// Seconds at the start without a required health message.
    #[serde(alias = "initialDelaySeconds")]
    pub initial_delay_seconds: Option<u32>,
}

/// Its state and address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Such as `Ready` or `Allocated`.
    pub state: Option<String>,
    /// The address for players.
    pub address: Option<String>,
    /// The ports for players.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

/// A port that players reach it at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Port {
    /// The port's name in the game server's description.
    pub name: Option<String>,
    /// Its number.
    pub port: Option<u16>,
}

impl GameServer {
    /// Reads the sidecar's JSON.
    pub fn parse(json: &[u8]) -> Result<GameServer, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

/// A field that is `null` counts as missing.
fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(json: D) -> Result<T, D::Error> {
    Option::deserialize(json).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_documents_example_is_read() {
        let json = br#"{
            "object_meta": {"name": "local", "namespace": "default", "uid": "1234", "resource_version": "v1", "generation": "1",
                "creation_timestamp": "1531795395", "annotations": {"annotation": "true"}, "labels": {"islocal": "true"}},
            "spec": {"health": {"period_seconds": 5, "failureThreshold": 3}},
            "status": {"state": "Ready", "address": "127.0.0.1", "ports": [{"name": "default", "port": 7777}], "players": null}
        }"#;
        let read = GameServer::parse(json).unwrap();
        assert_eq!(read.object_meta.name.as_deref(), Some("local"));
        assert_eq!(read.object_meta.labels["islocal"], "true");
        let health = read.spec.health.unwrap();
        assert_eq!((health.period_seconds, health.failure_threshold, health.disabled), (Some(5), Some(3), None));
        assert_eq!((read.status.state.as_deref(), read.status.ports[0].port), (Some("Ready"), Some(7777)));
        let empty = [r#"{}"#, r#"{"object_meta":null,"spec":null,"status":{"ports":null}}"#];
        empty
            .into_iter()
            .for_each(|json| assert_eq!(GameServer::parse(json.as_bytes()).unwrap(), GameServer::default()));
        let wrong =
            ["", "[]7", "null", r#"{"status":{"ports":[{"port":70000}]}}"#, r#"{"status":7}"#, &"[".repeat(100_000)];
        wrong.into_iter().for_each(|json| assert!(GameServer::parse(json.as_bytes()).is_err(), "{json:.40}"));
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = GameServer::parse(&bytes);
        }
    }
}
