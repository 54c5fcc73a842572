//! `prove` on servers that know nothing of it: the verdict on one that works, the words on one that does not, and what is left of one
//! when evenkeel is killed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Prints a line of JSON every 10 ms: by one program, since to start one for each line takes longer than a window on some machines.
const SERVER: &str = "echo up; exec perl -e '$| = 1; while (1) { print qq({\"rtt\":{\"us\":50}}\\n); select undef, undef, undef, 0.01 }'";

/// A pause of the whole machine in the wrong window is no fault of the code.
const TRIES: usize = 3;

/// Held by whoever loads this machine or switches its settings, be it of another checkout.
fn host() -> File {
    let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    host.lock().unwrap();
    host
}

fn evenkeel(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["prove", "process.timer_slack_ns=40000", "--state"]).arg(state).args(arguments);
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether a process lives that has this among its arguments.
fn lives(argument: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

#[test]
fn a_server_of_the_users_is_proved_and_can_be_proved_again() {
    let _host = host();
    let state = tempfile::tempdir().unwrap();
    let tag = format!("evenkeel-proved-{}", std::process::id());
    let arguments = [
        "--json",
        "--pairs",
        "6",
        "--window-ms",
        "100",
        "--settle",
        "10ms",
        "--control-pairs",
        "0",
        "--placement",
        "free",
        "--ready-line",
        "^up$",
        "--json-metric",
        "rtt.us",
        "--better",
        "lower",
        "--",
        "sh",
        "-c",
        SERVER,
        &tag,
    ];
    let mut dropped = Vec::new();
    for _ in 0..TRIES {
        let output = evenkeel(state.path(), &arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["metric"]["name"], "rtt.us", "{answer}");
        assert_eq!(answer["metric"]["unit"], "us", "{answer}");
        assert!(!lives(&tag), "the server is gone");
        if answer["ended"] == "out-of-spares" {
            dropped.push(answer["dropped"].clone());
            continue;
        }
        assert_eq!(answer["pairs"], 6, "{answer}");
        assert!(answer["arms"][0]["cpu_share"].as_f64().is_some_and(|share| share > 0.0), "{answer}");
        return;
    }
    panic!("too many windows were dropped each time: {dropped:?}");
}

#[test]
fn what_is_wrong_with_a_server_is_said_and_nothing_is_left() {
    let _host = host();
    let state = tempfile::tempdir().unwrap();
    let table: [(&[&str], i32, &str); 5] = [
        (
            &["--json-metric", "rtt", "--", "sleep", "9"],
            2,
            "which way is better for rtt? (--better 'rtt=lower' or 'rtt=higher')",
        ),
        (
            &["--ready-port", "http", "--", "sleep", "9"],
            2,
            "failed to read --ready-port http: expected PORT, tcp:PORT or udp:PORT",
        ),
        (
            &["--workload", "tick", "--ready-port", "1"],
            2,
            "failed to take --ready-port 1: they are for a server of yours behind --",
        ),
        (&["--", "evenkeel-no-such-server"], 4, "failed to start evenkeel-no-such-server: No such file or directory"),
        (
            &["--", "sh", "-c", "echo oops; exit 3"],
            4,
            "failed to hear from sh: it ended (exit status: 3); its last lines: \"oops\"",
        ),
    ];
    for (arguments, code, expected) in table {
        let output = evenkeel(state.path(), arguments).output().unwrap();
        assert!(text(&output).contains(expected), "{arguments:?}: {}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn one_that_dies_in_the_middle_leaves_its_results() {
    let _host = host();
    let state = tempfile::tempdir().unwrap();
    let script = format!("(sleep 8; kill -9 $$) & {SERVER}");
    let arguments = [
        "--pairs",
        "500",
        "--fixed",
        "--window-ms",
        "100",
        "--settle",
        "10ms",
        "--control-pairs",
        "0",
        "--placement",
        "free",
        "--ready-line",
        "^up$",
        "--json-metric",
        "rtt.us",
        "--better",
        "lower",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let output = evenkeel(state.path(), &arguments).output().unwrap();
    let said = text(&output);
    assert!(said.contains("hear from sh: it ended (signal: 9 (SIGKILL)); its last lines: "), "{said}");
    assert!(said.contains("kept in ") && said.contains(" pairs: "), "{said}");
    assert_eq!(output.status.code(), Some(5), "{said}");
}

#[test]
fn nothing_of_a_server_is_left_when_evenkeel_is_killed() {
    let _host = host();
    let state = tempfile::tempdir().unwrap();
    let tag = format!("evenkeel-killed-{}", std::process::id());
    // A child of the server's in a session of its own, which nothing that the kernel does by itself would end.
    let script = format!("setsid sh -c 'while :; do sleep 1; done' {tag} & while :; do sleep 1; done");
    let arguments = ["--placement", "free", "--", "sh", "-c", &script];
    let mut prove = evenkeel(state.path(), &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !lives(&tag) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never started");
        std::thread::sleep(Duration::from_millis(10));
    }
    prove.kill().unwrap();
    prove.wait().unwrap();
    let killed = Instant::now();
    while lives(&tag) {
        assert!(killed.elapsed() < Duration::from_secs(60), "it lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
