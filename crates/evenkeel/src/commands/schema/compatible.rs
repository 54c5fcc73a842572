//! Finds the parts of a changed schema that are incompatible under the same format number.
//! They would break programs that read the answers, or existing files.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Lists all incompatibilities of `new` with `old`. New optional fields, new words and new alternatives are compatible.
pub(super) fn incompatibilities(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(old, new, "", &mut found);
    found
}

fn compare(old: &Value, new: &Value, at: &str, found: &mut Vec<String>) {
    let (old_choices, new_choices) = (choices(old), choices(new));
    if let ([old], [new]) = (&old_choices[..], &new_choices[..]) {
        return one(old, new, at, found);
    }
    let types = |choices: &[Value]| choices.iter().flat_map(|one| set(one, "type")).collect::<BTreeSet<String>>();
    let (old_types, new_types) = (types(&old_choices), types(&new_choices));
    if old_types != new_types {
        found.push(format!("{}: its types were {old_types:?} and are {new_types:?}", name(at)));
    }
    for old in &old_choices {
        // If no alternative fits, report the error of the nearest alternative, because it is the most useful.
        let tried = new_choices.iter().map(|new| {
            let mut found = Vec::new();
            one(old, new, at, &mut found);
            found
        });
        found.extend(tried.min_by_key(Vec::len).unwrap_or_default());
    }
}

/// The alternatives of a schema. Each alternative also gets the keywords that stand next to the list of alternatives.
fn choices(schema: &Value) -> Vec<Value> {
    let Some(map) = schema.as_object() else { return vec![schema.clone()] };
    for key in ["oneOf", "anyOf"] {
        if let Some(Value::Array(alternatives)) = map.get(key) {
            let common: Map<String, Value> = map
                .iter()
                .filter(|(name, _)| *name != key)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            return alternatives.iter().flat_map(|one| choices(&joined(&common, one))).collect();
        }
    }
    vec![schema.clone()]
}

fn joined(common: &Map<String, Value>, one: &Value) -> Value {
    let mut whole = common.clone();
    for (key, value) in one.as_object().into_iter().flatten() {
        match (whole.get_mut(key), value) {
            (Some(Value::Object(have)), Value::Object(more)) => have.extend(more.clone()),
            (Some(Value::Array(have)), Value::Array(more)) if key == "required" => have.extend(more.clone()),
            _ => drop(whole.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(whole)
}

fn one(old: &Value, new: &Value, at: &str, found: &mut Vec<String>) {
    let (words, types) = (|schema: &Value| set(schema, "enum"), |schema: &Value| set(schema, "type"));
    if types(old) != types(new) {
        found.push(format!("{}: its type was {:?} and is {:?}", name(at), types(old), types(new)));
        return;
    }
    if old.get("const") != new.get("const") {
        found.push(format!("{}: it was {} and is {}", name(at), old["const"], new["const"]));
    }
    for word in words(old).difference(&words(new)) {
        found.push(format!("{}: the value {word} is gone", name(at)));
    }
    fields(old, new, at, found);
    for key in ["items", "additionalProperties"] {
        match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => compare(old, new, &format!("{at}[]"), found),
            (None, None) => {}
            _ => found.push(format!("{}: only one of the two schemas has {key}", name(at))),
        }
    }
    let tuple = |schema: &Value| schema.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default();
    let (old, new) = (tuple(old), tuple(new));
    if old.len() != new.len() {
        found.push(format!("{}: it had {} elements and has {}", name(at), old.len(), new.len()));
    }
    for (index, (old, new)) in old.iter().zip(&new).enumerate() {
        compare(old, new, &format!("{at}[{index}]"), found);
    }
}

fn fields(old: &Value, new: &Value, at: &str, found: &mut Vec<String>) {
    let of = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (old_fields, new_fields) = (of(old), of(new));
    for (field, old) in &old_fields {
        let at = format!("{at}/{field}");
        match new_fields.get(field) {
            Some(new) => compare(old, new, &at, found),
            None => found.push(format!("{at}: the field is gone")),
        }
    }
    let (old_required, new_required) = (set(old, "required"), set(new, "required"));
    for field in old_required.difference(&new_required).filter(|field| new_fields.contains_key(*field)) {
        found.push(format!("{at}/{field}: an answer always had the field, and may lack it now"));
    }
    for field in new_required.difference(&old_required) {
        found.push(format!(
            "{at}/{field}: the field is newly required, and older answers of this format lack it: \
             mark it #[schemars(extend(\"x-since\" = \"VERSION\"))]"
        ));
    }
}

fn set(schema: &Value, key: &str) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match schema.get(key) {
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        Some(value) => BTreeSet::from([text(value)]),
        None => BTreeSet::new(),
    }
}

fn name(at: &str) -> &str {
    if at.is_empty() { "the whole" } else { at }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(old: &Value, new: &Value, expected: Expect) {
        expected.assert_eq(&incompatibilities(old, new).join("\n"));
    }

    fn object(fields: Value, required: &[&str]) -> Value {
        json!({ "type": "object", "properties": fields, "required": required })
    }

    #[test]
    fn additions_are_compatible() {
        let old = object(json!({ "a": { "enum": ["x"], "type": "string" } }), &["a"]);
        let new = object(json!({ "a": { "enum": ["x", "y"], "type": "string" }, "b": { "type": "integer" } }), &["a"]);
        check(&old, &new, expect![""]);
        let other = object(json!({ "c": { "type": "integer" } }), &["c"]);
        check(&old, &json!({ "anyOf": [other, new] }), expect![""]);
    }

    #[test]
    fn descriptions_are_no_part_of_a_format() {
        let of = |about: &str| object(json!({ "a": { "type": "integer", "description": about } }), &["a"]);
        check(&of("How many."), &of("The number of them."), expect![""]);
        check(&of("How many."), &object(json!({ "a": { "type": "integer" } }), &["a"]), expect![""]);
    }

    #[test]
    fn removals_changes_and_demands_are_found() {
        let old = object(
            json!({ "a": { "type": "integer" }, "b": { "type": "array", "items": { "enum": ["x", "y"] } } }),
            &["a"],
        );
        check(&old, &object(json!({ "b": old["properties"]["b"] }), &[]), expect!["/a: the field is gone"]);
        let text = object(json!({ "a": { "type": "string" }, "b": old["properties"]["b"] }), &["a"]);
        check(&old, &text, expect![[r#"/a: its type was {"integer"} and is {"string"}"#]]);
        let mut null = old.clone();
        null["properties"]["a"]["type"] = json!(["integer", "null"]);
        check(&old, &null, expect![[r#"/a: its type was {"integer"} and is {"integer", "null"}"#]]);
        let other = json!({ "anyOf": [old, { "type": "null" }] });
        check(&old, &other, expect![[r#"the whole: its types were {"object"} and are {"null", "object"}"#]]);
        let mut words = old.clone();
        words["properties"]["b"]["items"]["enum"] = json!(["y"]);
        check(&old, &words, expect!["/b[]: the value x is gone"]);
        let fields = old["properties"].clone();
        check(&old, &object(fields.clone(), &[]), expect!["/a: an answer always had the field, and may lack it now"]);
        check(
            &old,
            &object(fields, &["a", "b"]),
            expect![[
                r#"/b: the field is newly required, and older answers of this format lack it: mark it #[schemars(extend("x-since" = "VERSION"))]"#
            ]],
        );
        let number = |number: u32| object(json!({ "format": { "const": number } }), &["format"]);
        check(&number(1), &number(2), expect!["/format: it was 1 and is 2"]);
    }

    #[test]
    fn alternatives_are_compared_with_the_nearest() {
        let variant = |kind: &str, field: &str| {
            object(json!({ "kind": { "const": kind }, field: { "type": "string" } }), &["kind", field])
        };
        let old = json!({ "oneOf": [variant("a", "x"), variant("b", "y")] });
        let new = json!({ "oneOf": [variant("b", "y"), variant("c", "z"), variant("a", "x")] });
        check(&old, &new, expect![""]);
        check(
            &new,
            &old,
            expect![[r#"
                /kind: it was "c" and is "a"
                /z: the field is gone
                /x: the field is newly required, and older answers of this format lack it: mark it #[schemars(extend("x-since" = "VERSION"))]"#]],
        );
    }
}
