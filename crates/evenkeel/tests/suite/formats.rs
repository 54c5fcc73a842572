//! docs/formats.md must be correct: its examples are excerpts of real answers, and it describes every field.

use std::collections::BTreeSet;

use evenkeel_hostfs::Capture;
use serde_json::Value;

use crate::support::Scene;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md"));

/// The code blocks of the page: the words after the opening backticks, and the text.
fn blocks() -> impl Iterator<Item = (&'static str, &'static str)> {
    // Every second part is inside a code block.
    PAGE.split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap())
}

#[test]
fn examples_are_excerpts_of_real_answers() {
    let scene = Scene::new();
    let mut commands = BTreeSet::new();
    for (words, text) in blocks() {
        let Some(line) = words.strip_prefix("json evenkeel ") else { continue };
        let example: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (_, answer) = scene.json(line);
        assert!(holds(&answer, &example), "{line}\n{example:#}\nis no excerpt of\n{answer:#}");
        for field in fields(&answer).into_iter().chain(answer.as_object().unwrap().keys().cloned()) {
            assert!(PAGE.contains(&format!("`{field}`")) || PAGE.contains(&format!("\"{field}\"")), "{line}: {field}");
        }
        commands.insert(line.split_whitespace().next().unwrap());
    }
    let all =
        ["apply", "audit", "capture", "diff", "explain", "history", "inspect", "plan", "revert", "script", "verify"];
    assert_eq!(commands, BTreeSet::from(all));
}

/// Whether `part` equals `whole`, except that fields and elements may be missing.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| holds(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| holds(whole, part)))
        }
        (whole, part) => whole == part,
    }
}

/// Fields whose value is a map with keys from the machine.
const MAPS: [&str; 2] = ["losses", "by_cpu"];

/// The names of all fields at any depth. A key that is the path of a file does not count as a name.
fn fields(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(map) => {
            let own = map.keys().filter(|name| !name.starts_with('/')).cloned();
            let below = map.iter().filter(|(name, _)| !MAPS.contains(&name.as_str())).map(|(_, value)| value);
            own.chain(below.flat_map(fields)).collect()
        }
        Value::Array(values) => values.iter().flat_map(fields).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn excerpts_are_recognised() {
    let whole = serde_json::json!({"a": [{"b": 1, "c": 2}], "d": null});
    for (part, expected) in [
        (serde_json::json!({"a": [{"c": 2}]}), true),
        (serde_json::json!({"a": [{"c": 3}]}), false),
        (serde_json::json!({"e": null}), false),
    ] {
        assert_eq!(holds(&whole, &part), expected, "{part}");
    }
    assert_eq!(fields(&whole), BTreeSet::from(["a", "b", "c", "d"].map(str::to_owned)));
}

#[test]
fn the_capture_on_the_page_is_one() {
    let (_, text) = blocks().find(|(words, _)| *words == "text capture").unwrap();
    let capture = Capture::parse(text).unwrap();
    // The example must have a line of every kind, and all of its lines must remain.
    assert_eq!(capture.to_string().lines().count(), text.lines().count() - 1, "the comment alone is dropped");
}

#[test]
fn the_journal_on_the_page_is_one() {
    let scene = Scene::new();
    assert_eq!(scene.run("apply vm.swappiness=10 --host host.txt --state state").code, 0);
    let (_, text) = blocks().find(|(words, _)| *words == "text journal").unwrap();
    // The note next to the journal belongs to the old journal, which this test has replaced.
    std::fs::remove_file(scene.path("state/journal.last-record")).unwrap();
    scene.write("state/journal", text.to_owned() + "\n");
    let (code, answer) = scene.json("history --state state");
    assert_eq!((code, &answer["transactions"][0]["title"]), (0, &Value::from("vm.swappiness=10")), "{answer}");
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let help = Scene::new().run("--help").stdout;
    let codes: Vec<&str> = help.split("Exit codes:\n").nth(1).unwrap().lines().collect();
    assert_eq!(codes.len(), 9);
    for line in codes {
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        assert!(PAGE.contains(&format!("| {code} | {meaning} |")), "{line}");
    }
}
