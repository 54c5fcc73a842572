//! The definitions of the custom resources, generated from the Rust types. `deploy/kubernetes` contains them.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::goal::HostGoal;
use super::state::HostState;

/// The definitions, in the form that `kubectl apply` takes: a list in JSON.
pub fn definitions() -> Value {
    let mut list = json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [HostGoal::crd(), HostState::crd()],
    });
    with_known_formats(&mut list);
    with_known_operators(&mut list);
    list
}

/// The API server does not know the formats of unsigned numbers, and warns about them. The schema has their minimum of 0 in any case.
fn with_known_formats(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(format)) = fields.get_mut("format") {
                match format.as_str() {
                    "uint32" => *format = "int32".to_owned(),
                    "uint64" => *format = "int64".to_owned(),
                    _ => {}
                }
            }
            fields.values_mut().for_each(with_known_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(with_known_formats),
        _ => {}
    }
}

/// An unknown operator selects no node. So a goal with a misspelt operator would silently select no node.
fn with_known_operators(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(operator) = fields.get_mut("matchExpressions").and_then(|list| list.pointer_mut(OPERATOR)) {
                operator["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
            }
            fields.values_mut().for_each(with_known_operators);
        }
        Value::Array(items) => items.iter_mut().for_each(with_known_operators),
        _ => {}
    }
}

/// The schema of an operator, within that of a list of label requirements.
const OPERATOR: &str = "/items/properties/operator";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_chart_has_the_definitions_of_today() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/chart/crds");
        let definitions = definitions();
        for definition in definitions["items"].as_array().unwrap() {
            let path = folder.join(format!("{}.yaml", definition["spec"]["names"]["plural"].as_str().unwrap()));
            let text = serde_json::to_string_pretty(definition).unwrap() + "\n";
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                fs::write(&path, &text).unwrap();
            }
            assert!(fs::read_to_string(&path).unwrap() == text, "{}: UPDATE_EXPECT=1 writes it anew", path.display());
        }
    }

    #[test]
    fn the_server_refuses_what_would_silently_select_nothing_or_compare_nothing() {
        let goals = &definitions()["items"][0];
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let operators = ["/nodeSelector", "/rollout/properties/canaries/properties/selector"];
        for selector in operators {
            let operator = format!("{spec}{selector}/properties/matchExpressions{OPERATOR}/enum");
            let known = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
            assert_eq!(goals.pointer(&operator), Some(&known), "{operator}");
        }
        // Two guards of one name would overwrite each other's measurements.
        let guards = goals.pointer(&format!("{spec}/rollout/properties/guards")).unwrap();
        assert_eq!(guards["x-kubernetes-list-type"], "map");
        assert_eq!(guards["x-kubernetes-list-map-keys"], json!(["name"]));
    }

    #[test]
    fn no_format_is_unknown_to_the_api_server() {
        let text = definitions().to_string();
        assert!(!text.contains("\"uint"), "{text}");
        assert!(text.contains("\"format\":\"int32\""));
    }
}
