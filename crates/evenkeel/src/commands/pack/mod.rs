//! `evenkeel pack`: places many sessions of a server on one machine.

pub(super) mod agones;
mod apply;
mod question;
mod run;

use std::path::PathBuf;

use evenkeel_fleet::pack::Report;
use evenkeel_host::Facts;
use serde::Serialize;

use self::question::Question;
pub(super) use self::question::{SESSION_COLUMNS, load};
use crate::args::HostArgs;
use crate::exit;
use crate::failure::Outcome;
use crate::show::{self, Out};

/// Place many sessions of a server on the CPUs of one machine
///
/// `pack plan` computes which CPUs each session gets, and changes nothing.
/// `pack apply` assigns the CPUs to systemd services. To try a placement, `pack run` starts the sessions on these CPUs.
/// `pack agones` renders the manifests for a cluster, whose scheduler places the sessions.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Plan(PlanArgs),
    Apply(apply::Args),
    Run(run::Args),
    Agones(agones::Args),
}

/// Compute which CPUs each session gets, and prove that no placement is better
///
/// Reads a CSV file. Each row is one session, or a number of equal sessions.
/// The column `cpus` is the CPU time of one session, in CPUs.
/// Optional columns: session, count, tick_hz, work_us_p99, memory_mib,
/// cache_kib, packets_per_s, network_mbps, unit, cpu_weight.
/// Reads nodes, cores, caches, interrupts, isolated CPUs and the limits
/// of the control group from this machine, or from a capture.
/// Places as many sessions as possible.
/// Of those placements, it takes one with the fewest heavy sessions on one core,
/// then the lowest load of the busiest CPU.
/// Prints a line for each CPU and session, with values for taskset and systemd.
/// The exit code is 1 if a session has no place,
/// or if the packets need more CPU time than the CPUs that serve the network's interrupts have.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel pack plan sessions.csv
  evenkeel pack plan sessions.csv --host hosts/machine.txt --json
  evenkeel pack plan sessions.csv --load-max 0.6 --interrupt-cpus avoid
  evenkeel pack plan sessions.csv --cpu-sets one
  evenkeel pack plan sessions.csv --slice game.slice")]
struct PlanArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The sessions, as CSV
    #[arg(value_name = "SESSIONS.csv")]
    sessions: PathBuf,
    #[command(flatten)]
    question: Question,
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
        What::Apply(args) => apply::run(args, out),
        What::Run(args) => run::run(args, out),
        What::Agones(args) => agones::run(args, out),
    }
}

fn plan(args: &PlanArgs, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let machine = args.question.machine(&root, Facts::probe(&root))?;
    let report = args.question.place(&args.sessions, &machine)?;
    let answer = PlanAnswer { file: args.sessions.display().to_string(), report };
    out.answer(&answer, || show::pack::page(&answer.report))?;
    Ok(if answer.report.is_enough() { exit::WELL } else { exit::NO })
}
