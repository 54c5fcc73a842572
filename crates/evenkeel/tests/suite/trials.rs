//! Tests `prove` on a simulated server. No real time passes, so whole trials, including failures, take milliseconds.
//! If a trial switches a setting of the host, evenkeel switches and restores the real setting.

use std::fs;

use evenkeel_sys::process;
use evenkeel_testkit::{needs_root, skipped};
use serde_json::{Value, json};

use crate::scene::{Finished, Running, Scene, children, json as answer_of, said};

/// A trial of a setting of the server's process. The setting has no effect unless a script defines one.
const SLACK: &str = "prove process.timer_slack_ns=1 --workload simulated";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

/// A script in which the server is slower by this ratio while its timer slack is 1 ns.
fn slower(ratio: f64) -> Value {
    json!({"effects": [{"of": "process.timer_slack_ns", "value": "1", "ratio": ratio}]})
}

/// A value of `vm.swappiness` that differs from the current one.
fn other_swappiness() -> &'static str {
    if fs::read_to_string(SWAPPINESS).unwrap() == "31\n" { "32" } else { "31" }
}

fn swappiness_is(value: &str) -> bool {
    fs::read_to_string(SWAPPINESS).is_ok_and(|text| text.trim() == value)
}

#[test]
fn an_answer_has_what_others_build_on() {
    let scene = Scene::new();
    scene.script(&slower(1.0));
    let line = format!("{SLACK} --set script=script.json --pairs 6 --fixed --control-pairs 2 --seed 3 --json");
    let answer = answer_of(&scene.run_as_ordinary_user(&line));
    assert_eq!(answer["format"], 2, "{answer}");
    assert_eq!((&answer["seed"], &answer["metric"]["name"]), (&3.into(), &"latency_us_p50".into()));
    assert_eq!(answer["arms"].as_array().map(Vec::len), Some(2));
    assert_eq!((&answer["pairs"], &answer["ended"]), (&6.into(), &"whole".into()));
    let windows = answer["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 12);
    for window in windows {
        assert!(window["value"].as_f64().unwrap() > 0.0);
        assert!(window["sample"]["latency_us_p99"].as_f64().unwrap() > 0.0);
        assert_eq!(window["conditions"]["span_us"], 1_000_000.0, "the simulated clock");
    }
    let effect = &answer["effect"];
    assert!(effect["low"].as_f64().unwrap() <= effect["high"].as_f64().unwrap(), "{effect}");
    assert!(answer["caveats"].is_array() && answer["dropped"].as_array().is_some_and(Vec::is_empty));
    assert_eq!(answer["guards"][0]["metric"]["name"], "latency_us_p99");
    assert_eq!(answer["mechanism"][0]["knob"], "process.timer_slack_ns");
    assert_eq!(answer["mechanism"][0]["engaged"], "yes", "the slack is read back in every window");
    assert_eq!(answer["settle"]["settle_ms"], 50, "nothing lasts after a switch");
    assert_eq!(answer["control_stretch"]["windows"].as_array().map(Vec::len), Some(4));
    assert_eq!(answer["identity"]["evenkeel"], env!("CARGO_PKG_VERSION"));
    assert!(answer["costs"].as_array().unwrap().iter().any(|cost| cost["name"] == "server_cpu_share"));
}

#[test]
fn the_verdict_is_the_scripts_truth_and_a_full_disk_is_refused_first() {
    let scene = Scene::new();
    for (ratio, verdict, code, pairs_max) in [
        (3.0, "worse", 1, 10),
        (0.5, "better", 0, 10),
        (1.1, "worse", 1, 40),
        (0.9, "better", 0, 40),
        (1.0, "same", 0, 100),
    ] {
        scene.script(&slower(ratio));
        let output = scene.run(&format!("{SLACK} --set script=script.json --seed 7 --json"));
        let answer = answer_of(&output);
        assert_eq!((&answer["verdict"], output.status.code()), (&verdict.into(), Some(code)), "{ratio}: {answer}");
        assert_eq!(answer["ended"], "decided");
        assert!(answer["pairs"].as_u64().unwrap() <= pairs_max, "{ratio}: {} pairs", answer["pairs"]);
        let effect = &answer["effect"];
        let (low, high) = (effect["low"].as_f64().unwrap(), effect["high"].as_f64().unwrap());
        assert!(low <= ratio && ratio <= high, "{ratio} is not in [{low}, {high}]");
        assert_eq!(effect["interval"], "anytime");
        assert!(verdict == "same" || effect["e_value"].as_f64().unwrap() >= 20.0, "{effect}");
    }
    let output = scene.run(&format!("{SLACK} --set script=script.json --keep /dev/full --json"));
    let error = answer_of(&output)["error"]["message"].to_string();
    assert!(output.status.code() == Some(4) && error.contains("/dev/full: no space left on device"), "{error}");
}

#[test]
fn several_arms_are_measured_in_one_session() {
    let scene = Scene::new();
    scene.script(&json!({"effects": [
        {"of": "process.timer_slack_ns", "value": "1", "ratio": 0.8},
        {"of": "process.timer_slack_ns", "value": "5000000", "ratio": 1.5},
    ]}));
    let line = "prove --workload simulated --set script=script.json --set noise-percent=1 --arm process.timer_slack_ns=1 \
                --arm process.timer_slack_ns=5000000 --control-pairs 1 --guard none --pairs 12 --fixed --keep session.jsonl \
                --report out --json";
    let answer = answer_of(&scene.run(line));
    assert_eq!(answer["format"], 2, "{answer}");
    let trials = answer["trials"].as_array().unwrap();
    let verdicts: Vec<[&str; 2]> =
        trials.iter().map(|trial| ["knob", "verdict"].map(|field| trial[field].as_str().unwrap())).collect();
    assert_eq!(verdicts, [["process.timer_slack_ns=1", "better"], ["process.timer_slack_ns=5000000", "worse"]]);
    for (trial, letter) in trials.iter().zip(["B", "C"]) {
        let windows = trial["windows"].as_array().unwrap();
        assert_eq!(windows.len(), 24);
        assert!(windows.iter().all(|window| window["arm"] == "A" || window["arm"] == letter));
        assert_eq!((&trial["arms"][0]["arm"], &trial["arms"][1]["arm"]), (&Value::from("A"), &Value::from(letter)));
        // In each window, evenkeel read back the value of that window's arm.
        let own: f64 = trial["knob"].as_str().unwrap().split('=').next_back().unwrap().parse().unwrap();
        let read = |window: &Value| window["conditions"]["counters"]["process.timer_slack_ns"].as_f64();
        assert!(windows.iter().all(|window| (read(window) == Some(own)) == (window["arm"] == letter)), "{letter}");
    }
    assert_eq!(answer["choice"]["advised"], "B");
    assert_eq!(answer["choice"]["between"].as_array().map(Vec::len), Some(1));
    let again = answer_of(&scene.run("prove report session.jsonl --json"));
    assert!(
        again["trials"] == answer["trials"] && again["choice"] == answer["choice"],
        "the file gives the run's answer"
    );
    for option in ["--pairs 9", "--window-ms 100", "--metric cpu_us", "--seed 3"] {
        let output = scene.run(&format!("prove report session.jsonl {option}"));
        assert!(output.status.code() == Some(2) && said(&output).contains("takes no option"), "{option}");
    }
    let text = scene.run("prove report session.jsonl");
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("against A") && text.contains("\nB: ") && text.contains("\nC: "), "{text}");
    let page = fs::read_to_string(scene.path("out/report.html")).unwrap();
    assert!(page.contains("Best arm") && page.contains("Arm C: "));
    let report = fs::read_to_string(scene.path("out/report.json")).unwrap();
    fs::write(scene.path("other.json"), report.replace("\"start_us\": ", "\"start_us\": 1")).unwrap();
    let compared = answer_of(&scene.run("prove compare out/report.json other.json --json"));
    let cells: Vec<usize> =
        compared["asked"].as_array().unwrap().iter().map(|asked| asked["cells"].as_array().unwrap().len()).collect();
    assert_eq!(cells, [2, 2], "each arm is a setting");
    // The arms of the resumed session are in the original order.
    let resumed = answer_of(&scene.run("prove resume session.jsonl --json"));
    assert_eq!(resumed["trials"].as_array().map(Vec::len), Some(2));
    assert_eq!(resumed["trials"][0]["knob"], "process.timer_slack_ns=1");
}

/// evenkeel counts windows that a rule drops, by arm and reason.
/// If it drops too many windows, the trial ends without a verdict.
#[test]
fn disturbed_windows_are_dropped_and_counted() {
    let scene = Scene::new();
    let begun =
        format!("{SLACK} --set script=script.json --settle 20ms --control-pairs 0 --turns 1 --guard none --seed 4");
    let dropped = |events: Value, more: &str| {
        scene.script(&json!({ "events": events }));
        answer_of(&scene.run(&format!("{begun} {more} --json")))
    };
    let reasons = json!([
        {"window": 1, "gap_ms": 41.0}, {"window": 3, "steal_share": 0.11}, {"window": 5, "overrun_ms": 501}, {"window": 7, "no_cpu": true},
        {"window": 9, "latency_us": -1.0}, {"window": 11, "latency_us": 0.0},
    ]);
    let answer = dropped(reasons, "--pairs 16 --fixed");
    let seen: Vec<&String> = answer["dropped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["reason"].as_object().unwrap().keys().next().unwrap())
        .collect();
    assert_eq!(seen, ["gap", "steal", "overrun", "no-cpu", "no-value"], "{}", answer["dropped"]);
    assert_eq!((&answer["pairs"], &answer["ended"]), (&16.into(), &"whole".into()), "spare pairs take their place");
    // Values slightly below the limits drop nothing.
    let answer = dropped(
        json!([{"window": 1, "gap_ms": 39.0}, {"window": 3, "steal_share": 0.09}, {"window": 5, "overrun_ms": 499}]),
        "--pairs 16 --fixed",
    );
    assert_eq!((&answer["dropped"], &answer["pairs"]), (&json!([]), &16.into()));
    let answer = dropped(json!([{"window": 1, "until": 1000, "gap_ms": 100.0}]), "--pairs 16 --fixed");
    assert_eq!((&answer["ended"], &answer["pairs"]), (&"out-of-spares".into(), &0.into()), "{answer}");
    assert_eq!(answer["verdict"], "undecided");
}

/// The budget uses the simulated clock, and stops a trial between two pairs.
#[test]
fn a_budget_ends_a_trial_that_is_not_decided() {
    let scene = Scene::new();
    scene.script(&slower(1.03));
    let line = format!(
        "{SLACK} --set script=script.json --set noise-percent=40 --settle 20ms --control-pairs 2 --turns 1 --seed 4"
    );
    let answer = answer_of(&scene.run(&format!("{line} --budget 30s --json")));
    assert_eq!((&answer["ended"], &answer["verdict"]), (&"out-of-time".into(), &"undecided".into()), "{answer}");
    // Two A/A pairs and twelve pairs, with two windows of 1.02 s each, take 28.6 s. One more pair would exceed 30 s.
    assert_eq!(answer["pairs"], 12);
}

/// In a log, the trial prints a line every 15 s, with the result so far and the remaining time.
#[test]
fn a_log_shows_how_far_a_trial_is() {
    let scene = Scene::new();
    scene.script(&slower(1.0));
    let line =
        format!("{SLACK} --set script=script.json --pairs 20 --fixed --control-pairs 4 --settle 1s --turns 1 --seed 2");
    let output = scene.run(&line);
    let lines: Vec<String> =
        said(&output).lines().filter(|line| line.starts_with("prove ")).map(str::to_owned).collect();
    let so_far: Vec<&str> = lines.iter().filter_map(|line| line.split(';').next()).collect();
    // 48 windows of 2 s take 96 s. The log has a line at the start, and then a line every 16 s, at the end of a pair.
    assert_eq!(
        so_far,
        [
            "prove process.timer_slack_ns=1: A/A phase, 0 of 4 pairs, 96 s left",
            "prove process.timer_slack_ns=1: 0 of 20 pairs, 80 s left",
            "prove process.timer_slack_ns=1: 4 of 20 pairs, 64 s left",
            "prove process.timer_slack_ns=1: 8 of 20 pairs, 48 s left",
            "prove process.timer_slack_ns=1: 12 of 20 pairs, 32 s left",
            "prove process.timer_slack_ns=1: 16 of 20 pairs, 16 s left",
            "prove process.timer_slack_ns=1: 20 of 20 pairs, 0 s left",
        ]
    );
    assert!(lines[3..].iter().all(|line| line.contains("; B is ")), "the effect so far: {lines:#?}");
}

/// Starts a trial whose window 30 waits for the file `go`. Also returns its command line.
fn held_trial(scene: &Scene, setting: &str) -> (Running, String) {
    scene.script(&json!({"events": [{"window": 30, "waits_for": "go"}]}));
    let asked = format!("prove {setting} --workload simulated --set script=script.json");
    let design = "--pairs 30 --fixed --control-pairs 1 --settle 20ms --turns 1 --keep session.jsonl";
    let mut trial = scene.start(&format!("{asked} {design}"));
    scene.await_window("go", &mut trial);
    (trial, asked)
}

fn kept(scene: &Scene) -> Value {
    answer_of(&scene.run("prove report session.jsonl --json"))
}

#[test]
fn a_killed_trial_is_reported_and_gone_on_with() {
    let scene = Scene::new();
    let (trial, asked) = held_trial(&scene, "process.timer_slack_ns=1");
    // Two trials at the same time would measure each other.
    let second = scene.run(&asked);
    assert_eq!(second.status.code(), Some(4), "{}", said(&second));
    assert!(said(&second).contains(&format!("another trial (process {})", trial.id())), "{}", said(&second));
    trial.kill();
    let before = kept(&scene);
    // Window 30 is the second window of the fourteenth pair, after two A/A pairs.
    assert_eq!((&before["ended"], &before["pairs"]), (&"cut-off".into(), &13.into()));
    let caveats = before["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["text"] == "killed after 13 of 30 pairs"), "{caveats:?}");
    let other = scene.run("prove resume session.jsonl --workload tick");
    assert!(said(&other).contains("it began with --workload simulated --set script=script.json, but you named"));
    assert_eq!(other.status.code(), Some(2), "{}", said(&other));
    fs::write(scene.path("go"), "").unwrap();
    let after = answer_of(&scene.run("prove resume session.jsonl --json"));
    assert_eq!((&after["ended"], &after["pairs"], &after["seed"]), (&"whole".into(), &30.into(), &before["seed"]));
    let measured = |answer: &Value| answer["windows"].as_array().unwrap()[..26].to_vec();
    assert_eq!(measured(&after), measured(&before), "what was measured counts");
}

#[test]
fn each_signal_ends_a_trial_in_order_and_says_what_a_second_one_does() {
    for signal in ["HUP", "INT", "TERM"] {
        let scene = Scene::new();
        let (mut trial, _) = held_trial(&scene, "process.timer_slack_ns=1");
        trial.signal(signal);
        // A thread explains the signal. Wait for its message, because the program could end first.
        let explained =
            if signal == "HUP" { String::new() } else { trial.messages_until("stopping after this window") };
        // The current window must end before the trial does.
        fs::write(scene.path("go"), "").unwrap();
        let Finished { code, stderr, .. } = trial.finish();
        let stderr = explained + &stderr;
        assert_eq!(code, Some(8), "{signal}: stopped: {stderr}");
        let says = stderr.contains("stopping after this window") && stderr.contains("`evenkeel revert --state ");
        assert_eq!(says, signal != "HUP", "{signal}: a terminal that went away reads nothing: {stderr}");
        assert_eq!((&kept(&scene)["ended"], &kept(&scene)["pairs"]), (&"stopped".into(), &14.into()), "{signal}");
    }
}

#[test]
fn a_second_signal_ends_a_trial_at_once() {
    let scene = Scene::new();
    let (mut trial, _) = held_trial(&scene, "process.timer_slack_ns=1");
    // Send several signals, because the kernel merges signals that arrive before the program handles the first.
    // The window itself never ends.
    let begun = std::time::Instant::now();
    while trial.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < crate::scene::PATIENCE, "a second signal does not end it");
        trial.signal("TERM");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let Finished { code, .. } = trial.finish();
    assert_eq!(code, None, "ended by the signal");
    assert_eq!(kept(&scene)["ended"], "cut-off");
}

/// Without this refusal, each trial would record the other's value as the original.
/// The last trial to end would then restore the wrong value.
#[test]
fn two_journals_do_not_try_one_setting_at_once() {
    if needs_root("changing the host with two journals") {
        return;
    }
    let scene = Scene::of_host();
    let (trial, _) = held_trial(&scene, &format!("vm.swappiness={} --anyway", other_swappiness()));
    let who = format!("another evenkeel (process {}, journal in {})", trial.id(), scene.path("state").display());
    let elsewhere = scene.path("elsewhere");
    for line in ["prove vm.swappiness=40 --anyway --workload simulated", "apply vm.swappiness=40"] {
        let second = scene.run(&format!("{line} --state {}", elsewhere.display()));
        assert_eq!(second.status.code(), Some(4), "{line}: {}", said(&second));
        assert!(said(&second).contains(&who), "{line}: {}", said(&second));
    }
    trial.signal("TERM");
    fs::write(scene.path("go"), "").unwrap();
    let Finished { code, stderr, .. } = trial.finish();
    assert_eq!(code, Some(8), "{stderr}");
    scene.assert_all_as_before();
}

#[test]
fn a_killed_trial_of_the_host_is_put_back_by_revert() {
    if needs_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::of_host();
    let value = other_swappiness();
    // One of a pair's two windows is in arm B. If the first window does not wait, the second window does.
    scene.script(&json!({"events": [{"window": 1, "until": 2, "waits_for": "go"}]}));
    let asked = format!("prove vm.swappiness={value} --anyway --workload simulated --set script=script.json");
    let mut trial = scene.start(&format!("{asked} --settle 20ms --control-pairs 0 --turns 1"));
    scene.await_window("go", &mut trial);
    if !swappiness_is(value) {
        fs::write(scene.path("go"), "").unwrap();
        trial.wait_until(|| !scene.path("go.waiting").exists());
        let _ = fs::remove_file(scene.path("go"));
        trial.wait_until(|| swappiness_is(value) || scene.path("go.waiting").exists());
    }
    trial.kill();
    let state = scene.path("state");
    let refused = scene.run(&asked);
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(
        said(&refused).contains(&format!("run `evenkeel revert --state {}` first", state.display())),
        "{}",
        said(&refused)
    );
    assert!(refused.stdout.is_empty(), "no server is started for it");
    let reverted = scene.run("revert");
    assert!(reverted.status.success(), "{}", said(&reverted));
    scene.assert_all_as_before();
}

/// The server is a real server here. A kill of the trial must also end the server.
#[test]
fn a_killed_trial_leaves_no_server() {
    let scene = Scene::new();
    let line = "prove process.timer_slack_ns=1 --metric cpu_share --ready-line never --ready-limit 600s -- sleep 600";
    let mut trial = scene.start(line);
    let pid = trial.id();
    // The two processes are the trial's guard and its server.
    trial.wait_until(|| children(pid).len() == 2);
    let servers = children(pid);
    trial.kill();
    // A killed process stays in state Z until init has waited for it.
    let runs = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
    };
    let begun = std::time::Instant::now();
    while servers.iter().any(runs) {
        assert!(begun.elapsed() < crate::scene::PATIENCE, "the server outlives the trial");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_trial_that_waits_for_its_server_ends_at_once_and_says_why() {
    let scene = Scene::new();
    let line =
        "prove process.timer_slack_ns=1 --metric cpu_share --ready-line never --ready-limit 600s --json -- sleep 600";
    let mut trial = scene.start(line);
    let pid = trial.id();
    trial.wait_until(|| children(pid).len() == 2);
    trial.signal("TERM");
    let Finished { code, stdout, stderr } = trial.finish();
    assert_eq!(code, Some(8), "stopped: {stderr}");
    assert!(stderr.contains("stopped before the first window; all settings are as before"), "{stderr}");
    assert!(stdout.contains("\"exit_code\": 8") || stdout.contains("\"exit_code\":8"), "{stdout}");
}

/// Settings that evenkeel can't prove: the command line, the exit code, and a part of the message.
const REFUSED: &[(&str, i32, &str)] = &[
    ("prove vm.swapiness=1", 2, "did you mean \"vm.swappiness\""),
    ("prove vm.swappiness=1000", 2, "vm.swappiness does not accept \"1000\""),
    ("prove vm.swappiness", 2, "expected KNOB=VALUE"),
    ("prove process.timer_slack_ns=1 process.timer_slack_ns=2", 2, "two values for one knob"),
    ("prove process.timer_slack_ns=1 --report /dev/null/x", 2, "write /dev/null/x: not a directory"),
    ("prove process.timer_slack_ns=1 --smallest-effect 0", 2, "0 is not between"),
    ("prove process.timer_slack_ns=1 --metric no_such_us", 2, "the workload measures round_trip_us_p50"),
    ("prove process.timer_slack_ns=1 --pairs 2", 2, "2 is not in 6 to 5000"),
    ("prove process.timer_slack_ns=1 --guard no_such_us", 2, "the workload measures round_trip_us_p50"),
    ("prove process.timer_slack_ns=1 --guard round_trip_us_p99=-3", 2, "not a percentage above 0"),
    ("prove process.timer_slack_ns=1 --settle 5d", 2, "unknown unit \"d\""),
    ("prove process.timer_slack_ns=1 --set colour=red", 2, "set colour: the workload arena takes"),
    ("prove process.timer_slack_ns=1 --workload arean", 2, "unknown workload; known ones: arena"),
    ("prove --arm vm.swapiness=1 --arm vm.swappiness=1", 2, "did you mean \"vm.swappiness\""),
    ("prove process.timer_slack_ns=1 --workload tick -- true", 2, "--workload tick is a built-in server"),
    (
        "prove process.timer_slack_ns=1 --workload tick --budget 0s",
        2,
        "within 0 s: finding the settle time, the A/A phase and the 7 pairs for a decision need at least 35 s",
    ),
    (
        "prove process.timer_slack_ns=1 --workload tick --budget 10s --control-pairs 0",
        2,
        "finding the settle time and the 7 pairs for a decision need at least 26 s",
    ),
    ("prove process.timer_slack_ns=1 --workload tick --budget 34s", 2, "use at least --budget 35s"),
    (
        "prove process.timer_slack_ns=1 --workload tick --budget 10s --settle 50ms",
        2,
        "within 10 s: the A/A phase and the 7 pairs for a decision need at least 24 s",
    ),
    (
        "prove process.timer_slack_ns=1 --arm process.timer_slack_ns=1",
        2,
        "arm C (process.timer_slack_ns=1) already exists",
    ),
    ("prove --goal goal.json --arm process.timer_slack_ns=1", 2, "--goal and --arm exclude each other"),
    (
        "prove --arm process.timer_slack_ns=1 --arm process.timer_slack_ns=2 --arm process.timer_slack_ns=3 --pairs 5000",
        2,
        "26664 windows of 4 arms: at most 20000",
    ),
    ("prove report nowhere.jsonl", 2, "read the session nowhere.jsonl"),
    ("prove report last --state empty", 2, "has no session"),
    ("prove", 2, "KNOB=VALUE is missing"),
    ("prove vm.swappiness", 2, "write vm.swappiness=VALUE"),
    ("prove vm.swappiness=1 --host host.txt", 2, "time does not pass in a captured machine"),
    ("prove resum", 2, "stands directly after `prove`"),
    ("prove process.timer_slack_ns=1 resume", 2, "stands directly after `prove`"),
];

#[test]
fn what_can_not_be_proved_is_refused_with_its_reason() {
    let scene = Scene::new();
    for (line, code, expected) in REFUSED {
        let Some(output) = scene.run_if_built(line) else { continue };
        assert_eq!(output.status.code(), Some(*code), "{line}: {}", said(&output));
        assert!(said(&output).contains(expected), "{line}: {}", said(&output));
        let left = ["state", "empty"].map(|name| scene.path(name).exists());
        assert_eq!(left, [false; 2], "{line}: what is refused leaves no directory behind");
    }
    let output = scene.run_as_ordinary_user("prove vm.swappiness=30");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    if !process::is_root() {
        return skipped("to be refused a kernel argument for another reason than rights needs root");
    }
    let output = scene.run("prove cmdline.intel_idle.max_cstate=1");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("a kernel argument takes effect only after a reboot"), "{}", said(&output));
}

/// An A/A check needs no knob. evenkeel stores it, and `prove report` prints it again.
#[test]
fn a_control_takes_no_knob() {
    let scene = Scene::new();
    let line = "prove --control --workload simulated --pairs 12 --seed 3 --keep kept.jsonl --report out --json";
    let output = scene.run_as_ordinary_user(line);
    let answer = answer_of(&output);
    assert_eq!((&answer["control"], &answer["knob"], output.status.code()), (&true.into(), &"".into(), Some(0)));
    assert!(["same", "undecided"].iter().any(|verdict| answer["verdict"] == *verdict), "{}", answer["verdict"]);
    assert!(answer["pairs"].as_u64() >= Some(5) && answer["mechanism"] == json!([]), "{}", answer["pairs"]);
    let again = answer_of(&scene.run("prove report kept.jsonl --json"));
    assert_eq!((&again["sentence"], &again["windows"]), (&answer["sentence"], &answer["windows"]));
    let report = fs::read_to_string(scene.path("out/report.json")).unwrap();
    assert!(report.contains("evenkeel prove --workload simulated"), "how to repeat it");
}

/// If a setting has no effect according to the audit, `prove` measures only one window,
/// unless the user passes `--anyway`.
#[test]
fn a_setting_that_does_nothing_here_takes_one_window() {
    if needs_root("a trial of a sysctl") {
        return;
    }
    if fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1) {
        return skipped("there is swap here, so vm.swappiness may do something");
    }
    let scene = Scene::of_host();
    let line = format!("prove vm.swappiness={} --workload simulated --pairs 6 --fixed --json", other_swappiness());
    let output = scene.run(&line);
    let answer = answer_of(&output);
    assert_eq!((&answer["verdict"], output.status.code()), (&"not-engaged".into(), Some(0)));
    assert_eq!((&answer["pairs"], answer["windows"].as_array().map(Vec::len)), (&0.into(), Some(1)));
    let caveat = &answer["caveats"][0];
    assert_eq!((&caveat["kind"], &caveat["knob"]), (&"not-engaged".into(), &"vm.swappiness".into()));
    assert!(answer["sentence"].as_str().unwrap().contains("there is no swap here"), "{}", answer["sentence"]);
    let answer = answer_of(&scene.run(&format!("{line} --anyway")));
    assert_eq!((&answer["pairs"], answer["windows"].as_array().map(Vec::len)), (&6.into(), Some(12)));
    scene.assert_all_as_before();
}

#[test]
fn every_workload_is_listed_with_what_it_needs() {
    let scene = Scene::new();
    let answer = answer_of(&scene.run("prove workloads --json"));
    let names: Vec<&str> =
        answer["workloads"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"arena"), "{names:?}");
    let text = scene.run("prove workloads").stdout;
    assert!(String::from_utf8_lossy(&text).contains("--set tick-hz=50: ticks a second"));
}
