//! `prove` keeps its budget. If it accepts a budget, it answers within the budget.
//! Otherwise it refuses, and names a budget that is long enough.
//! The simulated servers settle slowly, are noisy, lose windows, or take long to switch.

use evenkeel_stats::VALUE_RANGE;
use serde_json::{Value, json};

use crate::scene::{Scene, json as answer_of, said};

const SLACK: &str = "prove process.timer_slack_ns=1 --workload simulated --set script=script.json";

/// A simulated server, and its `--set` options.
struct Server {
    name: &'static str,
    script: Value,
    noise_percent: u32,
}

fn servers() -> Vec<Server> {
    let slower = |ratio: f64| json!([{"of": "process.timer_slack_ns", "value": "1", "ratio": ratio}]);
    let server = |name, script, noise_percent| Server { name, script, noise_percent };
    vec![
        server("quiet", json!({"effects": slower(1.0)}), 4),
        server("noisy", json!({"effects": slower(1.02)}), 60),
        server("settles in a second", json!({"settles": {"ratio": 2.0, "ms": 300.0}}), 4),
        server("settles in a minute", json!({"settles": {"ratio": 3.0, "ms": 20_000.0}}), 4),
        server("switches slowly", json!({"effects": slower(1.02), "switch_ms": 700}), 20),
        // A rule drops some of the windows of this server.
        server(
            "pauses",
            json!({"events": (0..200).map(|at| json!({"window": 5 + 41 * at, "gap_ms": 100.0})).collect::<Vec<_>>()}),
            30,
        ),
        // Every window takes a tenth longer than planned.
        server("drags on", json!({"events": [{"window": 1, "until": 100_000, "overrun_ms": 100}]}), 30),
    ]
}

/// The end of the last window, in seconds since the first switch.
/// The time to settle before the first window does not count.
fn took_s(answer: &Value) -> f64 {
    let control = answer["control_stretch"]["windows"].as_array().cloned().unwrap_or_default();
    let windows = answer["windows"].as_array().unwrap().iter().chain(&control);
    let end = |window: &Value| window["start_us"].as_f64().unwrap() + window["conditions"]["span_us"].as_f64().unwrap();
    windows.map(end).fold(0.0, f64::max) / 1e6
}

/// The minimum budget that a refusal names.
fn least_in(text: &str) -> u64 {
    let after = text.split("use at least --budget ").nth(1).unwrap_or_else(|| panic!("{text}"));
    after.split('s').next().unwrap().parse().unwrap()
}

#[test]
fn what_is_accepted_is_answered_in_its_time() {
    let scene = Scene::new();
    let (mut accepted, mut refused) = (0, 0);
    for Server { name, script, noise_percent } in servers() {
        scene.script(&script);
        for window_ms in [200, 1000, 3000] {
            for budget_s in [10, 30, 60, 90] {
                let line = format!(
                    "{SLACK} --set noise-percent={noise_percent} --window-ms {window_ms} --seed {} --json",
                    budget_s + window_ms
                );
                let mut output = scene.run(&format!("{line} --budget {budget_s}s"));
                let (mut given_s, mut what) = (budget_s, format!("{name}, windows of {window_ms} ms, {budget_s} s"));
                // The duration of a switch is unknown before the first switch.
                // After it, the minimum budget may change, so try twice.
                for _ in 0..2 {
                    if output.status.code() == Some(2) {
                        refused += 1;
                        let least = least_in(&said(&output));
                        assert!(least > given_s, "{what}: {}", said(&output));
                        (given_s, what) = (least, format!("{what}, with {least} s instead"));
                        output = scene.run(&format!("{line} --budget {least}s"));
                    }
                }
                accepted += 1;
                assert_answered(&answer_of(&output), given_s, &what);
            }
        }
    }
    assert!(accepted == 84 && (20..60).contains(&refused), "{accepted} accepted, {refused} refused");
}

fn assert_answered(answer: &Value, budget_s: u64, what: &str) {
    let (ended, pairs) = (&answer["ended"], answer["pairs"].as_u64());
    let pairs = pairs.unwrap_or_else(|| panic!("{what}: {}", answer["error"]));
    assert!(pairs >= 5, "{what}: {pairs} pairs, ended {ended}");
    let ends = ["decided", "out-of-time", "whole", "out-of-spares"];
    assert!(ends.iter().any(|end| ended == end), "{what}: {ended}");
    let took = took_s(answer);
    assert!(took <= 1.25 * budget_s as f64, "{what}: took {took} s");
    // The trial must use the remaining time, unless it has a decision or all its pairs.
    assert!(answer["ended"] != "out-of-time" || took >= 0.75 * budget_s as f64, "{what}: took {took} s");
    let ratio = answer["effect"]["ratio"].as_f64().unwrap();
    assert!(VALUE_RANGE.contains(&ratio), "{what}: {ratio}");
}

/// The trial takes the time that it announced.
#[test]
fn the_announced_time_is_the_time_taken() {
    let scene = Scene::new();
    scene.script(&json!({}));
    for (options, expected) in [
        // The trial has six pairs and ten A/A pairs of 1.2 s each, after 12 s in which the server settles.
        ("--pairs 6 --fixed", "about 50 s"),
        ("--pairs 6 --fixed --control-pairs 0", "about 26 s"),
        ("--pairs 6 --fixed --control-pairs 0 --settle 50ms", "about 14 s"),
        ("--pairs 40 --fixed --window-ms 500 --turns 1", "about 61 s"),
    ] {
        let output = scene.run(&format!("{SLACK} {options} --seed 4"));
        let announced = said(&output).lines().find(|line| line.starts_with("about ")).map(str::to_owned);
        let announced = announced.unwrap_or_else(|| String::from_utf8_lossy(&output.stdout).into_owned());
        assert!(announced.contains(expected), "{options}: {announced}{}", said(&output));
        let answer = answer_of(&scene.run(&format!("{SLACK} {options} --seed 4 --json")));
        let announced_s: f64 = expected.split(' ').nth(1).unwrap().parse().unwrap();
        let took = took_s(&answer);
        assert!((0.75..1.25).contains(&(took / announced_s)), "{options}: announced {announced_s} s, took {took} s");
    }
    // If the server settles slowly, the trial takes longer. The trial reports this as soon as it knows.
    scene.script(&json!({"settles": {"ratio": 3.0, "ms": 900.0}}));
    let output = scene.run(&format!("{SLACK} --pairs 20 --fixed --seed 4"));
    assert!(said(&output).contains("the server settles slowly after a switch: "), "{}", said(&output));
}

#[test]
fn a_slow_switch_is_refused_before_the_first_window() {
    let scene = Scene::new();
    scene.script(&json!({"switch_ms": 4000}));
    let output = scene.run(&format!("{SLACK} --budget 60s"));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let expected = "finish a trial within 60 s: it needs at least 139 s, because each switch takes 4.0 s";
    assert!(said(&output).contains(expected), "{}", said(&output));
    assert_eq!(least_in(&said(&output)), 139);
}
