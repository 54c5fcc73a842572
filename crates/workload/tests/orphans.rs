//! Processes without a mark that a command leaves behind. This is a separate test program.
//! In other test programs, servers of other tests are children too. Then orphans without a mark are not included.

#![expect(clippy::unwrap_used, reason = "tests: a panic is how a test says that it can't go on")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use evenkeel_sys::foreign_process::Signal;
use evenkeel_workload::Workload;
use evenkeel_workload::command::{Command, Ending, Ready, Settings};
use evenkeel_workload::{Options, Placement};

/// Whether a living process has this argument.
fn lives(argument: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

#[test]
fn an_unmarked_orphan_is_ended_too() {
    // A process in its own session, without parent and environment, that ignores SIGTERM and runs another program.
    // The creator of this process continues only after the process exists, even on a busy machine.
    // If the test fails, the process remains for at most a minute.
    let argument = format!("60.{:09}", std::process::id());
    let script = format!(
        "(setsid sh -c 'trap \"\" TERM; exec env -i sleep {argument}' >/dev/null 2>&1 &) ; exec tail -f /dev/null"
    );
    let options = Options {
        programs: PathBuf::new(),
        seed: 1,
        players: None,
        placement: Placement::Free,
        command: vec!["sh".into(), "-c".into(), script],
        set: BTreeMap::new(),
        stop: Arc::default(),
        tick_function: None,
        simulated: Default::default(),
    };
    let settings = Settings {
        ready: Ready::After(Duration::from_millis(50)),
        ready_limit: Duration::from_secs(20),
        ending: Ending { signal: Signal::TERM, limit: Duration::from_millis(200) },
        ..Settings::default()
    };
    let mut command = Command::start(&options, settings).unwrap();
    let begun = Instant::now();
    while !lives(&argument) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not start");
        thread::sleep(Duration::from_millis(5));
    }
    command.stop();
    assert!(!lives(&argument), "it was left behind");
}
