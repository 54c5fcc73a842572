//! `prove` and `demo` on the machine that runs the tests: as root and as an ordinary user, to the end, stopped and killed. What
//! they find is the machine's business; that they report whole and put everything back is asserted. They need the reference
//! server's programs beside this one, which `cargo build --workspace` puts there.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::bare::Bare;
use crate::scene::{PATIENCE, Running, Scene, is_skipped_without_root, json, kept_trial, kept_trial_of};
use evenkeel_host::Facts;
use evenkeel_sys::{Root, process};
use serde_json::Value;

#[test]
fn an_ordinary_user_proves_a_knob_of_the_servers_process() {
    let scene = Scene::new();
    let line = "prove process.timer_slack_ns=1 --pairs 6 --fixed --control-pairs 2 --window-ms 200 --seed 3 --json";
    let bare = Bare::start();
    let output = scene.run_as_ordinary_user(line);
    let answer = json(&output);
    assert_eq!(answer["format"], 1, "{answer}");
    assert_eq!(answer["seed"], 3);
    assert_eq!(answer["metric"]["name"], "tick_lateness_us_p50");
    assert_eq!(answer["arms"].as_array().map(Vec::len), Some(2));
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(["better", "worse", "same", "undecided"].contains(&verdict), "{verdict}");
    assert_eq!(answer["pairs"].as_u64().unwrap() as usize * 2, answer["windows"].as_array().unwrap().len());
    for window in answer["windows"].as_array().unwrap() {
        assert!(window["value"].as_f64().unwrap() > 0.0);
        assert!(window["sample"]["ticks"].as_f64().unwrap() > 0.0);
        assert!(window["conditions"]["span_us"].as_f64().unwrap() >= 200_000.0);
    }
    if answer["pairs"].as_u64() == Some(6) {
        let effect = &answer["effect"];
        assert!(effect["low"].as_f64().unwrap() <= effect["high"].as_f64().unwrap(), "{effect}");
    }
    assert!(answer["doubts"].is_array() && answer["dropped"].is_array());
    scene.assert_all_as_before();
    if answer["pairs"] == 0 {
        return bare.excuses(&answer["dropped"]);
    }
    assert_eq!(answer["guards"][0]["metric"]["name"], "tick_lateness_us_p99");
    assert_eq!(answer["mechanism"][0]["knob"], "process.timer_slack_ns");
    assert_eq!(answer["mechanism"][0]["engaged"], "yes", "the slack is read back in every window");
    assert!(answer["settle"]["settle_ms"].as_u64().is_some_and(|ms| ms >= 50));
    assert!(answer["control_stretch"]["windows"].as_array().is_some_and(|windows| windows.len() <= 4));
    assert_eq!(answer["identity"]["evenkeel"], env!("CARGO_PKG_VERSION"));
    assert!(answer["costs"].as_array().unwrap().iter().any(|cost| cost["name"] == "server_cpu_share"));
}

#[test]
fn an_effect_that_can_not_be_missed_is_found_in_few_pairs_and_a_full_disk_is_a_doubt() {
    let scene = Scene::new();
    // A hundred times the usual slack: each tick may come 5 ms late. A busy machine may hide even that, so it has three tries.
    let line = "prove process.timer_slack_ns=5000000 --window-ms 200 --control-pairs 0 --settle 20ms --smallest-effect 50 \
                --guard none --budget 60s --keep /dev/full --json";
    let mut missed = Vec::new();
    for _ in 0..3 {
        let bare = Bare::start();
        let output = scene.run(line);
        let answer = json(&output);
        let doubts = answer["doubts"].as_array().unwrap();
        let full = |doubt: &Value| doubt.as_str().is_some_and(|doubt| doubt.contains("/dev/full: No space left"));
        assert!(doubts.iter().any(full), "{doubts:?}");
        let (verdict, pairs) = (answer["verdict"].as_str().unwrap().to_owned(), answer["pairs"].as_u64().unwrap());
        if verdict == "worse" && pairs <= 20 {
            assert_eq!((output.status.code(), &answer["ended"]), (Some(1), &Value::from("decided")));
            assert!(
                answer["effect"]["ratio"].as_f64().unwrap() > 2.0
                    && answer["effect"]["e_value"].as_f64().unwrap() >= 20.0
            );
            assert_eq!(answer["effect"]["interval"], "anytime");
            return;
        }
        // Windows that the machine disturbed are no windows: where it disturbs most of them, nothing is told of an effect.
        if answer["ended"] == "out-of-spares" {
            bare.excuses(&answer["dropped"]);
        } else {
            missed.push((verdict, pairs, answer["ended"].clone(), answer["dropped"].clone()));
        }
    }
    assert!(missed.is_empty(), "of three tries: {missed:?}");
}

#[test]
fn several_arms_are_measured_in_one_session() {
    let scene = Scene::new();
    let line = "prove --workload tick --arm process.timer_slack_ns=1 --arm process.timer_slack_ns=5000000 --window-ms 200 \
                --control-pairs 1 --settle 20ms --guard none --pairs 6 --fixed --keep session.jsonl --report out --json";
    let output = scene.run(line);
    let answer = json(&output);
    assert_eq!(answer["format"], 2, "{answer}");
    let trials = answer["trials"].as_array().unwrap();
    let knobs: Vec<&str> = trials.iter().filter_map(|trial| trial["knob"].as_str()).collect();
    assert_eq!(knobs, ["process.timer_slack_ns=1", "process.timer_slack_ns=5000000"]);
    for (trial, letter) in trials.iter().zip(["B", "C"]) {
        let windows = trial["windows"].as_array().unwrap();
        assert_eq!(windows.len() as u64, 2 * trial["pairs"].as_u64().unwrap());
        assert!(windows.iter().all(|window| window["arm"] == "A" || window["arm"] == letter));
        assert_eq!((&trial["arms"][0]["arm"], &trial["arms"][1]["arm"]), (&Value::from("A"), &Value::from(letter)));
        // Each arm had its own value, as every window read it back.
        let own: f64 = trial["knob"].as_str().unwrap().split('=').next_back().unwrap().parse().unwrap();
        let read = |window: &Value| window["conditions"]["counters"]["process.timer_slack_ns"].as_f64();
        assert!(windows.iter().all(|window| (read(window) == Some(own)) == (window["arm"] == letter)), "{letter}");
    }
    assert!(["A", "B", "C"].contains(&answer["choice"]["advised"].as_str().unwrap()));
    assert_eq!(answer["choice"]["between"].as_array().map(Vec::len), Some(1));
    let again = json(&scene.run("prove --from session.jsonl --json"));
    assert!(
        again["trials"] == answer["trials"] && again["choice"] == answer["choice"],
        "the file tells what the run told"
    );
    for (option, expected) in [
        ("--pairs 9", "--pairs 9 is asked for, and it was begun with --pairs 6"),
        ("--window-ms 100", "--window-ms 100 is asked for"),
        ("--metric cpu_us", "--metric cpu_us is asked for"),
        ("--seed 3", "cannot be used with"),
    ] {
        let output = scene.run(&format!("prove --from session.jsonl {option}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{option}: {said}");
    }
    let text = scene.run("prove --from session.jsonl --pairs 6");
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("against A") && text.contains("\nB: ") && text.contains("\nC: "), "{text}");
    let page = std::fs::read_to_string(scene.path("out/report.html")).unwrap();
    assert!(page.contains("Which of them") && page.contains("Arm C: "));
    let report = std::fs::read_to_string(scene.path("out/report.json")).unwrap();
    std::fs::write(scene.path("other.json"), report.replace("\"start_us\": ", "\"start_us\": 1")).unwrap();
    let compared = json(&scene.run("prove --compare out/report.json other.json --json"));
    let cells: Vec<usize> =
        compared["asked"].as_array().unwrap().iter().map(|asked| asked["cells"].as_array().unwrap().len()).collect();
    assert_eq!(cells, [2, 2], "each arm is a setting");
    // Another set of arms, or another order of them, is another session.
    let other = "prove --workload tick --arm process.timer_slack_ns=5000000 --arm process.timer_slack_ns=1 --resume session.jsonl";
    let other = scene.run(other);
    assert_eq!(other.status.code(), Some(2), "{}", String::from_utf8_lossy(&other.stderr));
    scene.assert_all_as_before();
}

#[test]
fn a_killed_trial_is_reported_and_gone_on_with() {
    let scene = Scene::new();
    let Some((mut trial, file, asked)) = kept_trial(&scene) else { return };
    // Two at once would measure each other.
    let second = scene.run(&asked);
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(4), "{said}");
    assert!(said.contains(&format!("another trial (process {})", trial.0.id())), "{said}");
    trial.0.kill().unwrap();
    trial.0.wait().unwrap();
    let before = json(&scene.run(&format!("prove --from {} --json", file.display())));
    let pairs = before["pairs"].as_u64().unwrap();
    assert!((3..30).contains(&pairs), "{pairs} pairs");
    assert_eq!(before["ended"], "cut-off");
    let doubts = before["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt == &format!("it was cut off after {pairs} of 30 pairs")), "{doubts:?}");
    let other = scene.run(&format!("prove process.timer_slack_ns=2 --resume {}", file.display()));
    assert_eq!(other.status.code(), Some(2), "{}", String::from_utf8_lossy(&other.stderr));
    let after = json(&scene.run(&format!("{asked} --resume {} --json", file.display())));
    assert!(["whole", "out-of-spares"].contains(&after["ended"].as_str().unwrap()), "{}", after["ended"]);
    assert_eq!(after["seed"], before["seed"]);
    let measured = |answer: &Value| answer["windows"].as_array().unwrap()[..pairs as usize * 2].to_vec();
    assert_eq!(measured(&after), measured(&before), "what was measured counts");
    scene.assert_all_as_before();
}

/// Each of them would have taken the other's value for the machine's own, and the one that ended last put that back.
#[test]
fn two_journals_do_not_try_one_setting_at_once() {
    if is_skipped_without_root("to change the host with two journals") {
        return;
    }
    let scene = Scene::new();
    let is_30 = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap() == "30\n";
    let ours = if is_30 { "vm.swappiness=31" } else { "vm.swappiness=30" };
    let Some((mut trial, ..)) = kept_trial_of(&scene, ours, 1000) else { return };
    let who = format!("another evenkeel (process {}, journal in {})", trial.0.id(), scene.path("state").display());
    let elsewhere = scene.path("elsewhere");
    for line in ["prove vm.swappiness=40 --window-ms 100", "apply vm.swappiness=40"] {
        let second = scene.run(&format!("{line} --state {}", elsewhere.display()));
        let said = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(4), "{line}: {said}");
        assert!(said.contains(&who), "{line}: {said}");
    }
    process::ask_to_end(trial.0.id());
    assert!(matches!(trial.0.wait().unwrap().code(), Some(0 | 1)), "better, or worse by chance");
    scene.assert_all_as_before();
}

#[test]
fn a_terminal_that_goes_away_ends_a_trial_in_order() {
    let scene = Scene::new();
    let Some((mut trial, file, _)) = kept_trial(&scene) else { return };
    let told = Command::new("kill").args(["-HUP", &trial.0.id().to_string()]).status().unwrap();
    assert!(told.success());
    let status = trial.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "stopped, which is no failure: {status}");
    let answer = json(&scene.run(&format!("prove --from {} --json", file.display())));
    assert_eq!(answer["ended"], "stopped");
    scene.assert_all_as_before();
}

#[test]
fn the_first_signal_says_what_a_second_one_does() {
    let scene = Scene::new();
    let Some((mut trial, ..)) = kept_trial(&scene) else { return };
    process::ask_to_end(trial.0.id());
    let mut said = String::new();
    trial.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(trial.0.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains("it ends after this window") && said.contains("`evenkeel revert --state "), "{said}");
    scene.assert_all_as_before();
}

#[test]
fn a_trial_that_waits_for_its_server_ends_at_once_and_says_why() {
    let scene = Scene::new();
    let line =
        "prove process.timer_slack_ns=1 --metric cpu_share --ready-line never --ready-limit 600s --json -- sleep 600";
    let output = scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut trial = Running(output);
    let begun = Instant::now();
    // Its guard and its server.
    while children(trial.0.id()).len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "the server does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    process::ask_to_end(trial.0.id());
    let (mut told, mut said) = (String::new(), String::new());
    trial.0.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    trial.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(trial.0.wait().unwrap().code(), Some(0), "stopped, which is no failure: {said}");
    assert!(begun.elapsed() < PATIENCE * 2, "far less than it would have waited");
    assert!(said.contains("it was stopped before the first one; everything is as it was"), "{said}");
    assert!(told.contains("\"exit_code\": 0") || told.contains("\"exit_code\":0"), "{told}");
    scene.assert_all_as_before();
}

#[test]
fn halt_polling_is_found_where_the_machine_has_it() {
    let facts = Facts::probe(&Root::live());
    if facts.idle.driver.known().is_none_or(|driver| driver != "haltpoll") {
        eprintln!("skipped: the idle driver here is {}, not haltpoll", facts.idle.driver);
        return;
    }
    if is_skipped_without_root("a trial of halt polling") {
        return;
    }
    let scene = Scene::new();
    let line = format!(
        "prove haltpoll.guest_halt_poll_ns=200000 --window-ms 300 --budget 60s --json --state {}",
        scene.path("state").display()
    );
    let mut missed = 0;
    for _ in 0..3 {
        let bare = Bare::start();
        let answer = json(&scene.run(&line));
        let (verdict, pairs) = (answer["verdict"].as_str().unwrap(), answer["pairs"].as_u64().unwrap());
        scene.assert_all_as_before();
        // With other tests on the CPUs they are never idle, and with the value set already there is nothing to find.
        if verdict == "better" && pairs <= 20 || verdict == "not-engaged" {
            return;
        }
        eprintln!("{verdict} after {pairs} pairs: {}", answer["doubts"]);
        match answer["ended"] == "out-of-spares" {
            true => bare.excuses(&answer["dropped"]),
            false => missed += 1,
        }
    }
    assert_eq!(missed, 0, "of three tries that the machine let be, so many did not find it, and none did");
}

/// What can't be proved, with the exit code and what is said.
const REFUSED: &[(&str, i32, &str)] = &[
    ("prove vm.swapiness=1", 2, "did you mean \"vm.swappiness\""),
    ("prove vm.swappiness=1000", 2, "vm.swappiness does not take \"1000\""),
    ("prove vm.swappiness", 2, "expected KNOB=VALUE"),
    ("prove process.timer_slack_ns=1 process.timer_slack_ns=2", 2, "process.timer_slack_ns is set twice at server"),
    ("prove process.timer_slack_ns=1 --report /dev/null/x", 4, "write into /dev/null/x: not a directory"),
    ("prove process.timer_slack_ns=1 --smallest-effect 0", 2, "0 is not between"),
    ("prove process.timer_slack_ns=1 --metric no_such_us", 2, "the workload gives round_trip_us_p50"),
    ("prove process.timer_slack_ns=1 --pairs 2", 2, "2 is not in 6..=5000"),
    ("prove process.timer_slack_ns=1 --guard no_such_us", 2, "the workload gives round_trip_us_p50"),
    ("prove process.timer_slack_ns=1 --guard round_trip_us_p99=-3", 2, "no per cent above 0"),
    ("prove process.timer_slack_ns=1 --settle 5d", 2, "\"d\" is no unit of time"),
    ("prove process.timer_slack_ns=1 --set colour=red", 2, "set colour: the workload arena takes"),
    ("prove process.timer_slack_ns=1 --workload arean", 2, "there is no such workload; there are arena"),
    ("prove --arm vm.swapiness=1 --arm vm.swappiness=1", 2, "did you mean \"vm.swappiness\""),
    ("prove process.timer_slack_ns=1 --workload tick -- true", 2, "--workload tick names a server of evenkeel's own"),
    (
        "prove process.timer_slack_ns=1 --workload tick --budget 0s",
        2,
        "within a budget of 0 s: finding how long a switch is felt, 10 pairs of the machine against itself and the 5",
    ),
    (
        "prove process.timer_slack_ns=1 --workload tick --budget 10s --control-pairs 0",
        2,
        "finding how long a switch is felt and the 5 pairs that may decide take",
    ),
    ("prove process.timer_slack_ns=1 --workload tick --budget 40s", 2, "within a budget of 40 s: finding how long"),
    (
        "prove process.timer_slack_ns=1 --workload tick --budget 10s --settle 50ms",
        2,
        "within a budget of 10 s: 10 pairs of the machine",
    ),
    (
        "prove process.timer_slack_ns=1 --arm process.timer_slack_ns=1",
        2,
        "arm C (process.timer_slack_ns=1) is there already",
    ),
    ("prove --goal goal.json --arm process.timer_slack_ns=1", 2, "cannot be used with"),
    (
        "prove --arm process.timer_slack_ns=1 --arm process.timer_slack_ns=2 --arm process.timer_slack_ns=3 --pairs 5000",
        2,
        "26664 windows of 4 arms: at most 20000",
    ),
    ("prove --from nowhere.jsonl", 2, "read the session nowhere.jsonl"),
    ("prove --from last --state empty", 2, "none is kept in"),
    ("prove", 2, "required"),
];

#[test]
fn what_can_not_be_proved_is_refused_with_its_reason() {
    let scene = Scene::new();
    for (line, code, expected) in REFUSED {
        let output = scene.run(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
        let left = ["state", "empty"].map(|name| scene.path(name).exists());
        assert_eq!(left, [false; 2], "{line}: what is refused leaves no directory behind");
    }
    let output = scene.run_as_ordinary_user("prove vm.swappiness=30");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    if !is_skipped_without_root("to be refused a kernel argument for another reason than rights") {
        let output =
            scene.run(&format!("prove cmdline.intel_idle.max_cstate=1 --state {}", scene.path("state").display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("a kernel argument takes effect after a reboot"), "{said}");
    }
}

#[test]
fn every_workload_is_listed_with_what_it_needs() {
    let scene = Scene::new();
    let answer = json(&scene.run("prove --list-workloads --json"));
    let names: Vec<&str> =
        answer["workloads"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"arena"), "{names:?}");
    let text = scene.run("prove --list-workloads").stdout;
    assert!(String::from_utf8_lossy(&text).contains("--set tick-hz=50: ticks a second"));
}

/// Starts a long trial that switches `vm.swappiness`, and waits until its journal tells that it has begun.
fn long_trial(scene: &Scene) -> Running {
    let state = scene.path("state");
    let line = format!("prove vm.swappiness=31 --pairs 500 --window-ms 100 --state {}", state.display());
    let trial = Running(scene.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    let is_31 = || std::fs::read_to_string("/proc/sys/vm/swappiness").is_ok_and(|text| text == "31\n");
    let changed = || state.join("journal").exists() && is_31();
    while !changed() {
        assert!(begun.elapsed() < PATIENCE, "the trial does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    trial
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<String> {
    let root = Root::live();
    let threads = root.entries(&format!("/proc/{pid}/task")).unwrap();
    let of = |thread: &String| root.text(&format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    threads.iter().flat_map(|thread| of(thread).split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn a_killed_trial_is_put_back_by_revert_and_leaves_no_server() {
    if is_skipped_without_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::new();
    let mut trial = long_trial(&scene);
    let servers = children(trial.0.id());
    assert_eq!(servers.len(), 2, "the server and its bots");
    trial.0.kill().unwrap();
    trial.0.wait().unwrap();
    let begun = Instant::now();
    // A process that was killed and that nobody has waited for yet reads as state Z; init waits for it in its own time.
    let runs = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
    };
    while servers.iter().any(runs) {
        assert!(begun.elapsed() < PATIENCE, "the server outlives the trial");
        std::thread::sleep(Duration::from_millis(5));
    }
    let state = scene.path("state");
    let refused = scene.run(&format!("prove vm.swappiness=31 --state {}", state.display()));
    assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
    let revert = format!("run `evenkeel revert --state {}` first", state.display());
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&revert));
    assert!(!String::from_utf8_lossy(&refused.stdout).contains("game server"), "no server is started for it");
    let reverted = scene.run(&format!("revert --state {}", state.display()));
    assert!(reverted.status.success(), "{}", String::from_utf8_lossy(&reverted.stderr));
    scene.assert_all_as_before();
}

#[test]
fn a_stopped_trial_reports_what_it_has_and_puts_everything_back() {
    if is_skipped_without_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::new();
    let mut trial = long_trial(&scene);
    process::ask_to_end(trial.0.id());
    let status = trial.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "stopped, which is no failure: {status}");
    scene.assert_all_as_before();
}

fn check_demo(scene: &Scene, output: &Output, proved: &[&str]) {
    let said = String::from_utf8_lossy(&output.stdout);
    // With so few pairs a noisy machine may leave the control undecided, which is exit code 1.
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("read as before"), "{said}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(scene.path("out/report.json")).unwrap()).unwrap();
    assert_eq!(report["format"], 1);
    assert_eq!(report["all_as_before"], true);
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.iter().map(|trial| trial["control"].as_bool()).collect::<Vec<_>>(), [Some(true), Some(false)]);
    let knob = trials[1]["knob"].as_str().unwrap().split('=').next().unwrap();
    assert!(proved.contains(&knob), "{knob}");
    assert!(report["not_tried"].as_array().is_some_and(|not_tried| !not_tried.is_empty()), "{said}");
    let page = std::fs::read_to_string(scene.path("out/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("</html>"));
    for outside in ["src=\"http", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(outside), "the page needs the network: {outside}");
    }
    scene.assert_all_as_before();
}

#[test]
fn demo_as_an_ordinary_user() {
    let scene = Scene::new();
    let output = scene.run_as_ordinary_user("demo --pairs 6 --out out");
    check_demo(&scene, &output, &["process.timer_slack_ns"]);
}

#[test]
fn demo_as_root() {
    if is_skipped_without_root("the demo of a knob of the host") {
        return;
    }
    let scene = Scene::new();
    let output = scene.run(&format!("demo --pairs 6 --out out --state {}", scene.path("state").display()));
    check_demo(&scene, &output, &["haltpoll.guest_halt_poll_ns", "cpuidle.dma_latency_us", "process.timer_slack_ns"]);
}
