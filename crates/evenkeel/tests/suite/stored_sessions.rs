//! Tests the files that a trial stores, and its messages about them.
//! The cases include a full disk, a report or an answer that can't be written,
//! and options that `prove resume` does not accept.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use evenkeel_testkit::needs_root;

use crate::scene::{Scene, json};

#[test]
fn a_report_that_can_not_be_written_takes_no_result_with_it() {
    let scene = Scene::new();
    // The folder is writable, but a folder has the name of the file.
    std::fs::create_dir_all(scene.path("out/report.html")).unwrap();
    let state = scene.path("state");
    let line = "prove process.timer_slack_ns=1 --workload simulated --pairs 6 --report out";
    let output = scene.run(line);
    let (stdout, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(stdout.contains("A  median ") && stdout.contains("seed "), "{stdout}");
    assert!(said.contains("report.html: is a directory"), "{said}");
    let file = kept_file(&said).unwrap_or_else(|| panic!("{said}"));
    assert!(file.starts_with(&state) && said.contains(" --report DIR` prints it"), "{said}");
    // A trial that was killed before it wrote its first line left no session.
    std::fs::write(state.join("sessions/99991231-235959-1.jsonl"), "").unwrap();
    for from in ["last", file.to_str().unwrap()] {
        let output = scene.run(&format!("prove report {from} --state {} --report {from}.report", state.display()));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut unprinted = scene.command(&line.replace(" --report out", ""));
    let unprinted =
        unprinted.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&unprinted.stderr);
    assert_eq!(unprinted.status.code(), Some(4), "{said}");
    let output = scene.run(&format!("prove report {}", kept_file(&said).unwrap_or_else(|| panic!("{said}")).display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The session file that a hint names.
fn kept_file(said: &str) -> Option<PathBuf> {
    let (_, rest) = said.split_once("the session is stored: `evenkeel prove report ")?;
    rest.split([' ', '`']).next().map(PathBuf::from)
}

/// Runs a command line with a size limit for every file, in blocks of 512 bytes.
/// For the process, this looks like a full disk.
fn run_on_a_full_disk(scene: &Scene, blocks: u32, line: &str) -> Output {
    let inner = scene.command(line);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""));
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(scene.path("")).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_full_disk_is_reported_rather_than_a_stored_session() {
    let scene = Scene::new();
    let state = scene.path("state");
    let line = "prove process.timer_slack_ns=1 --workload simulated --pairs 24 --fixed --control-pairs 0 --settle 20ms --report out";
    // With 0 blocks, even the first line does not fit. With 10 blocks, the first pairs fit.
    for (blocks, sessions) in [(0, 0), (10, 1)] {
        let output = run_on_a_full_disk(&scene, blocks, line);
        let (stdout, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(4), "{said}{stdout}");
        assert!(stdout.contains("failed to store the whole session in "), "{said}{stdout}");
        assert!(said.contains("the session is not fully stored either: free disk space"), "{said}");
        assert!(kept_file(&said).is_none() && !said.contains("prove report"), "{said}");
        let kept = std::fs::read_dir(state.join("sessions")).into_iter().flatten().count();
        assert_eq!(kept, sessions, "an empty session is removed");
    }
}

#[test]
fn where_the_journal_has_no_room_it_is_said_how_to_have_it_elsewhere() {
    if needs_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::of_host();
    let output = run_on_a_full_disk(&scene, 0, "prove vm.swappiness=30 --anyway --workload simulated");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("add to ") && said.contains("use a folder on another disk with --state DIR"), "{said}");
    scene.assert_all_as_before();
}

#[test]
fn a_session_is_gone_on_with_as_it_was_begun() {
    let scene = Scene::new();
    let begun = "prove process.timer_slack_ns=1 --workload simulated --window-ms 100 --pairs 6 --fixed --control-pairs 0 --settle 20ms \
                 --guard none";
    let output = scene.run(&format!("{begun} --keep kept.jsonl"));
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", String::from_utf8_lossy(&output.stderr));
    for option in
        ["--metric cpu_share", "--window-ms 2000", "--pairs 500", "--budget 90s", "--guard none", "vm.swappiness=1"]
    {
        let output = scene.run(&format!("prove resume kept.jsonl {option}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(" takes no "), "{option}: {said}");
        assert!(output.stdout.is_empty(), "no server is started for it");
    }
    // The user need not repeat any option, but may repeat the workload.
    for line in ["prove resume kept.jsonl", "prove resume kept.jsonl --workload simulated"] {
        let answer = json(&scene.run(&format!("{line} --json")));
        assert_eq!(
            (&answer["design"]["window_ms"], &answer["design"]["stop"]["after"]["pairs"]),
            (&100.into(), &6.into())
        );
    }
}

/// A session that an older evenkeel stored does not contain the arguments of its workload.
#[test]
fn a_session_without_its_workload_says_what_to_add() {
    let scene = Scene::new();
    scene.run("prove process.timer_slack_ns=1 --workload simulated --pairs 6 --keep kept.jsonl");
    let text = std::fs::read_to_string(scene.path("kept.jsonl")).unwrap();
    let (head, windows) = text.split_once('\n').unwrap();
    let mut head: serde_json::Value = serde_json::from_str(head).unwrap();
    assert_eq!(head.as_object_mut().unwrap().remove("asked").unwrap()["workload"], "--workload simulated");
    std::fs::write(scene.path("old.jsonl"), format!("{head}\n{windows}")).unwrap();
    let output = scene.run("prove resume old.jsonl");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("evenkeel prove resume old.jsonl --state "), "{said}");
    assert!(said.contains(" --workload NAME, or ") && said.contains(" -- CMD"), "{said}");
    let answer = json(&scene.run("prove resume old.jsonl --workload simulated --json"));
    assert_eq!(answer["pairs"], 6, "{answer}");
    assert_eq!(json(&scene.run("prove report old.jsonl --json"))["pairs"], 6);
}

/// The session also stores the folder of the workload's files, and the folder of the report.
#[test]
fn a_session_goes_on_from_any_folder() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("elsewhere")).unwrap();
    scene.script(&serde_json::json!({"effects": []}));
    let begun = "prove process.timer_slack_ns=1 --workload simulated --set script=script.json --pairs 6 --report out";
    let output = scene.run(begun);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["report.html", "report.json"] {
        std::fs::remove_file(scene.path("out").join(name)).unwrap();
    }
    let resumed = |line: &str| scene.command(line).current_dir(scene.path("elsewhere")).output().unwrap();
    let output = resumed("prove resume");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(scene.path("out/report.json").exists(), "where it was to be");
    let output = resumed("prove resume --report own");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(scene.path("elsewhere/own/report.json").exists(), "what is named now counts from here");
}

#[test]
fn a_command_is_not_run_because_a_session_says_so() {
    let scene = Scene::new();
    scene.run("prove process.timer_slack_ns=1 --workload simulated --pairs 6 --keep foreign.jsonl");
    let text = std::fs::read_to_string(scene.path("foreign.jsonl")).unwrap();
    std::fs::write(scene.path("foreign.jsonl"), text.replace("--workload simulated", "-- touch started")).unwrap();
    let state = scene.path("state");
    let output = scene.run("prove resume foreign.jsonl");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let named = format!("evenkeel prove resume foreign.jsonl --state {} -- touch started", state.display());
    assert!(said.contains("runs no command that only a file names") && said.contains(&named), "{said}");
    assert!(!scene.path("started").exists());
    // evenkeel trusts a session in its own folder, and runs the session's command.
    // `touch` is not a server, so the trial fails.
    std::fs::create_dir_all(state.join("sessions")).unwrap();
    std::fs::copy(scene.path("foreign.jsonl"), state.join("sessions/1.jsonl")).unwrap();
    assert_eq!(scene.run("prove resume").status.code(), Some(4));
    assert!(scene.path("started").exists());
}

const GOAL: &str = r#"{"format": 1, "evenkeel": "0.1.0", "title": "t", "settings": ["process.timer_slack_ns=1"], "steps": [], "evidence": {
    "format": 1, "written": "2026-11-23", "smallest_effect_ratio": 0.02, "confidence": 0.95, "window_ms": 250, "settle_ms": 50,
    "metric": {"name": "latency_us_p50", "title": "t", "unit": "us", "better": "lower"},
    "guards": [{"metric": {"name": "cpu_share", "title": "", "unit": "share", "better": "lower"}, "harm_ratio": 0.07}],
    "seed": 1, "workload": {"name": "simulated", "placement": "apart", "arguments": "--workload simulated"}, "workload_words": "w", "host": {},
    "answer": {"verdict": "better", "ended": "whole", "set": [], "along": {}, "knobs": [], "windows": {}, "took_ms": 1}}}"#;

#[test]
fn a_trial_of_a_goal_goes_on_without_it() {
    let scene = Scene::new();
    std::fs::write(scene.path("goal.json"), GOAL).unwrap();
    let begun = "prove --goal goal.json --pairs 6 --fixed --control-pairs 0 --settle 20ms --keep kept.jsonl";
    let output = scene.run(begun);
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_file(scene.path("goal.json")).unwrap();
    let answer = json(&scene.run("prove resume kept.jsonl --json"));
    assert_eq!(answer["design"]["window_ms"], 250);
    assert_eq!(answer["design"]["guards"][0]["metric"]["name"], "cpu_share");
}

#[test]
fn a_setting_already_in_force_is_reported_before_any_verdict() {
    if needs_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::of_host();
    let now = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let now = now.trim();
    let line = format!(
        "prove vm.swappiness={now} --anyway --workload simulated --pairs 6 --fixed --control-pairs 0 --settle 20ms --keep kept.jsonl --json"
    );
    let same = format!("vm.swappiness is already {now} here, so both arms have it");
    for line in [line.as_str(), "prove report kept.jsonl --json"] {
        let answer = json(&scene.run(line));
        assert!(
            answer["sentence"].as_str().unwrap().starts_with(&format!("{same}; ")),
            "{line}: {}",
            answer["sentence"]
        );
        assert_eq!(answer["caveats"][0]["text"], same.as_str(), "{line}");
    }
    scene.assert_all_as_before();
}

#[test]
fn a_run_that_failed_says_so_before_anything_else() {
    let scene = Scene::new();
    let line = "prove process.timer_slack_ns=1 --workload simulated --set script=script.json --control-pairs 0 --settle 20ms \
                --turns 1 --json";
    // A trial needs at least five pairs for a decision, which take ten windows. The server dies earlier.
    scene.script(&serde_json::json!({"events": [{"window": 8, "dies": "it ended (exit status: 3)"}]}));
    let output = scene.run(line);
    let answer = json(&output);
    assert_eq!((output.status.code(), &answer["verdict"]), (Some(5), &"undecided".into()), "{answer}");
    let (sentence, caveat) = (answer["sentence"].as_str().unwrap(), answer["caveats"][0]["text"].as_str().unwrap());
    assert!(sentence.starts_with("the trial failed ") && sentence.contains("exit status: 3"), "{sentence}");
    assert!(caveat.starts_with("the trial failed after ") && caveat.contains("exit status: 3"), "{caveat}");
}
