//! The input of `pack`: a table of sessions, and the rules that a placement must follow.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_fleet::pack::{self, CpuSets, InterruptCpus, Machine, Options, PackError, Report};
use evenkeel_fleet::{Session, read_sessions};
use evenkeel_host::facts::Limits;
use evenkeel_host::{Fact, Facts};
use evenkeel_hostfs::{Root, json_words};
use serde::Deserialize;

use crate::args::number;
use crate::exit;
use crate::failure::Failure;
use crate::user_table;

/// The maximum size of a table of sessions, and of an answer of `measure quantum`.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The hint that describes a table of sessions.
pub(crate) const SESSION_COLUMNS: &str = "a table of sessions has the column cpus, such as 0.12 for 12 % of a CPU, and optionally others. docs/packing.md has examples";

/// The rules that a placement must follow.
#[derive(Debug, clap::Args)]
pub(super) struct Question {
    /// The highest load of a CPU that several sessions share, from 0.05 to 1
    #[arg(long, value_name = "SHARE", default_value_t = pack::LOAD_MAX, value_parser = load)]
    load_max: f64,
    /// Leave N CPUs for the system [default: 0.5 on one CPU, 1 on up to 4, 0 on more]
    #[arg(long, value_name = "N", value_parser = cpus)]
    system_cpus: Option<f64>,
    /// CPUs that serve the network's interrupts: share or avoid them; auto: share if packets take little
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Interrupts::Auto, hide_possible_values = true)]
    interrupt_cpus: Interrupts,
    /// Where each session may run: its own CPUs (one), all CPUs of their cache (cache), or of their node (node)
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Sets::Node, hide_possible_values = true)]
    cpu_sets: Sets,
    /// The answer of `measure quantum --json`: the share of each CPU that the hypervisor gives
    #[arg(long, value_name = "FILE")]
    slices: Option<PathBuf>,
    /// Hold the limits of this slice of systemd, instead of those of evenkeel's own control group
    #[arg(long, value_name = "SLICE")]
    slice: Option<String>,
}

/// How to use the CPUs that serve interrupts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Interrupts {
    Share,
    Avoid,
    Auto,
}

/// Which CPUs each session may run on.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sets {
    One,
    Cache,
    Node,
}

/// The table of sessions.
pub(super) fn table(path: &Path) -> Result<Vec<Session>, Failure> {
    let table = user_table::open(path, FILE_BYTES_MAX)?;
    read_sessions(table).map_err(|error| user_table::failure(path, &error, SESSION_COLUMNS))
}

impl Question {
    /// The options that reproduce this placement.
    pub(super) fn words(&self) -> Vec<String> {
        let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let mut words = Vec::new();
        if self.load_max != pack::LOAD_MAX {
            words.push(format!("--load-max={}", self.load_max));
        }
        words.extend(self.system_cpus.map(|cpus| format!("--system-cpus={cpus}")));
        if !matches!(self.interrupt_cpus, Interrupts::Auto) {
            words.push(format!("--interrupt-cpus={}", name(&|| self.interrupt_cpus.to_possible_value())));
        }
        if !matches!(self.cpu_sets, Sets::Node) {
            words.push(format!("--cpu-sets={}", name(&|| self.cpu_sets.to_possible_value())));
        }
        let slices = self.slices.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        words.extend(slices.map(|path| format!("--slices={}", path.display())));
        words.extend(self.slice.as_ref().map(|slice| format!("--slice={slice}")));
        words
    }

    /// The machine on which the sessions are placed, with the limits that they have there.
    pub(super) fn machine(&self, root: &Root, mut facts: Facts) -> Result<Machine, Failure> {
        if let Some(slice) = &self.slice {
            let tried = || format!("hold the limits of slice {slice}");
            let path = slice_path(slice).ok_or_else(|| {
                Failure::text(exit::WRONG_USE, tried(), "it is not the name of a slice")
                    .hint("name it as systemd does, such as game.slice, or by its path below /sys/fs/cgroup")
            })?;
            facts.limits = match Limits::of_group(root, &path) {
                Fact::Known(limits) => limits,
                unknown => {
                    let why = unknown.unknown_why().unwrap_or("not read").to_owned();
                    return Err(Failure::text(exit::NOT_POSSIBLE, tried(), why).hint(
                        "start the slice first: systemctl start game.slice; systemd removes slices without services",
                    ));
                }
            };
        }
        Ok(Machine { slice: self.slice.clone(), ..Machine::from_facts(&facts) })
    }

    /// Places the sessions of a table.
    pub(super) fn place(&self, sessions: &Path, machine: &Machine) -> Result<Report, Failure> {
        let options = Options {
            load_max: self.load_max,
            system_cpus: self.system_cpus,
            interrupt_cpus: match self.interrupt_cpus {
                Interrupts::Share => InterruptCpus::Share,
                Interrupts::Avoid => InterruptCpus::Avoid,
                Interrupts::Auto => InterruptCpus::Auto,
            },
            cpu_sets: match self.cpu_sets {
                Sets::One => CpuSets::One,
                Sets::Cache => CpuSets::Cache,
                Sets::Node => CpuSets::Node,
            },
            shares: self.slices.as_deref().map(slices).transpose()?.unwrap_or_default(),
            ..Options::default()
        };
        pack::plan(machine, &table(sessions)?, &options).map_err(|error| failure(sessions, &error))
    }
}

/// The path of a slice below the mount of control groups. Systemd has `a-b.slice` in `a.slice`. A text with slashes is a path.
fn slice_path(slice: &str) -> Option<String> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if slice.contains('/') {
        let path = slice.trim_matches('/');
        return path.split('/').all(is_plain).then(|| format!("/{path}"));
    }
    let stem = slice.strip_suffix(".slice").filter(|stem| stem.split('-').all(is_plain))?;
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    Some(ends.map(|end| format!("/{}.slice", &stem[..end])).collect())
}

fn failure(sessions: &Path, error: &PackError) -> Failure {
    let (code, hint) = match error {
        PackError::TooManySessions(_) => {
            (exit::WRONG_USE, "lower the counts: one machine does not hold that many sessions")
        }
        PackError::UnitTwice(_) => {
            (exit::WRONG_USE, "each session has a service of its own, such as arena@{n}.service for session N of a row")
        }
        PackError::NoCpus(_) => {
            (exit::NOT_POSSIBLE, "`evenkeel inspect --all` shows what is known of the machine's CPUs")
        }
    };
    Failure::text(code, format_args!("place the sessions in {}", sessions.display()), error).hint(hint)
}

/// The fields of an answer of `measure quantum` that this program uses.
#[derive(Deserialize)]
struct Quantum {
    cpus: Vec<QuantumCpu>,
}

#[derive(Deserialize)]
struct QuantumCpu {
    cpu: usize,
    share: Option<f64>,
}

/// The share of each CPU that the hypervisor gives, from an answer of `measure quantum`.
fn slices(path: &Path) -> Result<Vec<(usize, f64)>, Failure> {
    let tried = || format!("read {}", path.display());
    let mut text = String::new();
    let read = user_table::open(path, FILE_BYTES_MAX)?.read_to_string(&mut text);
    read.map_err(|error| Failure::io(exit::WRONG_USE, tried(), &error))?;
    let hint = "`evenkeel measure quantum --json > FILE` writes such a file";
    let found: Quantum = serde_json::from_str(&text)
        .map_err(|error| Failure::text(exit::WRONG_USE, tried(), json_words::plain(&error)).hint(hint))?;
    let shares: Vec<(usize, f64)> = found.cpus.iter().filter_map(|cpu| Some((cpu.cpu, cpu.share?))).collect();
    match shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
        Some((cpu, share)) => {
            let why = format!("CPU {cpu} has a share of {share}, which is not from 0 to 1");
            Err(Failure::text(exit::WRONG_USE, tried(), why).hint(hint))
        }
        None => Ok(shares),
    }
}

pub(crate) fn load(text: &str) -> Result<f64, String> {
    number(text, 0.05..=1.0, "a share of a CPU from 0.05 to 1, such as 0.7")
}

fn cpus(text: &str) -> Result<f64, String> {
    number(text, 0.0..=8192.0, "a number of CPUs, such as 0.5 or 2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_in_the_slices_of_its_name() {
        let table = [
            ("game.slice", Some("/game.slice")),
            ("game-eu.slice", Some("/game.slice/game-eu.slice")),
            ("a-b-c.slice", Some("/a.slice/a-b.slice/a-b-c.slice")),
            ("/kubepods/besteffort/", Some("/kubepods/besteffort")),
            ("game.service", None),
            ("-.slice", None),
            ("a--b.slice", None),
            (".slice", None),
            ("", None),
            ("/", None),
            ("/a/../b", None),
        ];
        for (slice, expected) in table {
            assert_eq!(slice_path(slice).as_deref(), expected, "{slice}");
        }
    }
}
