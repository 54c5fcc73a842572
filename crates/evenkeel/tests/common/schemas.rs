//! Checks answers against the schemas in docs/schemas.
//! The tests are stricter than a schema: they refuse fields that the schema does not name.

#![allow(dead_code, reason = "each of the two programs uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

/// A schema that refuses fields without a definition in the schema.
struct Strict {
    validator: Validator,
}

/// The schemas by the name that `evenkeel schema` lists. If a schema has several versions, the map has the newest.
fn schemas() -> &'static BTreeMap<String, Strict> {
    static SCHEMAS: OnceLock<BTreeMap<String, Strict>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../docs/schemas"].iter().collect();
        let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = |path: PathBuf| {
            let mut schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let definitions = schema.as_object_mut().unwrap().remove("$defs").unwrap_or_default();
            resolve(&mut schema, &definitions);
            make_strict(&mut schema, false);
            let name = path.file_stem().unwrap().to_str().unwrap().rsplit_once("-v").unwrap().0.to_owned();
            (name, Strict { validator: jsonschema::validator_for(&schema).unwrap() })
        };
        files.into_iter().map(read).collect()
    })
}

/// Replaces references by the definitions. Whether a definition may be strict depends on the place that uses it.
fn resolve(part: &mut Value, definitions: &Value) {
    match part {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/")) {
                *part = definitions[name].clone();
                return resolve(part, definitions);
            }
            map.values_mut().for_each(|value| resolve(value, definitions));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| resolve(value, definitions)),
        _ => {}
    }
}

/// Makes a schema refuse fields that it does not name.
/// If several schemas describe one object, none of them may refuse the fields of the others.
fn make_strict(schema: &mut Value, is_beside_others: bool) {
    let Some(map) = schema.as_object_mut() else { return };
    let is_object = ["properties", "anyOf", "oneOf", "allOf"].iter().any(|key| map.contains_key(*key));
    if !is_beside_others
        && is_object
        && !map.contains_key("additionalProperties")
        && !map.contains_key("patternProperties")
    {
        map.insert("unevaluatedProperties".to_owned(), false.into());
    }
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(fields)) => {
                fields.values_mut().for_each(|field| make_strict(field, false))
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(parts)) => {
                parts.iter_mut().for_each(|part| make_strict(part, true));
            }
            ("prefixItems", Value::Array(items)) => items.iter_mut().for_each(|item| make_strict(item, false)),
            ("items" | "additionalProperties", value) => make_strict(value, false),
            _ => {}
        }
    }
}

/// Fails unless the answer to a command line follows its schema.
pub(crate) fn check(line: &str, answer: &Value) {
    let name = if answer.get("error").is_some() { "error".to_owned() } else { name_of(line) };
    check_as(&name, answer);
}

/// Fails unless the answer follows the schema of that name.
pub(crate) fn check_as(name: &str, answer: &Value) {
    let schema = schemas().get(name).unwrap_or_else(|| panic!("no schema {name}"));
    let errors: Vec<String> =
        schema.validator.iter_errors(answer).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "the answer does not follow docs/schemas/{name}:\n{}\n{answer:#}", errors.join("\n"));
}

/// Fails unless the answer follows at least one of the schemas. For callers that do not know the command line.
pub(crate) fn check_any(answer: &Value) {
    let follows = schemas().values().any(|schema| schema.validator.is_valid(answer));
    assert!(follows, "the answer follows no schema in docs/schemas:\n{answer:#}");
}

/// The name of the schema for a command line: the longest name with which its words begin.
fn name_of(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "--json").take(3).collect();
    match (words.first(), words.join("-").as_str()) {
        (_, "prove-boots-start") => return "prove-boots-plan".to_owned(),
        (Some(&"demo"), _) => return "report".to_owned(),
        _ => {}
    }
    let names = (1..=words.len()).rev().map(|count| words[..count].join("-"));
    names.into_iter().find(|name| schemas().contains_key(name)).unwrap_or_else(|| panic!("{line}: no schema"))
}

/// Parses the answer in this text. The answer must follow the schema of that name.
pub(crate) fn parse(name: &str, text: impl AsRef<[u8]>) -> Value {
    let text = text.as_ref();
    let answer =
        serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    check_as(name, &answer);
    answer
}
