//! `Entry`: a workload that is asked for by name, and the `Options` that it starts with.

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
use crate::placement::Placement;
use crate::workload::Workload;

/// What a workload may need to know to start. Each takes what concerns it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of evenkeel's own programs.
    pub programs: PathBuf,
    /// Seed of whatever the workload draws by lot.
    pub seed: u64,
    /// Players or connections; the workload's own number if none.
    pub players: Option<u32>,
    /// Where server and load run.
    pub placement: Placement,
    /// The user's command with its arguments; empty for the built-in workloads.
    pub command: Vec<String>,
    /// What the user set of the workload itself by `--set NAME=VALUE`; a name that it does not know is an error.
    pub set: BTreeMap<String, String>,
    /// Set when the user asks to stop: whatever is waited for is then waited for no longer.
    pub stop: Arc<AtomicBool>,
    /// Reads the name of a function that a server enters once a tick; none where nobody can look up symbols.
    pub tick_function: Option<ReadFunction>,
    /// The machine of a workload that simulates one.
    pub simulated: SimulatedMachine,
}

/// A workload that can be asked for by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few plain words.
    pub title: &'static str,
    /// The one command that installs what it needs, where it needs something: for a person to run, never run by us.
    pub install: Option<&'static str>,
    /// What `--set` takes, as `NAME=VALUE` with the default, and what it does.
    pub settings: &'static [(&'static str, &'static str)],
    /// Starts it and waits until it serves.
    pub start: fn(&Options) -> Result<Box<dyn Workload>, WorkloadError>,
}

impl Entry {
    /// The names that `--set` takes.
    pub(crate) fn setting_names(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().filter_map(|(setting, _)| Some(setting.split_once('=')?.0))
    }
}

/// A whole number from `--set`, within bounds.
pub(crate) fn number<N>(name: &str, value: &str, bounds: RangeInclusive<N>) -> Result<N, WorkloadError>
where
    N: FromStr + PartialOrd + Display,
{
    value.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
        let (least, most) = (bounds.start(), bounds.end());
        WorkloadError::setting(name, value, format!("expected a whole number from {least} to {most}"))
    })
}

/// A name that `--set` can't have for this workload.
pub(crate) fn unknown(entry: &Entry, name: &str) -> WorkloadError {
    let known: Vec<&str> = entry.setting_names().collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    WorkloadError::Options(format!("set {name}: the workload {} takes {known}", entry.name))
}
