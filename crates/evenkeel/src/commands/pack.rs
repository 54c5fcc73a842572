//! `evenkeel pack`: many sessions of a server on one machine.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_fleet::pack::{self, InterruptCpus, Machine, Options, PackError, Report};
use evenkeel_fleet::{Session, read_sessions};
use evenkeel_host::Facts;
use serde::{Deserialize, Serialize};

use crate::args::{HostArgs, number};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::{self, Out};
use crate::user_table;

/// The largest table of sessions, and the largest answer of `measure quantum`.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What a table of sessions has.
pub(super) const SESSION_COLUMNS: &str = "a table of sessions has the column cpus, such as 0.12 for 12 % of a CPU, and optionally others. docs/packing.md has examples";

/// Place many sessions of a server on the CPUs of one machine
///
/// `pack plan` computes which CPUs each session gets. It changes nothing.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Plan(PlanArgs),
}

/// Compute which CPUs each session gets, and prove that no placement is better
///
/// Reads a CSV file with one row for each session, or for a number of equal ones. The column `cpus` is the CPU time of one session, in CPUs.
/// Optional columns: session, count, tick_hz, work_us_p99, memory_mib, cache_kib, packets_per_s, network_mbps. Reads nodes, cores, caches,
/// interrupts, isolated CPUs and the limits of the control group from this machine, or from a capture. Places as many sessions as
/// possible; then with the fewest heavy ones on one core; then with the lowest load of the busiest CPU. Prints a line for each CPU and
/// session, with values for taskset and systemd. The exit code is 1 if a session has no place.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel pack plan sessions.csv
  evenkeel pack plan sessions.csv --host hosts/machine.txt --json
  evenkeel pack plan sessions.csv --load-max 0.6 --interrupt-cpus avoid")]
struct PlanArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The sessions, as CSV
    #[arg(value_name = "SESSIONS.csv")]
    sessions: PathBuf,
    /// The highest load of a CPU that several sessions share, from 0.05 to 1
    #[arg(long, value_name = "SHARE", default_value_t = pack::LOAD_MAX, value_parser = load)]
    load_max: f64,
    /// Leave N CPUs for the system; a fraction is allowed [default: 0.5 on one CPU, 1 on up to 4, 0 on more]
    #[arg(long, value_name = "N", value_parser = cpus)]
    system_cpus: Option<f64>,
    /// Whether sessions run on CPUs that serve the network's interrupts; auto: if packets take little of them, or if they are more
    /// than half of all CPUs
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Interrupts::Auto)]
    interrupt_cpus: Interrupts,
    /// The answer of `evenkeel measure quantum --json`: the hypervisor gives each CPU only this share
    #[arg(long, value_name = "FILE")]
    slices: Option<PathBuf>,
}

/// What to do with CPUs that serve interrupts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Interrupts {
    Share,
    Avoid,
    Auto,
}

/// The placement.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct PlanAnswer {
    /// The table of sessions.
    file: String,
    #[serde(flatten)]
    report: Report,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.what {
        What::Plan(args) => plan(args, out),
    }
}

fn plan(args: &PlanArgs, out: &Out) -> Outcome {
    let sessions = args.table()?;
    let options = Options {
        load_max: args.load_max,
        system_cpus: args.system_cpus,
        interrupt_cpus: match args.interrupt_cpus {
            Interrupts::Share => InterruptCpus::Share,
            Interrupts::Avoid => InterruptCpus::Avoid,
            Interrupts::Auto => InterruptCpus::Auto,
        },
        shares: args.slices.as_deref().map(slices).transpose()?.unwrap_or_default(),
        ..Options::default()
    };
    let machine = Machine::from_facts(&Facts::probe(&args.host.open()?));
    let report = pack::plan(&machine, &sessions, &options).map_err(|error| args.failure(&error))?;
    let answer = PlanAnswer { file: args.sessions.display().to_string(), report };
    out.answer(&answer, || show::pack::page(&answer.report))?;
    Ok(if answer.report.left_out.is_empty() { exit::WELL } else { exit::NO })
}

impl PlanArgs {
    fn table(&self) -> Result<Vec<Session>, Failure> {
        let table = user_table::open(&self.sessions, FILE_BYTES_MAX)?;
        read_sessions(table).map_err(|error| user_table::failure(&self.sessions, &error, SESSION_COLUMNS))
    }

    fn failure(&self, error: &PackError) -> Failure {
        let (code, hint) = match error {
            PackError::TooManySessions(_) => {
                (exit::WRONG_USE, "lower the counts: one machine has no place for so many")
            }
            PackError::NoCpus(_) => {
                (exit::NOT_POSSIBLE, "`evenkeel inspect --all` shows what is known of the machine's CPUs")
            }
        };
        Failure::text(code, format_args!("place the sessions in {}", self.sessions.display()), error).hint(hint)
    }
}

/// What of an answer of `measure quantum` counts here.
#[derive(Deserialize)]
struct Quantum {
    cpus: Vec<QuantumCpu>,
}

#[derive(Deserialize)]
struct QuantumCpu {
    cpu: usize,
    share: Option<f64>,
}

/// The share of each CPU that the hypervisor gives.
fn slices(path: &Path) -> Result<Vec<(usize, f64)>, Failure> {
    let tried = || format!("read {}", path.display());
    let mut text = String::new();
    let read = user_table::open(path, FILE_BYTES_MAX)?.read_to_string(&mut text);
    read.map_err(|error| Failure::io(exit::WRONG_USE, tried(), &error))?;
    let hint = "`evenkeel measure quantum --json > FILE` writes such a file";
    let found: Quantum =
        serde_json::from_str(&text).map_err(|error| Failure::text(exit::WRONG_USE, tried(), error).hint(hint))?;
    let shares: Vec<(usize, f64)> = found.cpus.iter().filter_map(|cpu| Some((cpu.cpu, cpu.share?))).collect();
    match shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
        Some((cpu, share)) => {
            let why = format!("CPU {cpu} has a share of {share}, which is not from 0 to 1");
            Err(Failure::text(exit::WRONG_USE, tried(), why).hint(hint))
        }
        None => Ok(shares),
    }
}

pub(super) fn load(text: &str) -> Result<f64, String> {
    number(text, 0.05..=1.0, "a share of a CPU from 0.05 to 1, such as 0.7")
}

fn cpus(text: &str) -> Result<f64, String> {
    number(text, 0.0..=8192.0, "a number of CPUs, such as 0.5 or 2")
}
