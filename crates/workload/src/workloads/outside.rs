//! A running server with its real players. evenkeel starts nothing and sends nothing.
//! The values come from the kernel: the tick from switch records, and the cadence from packets.

use std::time::Duration;

use evenkeel_hostfs::proc;
use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_measure::meters::ticks::tempo::RATE_HZ;

use crate::entry::{Entry, Options, number, unknown};
use crate::error::WorkloadError;
use crate::kit::child::sleep;
use crate::metric::Metric;
use crate::source::Source;
use crate::source::outside_packets::{self, OutsidePackets};
use crate::source::outside_ticks::{self, OutsideTicks};
use crate::workload::{Sample, Workload};

/// The maximum number of processes to use if several processes have the given name.
const PIDS_MAX: usize = 64;

/// The registry entry of a running server.
pub(super) const ENTRY: Entry = Entry {
    name: "outside",
    title: "a running server, observed from outside: its tick by switch records, its packets by their times",
    install: None,
    settings: &[
        ("pid=0", "the server's process"),
        ("name=", "the server's processes by the name of their program, where no pid is given"),
        (
            "tick-thread=",
            "the thread that ticks, by its name; otherwise the loop that holds most of the work is the tick",
        ),
        ("tick=", "the tick rate in Hz, where it is known"),
        ("tick-function=", "the function that the server enters once a tick: SYMBOL of its program, or BINARY:SYMBOL"),
        ("see=ticks", "what to observe: ticks, packets, or both"),
    ],
    metrics: &[outside_ticks::METRICS, outside_packets::METRICS],
    start: |options| Ok(Box::new(Outside::start(options)?)),
};

/// What evenkeel observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum See {
    Ticks,
    Packets,
    Both,
}

/// A running server that is observed.
pub(super) struct Outside {
    pids: Vec<u32>,
    named: String,
    sources: Vec<Box<dyn Source>>,
    metrics: Vec<Metric>,
}

impl Outside {
    /// Finds the server and watches it for some three seconds.
    ///
    /// # Errors
    /// Fails if the server does not exist, may not be watched, or has no observable tick.
    pub(super) fn start(options: &Options) -> Result<Outside, WorkloadError> {
        let (mut pid, mut name, mut tick, mut see) = (None, None, Wanted::default(), See::Ticks);
        for (setting, value) in &options.set {
            match setting.as_str() {
                "pid" => pid = Some(number(setting, value, 1..=4_194_304_u32)?),
                "name" => name = Some(value.as_str()),
                "tick-thread" | "thread" => tick.thread = Some(value.clone()),
                "tick" => tick.tick_hz = Some(number(setting, value, RATE_HZ)?),
                "tick-function" => {
                    let none =
                        || WorkloadError::Options("set tick-function: symbols can't be looked up here".to_owned());
                    let read = options.tick_function.ok_or_else(none)?(value);
                    tick.function =
                        Some(read.map_err(|why| WorkloadError::Options(format!("set tick-function: {why}")))?);
                }
                "see" => {
                    see = match value.as_str() {
                        "ticks" => See::Ticks,
                        "packets" => See::Packets,
                        "both" => See::Both,
                        _ => {
                            return Err(WorkloadError::setting(setting, value, "expected ticks, packets or both"));
                        }
                    }
                }
                _ => return Err(unknown(&ENTRY, setting)),
            }
        }
        let (pids, named) = match (pid, name) {
            (Some(pid), _) if alive(&[pid], "").is_err() => {
                let why = "there is no such process; `pgrep -a NAME` shows the numbers of processes";
                return Err(WorkloadError::setting("pid", pid, why));
            }
            (Some(pid), _) => (vec![pid], format!("process {pid}")),
            (None, Some(name)) => (called(name), name.to_owned()),
            (None, None) => {
                return Err(WorkloadError::Options("which server? Add --set pid=N or --set name=PROGRAM".into()));
            }
        };
        if pids.is_empty() {
            return Err(WorkloadError::Start {
                program: named,
                why: "no process with this name is running; start it first".into(),
            });
        }
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        if see != See::Packets {
            sources.push(Box::new(OutsideTicks::start(&pids, &tick, &options.stop)?));
        }
        if see != See::Ticks {
            sources.push(Box::new(OutsidePackets::start(&pids)?));
        }
        let metrics = sources.iter().flat_map(|source| source.metrics()).collect();
        Ok(Outside { pids, named, sources, metrics })
    }
}

/// Checks that the server still runs.
fn alive(pids: &[u32], named: &str) -> Result<(), WorkloadError> {
    let is_there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}/task")).exists();
    match pids.iter().any(is_there) {
        true => Ok(()),
        false => Err(WorkloadError::Program { program: named.to_owned(), why: "it has ended".into() }),
    }
}

/// The processes of a program, found by the first 15 characters of its name, or by its file.
fn called(name: &str) -> Vec<u32> {
    let is_it = |pid: &u32| {
        let short = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let file = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        short.trim_end() == name || file.file_name().is_some_and(|file| file == name)
    };
    let mut pids: Vec<u32> = proc::processes().filter(is_it).collect();
    pids.sort_unstable();
    pids.truncate(PIDS_MAX);
    pids
}

impl Outside {
    fn in_words(&self, of_source: impl Fn(&dyn Source) -> String) -> String {
        let sources: Vec<String> = self.sources.iter().map(|source| of_source(source.as_ref())).collect();
        format!("{}, which ran already, under the players that it has: {}", self.named, sources.join("; "))
    }
}

impl Workload for Outside {
    fn describe(&self) -> String {
        self.in_words(|source| source.describe())
    }

    fn identity(&self) -> String {
        self.in_words(|source| source.identity())
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn events_per_s(&self) -> Option<f64> {
        self.sources.iter().filter_map(|source| source.events_per_s()).min_by(f64::total_cmp)
    }

    fn can_restart(&self) -> bool {
        false
    }

    fn takes_turns(&self) -> bool {
        self.sources.iter().all(|source| source.takes_turns())
    }

    /// We do not know whether the server's packets pass a network device, so assume that they do.
    fn passes_network_devices(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        self.pids.clone()
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        sleep(settle);
        alive(&self.pids, &self.named)?;
        for source in &mut self.sources {
            source.begin()?;
        }
        begin();
        sleep(window);
        let mut sample = Sample::new();
        for source in &mut self.sources {
            let ended = source.end();
            // If the server has ended, report its end instead of a missing value.
            alive(&self.pids, &self.named)?;
            sample.extend(ended?);
        }
        Ok(sample)
    }

    /// The server continues, because evenkeel did not start it.
    fn stop(&mut self) {
        self.sources.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::placement::Placement;

    fn options(set: &[(&str, &str)]) -> Options {
        let set: BTreeMap<String, String> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Options {
            programs: PathBuf::new(),
            seed: 1,
            players: None,
            placement: Placement::Free,
            command: Vec::new(),
            set,
            stop: Arc::default(),
            tick_function: None,
            simulated: Default::default(),
        }
    }

    fn refusal(set: &[(&str, &str)]) -> String {
        Outside::start(&options(set)).err().map(|error| error.to_string()).unwrap()
    }

    #[test]
    fn a_missing_server_is_named() {
        assert_eq!(
            refusal(&[]),
            "read the options of the workload: which server? Add --set pid=N or --set name=PROGRAM"
        );
        assert_eq!(
            refusal(&[("name", "no-such-server")]),
            "start no-such-server: no process with this name is running; start it first"
        );
        assert!(
            refusal(&[("pid", "4194303")]).contains("there is no such process"),
            "{}",
            refusal(&[("pid", "4194303")])
        );
        assert!(refusal(&[("pid", "0")]).contains("expected a whole number from 1"));
        assert!(refusal(&[("pid", "1"), ("see", "stars")]).ends_with("expected ticks, packets or both"));
        assert!(called("no-such-server").is_empty());
        let ours = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert!(called(ours.trim_end()).contains(&std::process::id()));
    }

    #[test]
    fn a_server_whose_processes_are_gone_has_ended() {
        assert!(alive(&[4_194_303, std::process::id()], "us").is_ok());
        let gone = alive(&[4_194_303], "no-such-server").unwrap_err().to_string();
        assert_eq!(gone, "measure no-such-server: it has ended");
    }
}
