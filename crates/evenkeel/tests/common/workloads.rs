//! Starts the built-in workloads as a trial does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_trial::TrialError;
use evenkeel_workload::{Options, Placement, Sample, Settable, Workload};

/// The folder with evenkeel's programs.
pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap().to_owned()
}

/// Why a test can't start the arena; `None` if it can.
pub(crate) fn missing_arena() -> Option<&'static str> {
    let is_missing = !programs().join("evenkeel-arena").exists();
    is_missing.then_some("evenkeel-arena is not built; `cargo build --workspace` builds it")
}

fn options(placement: Placement, set: &[(&str, &str)]) -> Options {
    Options {
        programs: programs(),
        seed: 1,
        players: None,
        placement,
        command: Vec::new(),
        set: set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        stop: Default::default(),
        tick_function: None,
        simulated: Default::default(),
    }
}

/// A workload whose server and load have separate CPUs.
pub(crate) fn start(name: &str, set: &[(&str, &str)]) -> Box<dyn Workload> {
    (evenkeel_workload::find(name).unwrap().start)(&options(Placement::Apart, set)).unwrap()
}

/// Starts a workload as `prove` does.
pub(crate) fn settable(name: &str, set: &[(&str, &str)]) -> Settable {
    Settable::start(evenkeel_workload::find(name).unwrap(), &options(Placement::Apart, set)).unwrap()
}

/// Measures one window.
pub(crate) fn try_window(
    workload: &mut dyn Workload,
    settle: Duration,
    length: Duration,
) -> Result<Sample, TrialError> {
    let mut began = 0;
    let sample = workload.window(settle, length, &mut || began += 1)?;
    assert_eq!(began, 1, "the window begins once");
    Ok(sample)
}
