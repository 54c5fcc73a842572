//! Tests `tune` on a simulated server: its refusals, and searches that are killed, restored and resumed.
//! No real time passes, so a search takes a fraction of a second. The settings of the host are real.

use std::collections::BTreeSet;
use std::fs;

use evenkeel_testkit::needs_root;
use evenkeel_trial::search::{Budget, Candidate, Header, Log, SearchDesign};
use evenkeel_workload::Metric;
use serde_json::{Value, json};

use crate::scene::{Finished, Running, Scene, json as answer_of, said};
use crate::schemas;

const FILES: [&str; 2] = ["/proc/sys/vm/swappiness", "/proc/sys/vm/stat_interval"];

/// A script in which the server is faster with two settings, one of the host and one of its own process.
fn tunable() -> Value {
    json!({"effects": [
        {"of": "/proc/sys/vm/swappiness", "value": "31", "ratio": 0.7},
        {"of": "process.timer_slack_ns", "value": "1", "ratio": 0.7},
    ]})
}

#[test]
fn the_result_is_printed_and_stored_if_the_goal_cannot_be_written() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    scene.script(&tunable());
    let asked = "--knobs vm.swappiness=31 process.timer_slack_ns=1 --budget 60s --window-ms 100 --settle-ms 20 --seed 3 \
                 --workload simulated --set script=script.json --set noise-percent=1";
    let output = scene.run(&format!("tune {asked} --out /dev/full"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{stdout}{}", said(&output));
    assert!(stdout.contains("better: with 2 knobs, ") && stdout.contains("vm.swappiness=31"), "{stdout}");
    let again = format!("`evenkeel tune resume --state {} --out FILE`", scene.path("state").display());
    for expected in ["write /dev/full: no space left on device", &again] {
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    let log = || fs::read_to_string(scene.path("state").join("tune.jsonl")).unwrap();
    let measured = log();
    // With `--json`, the output is one document even after a failed write.
    // It names the file that evenkeel could not write.
    let output = scene.run("tune resume --json --out /dev/full");
    let answer = schemas::parse("tune", &output.stdout);
    assert_eq!((output.status.code(), &answer["verdict"]), (Some(4), &"better".into()), "{answer}");
    assert!(answer["notes"][0].as_str().unwrap().contains("write /dev/full: "), "{answer}");
    // On resume, the user may repeat the original workload, but add nothing else.
    for (other, expected) in [
        ("--budget 5s", "takes no option \"--budget\""),
        ("--metric cpu_share", "takes no option \"--metric\""),
        ("--knobs vm.swappiness=31", "takes no option \"--knobs\""),
        ("--guard cpu_share", "takes no option \"--guard\""),
        ("--smallest-effect 7", "takes no option \"--smallest-effect\""),
        ("--workload tick", "but you named --workload tick"),
    ] {
        let output = scene.command("tune resume").args(other.split(' ')).output().unwrap();
        assert!(said(&output).contains(expected), "{other}: {}", said(&output));
        assert_eq!(output.status.code(), Some(2), "{other}");
    }
    let (_, workload) = asked.split_once("--workload ").unwrap();
    let output = scene.run(&format!("tune resume --json --out goal.json --workload {workload}"));
    let answer = schemas::parse("tune", &output.stdout);
    assert_eq!((output.status.code(), &answer["goal_file"]), (Some(0), &"goal.json".into()), "{answer}");
    assert_eq!(log(), measured, "nothing is measured anew");
    // One note reports that the set can't persist, and how `apply` handles it. The other note says what to do instead.
    let [note, instead] = &answer["notes"].as_array().unwrap()[..] else { panic!("{}", answer["notes"]) };
    assert!(note.as_str().unwrap().starts_with("process.timer_slack_ns=1 can't persist: "), "{note}");
    assert!(note.as_str().unwrap().ends_with("`evenkeel apply` refuses this plan"), "{note}");
    assert!(instead.as_str().unwrap().contains("--out goal.json --unit YOUR.service` writes a goal file"), "{instead}");
    assert_eq!(answer["goal_applies"], false);
    let page = scene.run("tune resume --out goal.json");
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("goal file: goal.json; `evenkeel apply` does not accept it yet:\n"), "{page}");
    assert!(!page.contains("evenkeel apply goal.json"), "{page}");
    let output = scene.run("apply goal.json");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
}

fn readings() -> Vec<Option<String>> {
    FILES.iter().map(|file| fs::read_to_string(file).ok()).collect()
}

#[test]
fn what_can_not_be_searched_is_refused_with_its_reason() {
    let scene = Scene::new();
    let table = [
        ("tune --knobs vm.swapiness=1", 2, "did you mean \"vm.swappiness\""),
        ("tune --knobs vm.swappiness=1000", 2, "vm.swappiness does not accept \"1000\""),
        (
            "tune --budget 5",
            2,
            "the budget gives 14 windows of 250 ms, each after a settle time of 100 ms; a search takes at least 80, which is 28 s",
        ),
        ("tune --budget soon", 2, "unknown unit \"soon\""),
        ("tune --smallest-effect 0", 2, "0 is not between"),
        ("tune --metric no_such_us", 2, "the workload measures"),
        ("tune --guard 1", 2, "a stop limit of 1 times the usual value"),
        ("tune --stop-at 1", 2, "a stop limit of 1 times the usual value"),
        ("tune --guard no_such_us", 2, "the workload measures"),
        ("tune --guard round_trip_us_p99=-5", 2, "is not a percentage above 0"),
        ("tune --metric round_trip_us_p50 --guard round_trip_us_p50", 2, "it is already the primary metric"),
        ("tune --knobs workload.colour=red", 2, "unknown knob"),
        ("tune --knobs workload.tick-hz=5", 4, "set tick-hz=5: expected a whole number from 10 to 500"),
        ("tune --knobs workload.tick-hz=50", 4, "workload.tick-hz: it has this value already"),
        ("prove workload.tick-hz=5", 2, "set tick-hz=5: expected a whole number from 10 to 500"),
        ("prove workload.pps=100", 2, "set pps: the workload arena takes tick-hz, work-us, tail-us, tick, phases"),
        ("tune --out /not/here/goal.json", 2, "its folder does not exist"),
        ("tune --workload arean", 2, "unknown workload"),
        ("tune resume", 2, "read the search's log"),
        ("tune --knobs cmdline.mitigations=off", 4, "it takes effect only after a reboot"),
        ("prove --goal /not/here/goal.json", 2, "read the goal /not/here/goal.json"),
    ];
    for (line, code, expected) in table {
        let Some(output) = scene.run_if_built(line) else { continue };
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        assert!(said(&output).contains(expected), "{line}: {}", said(&output));
        // If a budget is too small, only more time helps.
        assert_eq!(said(&output).contains("increase --budget"), line == "tune --budget 5", "{line}");
    }
}

#[test]
fn an_ordinary_goal_is_no_goal() {
    let scene = Scene::new();
    let plan = scene.path("plan.json");
    let output = scene.run(&format!("plan vm.swappiness=10 --output {}", plan.display()));
    assert!(output.status.success(), "{}", said(&output));
    let output = scene.run(&format!("prove --goal {}", plan.display()));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("it is a plan without evidence"), "{}", said(&output));
}

#[test]
fn a_command_is_not_run_because_a_log_says_so() {
    let scene = Scene::new();
    let begun_with = |name: &str, command: &str, asked: &str| {
        let metric = Metric::us("lat_us", "");
        let budget = Budget { windows: 100, time_ms: None };
        let design = SearchDesign::new(vec![Candidate::plain("vm.swappiness=31")], metric, budget, 3);
        let workload = json!({"name": "command", "placement": "free", "arguments": command});
        let asked = json!({"a workload": asked});
        let context = json!({"workload": workload, "left_out": [], "asked": asked});
        fs::create_dir_all(scene.path(name).parent().unwrap()).unwrap();
        Log::create(&scene.path(name), &Header::new(design, context)).unwrap();
    };
    let runs = "-- touch started";
    begun_with("last", runs, runs);
    begun_with("foreign", runs, runs);
    begun_with("lies", runs, "-- sleep 9");
    begun_with("state/searches/kept.jsonl", runs, runs);
    std::os::unix::fs::symlink(scene.path("foreign"), scene.path("state/searches/linked.jsonl")).unwrap();
    let refused = "its workload is a command, and evenkeel runs no command that only a file names";
    let named = format!(
        "check the command, then run: evenkeel tune resume foreign --state {} -- touch started",
        scene.path("state").display()
    );
    let other = "it began with -- touch started, but you named -- sleep 9";
    // Each row has the command line, whether evenkeel starts the command, and the message if not.
    let table = [
        ("tune resume", "", false, "state/tune.jsonl"),
        ("tune resume last", "", false, "state/tune.jsonl"),
        ("tune resume ./last", "", false, refused),
        ("tune resume foreign", "", false, refused),
        ("tune resume foreign", "", false, &named),
        ("tune resume state/searches/linked.jsonl", "", false, refused),
        ("tune resume lies", "-- sleep 9", false, other),
        ("tune resume state/searches/kept.jsonl", "-- sleep 9", false, other),
        ("tune resume state/searches/kept.jsonl", "", true, ""),
        ("tune resume foreign", runs, true, ""),
    ];
    for (line, command, is_started, expected) in table {
        let output = scene.command(line).args(command.split_whitespace()).output().unwrap();
        assert!(said(&output).contains(expected), "{line} {command}: {}", said(&output));
        assert_eq!(scene.path("started").exists(), is_started, "{line} {command}: {}", said(&output));
        assert_eq!(output.status.code(), Some(if is_started { 4 } else { 2 }), "{line} {command}: {}", said(&output));
        let _ = fs::remove_file(scene.path("started"));
    }
}

#[test]
fn a_restarted_server_lives_and_the_answer_says_why_the_first_ended() {
    if needs_root("switching settings of the host") {
        return;
    }
    // Each row has the window in which the server ends, an option of the search, and the message.
    let table = [
        // Window 30 is in the middle of the search.
        (30, "--settle-ms 10", "simulated: it ended (exit status: 3)"),
        // Window 3 is one of the short windows that measure the settle time.
        (3, "", "it ended (exit status: 3)"),
    ];
    for (window, how, ended) in table {
        let scene = Scene::of_host();
        scene.script(&json!({"events": [
            {"window": window, "dies": "it ended (exit status: 3)"},
            {"window": 45, "waits_for": "go"},
        ]}));
        let knobs = "vm.swappiness=31 vm.stat_interval=7";
        let line = format!(
            "tune --knobs {knobs} --budget 150s --seed 3 --workload simulated --set script=script.json {how} --json"
        );
        let mut search = scene.start(&line);
        scene.await_window("go", &mut search);
        search.signal("INT");
        fs::write(scene.path("go"), "").unwrap();
        let Finished { stdout, .. } = search.finish();
        let answer = schemas::parse("tune", &stdout);
        assert_eq!(answer["ended"], "stopped", "{answer}");
        let caveats = format!("{} {}", answer["caveats"], answer["design"]["settles"]);
        assert!(caveats.contains(ended), "{caveats}");
        scene.assert_all_as_before();
    }
}

/// A search that waits in a window with a switched setting of the host.
fn held_search(scene: &Scene, line: &str, before: &[Option<String>]) -> Running {
    let mut search = scene.start(line);
    scene.await_window("go", &mut search);
    while readings() == before {
        // Let the search continue to the next window.
        let _ = fs::remove_file(scene.path("go.waiting"));
        fs::write(scene.path("go"), "").unwrap();
        search.wait_until(|| scene.path("go.waiting").exists() || readings() != before);
        let _ = fs::remove_file(scene.path("go"));
    }
    search
}

#[test]
fn a_killed_search_is_put_back_by_revert_and_gone_on_with() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    let before = readings();
    scene.script(&json!({"events": [{"window": 20, "until": 100_000, "waits_for": "go"}]}));
    let knobs = "vm.swappiness=31 vm.stat_interval=7 process.timer_slack_ns=1";
    let simulated = "--workload simulated --set script=script.json";
    let line = format!("tune --knobs {knobs} --budget 60s --window-ms 100 --settle-ms 10 --seed 3 {simulated}");
    let log = scene.path("state").join("tune.jsonl");
    held_search(&scene, &line, &before).kill();
    let _ = fs::remove_file(scene.path("go.waiting"));
    let refused = scene.run("tune resume");
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains("was interrupted and is not reverted yet"), "{}", said(&refused));
    let state = scene.path("state");
    let hint = format!("`evenkeel tune resume --state {}` then continues the interrupted search", state.display());
    assert!(said(&refused).contains(&hint), "{}", said(&refused));
    let reverted = scene.run("revert");
    assert!(reverted.status.success(), "{}", said(&reverted));
    assert_eq!(readings(), before);
    let kept = fs::read_to_string(&log).unwrap().lines().count();
    // A second search must not disturb the first. Its message names the first search.
    let mut another = scene.start(&line);
    scene.await_window("go", &mut another);
    another.signal("INT");
    fs::write(scene.path("go"), "").unwrap();
    let Finished { stderr, .. } = another.finish();
    let first = fs::read_dir(state.join("searches")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(&first).unwrap().lines().count(), kept);
    assert!(stderr.contains(&format!("tune resume {} --state", first.display())), "{stderr}");
    let answer = answer_of(&scene.run(&format!("tune resume {} --json", first.display())));
    assert_eq!(readings(), before);
    assert_eq!((&answer["format"], &answer["all_as_before"]), (&1.into(), &true.into()), "{answer}");
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(["better", "nothing-helped", "not-proved"].contains(&verdict), "{verdict}");
    assert_eq!(answer["design"]["seed"], 3);
    assert_eq!(answer["knobs"].as_array().unwrap().len(), 3);
    let windows: u64 = answer["windows"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert!(windows as usize + 1 >= kept, "{windows} windows, {kept} lines were kept");
}

const KNOBS: &str = "vm.swappiness=31 vm.stat_interval=7 process.timer_slack_ns=1 kernel.timer_migration=0";

/// Whether every knob is decided: by a verdict, or by an interval that excludes an effect that matters.
fn all_decided(answer: &Value) -> bool {
    let is_decided = |knob: &Value| {
        let end = |name: &str| knob["screening"][name].as_f64().unwrap();
        match knob["outcome"].as_str().unwrap() {
            "unclear" | "not-tried" => false,
            "no-effect" => end("low") >= 1.0 / 1.05 && end("high") <= 1.05,
            _ => true,
        }
    };
    answer["knobs"].as_array().unwrap().iter().all(is_decided)
}

/// A search ends before its budget is used up only if everything is decided.
/// Otherwise it reports how much more time would help.
#[test]
fn a_budget_is_used_on_what_is_undecided() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    scene.script(&json!({}));
    let mut open = 0;
    for (noise, budget_s) in [(2, 120), (10, 120), (30, 120), (10, 360), (30, 360), (2, 60)] {
        let line = format!(
            "tune --knobs {KNOBS} --budget {budget_s}s --seed 5 --workload simulated --set script=script.json \
             --set noise-percent={noise} --guard none --json"
        );
        let answer = answer_of(&scene.run(&line));
        let what = format!("noise {noise} %, {budget_s} s: {}, {}", answer["ended"], answer["windows"]);
        let took_s = answer["took_ms"].as_f64().unwrap() / 1e3;
        assert!(took_s <= 1.25 * budget_s as f64, "{what}: took {took_s} s");
        if all_decided(&answer) {
            assert_eq!(answer["more_time"], Value::Null, "{what}");
            continue;
        }
        open += 1;
        assert!(took_s >= 0.75 * budget_s as f64, "{what}: took {took_s} s");
        let more = &answer["more_time"];
        assert!(more["budget_s"].as_u64().unwrap() > budget_s && more["knobs"].as_u64() > Some(0), "{what}: {more}");
    }
    assert!((1..6).contains(&open), "{open} of 6 searches left something open");
    scene.assert_all_as_before();
}

/// If a budget is too small for all knobs,
/// the search first drops knobs that restart the server, and decides the others.
#[test]
fn a_slow_switch_does_not_use_up_the_budget() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    let mut script = tunable();
    script["restart_ms"] = json!(9000);
    scene.script(&script);
    let line = format!(
        "tune --knobs {KNOBS} net.core.rmem_default=300000 --budget 6min --seed 5 --settle-ms 100 --workload simulated \
         --set script=script.json --json"
    );
    let answer = answer_of(&scene.run(&line));
    assert_eq!(answer["verdict"], "better", "{}: {}", answer["ended"], answer["windows"]);
    let set: BTreeSet<&str> =
        answer["set"].as_array().unwrap().iter().filter_map(|one| one["settings"][0].as_str()).collect();
    assert_eq!(set, BTreeSet::from(["process.timer_slack_ns=1", "vm.swappiness=31"]));
    let slow = answer["knobs"].as_array().unwrap().iter().find(|knob| knob["outcome"] == "not-tried").unwrap();
    assert_eq!(slow["settings"][0], "net.core.rmem_default=300000");
    assert!(slow["why"].as_str().unwrap().contains("each switch of it takes a new start"), "{slow}");
    scene.assert_all_as_before();
}

/// The search finds exactly the effects in the script: the two settings that help, and none of the others.
#[test]
fn the_set_is_the_scripts_truth() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    scene.script(&tunable());
    let knobs = "vm.swappiness=31 vm.stat_interval=7 process.timer_slack_ns=1 kernel.timer_migration=0";
    let line =
        format!("tune --knobs {knobs} --budget 20min --seed 5 --workload simulated --set script=script.json --json");
    let answer = answer_of(&scene.run(&line));
    assert_eq!(answer["verdict"], "better", "{answer}");
    let set: Vec<&Value> = answer["set"].as_array().unwrap().iter().map(|one| &one["settings"][0]).collect();
    assert_eq!(set, ["process.timer_slack_ns=1", "vm.swappiness=31"], "{answer}");
    let effect = &answer["effect"];
    assert!(effect["low"].as_f64().unwrap() <= 0.49 && 0.49 <= effect["high"].as_f64().unwrap(), "{effect}");
    scene.assert_all_as_before();
}
