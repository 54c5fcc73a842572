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
    /// The game server's name and labels.
    #[serde(alias = "objectMeta", deserialize_with = "or_default")]
    pub object_meta: ObjectMeta,
    /// The game server's requested settings.
    #[serde(deserialize_with = "or_default")]
    pub spec: Spec,
    /// The game server's state and address.
    #[serde(deserialize_with = "or_default")]
    pub status: Status,
}

/// The name and labels of a game server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ObjectMeta {
    /// The game server's name in its namespace.
    pub name: Option<String>,
    /// The game server's namespace.
    pub namespace: Option<String>,
    /// An identifier that no other game server has or had.
    pub uid: Option<String>,
    /// The game server's labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// The game server's annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// The requested settings of a game server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// How Agones checks the game server's health.
    pub health: Option<HealthSpec>,
}

/// How Agones checks a game server's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HealthSpec {
    /// Whether the health check is disabled.
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

/// The state and address of a game server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The state, such as `Ready` or `Allocated`.
    pub state: Option<String>,
    /// The address for players.
    pub address: Option<String>,
    /// The ports for players.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

/// A port at which players reach the game server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Port {
    /// The port's name in the game server's description.
    pub name: Option<String>,
    /// The port's number.
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
