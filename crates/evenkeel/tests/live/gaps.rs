//! `evenkeel measure gaps` as a user runs it: what its answer holds, what it says when it can't, and that being killed leaves nothing behind.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn gaps(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["measure", "gaps"]).args(arguments).output().unwrap()
}

#[test]
fn an_answer_has_what_others_build_on() {
    let cpu = evenkeel_sys::thread::affinity().unwrap().iter().last().unwrap().to_string();
    let output = gaps(&["--cpus", &cpu, "--seconds", "1", "--keep", "5", "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["format"]), (Some(0), &Value::from(1)));
    let seen = &answer["cpus"][0];
    let listed = seen["gaps"].as_array().unwrap();
    assert!(!listed.is_empty() && listed.len() <= 5, "{seen}");
    for gap in listed {
        assert!(gap["start_ns"].is_u64() && gap["length_ns"].is_u64() && gap["cause"].is_string(), "{gap}");
    }
    assert_eq!(seen["lost"]["count"].as_u64().unwrap() + listed.len() as u64, seen["all"]["count"].as_u64().unwrap());
    assert!(answer["observer_cpu_share"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_can_not_be_done_is_said() {
    let table: [(&[&str], i32, &str); 4] = [
        (&["--cpus", "1000"], 4, "measure CPUs 1000: this process may use CPUs"),
        (&["--cpus", "x"], 2, "not a list of CPUs"),
        (&["--sample", "--fifo"], 2, "cannot be used with"),
        (&["--min-us", "0.1"], 2, "outside 0.5 to"),
    ];
    for (arguments, code, words) in table {
        let output = gaps(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn killed_it_leaves_nothing_changed() {
    let look = || {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        [
            text("/proc/sys/kernel/sched_rt_runtime_us"),
            text("/proc/sys/kernel/perf_event_paranoid"),
            text("/sys/devices/system/cpu/online"),
        ]
    };
    let before = look();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let command = command.args(["measure", "gaps", "--seconds", "60"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(look(), before);
}
