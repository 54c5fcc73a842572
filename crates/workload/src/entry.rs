//! `Entry`: a workload that has a name. `Options`: the options with which it starts.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel_measure::meters::ticks::function::ReadFunction;

use crate::clock::SimulatedMachine;
use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::placement::Placement;
use crate::workload::Workload;

/// The options of all workloads. Each workload uses only the options that it needs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of evenkeel's own programs.
    pub programs: PathBuf,
    /// The seed of the workload's random choices.
    pub seed: u64,
    /// The number of players or connections. None means the workload's default.
    pub players: Option<u32>,
    /// How CPUs are assigned to server and load.
    pub placement: Placement,
    /// The user's command with its arguments. Empty for the built-in workloads.
    pub command: Vec<String>,
    /// The user's settings by `--set NAME=VALUE`. An unknown name is an error.
    pub set: BTreeMap<String, String>,
    /// A flag that is set when the user asks to stop. Every wait then ends.
    pub stop: Arc<AtomicBool>,
    /// Finds the function that a server calls once per tick, by its name. None if this build cannot look up names.
    pub tick_function: Option<ReadFunction>,
    /// The simulated machine, for a workload that simulates one.
    pub simulated: SimulatedMachine,
}

/// A workload that has a name.
pub struct Entry {
    /// The name of the workload.
    pub name: &'static str,
    /// A short description.
    pub title: &'static str,
    /// The command that installs the server. The user runs it. evenkeel never does. None if no server must be installed.
    pub install: Option<&'static str>,
    /// The settings for `--set`, each as `NAME=VALUE` with the default value, and a description.
    pub settings: &'static [(&'static str, &'static str)],
    /// The metrics that may decide a trial, in groups. A running workload may not have all of them, such as those of a tick.
    pub metrics: &'static [&'static [Metric]],
    /// Starts the workload, and waits until it is ready.
    pub start: fn(&Options) -> Result<Box<dyn Workload>, WorkloadError>,
}

impl Entry {
    /// The names of the workload's settings.
    pub(crate) fn setting_names(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().filter_map(|(setting, _)| Some(setting.split_once('=')?.0))
    }
}

/// Parses a whole number from `--set`, which must be within these bounds.
pub(crate) fn number<N>(name: &str, value: &str, bounds: RangeInclusive<N>) -> Result<N, WorkloadError>
where
    N: FromStr + PartialOrd + Display,
{
    value.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
        let (least, most) = (bounds.start(), bounds.end());
        WorkloadError::setting(name, value, format!("expected a whole number from {least} to {most}"))
    })
}

/// Parses a setting that has one of two values. Returns whether the value is the second one.
///
/// # Errors
/// Fails if the value is neither of the two.
pub(crate) fn one_of(name: &str, value: &str, [first, second]: [&str; 2]) -> Result<bool, WorkloadError> {
    match value == second {
        false if value != first => Err(WorkloadError::setting(name, value, format!("expected {first} or {second}"))),
        is_second => Ok(is_second),
    }
}

/// The error for a name that is not a setting of this workload.
pub(crate) fn unknown(entry: &Entry, name: &str) -> WorkloadError {
    let known: Vec<&str> = entry.setting_names().collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    WorkloadError::Options(format!("set {name}: the workload {} takes {known}", entry.name))
}
