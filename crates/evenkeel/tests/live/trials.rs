//! Real trials on real servers, from start to end.
//! An ordinary user proves the one setting that has a large effect on many machines. The demo runs too.
//! The results depend on the machine, unless the effect is known.

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;
use evenkeel_testkit::live::not_judged;
use serde_json::Value;
use std::process::Output;

use crate::bare::Bare;
use crate::scene::{Scene, json, said};

#[test]
fn an_ordinary_user_proves_a_knob_of_the_servers_process() {
    let scene = Scene::of_host();
    // This slack is a hundred times the default slack, so each tick may begin 5 ms late.
    let line = "prove process.timer_slack_ns=5000000 --window-ms 200 --control-pairs 2 --settle 20ms --smallest-effect 50 \
                --guard none --budget 60s --seed 3 --json";
    let bare = Bare::start();
    let answer = json(&scene.run_as_ordinary_user(line));
    scene.assert_all_as_before();
    if answer["ended"] == "out-of-spares" {
        return bare.excuses(&answer["dropped"]);
    }
    assert_eq!(answer["metric"]["name"], "tick_lateness_us_p50");
    for window in answer["windows"].as_array().unwrap() {
        assert!(window["sample"]["ticks"].as_f64().unwrap() > 0.0);
        assert!(window["conditions"]["span_us"].as_f64().unwrap() >= 200_000.0);
    }
    assert_eq!(answer["mechanism"][0]["engaged"], "yes", "the slack is read back in every window");
    assert_eq!((&answer["verdict"], &answer["ended"]), (&"worse".into(), &"decided".into()), "{answer}");
    assert!(answer["effect"]["ratio"].as_f64().unwrap() > 2.0, "{}", answer["effect"]);
    assert!(answer["pairs"].as_u64().unwrap() <= 20, "{} pairs", answer["pairs"]);
}

#[test]
fn halt_polling_is_found_where_the_machine_has_it() {
    let facts = Facts::probe(&Root::live());
    if facts.idle.driver.known().is_none_or(|driver| driver != "haltpoll") {
        return not_judged(format_args!("the idle driver here is {}, not haltpoll", facts.idle.driver));
    }
    if !evenkeel_sys::process::is_root() {
        return not_judged("a trial of halt polling needs root");
    }
    let scene = Scene::of_host();
    let bare = Bare::start();
    let answer = json(&scene.run("prove haltpoll.guest_halt_poll_ns=200000 --window-ms 300 --budget 90s --json"));
    scene.assert_all_as_before();
    if answer["ended"] == "out-of-spares" {
        return bare.excuses(&answer["dropped"]);
    }
    if answer["verdict"] == "not-engaged" {
        return not_judged(format_args!("it was not engaged: {}", answer["caveats"]));
    }
    assert_eq!(answer["verdict"], "better", "after {} pairs: {}", answer["pairs"], answer["caveats"]);
}

fn check_demo(scene: &Scene, output: &Output, proved: &[&str]) {
    let printed = String::from_utf8_lossy(&output.stdout);
    // With only a few pairs, a noisy machine may leave the A/A check undecided. Then the exit code is 1.
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{printed}{}", said(output));
    assert!(printed.contains("read as before"), "{printed}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(scene.path("out/report.json")).unwrap()).unwrap();
    assert_eq!(report["format"], 1);
    assert_eq!(report["all_as_before"], true);
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.iter().map(|trial| trial["control"].as_bool()).collect::<Vec<_>>(), [Some(true), Some(false)]);
    let knob = trials[1]["knob"].as_str().unwrap().split('=').next().unwrap();
    assert!(proved.contains(&knob), "{knob}");
    assert!(report["not_tried"].as_array().is_some_and(|not_tried| !not_tried.is_empty()), "{printed}");
    let page = std::fs::read_to_string(scene.path("out/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("</html>"));
    for outside in ["src=\"http", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(outside), "the page needs the network: {outside}");
    }
    scene.assert_all_as_before();
}

#[test]
fn demo_as_an_ordinary_user() {
    let scene = Scene::of_host();
    let output = scene.run_as_ordinary_user("demo --pairs 6 --out out");
    check_demo(&scene, &output, &["process.timer_slack_ns"]);
}

#[test]
fn demo_as_root() {
    if !evenkeel_sys::process::is_root() {
        return not_judged("the demo of a knob of the host needs root");
    }
    let scene = Scene::of_host();
    let output = scene.run("demo --pairs 6 --out out");
    check_demo(&scene, &output, &["haltpoll.guest_halt_poll_ns", "cpuidle.dma_latency_us", "process.timer_slack_ns"]);
}
