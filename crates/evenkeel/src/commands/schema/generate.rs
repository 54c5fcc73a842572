//! Generates the schemas in docs/schemas from the types,
//! and refuses changes that break readers or writers of the same format.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::compatible::incompatibilities;
use super::formats::{ALL, Format, MakeSchema, types};

/// The schema of a format. It contains types inline, because the name of a type is not part of a format.
fn schema(format: &Format, makers: &[MakeSchema]) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let mut alternatives: Vec<Value> = makers.iter().map(|make| make(&mut generator).to_value()).collect();
    let mut body = match alternatives.len() {
        1 => alternatives.remove(0),
        _ => json!({ "type": "object", "anyOf": alternatives }),
    };
    let definitions = generator.take_definitions(false);
    assert!(definitions.is_empty(), "{}: a recursive type: {:?}", format.name, definitions.keys());
    tidy(&mut body);
    // The comment on the top type is written for developers, so the title replaces it.
    body.as_object_mut().and_then(|map| map.remove("description"));
    let mut root = Map::new();
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), format!("{}, format {}", format.title, format.number).into());
    root.insert("description".into(), "docs/formats.md describes the fields.".into());
    root.insert("type".into(), "object".into());
    for (key, value) in body.as_object_mut().into_iter().flat_map(std::mem::take) {
        root.insert(key, value);
    }
    let fields = root.entry("properties").or_insert_with(|| json!({}));
    fields.as_object_mut().unwrap().insert("format".into(), json!({ "const": format.number }));
    let required = root.entry("required").or_insert_with(|| json!([])).as_array_mut().unwrap();
    required.retain(|name| name != "format");
    required.insert(0, "format".into());
    share(&mut root);
    Value::Object(root)
}

/// The minimum text length of a part that becomes a definition. The part must also occur twice.
const SHARED_BYTES_MIN: usize = 200;

/// Replaces repeated parts by references to `$defs`, the longest part first.
fn share(root: &mut Map<String, Value>) {
    let mut definitions = Map::new();
    loop {
        let mut seen = BTreeMap::new();
        count(&Value::Object(root.clone()), "", &mut seen);
        definitions.iter().for_each(|(name, part)| count(part, name, &mut seen));
        let repeated = seen.iter().filter(|(text, (count, _))| *count > 1 && text.len() >= SHARED_BYTES_MIN);
        let Some((text, (_, key))) = repeated.max_by_key(|(text, _)| (text.len(), *text)) else { break };
        let part: Value = serde_json::from_str(text).unwrap();
        let name = free_name(&part, key, &definitions);
        let reference = json!({ "$ref": format!("#/$defs/{name}") });
        root.values_mut().chain(definitions.values_mut()).for_each(|whole| replace(whole, &part, &reference));
        definitions.insert(name, part);
    }
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
}

/// Counts how often each part occurs, with the field in which it first occurs.
fn count(part: &Value, key: &str, seen: &mut BTreeMap<String, (usize, String)>) {
    match part {
        Value::Object(map) => {
            if map.contains_key("type") || map.contains_key("anyOf") || map.contains_key("oneOf") {
                let (bare, _) = without_description(map);
                seen.entry(bare.to_string()).or_insert((0, key.to_owned())).0 += 1;
            }
            for (name, value) in map {
                match value {
                    Value::Object(fields) if NAMES.contains(&name.as_str()) => {
                        fields.iter().for_each(|(field, value)| count(value, field, seen));
                    }
                    _ => count(value, key, seen),
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| count(part, key, seen)),
        _ => {}
    }
}

/// Splits a schema into its description, which differs by field, and the rest, which can become a shared definition.
fn without_description(map: &Map<String, Value>) -> (Value, Option<Value>) {
    let mut bare = map.clone();
    let description = bare.remove("description");
    (Value::Object(bare), description)
}

fn replace(whole: &mut Value, part: &Value, by: &Value) {
    if let Value::Object(map) = whole {
        let (bare, description) = without_description(map);
        if bare == *part {
            *whole = by.clone();
            set_description(whole, description);
            return;
        }
    }
    match whole {
        Value::Object(map) => map.values_mut().for_each(|value| replace(value, part, by)),
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, part, by)),
        _ => {}
    }
}

fn set_description(schema: &mut Value, description: Option<Value>) {
    if let (Some(map), Some(description)) = (schema.as_object_mut(), description) {
        map.insert("description".to_owned(), description);
    }
}

/// An unused name for a definition. Parts that many formats share have fixed names.
/// Other parts are named after a field.
fn free_name(part: &Value, key: &str, taken: &Map<String, Value>) -> String {
    let has = |field: &str| part["properties"].get(field).is_some();
    let name = match () {
        () if part["oneOf"][0]["properties"].get("unknown").is_some() => "unknown",
        () if has("summary") && has("bars") => "samples",
        () if key.is_empty() => "part",
        () => key,
    };
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    [name.to_owned()].into_iter().chain(numbered).find(|name| !taken.contains_key(name)).unwrap_or_default()
}

/// The same schema with its references replaced by their content.
fn without_references(schema: &Value) -> Value {
    fn resolve(part: &mut Value, definitions: &Value) {
        match part {
            Value::Object(map) => {
                let name = map.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
                if let Some(name) = name {
                    let mut meant = definitions[name].clone();
                    set_description(&mut meant, map.remove("description"));
                    *part = meant;
                    return resolve(part, definitions);
                }
                map.values_mut().for_each(|value| resolve(value, definitions));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| resolve(value, definitions)),
            _ => {}
        }
    }
    let mut whole = schema.clone();
    let definitions = whole.as_object_mut().and_then(|map| map.remove("$defs")).unwrap_or_default();
    resolve(&mut whole, &definitions);
    whole
}

/// Under these keywords, the keys are names in the format, not keywords.
const NAMES: [&str; 2] = ["properties", "patternProperties"];

/// Removes members that are not part of a format, such as the sizes of number types.
/// Converts comments to plain text, and joins the words of an enumeration.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_number = map.get("type").is_some_and(|of| {
                let names: Vec<&str> =
                    of.as_array().into_iter().flatten().chain([of]).filter_map(Value::as_str).collect();
                names.contains(&"integer") || names.contains(&"number")
            });
            map.retain(|key, _| !(["title", "default"].contains(&key.as_str())));
            if let Some(Value::String(comment)) = map.get_mut("description") {
                *comment = plain(comment);
            }
            // Readers of an answer must ignore fields that they do not know.
            map.retain(|key, value| {
                !["additionalProperties", "unevaluatedProperties"].contains(&key.as_str()) || *value != false
            });
            if is_number {
                map.retain(|key, _| !["format", "maximum"].contains(&key.as_str()));
            }
            let since: Vec<String> = map
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .filter(|(_, field)| field.get("x-since").is_some())
                .map(|(name, _)| name.clone())
                .collect();
            if let Some(required) = map.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| !since.iter().any(|since| name == since));
            }
            for (key, value) in map.iter_mut() {
                match value {
                    Value::Object(fields) if NAMES.contains(&key.as_str()) => fields.values_mut().for_each(tidy),
                    _ => tidy(value),
                }
            }
            join_words(map);
        }
        Value::Array(values) => values.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// The first paragraph of a Markdown comment, on one line. Removes links, because they lead to the code.
fn plain(comment: &str) -> String {
    let paragraph = comment.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut plain = String::new();
    let mut rest = line.as_str();
    while let Some((before, link)) = rest.split_once('[') {
        let Some((shown, after)) = link.split_once(']') else { break };
        plain.push_str(before);
        plain.push_str(shown.trim_matches('`').rsplit("::").next().unwrap_or_default());
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    // `None` in Rust is `null` in JSON.
    (plain + rest).replace("`None`", "`null`")
}

/// Converts a `oneOf` of several single words to one `enum`.
fn join_words(map: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = map.get_mut("oneOf") else { return };
    // A word with a description stays a separate alternative.
    let is_bare = |choice: &Value| {
        choice
            .as_object()
            .is_some_and(|map| map.keys().all(|key| ["const", "type", "description"].contains(&key.as_str())))
    };
    let word = |choice: &Value| match choice.get("const") {
        Some(Value::String(word)) if choice["type"] == "string" && is_bare(choice) => vec![word.clone()],
        _ => match choice.get("enum").and_then(Value::as_array) {
            Some(words) if choice["type"] == "string" => {
                words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        },
    };
    let words: Vec<String> = choices.iter().flat_map(word).collect();
    if words.is_empty() {
        return;
    }
    choices.retain(|choice| word(choice).is_empty());
    let joined = json!({ "type": "string", "enum": words });
    if choices.is_empty() {
        map.remove("oneOf");
        map.extend(joined.as_object().cloned().into_iter().flatten());
    } else {
        choices.insert(0, joined);
    }
}

/// The text of a schema file. Its lines are short, so that differences are readable.
/// It has little white space, because the program contains the file.
fn text(schema: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    schema.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter)).unwrap();
    String::from_utf8(bytes).unwrap() + "\n"
}

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/schemas", name].iter().collect()
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for (format, makers) in ALL.iter().zip(types()) {
        let name = format!("{}-v{}.json", format.name, format.number);
        let new = schema(format, &makers);
        let text = text(&new);
        let old = fs::read_to_string(file(&name)).unwrap();
        if text == old {
            continue;
        }
        // An empty file means that the format is new.
        let broken = match old.trim() {
            "" => Vec::new(),
            old => {
                let old = serde_json::from_str(old).unwrap();
                incompatibilities(&without_references(&old), &without_references(&new))
            }
        };
        match (broken.is_empty(), is_update) {
            (true, true) => fs::write(file(&name), text).unwrap(),
            (true, false) => wrong.push(format!("docs/schemas/{name} is out of date: UPDATE_EXPECT=1 regenerates it")),
            (false, _) => wrong
                .push(format!("docs/schemas/{name}: the change needs a new format number:\n  {}", broken.join("\n  "))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_schema_file_is_listed() {
    let listed: Vec<String> = ALL.iter().map(|format| format!("{}-v{}.json", format.name, format.number)).collect();
    for entry in fs::read_dir(file("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (of, _) = name.rsplit_once("-v").unwrap();
        assert!(ALL.iter().any(|format| format.name == of), "{name} belongs to no format");
        // Schemas of older format numbers stay, because files in these formats still exist.
        assert!(listed.contains(&name) || is_older(&name), "{name}");
    }
}

fn is_older(name: &str) -> bool {
    let (of, number) = name.trim_end_matches(".json").rsplit_once("-v").unwrap();
    ALL.iter().any(|format| format.name == of && number.parse::<u32>().unwrap() < format.number)
}

#[test]
fn repeated_parts_are_shared_and_mean_the_same() {
    let with = |mut part: Value, about: &str| {
        set_description(&mut part, Some(about.into()));
        part
    };
    let part = json!({ "type": "object", "properties": { "a_long_name_of_a_field": { "type": "string" }, "b": { "enum": vec!["word"; 40] } } });
    let whole = json!({ "type": "object", "properties": { "x": with(part.clone(), "the first"), "y": { "type": "array", "items": part } } });
    let mut shared = whole.as_object().unwrap().clone();
    share(&mut shared);
    assert_eq!(shared["properties"]["x"], json!({ "$ref": "#/$defs/x", "description": "the first" }));
    assert_eq!(shared["properties"]["y"]["items"], json!({ "$ref": "#/$defs/x" }));
    assert_eq!(without_references(&Value::Object(shared)), whole);
}

#[test]
fn a_comment_becomes_plain_text() {
    for (comment, expected) in [
        ("How many.", "How many."),
        (
            "In order,\n as [`Pair::order`] says; see [the page](../x.md).\n\nMore.",
            "In order, as order says; see the page.",
        ),
        ("An interval [low, high", "An interval [low, high"),
        ("The CPU; `None` if it is gone.", "The CPU; `null` if it is gone."),
    ] {
        assert_eq!(plain(comment), expected);
    }
}
