//! Shell scripts that serve as servers and loads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_sys::foreign_process::Signal;
use evenkeel_workload::command::{Command, Ending, LoadSettings, Ready, Runs, Settings};
use evenkeel_workload::{Options, Placement};
use evenkeel_workload::{Sample, Workload, WorkloadError};

/// A tag in a command's arguments. With the tag, a test finds processes that the command left behind.
pub(crate) fn tag(name: &str) -> String {
    format!("evenkeel-test-{}-{name}", std::process::id())
}

pub(crate) fn options(command: &[&str]) -> Options {
    Options {
        programs: PathBuf::new(),
        seed: 1,
        players: None,
        placement: Placement::Free,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        set: BTreeMap::new(),
        stop: Arc::default(),
        tick_function: None,
        simulated: Default::default(),
    }
}

/// Settings with short time limits, for a server that is ready at once.
pub(crate) fn settings() -> Settings {
    Settings {
        ready: Ready::After(Duration::from_millis(50)),
        ready_limit: Duration::from_secs(20),
        ending: Ending { signal: Signal::TERM, limit: Duration::from_secs(5) },
        ..Settings::default()
    }
}

/// Starts a shell script as a server. The tag identifies it among all processes.
pub(crate) fn start(name: &str, script: &str, settings: Settings) -> Result<Command, WorkloadError> {
    Command::start(&options(&["sh", "-c", script, &tag(name)]), settings)
}

pub(crate) fn window(command: &mut Command, ms: u64) -> Result<Sample, WorkloadError> {
    command.window(Duration::from_millis(1), Duration::from_millis(ms), &mut || {})
}

pub(crate) fn with_load(load: &str, runs: Runs) -> Settings {
    Settings { load: Some(LoadSettings::parse(load, runs).unwrap()), ..settings() }
}
