//! `Workload`: a server with load on it, one file each and one line in [`ALL`].

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_measure::meters::ticks::function::ReadFunction;
use evenkeel_sys::{CpuSet, thread};

use crate::clock::SimulatedMachine;
use crate::error::TrialError;
use crate::metric::Metric;

pub mod arena;
mod caveat;
mod child;
pub mod command;
mod ddnet;
mod drain;
mod full;
mod game;
mod memcached;
mod mosquitto;
mod nginx;
mod openarena;
mod outside;
mod pair;
pub(crate) mod place;
mod redis;
mod server;
mod serving;
mod settable;
mod simulated;
mod telemetry;
mod tick;
mod udp_echo;

pub use caveat::WorkloadCaveat;
pub use place::PLACEMENT;
pub use settable::Settable;

/// What the names of the workload's own settings begin with where they are compared as knobs are: `workload.work-us`.
pub const SETTING_PREFIX: &str = "workload.";

/// The numbers of one window, by name with unit: `round_trip_us_p50`.
pub type Sample = BTreeMap<String, f64>;

/// A server with load on it that can be measured window by window while it runs on.
pub trait Workload {
    /// What it is, for the report: programs, versions, players, rates, placement.
    fn describe(&self) -> String;

    /// The metrics that may decide a trial, the usual one first.
    fn metrics(&self) -> &[Metric];

    /// How often what its usual metric measures happens, a second, where that is known: a window is to hold some of them.
    fn events_per_s(&self) -> Option<f64> {
        None
    }

    /// Whether its packets pass a network device, which packets on loopback do not.
    fn passes_network_devices(&self) -> bool {
        false
    }

    /// Whether a quarter of a second of it is measured as well as a second: arms may then share a window in turns. Not where numbers come
    /// seldom, as lines and pages of somebody else's do.
    fn takes_turns(&self) -> bool {
        false
    }

    /// The server's processes, for what is seen from outside: CPU time, switches, properties. Empty where nothing can be told.
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The machine that it simulates, where it simulates one: the trial then runs by that machine's clock and conditions.
    fn simulated(&self) -> Option<SimulatedMachine> {
        None
    }

    /// Sets a property of the server's own process (`process.timer_slack_ns`); `None` gives it the default again.
    /// Returns the value read back.
    ///
    /// # Errors
    /// If the server can't, or did not.
    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, TrialError> {
        let why = format!("{} has no way to set it while it runs", self.describe());
        Err(TrialError::Switch { knob: knob.to_owned(), wanted: value.unwrap_or("the default").to_owned(), why })
    }

    /// Sets something of the workload itself, as `--set NAME=VALUE` does, while it runs; `None` gives it back what it was started
    /// with. Returns the value in force, or nothing where it takes this by a new start alone.
    ///
    /// # Errors
    /// If it does not take the value, or does not answer.
    fn set_live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, TrialError> {
        let _ = (name, value);
        Ok(None)
    }

    /// Brings settings of the workload itself about, all at once; `None` gives each what it was started with. Those that it does
    /// not take while it runs take a new start, whatever their values are, so that all arms go one path. Returns what is in force.
    ///
    /// # Errors
    /// If it has no such setting, does not take the value, or did not come back.
    fn configure(&mut self, settings: &[(&str, Option<&str>)]) -> Result<Vec<String>, TrialError> {
        match settings.first() {
            None => Ok(Vec::new()),
            Some((name, value)) => Err(TrialError::Switch {
                knob: format!("{SETTING_PREFIX}{name}"),
                wanted: value.unwrap_or("what it was").to_owned(),
                why: format!("{} has no such setting", self.describe()),
            }),
        }
    }

    /// Makes the server take new sockets, for knobs that reach only those. By a new start, unless it can do better.
    ///
    /// # Errors
    /// If it did not come back.
    fn reopen(&mut self) -> Result<(), TrialError> {
        self.restart()
    }

    /// Starts server and load anew, for knobs that reach only a new process.
    ///
    /// # Errors
    /// If the workload can't, or it did not come back.
    fn restart(&mut self) -> Result<(), TrialError> {
        Err(TrialError::Workload { program: self.describe(), why: "it can't be started anew during a trial".into() })
    }

    /// Lets the load run for `settle`, whose numbers are thrown away, and then for `window`, and returns that window's.
    /// `begin` is called between the two.
    ///
    /// # Errors
    /// If the server or its load ended, hung, or said what was not expected.
    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, TrialError>;

    /// What a sceptic should know of the workload itself, such as a load that was at its own limit.
    fn caveats(&self) -> Vec<WorkloadCaveat> {
        Vec::new()
    }

    /// Ends server and load, gracefully if they let it.
    fn stop(&mut self);
}

/// Where server and load run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The first half of our CPUs for the server, the others for its load; no pinning where there is but one.
    #[default]
    Apart,
    /// Both on the first of our CPUs.
    Together,
    /// Wherever the kernel puts them.
    Free,
}

/// As it is asked for.
impl Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Placement::Apart => "apart",
            Placement::Together => "together",
            Placement::Free => "free",
        })
    }
}

impl Placement {
    /// By its name.
    pub fn parse(text: &str) -> Option<Placement> {
        [Placement::Apart, Placement::Together, Placement::Free].into_iter().find(|known| known.to_string() == text)
    }

    /// The CPUs of the server and of its load; empty sets pin nothing.
    pub fn cpus(self) -> (CpuSet, CpuSet) {
        let ours = thread::affinity().unwrap_or_default();
        let first: CpuSet = ours.iter().take(1).collect();
        match self {
            Placement::Free => (CpuSet::default(), CpuSet::default()),
            Placement::Together => (first.clone(), first),
            Placement::Apart if ours.len() < 2 => (CpuSet::default(), CpuSet::default()),
            Placement::Apart => {
                let half: CpuSet = ours.iter().take(ours.len() / 2).collect();
                let rest = ours.without(&half);
                (half, rest)
            }
        }
    }
}

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
    pub start: fn(&Options) -> Result<Box<dyn Workload>, TrialError>,
}

/// Every workload that has a name, in the order in which help shows them.
pub const ALL: &[Entry] = &[
    arena::ENTRY,
    udp_echo::ENTRY,
    tick::ENTRY,
    drain::ENTRY,
    telemetry::ENTRY,
    command::ENTRY,
    outside::ENTRY,
    memcached::ENTRY,
    redis::ENTRY,
    nginx::ENTRY,
    mosquitto::ENTRY,
    ddnet::ENTRY,
    openarena::ENTRY,
    simulated::ENTRY,
];

/// A whole number from `--set`, within bounds.
pub(crate) fn number<N>(name: &str, value: &str, bounds: RangeInclusive<N>) -> Result<N, TrialError>
where
    N: FromStr + PartialOrd + Display,
{
    value.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
        let (least, most) = (bounds.start(), bounds.end());
        TrialError::setting(name, value, format!("expected a whole number from {least} to {most}"))
    })
}

/// A name that `--set` can't have for this workload.
pub(crate) fn unknown(workload: &str, name: &str) -> TrialError {
    let known = find(workload).map_or(&[][..], |entry| entry.settings);
    let known: Vec<&str> = known.iter().filter_map(|(setting, _)| Some(setting.split_once('=')?.0)).collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    TrialError::Design(format!("set {name}: the workload {workload} takes {known}"))
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_do_not_overlap() {
        let (server, load) = Placement::Apart.cpus();
        assert!(server.and(&load).is_empty());
        assert_eq!(server.is_empty(), load.is_empty());
        let (server, load) = Placement::Together.cpus();
        assert_eq!((server.len(), &server), (1, &load));
    }

    #[test]
    fn a_setting_that_a_workload_does_not_have_is_named() {
        let mut options = Options {
            programs: PathBuf::new(),
            seed: 1,
            players: None,
            placement: Placement::Free,
            command: Vec::new(),
            set: BTreeMap::from([("colour".to_owned(), "red".to_owned())]),
            stop: Arc::default(),
            tick_function: None,
            simulated: SimulatedMachine::default(),
        };
        for entry in ALL {
            let message = (entry.start)(&options).err().map(|error| error.to_string()).unwrap();
            assert!(message.starts_with("design a trial: set colour: the workload "), "{}: {message}", entry.name);
        }
        options.set = BTreeMap::from([("tick-hz".to_owned(), "5".to_owned())]);
        let message = (arena::ENTRY.start)(&options).err().map(|error| error.to_string()).unwrap();
        assert_eq!(message, "design a trial: set tick-hz=5: expected a whole number from 10 to 500");
    }
}
