//! The definitions of the custom resources that the cluster serves, compared with those of this program. Helm installs definitions but never
//! upgrades them. The API server drops each field that its definitions do not know, without an error.

use std::time::{Duration, Instant};

use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, CustomResourceExt};
use serde_json::Value;

use super::goal::HostGoal;
use super::state::HostState;
use super::why::why;

/// Where the API server describes the resources of a group. Every account may read it.
const GROUP_PATH: &str = "/openapi/v3/apis/evenkeel.dev";
/// The version of the group.
const VERSION: &str = "v1alpha1";
/// The command that installs the definitions of this program.
pub const COMMAND: &str = "evenkeel fleet rollout --definitions | kubectl apply --server-side --force-conflicts -f -";
/// How often to look again at definitions that are not current.
const AGAIN: Duration = Duration::from_secs(600);
/// The maximum time of a request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// The maximum number of fields in a message.
const FIELDS_MAX: usize = 3;

/// Whether the cluster's definitions are current.
#[derive(Debug, Default)]
pub struct Definitions {
    outdated: Option<String>,
    next: Option<Instant>,
    was_read: bool,
}

impl Definitions {
    /// Why the cluster's definitions do not suit this program, and what to do. `None` if they do, as far as is known.
    pub fn outdated(&self) -> Option<&str> {
        self.outdated.as_deref()
    }

    /// Reads the definitions if that is due: once, and every ten minutes while they are not current. Returns a line for the log if there is
    /// something new to say.
    pub async fn look(&mut self, client: &Client) -> Option<String> {
        let now = Instant::now();
        if self.was_read && self.next.is_none_or(|next| next > now) {
            return None;
        }
        self.was_read = true;
        match read(client).await {
            Ok(found) => {
                self.next = found.as_ref().map(|_| now + AGAIN);
                let is_new = found != self.outdated;
                self.outdated = found;
                let is_current = || "the cluster's definitions are those of this program now".to_owned();
                is_new.then(|| self.outdated.clone().unwrap_or_else(is_current))
            }
            Err(error) => {
                self.next = Some(now + AGAIN);
                Some(format!("failed to read the cluster's definitions of HostGoal and HostState: {error}"))
            }
        }
    }
}

async fn read(client: &Client) -> Result<Option<String>, String> {
    let request = Request::new(GROUP_PATH).get(VERSION, &GetParams::default()).map_err(|error| error.to_string())?;
    match tokio::time::timeout(REQUEST_MAX, client.request::<Value>(request)).await {
        Err(_) => Err(format!("no answer within {} s", REQUEST_MAX.as_secs())),
        Ok(Err(kube::Error::Api(error))) if error.is_not_found() => Ok(problem(&Value::Null)),
        Ok(Err(error)) => Err(why(&error)),
        Ok(Ok(document)) => Ok(problem(&document)),
    }
}

/// What is wrong with the definitions in the API server's description of the group.
fn problem(document: &Value) -> Option<String> {
    [HostGoal::crd(), HostState::crd()].iter().find_map(|definition| {
        let kind = &definition.spec.names.kind;
        let Some(served) = schema_of(document, kind) else {
            return Some(format!("the cluster has no definition of {kind}; run: {COMMAND}"));
        };
        let schema = definition.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        let mut missing = Vec::new();
        note_missing(&serde_json::to_value(schema).ok()?, served, "", &mut missing);
        let first = missing.get(..missing.len().min(FIELDS_MAX)).filter(|first| !first.is_empty())?.join(", ");
        let more = missing.len().saturating_sub(FIELDS_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(format!(
            "the cluster's definition of {kind} is older than this program: the API server drops {first}{more}; run: {COMMAND}"
        ))
    })
}

/// The schema of a kind.
fn schema_of<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    let is_it = |schema: &&Value| {
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        kinds.into_iter().flatten().any(|one| one["kind"] == kind && one["version"] == VERSION)
    };
    document.pointer("/components/schemas")?.as_object()?.values().find(is_it)
}

/// Adds the paths of the fields that `own` has and `served` lacks.
fn note_missing(own: &Value, served: &Value, path: &str, missing: &mut Vec<String>) {
    if served.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        return;
    }
    for (name, field) in own.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match served.pointer(&format!("/properties/{name}")) {
            Some(known) => note_missing(field, known, &path, missing),
            None => missing.push(path),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let (Some(own), Some(served)) = (own.get(inner), served.get(inner)) {
            note_missing(own, served, path, missing);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fake_server::FakeServer;
    use super::*;

    const PATH: &str = "/openapi/v3/apis/evenkeel.dev/v1alpha1";

    /// The API server's description of the definitions of this program.
    fn document() -> Value {
        let mut schemas = serde_json::Map::new();
        for definition in [HostGoal::crd(), HostState::crd()] {
            let kind = definition.spec.names.kind.clone();
            let schema = definition.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
            let mut schema = serde_json::to_value(schema).unwrap();
            schema["properties"]["metadata"] = json!({ "$ref": "#/components/schemas/ObjectMeta" });
            schema["x-kubernetes-group-version-kind"] =
                json!([{ "group": "evenkeel.dev", "kind": kind, "version": "v1alpha1" }]);
            schemas.insert(format!("dev.evenkeel.v1alpha1.{kind}"), schema);
        }
        json!({ "openapi": "3.0.0", "components": { "schemas": schemas } })
    }

    fn without(document: &Value, paths: &[&str]) -> Value {
        let mut document = document.clone();
        for path in paths {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let fields = document.pointer_mut(&format!("/components/schemas/dev.evenkeel.v1alpha1.{parent}")).unwrap();
            assert!(fields.as_object_mut().unwrap().remove(name).is_some(), "{path}");
        }
        document
    }

    #[test]
    fn a_definition_that_is_older_than_this_program_is_named_with_what_it_lacks() {
        let current = document();
        assert_eq!(problem(&current), None);
        let spec = "HostGoal/properties/spec/properties";
        let rows = [
            (
                vec![format!("{spec}/reboot")],
                "HostGoal is older than this program: the API server drops spec.reboot; run",
            ),
            (
                vec!["HostState/properties/status/properties/goals/items/properties/uid".to_owned()],
                "HostState is older than this program: the API server drops status.goals.uid; run",
            ),
            (
                ["reboot", "onDrift", "allow", "advised", "settings"].map(|name| format!("{spec}/{name}")).to_vec(),
                "the API server drops spec.advised, spec.allow, spec.onDrift and 2 more; run",
            ),
        ];
        for (paths, text) in rows {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let found = problem(&without(&current, &paths)).unwrap();
            assert!(found.contains(text) && found.ends_with(COMMAND), "{found}");
        }
        // The map of guards by name.
        let before =
            "HostGoal/properties/status/properties/rollout/properties/guards/additionalProperties/properties/before";
        assert!(problem(&without(&current, &[before])).unwrap().contains("status.rollout.guards.before"));
        // A newer definition knows more.
        let mut newer = current;
        newer["components"]["schemas"]["dev.evenkeel.v1alpha1.HostGoal"]["properties"]["spec"]["properties"]["x"] =
            json!({});
        assert_eq!(problem(&newer), None);
        assert!(problem(&json!({})).unwrap().starts_with("the cluster has no definition of HostGoal; run: evenkeel"));
    }

    #[test]
    fn definitions_are_read_once_while_they_are_current_and_again_while_they_are_not() {
        let server = FakeServer::start();
        let old = without(&document(), &["HostGoal/properties/spec/properties/reboot"]);
        server.with(|store| store.pages.insert(PATH.to_owned(), old));
        server.run(async |client| {
            let mut definitions = Definitions::default();
            let line = definitions.look(&client).await.unwrap();
            assert_eq!(definitions.outdated(), Some(line.as_str()));
            assert_eq!(definitions.look(&client).await, None, "not due");
            server.with(|store| store.pages.insert(PATH.to_owned(), document()));
            definitions.next = Some(Instant::now());
            let line = definitions.look(&client).await.unwrap();
            assert_eq!(line, "the cluster's definitions are those of this program now");
            assert_eq!((definitions.outdated(), definitions.next), (None, None));
            assert_eq!(definitions.look(&client).await, None);
        });
        assert_eq!(server.with(|store| store.requests.len()), 2);
        let none = FakeServer::start();
        none.run(async |client| {
            let line = Definitions::default().look(&client).await.unwrap();
            assert!(line.starts_with("the cluster has no definition of HostGoal; run: "), "{line}");
        });
    }
}
