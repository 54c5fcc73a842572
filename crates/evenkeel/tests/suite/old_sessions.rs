//! The current program continues sessions and a search that the program of 2026-11-24 began.
//! Each file ends in the middle of a line. The resumed runs must give the same results as the old program.

use std::fs;

use serde_json::Value;

use crate::scene::{Scene, json as answer_of};

const TWO: &str = include_str!("sessions/prove-format-1.jsonl");
const THREE: &str = include_str!("sessions/prove-format-2.jsonl");
const SEARCH: &str = include_str!("sessions/tune-format-1.jsonl");

fn scene() -> Scene {
    let scene = Scene::new();
    let effects = |script: &str| serde_json::from_str::<Value>(script).unwrap();
    scene.script(&effects(
        r#"{"effects": [{"of": "process.timer_slack_ns", "value": "1", "ratio": 0.7},
                        {"of": "process.timer_slack_ns", "value": "5000000", "ratio": 1.2}]}"#,
    ));
    scene
}

fn ratio(effect: &Value) -> String {
    format!("{:.9}", effect["ratio"].as_f64().unwrap())
}

/// The number of windows of pairs in the complete lines of a session.
fn windows_of(session: &str) -> usize {
    let lines = session.lines().filter(|line| line.starts_with("{\"pair\":[") && line.ends_with("]}"));
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["pair"].as_array().unwrap().len()).sum()
}

#[test]
fn a_session_of_two_arms_goes_on() {
    let scene = scene();
    fs::write(scene.path("old.jsonl"), TWO).unwrap();
    let kept = answer_of(&scene.run("prove report old.jsonl --json"));
    assert_eq!((&kept["ended"], &kept["pairs"], windows_of(TWO)), (&"cut-off".into(), &4.into(), 8));
    let answer = answer_of(&scene.run("prove resume old.jsonl --workload simulated --set script=script.json --json"));
    assert_eq!(
        (&answer["ended"], &answer["pairs"], &answer["verdict"]),
        (&"whole".into(), &8.into(), &"better".into())
    );
    assert_eq!(ratio(&answer["effect"]), "0.765601827");
    assert_eq!(
        answer["windows"].as_array().unwrap()[..8],
        kept["windows"].as_array().unwrap()[..],
        "what was measured counts"
    );
    let again = answer_of(&scene.run("prove report old.jsonl --json"));
    assert_eq!(again["windows"], answer["windows"], "the file has what the run reported");
}

#[test]
fn a_session_of_three_arms_goes_on() {
    let scene = scene();
    fs::write(scene.path("old.jsonl"), THREE).unwrap();
    assert_eq!(windows_of(THREE), 12);
    let answer = answer_of(&scene.run("prove resume old.jsonl --workload simulated --set script=script.json --json"));
    let trials = answer["trials"].as_array().unwrap();
    let seen: Vec<(&Value, &Value, String)> =
        trials.iter().map(|trial| (&trial["verdict"], &trial["pairs"], ratio(&trial["effect"]))).collect();
    let (better, worse, pairs) = (Value::from("better"), Value::from("worse"), Value::from(8));
    assert_eq!(seen, [(&better, &pairs, "0.738349809".to_owned()), (&worse, &pairs, "1.305650645".to_owned())]);
    assert_eq!(answer["choice"]["advised"], "B");
    assert_eq!(ratio(&answer["choice"]["between"][0]["effect"]), "1.741317619");
}

#[test]
fn a_search_goes_on() {
    let scene = scene();
    fs::write(
        scene.path("tune.json"),
        r#"{"effects": [{"of": "process.timer_slack_ns", "value": "1", "ratio": 0.7}]}"#,
    )
    .unwrap();
    fs::write(scene.path("old.jsonl"), SEARCH).unwrap();
    let answer = answer_of(&scene.run("tune resume ./old.jsonl --json --out goal.json"));
    assert_eq!((&answer["verdict"], &answer["ended"]), (&"better".into(), &"whole".into()), "{answer}");
    assert_eq!(ratio(&answer["effect"]), "0.710468355");
    assert_eq!((ratio(&answer["guards"][0]), &answer["guards"][0]["pairs"]), ("0.718388165".to_owned(), &7.into()));
    let windows = serde_json::json!({"baseline": 8, "confirm": 14, "ladder": 8, "screen": 64});
    assert_eq!(answer["windows"], windows, "no window is measured twice");
}
