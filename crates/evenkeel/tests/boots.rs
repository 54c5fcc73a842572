//! `prove --boots` as far as it goes without a reboot: what is said beforehand, what is told of a trial that a state on disk tells of, and
//! what becomes of a state that is damaged. `lab/boots.sh` goes the rest of the way.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use evenkeel_trial::boots::{BootOutcome, BootWords, BootsDesign, BootsEnded, BootsState, SeenBoot, read, write};
use serde_json::Value;
use tempfile::TempDir;

const KNOB: &str = "cmdline.processor.max_cstate=1";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn prove(line: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    program.current_dir(top()).arg("prove").args(line.split_whitespace()).output().unwrap()
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", both(output)))
}

/// A trial of which so many boots are measured, B's a fifth lower.
fn measured(boots: usize) -> BootsState {
    let design = BootsDesign {
        settings: vec![KNOB.to_owned()],
        metric: BootsDesign::default_metric(),
        smallest_effect_ratio: 0.05,
        boots: 4,
        windows: 3,
        window_ms: 1000,
        settle_ms: 0,
        seed: 0,
        reboots: false,
        limit_s: 1_000_000,
    };
    let mut state = BootsState::begin(design, 1_700_000_000, "boot-0");
    for boot in 0..boots {
        let (slot, arm) = state.next_slot().unwrap();
        let level = if format!("{arm:?}") == "B" { 80.0 } else { 100.0 } + boot as f64;
        let outcome = BootOutcome::Measured { values: vec![level; 3], dropped: 0 };
        let machine = BootWords::default();
        state.seen.push(SeenBoot { boot_id: format!("r{boot}"), slot, arm, tries: 1, machine, outcome });
    }
    state
}

fn kept(state: &BootsState) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("boots");
    write(&file, state).unwrap();
    (dir, file)
}

#[test]
fn what_takes_a_reboot_is_refused_with_the_way_to_go() {
    let hosts = "--plan-only --host hosts/aws-m4.xlarge-xen-4.4.txt";
    let table = [
        (KNOB.to_owned(), 4, "--boots 4 compares four boots, A-B-B-A: 6 min of measuring"),
        (format!("{KNOB} --boots 5"), 2, "expected 4, 8, 12 or 16"),
        (format!("{KNOB} --reboot"), 2, "--boots"),
        (format!("{KNOB} --boots 4 --goal x"), 2, "cannot be used with"),
        (format!("{KNOB} --boots 4 --smallest-effect 0 {hosts}"), 2, "0 is not between 0 and 1000 per cent"),
        (format!("vm.swappiness=10 --boots 4 {hosts}"), 2, "leave out --boots"),
        (format!("cmdline.no_such=1 --boots 4 {hosts}"), 2, "cmdline.no_such"),
        // This machine is booted by no boot loader that its capture tells of.
        (format!("{KNOB} --boots 4 --plan-only --host hosts/firecracker-2vcpu-6.18.txt"), 4, "outlive a boot"),
    ];
    for (line, code, expected) in table {
        let output = prove(&line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", both(&output));
        assert!(both(&output).contains(expected), "{line}: {}", both(&output));
    }
}

#[test]
fn what_would_be_done_is_said_beforehand() {
    let line = format!("{KNOB} --boots 8 --seed 0 --plan-only --host hosts/aws-m4.xlarge-xen-4.4.txt");
    let answer = json(&prove(&format!("{line} --json")));
    assert_eq!((answer["format"].as_u64(), answer["error"].as_f64()), (Some(1), Some(0.05)));
    assert_eq!(answer["order"].as_str().unwrap().len(), 8);
    assert!(answer["order"].as_str().unwrap().starts_with("ABBA"), "{answer}");
    let file = &answer["plan"]["keep"]["files"][0];
    assert_eq!(file["path"].as_str(), Some("/etc/default/grub.d/90-evenkeel.cfg"));
    let text = both(&prove(&line));
    for words in ["Nothing reboots by itself", "wrong up to 5 times in 100", "At most 11 boots in all", "update-grub"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(both(&prove(&format!("{line} --reboot"))).contains("reboots by itself, now and after"));
}

#[test]
fn the_status_never_says_better_alone() {
    let (dir, _) = kept(&BootsState { ended: Some(BootsEnded::Whole), ..measured(4) });
    let out = dir.path().join("out");
    let state = format!("--boots-status --state {}", dir.path().display());
    let output = prove(&format!("{state} --report {}", out.display()));
    let text = both(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let pages = text.clone() + &std::fs::read_to_string(out.join("boots.md")).unwrap();
    assert!(pages.matches("better").count() >= 2, "{pages}");
    // A page wraps its lines.
    let pages = pages.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        pages.matches("better").count(),
        pages.matches("better (over 4 boots only: weaker than a trial)").count(),
        "{pages}"
    );
    assert!(pages.contains("both boots of B were below both boots of A"), "{pages}");
    let answer = json(&prove(&format!("{state} --json")));
    let file: Value = serde_json::from_slice(&std::fs::read(out.join("boots.json")).unwrap()).unwrap();
    assert_eq!(answer, file);
    assert_eq!(answer["comparison"]["verdict"].as_str(), Some("better"));
    assert_eq!(answer["boots"].as_array().unwrap().len(), 4);
}

#[test]
fn a_trial_that_was_reverted_says_so_and_can_be_cancelled() {
    // Its unit is not in the journal, as after `evenkeel revert`.
    let (dir, file) = kept(&measured(2));
    let state = format!("--state {}", dir.path().display());
    let told = json(&prove(&format!("--boots-status --json {state}")));
    assert_eq!(told["ended"].as_str(), Some("cancelled"), "{told}");
    assert_eq!(told["verdict"].as_str(), Some("nothing is known yet"));
    let output = prove(&format!("--boots-cancel {state}"));
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    assert_eq!(read(&file).unwrap().unwrap().ended, Some(BootsEnded::Cancelled));
}

#[test]
fn a_trial_that_is_just_beginning_is_not_told_as_cancelled() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let beginning = BootsState { begun_boot: boot.trim().to_owned(), ..measured(0) };
    let (dir, _) = kept(&beginning);
    let told = json(&prove(&format!("--boots-status --json --state {}", dir.path().display())));
    assert!(told["ended"].is_null(), "{told}");
}

#[test]
fn a_damaged_state_is_put_away() {
    for option in ["--boots-resume", "--boots-cancel"] {
        let (dir, file) = kept(&measured(2));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let state = format!("--state {}", dir.path().display());
        let told = prove(&format!("--boots-status {state}"));
        assert_eq!(told.status.code(), Some(4));
        assert!(both(&told).contains("the checksum does not match"), "{}", both(&told));
        let output = prove(&format!("{option} {state}"));
        assert_eq!(output.status.code(), Some(5), "{option}: {}", both(&output));
        assert!(both(&output).contains("it is given up, and everything is put back"), "{}", both(&output));
        assert!(!file.exists() && std::fs::read(dir.path().join("boots.damaged")).unwrap() == bytes);
        // And nothing is done a second time.
        let again = prove(&format!("{option} {state}"));
        assert_eq!((again.status.code(), both(&again).contains("no trial over boots")), (Some(0), true));
    }
}
