//! Tests `prove` on servers without preparation for evenkeel:
//! its messages if a server works or fails, and that no server remains if evenkeel is killed.
//! A live check runs a whole trial on such a server.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use evenkeel_sys::{process, thread};

use crate::schemas;
use crate::wait::until;

/// Prints a line of JSON every 10 ms.
/// One program prints all lines,
/// because on some machines starting a program for each line would take longer than a window.
/// `$0` is an argument of that program. The test finds the process by this argument.
const SERVER: &str = r#"echo up; exec perl -e '$| = 1; while (1) { print qq({"rtt":{"us":50}}\n); select undef, undef, undef, 0.01 }' "$0""#;

/// Options of a trial that does not end by itself. The test ends it.
const ENDLESS: &str = "--pairs 5000 --fixed --window-ms 100 --settle 10ms --control-pairs 0 --placement free --ready-line ^up$ \
                       --json-metric rtt.us --better lower";

/// A separate folder for the state and the sessions.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        Scene { folder: tempfile::tempdir().unwrap() }
    }

    /// Runs `prove` with these options on a server.
    fn prove(&self, options: &str, server: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        // An ordinary user may change this setting, too.
        let cpu = thread::affinity().unwrap().first().unwrap();
        command.args(["prove", &format!("process.cpu_affinity={cpu}"), "--state"]).arg(self.folder.path());
        // Folders that every user can read. The program can't find programs in other folders.
        command.args(options.split_whitespace()).args(server).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts an endless trial on [`SERVER`], and waits until a pair is measured.
    fn endless(&self, options: &str, tag: &str) -> Child {
        let kept = self.kept();
        let options = format!("{options} {ENDLESS} --keep {} --", kept.display());
        let mut trial = self.prove(&options, &["sh", "-c", SERVER, tag]).spawn().unwrap();
        until("a pair is measured", || {
            if trial.try_wait().unwrap().is_some() {
                let mut said = String::new();
                trial.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the trial ended before its first pair: {said}");
            }
            fs::read_to_string(&kept).is_ok_and(|text| text.contains("{\"pair\":["))
        });
        trial
    }

    fn kept(&self) -> PathBuf {
        self.folder.path().join("session.jsonl")
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The process numbers of the processes that have this argument.
fn with_argument(argument: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    pids.filter(has).collect()
}

#[test]
fn a_server_of_the_users_is_measured_and_ended() {
    let scene = Scene::new();
    let tag = format!("evenkeel-proved-{}", std::process::id());
    let trial = scene.endless("--json", &tag);
    process::ask_to_end(trial.id());
    let output = trial.wait_with_output().unwrap();
    let answer = schemas::parse("prove", &output.stdout);
    assert_eq!((&answer["metric"]["name"], &answer["metric"]["unit"]), (&"rtt.us".into(), &"us".into()), "{answer}");
    assert_eq!(answer["ended"], "stopped", "{answer}");
    assert!(answer["pairs"].as_u64() >= Some(1), "{answer}");
    assert!(answer["arms"][0]["cpu_share"].as_f64().is_some_and(|share| share > 0.0), "{answer}");
    assert_eq!(with_argument(&tag), [0; 0], "the server has ended");
}

#[test]
fn what_is_wrong_with_a_server_is_said_and_nothing_is_left() {
    let scene = Scene::new();
    let table: [(&str, &[&str], i32, &str); 5] = [
        (
            "--json-metric rtt --",
            &["sleep", "9"],
            2,
            "which way is better for rtt? (--better 'rtt=lower' or 'rtt=higher')",
        ),
        (
            "--ready-port http --",
            &["sleep", "9"],
            2,
            "failed to read --ready-port http: expected PORT, tcp:PORT or udp:PORT",
        ),
        (
            "--workload tick --ready-port 1",
            &[],
            2,
            "failed to use --ready-port 1: these options need your own server (-- CMD)",
        ),
        (
            "--",
            &["evenkeel-no-such-server"],
            4,
            "failed to start evenkeel-no-such-server: no such file or directory (ENOENT); no folder in PATH contains it",
        ),
        (
            "--",
            &["sh", "-c", "echo oops; exit 3"],
            4,
            "failed to measure sh: it ended (exit status: 3); its last lines: \"oops\"",
        ),
    ];
    for (options, server, code, expected) in table {
        let output = scene.prove(options, server).output().unwrap();
        assert!(text(&output).contains(expected), "{options} {server:?}: {}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{options} {server:?}");
    }
}

#[test]
fn one_that_dies_in_the_middle_leaves_its_results() {
    let scene = Scene::new();
    let tag = format!("evenkeel-died-{}", std::process::id());
    let trial = scene.endless("", &tag);
    let server = with_argument(&tag).into_iter().find(|pid| *pid != trial.id()).unwrap();
    assert!(Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap().success());
    let output = trial.wait_with_output().unwrap();
    let said = text(&output);
    assert!(said.contains("measure sh: it ended (signal: 9 (SIGKILL)); its last lines: "), "{said}");
    assert!(said.contains("session stored in ") && said.contains(" pairs: "), "{said}");
    assert_eq!(output.status.code(), Some(5), "{said}");
}

#[test]
fn nothing_of_a_server_is_left_when_evenkeel_is_killed() {
    let scene = Scene::new();
    let tag = format!("evenkeel-killed-{}", std::process::id());
    // A child of the server leaves the server's session. The kernel alone would not end this child.
    let script = format!("setsid sh -c 'while :; do sleep 1; done' {tag} & while :; do sleep 1; done");
    let mut prove = scene.prove("--placement free --", &["sh", "-c", &script]).spawn().unwrap();
    until("the server runs", || !with_argument(&tag).is_empty());
    prove.kill().unwrap();
    prove.wait().unwrap();
    until("the server has ended", || with_argument(&tag).is_empty());
}
