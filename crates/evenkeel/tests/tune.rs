//! `tune` on the machine that runs the tests: what it refuses, and a search that is killed, put back and gone on with. What it finds
//! is the machine's business; that it reports whole and puts everything back is asserted.

#![expect(clippy::unwrap_used, reason = "a test that can't run its program fails")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_sys::process;
use serde_json::Value;

/// How long something may take that takes a moment: this machine pauses at times.
const PATIENCE: Duration = Duration::from_secs(30);
const FILES: [&str; 2] = ["/proc/sys/vm/swappiness", "/proc/sys/vm/stat_interval"];

struct Scene {
    /// There is one host, and one test at a time that switches its settings.
    _host: File,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        host.lock().unwrap();
        Scene { _host: host, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(line.split(' ')).args(["--state".into(), self.path("state")]).current_dir(self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }
}

/// A search that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn readings() -> Vec<Option<String>> {
    FILES.iter().map(|file| std::fs::read_to_string(file).ok()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_can_not_be_searched_is_refused_with_its_reason() {
    let scene = Scene::new();
    let table = [
        ("tune --knobs vm.swapiness=1", 2, "did you mean \"vm.swappiness\""),
        ("tune --knobs vm.swappiness=1000", 2, "vm.swappiness does not take \"1000\""),
        (
            "tune --budget 5",
            2,
            "the budget gives 4 windows of 1000 ms, each after 100 ms of quiet; a search takes at least 80, which is 88 s",
        ),
        ("tune --budget soon", 2, "is no unit of time: s, min, h"),
        ("tune --smallest-effect 0", 2, "0 is not between"),
        ("tune --metric no_such_us", 2, "the workload gives"),
        ("tune --guard 1", 2, "a guard at 1 times the usual"),
        ("tune --stop-at 1", 2, "a guard at 1 times the usual"),
        ("tune --guard no_such_us", 2, "the workload gives"),
        ("tune --guard round_trip_us_p99=-5", 2, "is no per cent above 0"),
        ("tune --metric round_trip_us_p50 --guard round_trip_us_p50", 2, "it is what decides already"),
        ("tune --knobs workload.colour=red", 2, "unknown knob"),
        ("tune --knobs workload.tick-hz=5", 4, "set tick-hz=5: expected a whole number from 10 to 500"),
        ("tune --knobs workload.tick-hz=50", 4, "workload.tick-hz: it is so already"),
        ("prove workload.tick-hz=5", 2, "set tick-hz=5: expected a whole number from 10 to 500"),
        ("prove workload.pps=100", 2, "set pps: the workload arena takes tick-hz, work-us, tail-us"),
        ("tune --out /not/here/goal.json", 2, "there is no such folder"),
        ("tune --workload arean", 2, "there is no such workload"),
        ("tune --resume", 2, "read the search's log"),
        ("tune --knobs cmdline.mitigations=off", 4, "it takes effect after a reboot"),
        ("prove --goal /not/here/goal.json", 2, "read the goal /not/here/goal.json"),
    ];
    for (line, code, expected) in table {
        let output = scene.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        assert!(said(&output).contains(expected), "{line}: {}", said(&output));
        // More time mends a budget that is too small, and nothing else.
        assert_eq!(said(&output).contains("give more time by --budget"), line == "tune --budget 5", "{line}");
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

/// Waits until so many windows are in the log, and one of the settings is switched.
fn wait_for_windows(log: &Path, count: usize, before: &[Option<String>]) {
    let begun = Instant::now();
    let windows = || std::fs::read_to_string(log).map_or(0, |text| text.lines().count().saturating_sub(1));
    while windows() < count || readings() == before {
        assert!(begun.elapsed() < PATIENCE, "the search does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_search_is_put_back_by_revert_and_gone_on_with() {
    if !process::is_root() {
        eprintln!("skipped: to switch settings of the host needs root");
        return;
    }
    let scene = Scene::new();
    let before = readings();
    let knobs = "vm.swappiness=31 vm.stat_interval=7 process.timer_slack_ns=1";
    let line = format!("tune --knobs {knobs} --budget 14s --window-ms 100 --settle-ms 10 --seed 3");
    let log = scene.path("state").join("tune.jsonl");
    {
        let mut search = Running(scene.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for_windows(&log, 12, &before);
        search.0.kill().unwrap();
        search.0.wait().unwrap();
    }
    let refused = scene.run("tune --resume");
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains("was interrupted and has not been put back"), "{}", said(&refused));
    let reverted = scene.run("revert");
    assert!(reverted.status.success(), "{}", said(&reverted));
    assert_eq!(readings(), before);
    let kept = std::fs::read_to_string(&log).unwrap().lines().count();
    let output = scene.run("tune --resume --json");
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    assert_eq!(readings(), before);
    assert_eq!((&answer["format"], &answer["all_as_before"]), (&1.into(), &true.into()), "{answer}");
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(["better", "nothing-helped", "not-proved"].contains(&verdict), "{verdict}");
    assert_eq!(answer["design"]["seed"], 3);
    assert_eq!(answer["knobs"].as_array().unwrap().len(), 3);
    let windows: u64 = answer["windows"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert!(windows as usize + 1 >= kept, "{windows} windows, {kept} lines were kept");
}
