//! Tests that `evenkeel schema` prints the files in docs/schemas.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::Scene;

#[test]
fn every_schema_is_printed_as_it_is_shipped() {
    let scene = Scene::new();
    let (code, answer) = scene.json("schema");
    assert_eq!(code, 0);
    let schemas = answer["schemas"].as_array().unwrap();
    assert!(schemas.iter().any(|one| one["name"] == "audit"), "{answer}");
    for one in schemas {
        let name = one["name"].as_str().unwrap();
        let file = format!("../../docs/schemas/{name}-v{}.json", one["number"]);
        let shipped = fs::read_to_string([env!("CARGO_MANIFEST_DIR"), &file].iter().collect::<PathBuf>()).unwrap();
        let seen = scene.run(&format!("schema {name}"));
        assert_eq!((seen.code, &seen.stdout), (0, &shipped), "{name}");
        let schema: Value = serde_json::from_str(&shipped).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        assert_eq!(schema["properties"]["format"]["const"], one["number"], "{name}");
    }
}

#[test]
fn an_unknown_schema_is_wrong_use() {
    let scene = Scene::new();
    let (code, answer) = scene.json("schema audits");
    assert_eq!((code, &answer["error"]["message"]), (2, &"unknown schema \"audits\"".into()), "{answer}");
}
