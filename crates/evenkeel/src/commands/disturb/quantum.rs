//! `evenkeel disturb quantum`: a real-time thread takes CPUs from all other threads,
//! or a quota limits the CPU time of the command.

use std::process::Command;

use clap::ValueEnum;
use evenkeel_hostfs::Root;
use evenkeel_measure::Unit;
use evenkeel_measure::disturb::{self, quantum, quota};
use evenkeel_sys::{CpuSet, process};

use super::context::{Context, Disturbance, RunArgs, What, failure, of_threads};
use super::page::went_offline;
use super::values;
use crate::commands::guard::{Guard, Undo};
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::show::units::{percent, quantity, real_quantity};
use crate::view::Block;

/// Take CPUs away for a share of each period, as a hypervisor or a CPU limit does
///
/// `--by rt-hog` runs a real-time thread on each CPU at fixed times.
/// To other threads, this looks like a hypervisor that runs another guest. It needs real-time privileges.
/// `--by quota` puts the command into its own control group with a CPU limit:
/// a token bucket, which stops the command when it has used its share of a period.
/// It needs the right to create control groups.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel disturb quantum --share 0.6 -- ./my-server
  evenkeel disturb quantum --by quota --period-ms 100 --share 0.5 -- ./my-server")]
pub(crate) struct Args {
    /// The method
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// The CPUs [default: all that evenkeel may use].
    /// With a quota, the command runs only on these,
    /// and the share counts all of them [default: any CPU; the share counts one]
    #[arg(long, value_name = "LIST", value_parser = values::cpus)]
    cpus: Option<CpuSet>,
    /// Time from the start of one slot to the next
    #[arg(long, value_name = "MS", default_value = "10", value_parser = values::ms)]
    period_ms: u64,
    /// The share of each period that remains, between 0 and 1: 0.4 leaves 4 of 10 ms
    #[arg(long, value_name = "SHARE", default_value_t = 0.4)]
    share: f64,
    /// Delay of the slots from each CPU to the next (rt-hog)
    #[arg(long, value_name = "MS", value_parser = values::ms)]
    phase_ms: Option<u64>,
    /// Largest deviation of each slot start, in both directions (rt-hog)
    #[arg(long, value_name = "MS", value_parser = values::ms)]
    jitter_ms: Option<u64>,
    /// Start each slot one period after the last, so the jitter adds up and slots have no fixed times (rt-hog)
    #[arg(long, requires = "jitter_ms")]
    jitter_adds_up: bool,
    /// How much longer the period is than requested, in ppm (rt-hog)
    #[arg(long, value_name = "PPM", allow_negative_numbers = true)]
    drift_ppm: Option<f64>,
    /// Real-time priority of the thread, 1 to 99 [default: 50] (rt-hog)
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// Seed of the jitter [default: random, and reported]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    run: RunArgs,
}

/// The method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// A real-time thread on each CPU, in fixed slots
    #[default]
    #[value(alias = "thief")]
    RtHog,
    /// A CPU limit on the command's own control group
    Quota,
}

of_threads!(quantum);

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    match args.by {
        By::RtHog => by_rt_hog(args, context),
        By::Quota => by_quota(args, context),
    }
}

fn by_rt_hog(args: &Args, context: &Context<'_>) -> Outcome {
    let settings = quantum::Settings {
        cpus: args.cpus.clone().map_or_else(disturb::all_cpus, Ok).map_err(failure)?,
        period_ns: args.period_ms,
        share_left: args.share,
        phase_ns: args.phase_ms.unwrap_or(0),
        jitter_ns: args.jitter_ms.unwrap_or(0),
        jitter_adds_up: args.jitter_adds_up,
        drift_ppm: args.drift_ppm.unwrap_or(0.0),
        priority: args.priority.unwrap_or(50),
        seed: args.seed.unwrap_or_else(experiment::fresh_seed),
    };
    let what = What { kind: "quantum", by: "rt-hog", asked: &settings, run: &args.run };
    context.disturb(what, |until_ns| quantum::start(&settings, until_ns).map_err(failure), quantum_page)
}

fn by_quota(args: &Args, context: &Context<'_>) -> Outcome {
    let refused = |why: &str| Err(Failure::text(exit::WRONG_USE, "limit a command by a quota", why));
    if args.run.command.is_empty() {
        return refused("name the command to limit: disturb quantum --by quota -- CMD");
    }
    let of_rt_hog =
        args.phase_ms.is_some() || args.jitter_ms.is_some() || args.drift_ppm.is_some() || args.priority.is_some();
    if of_rt_hog {
        return refused(
            "phase, jitter, drift and priority apply only to --by rt-hog: the kernel decides when it refills a quota",
        );
    }
    if let Some(cpus) = &args.cpus {
        disturb::check_cpus(cpus).map_err(failure)?;
    }
    // Container engines use the same unit: 0.4 means four tenths of one CPU.
    let cpus = args.cpus.as_ref().map_or(1, CpuSet::len);
    let settings = quota::Settings { period_ns: args.period_ms, share_left: args.share, cpus };
    let what = What { kind: "quantum", by: "quota", asked: &settings, run: &args.run };
    context.disturb(what, |_| Limit::start(&settings, args.cpus.clone()), quota_page)
}

/// A control group with a CPU limit, and the guard that removes the group at the end.
#[derive(Debug)]
struct Limit {
    group: quota::Group,
    cpus: Option<CpuSet>,
    guard: Guard,
}

impl Limit {
    fn start(settings: &quota::Settings, cpus: Option<CpuSet>) -> Result<Limit, Failure> {
        let group = quota::Group::plan(settings, &Root::live()).map_err(failure)?;
        let mut guard = Guard::start()?;
        guard.hold(&Undo::RemoveGroup(group.path().to_owned()))?;
        group.make().map_err(failure)?;
        Ok(Limit { group, cpus, guard })
    }
}

impl Disturbance for Limit {
    type Report = quota::Report;

    fn prepare(&self, command: &mut Command) -> Result<(), Failure> {
        let failed = |errno| Failure::text(exit::NOT_POSSIBLE, "start the command in its control group", errno);
        if let Some(cpus) = &self.cpus {
            process::run_on(command, cpus).map_err(failed)?;
        }
        process::enter_group(command, self.group.path()).map(|_| ()).map_err(failed)
    }

    fn time_is_over(&mut self) -> Result<(), Failure> {
        self.group.lift().map_err(failure)
    }

    fn stop(self) -> Result<quota::Report, Failure> {
        let report = self.group.report();
        self.guard.end()?;
        Ok(report)
    }
}

fn quantum_page(report: &quantum::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            cpu.turns.to_string(),
            cpu.missed_turns.to_string(),
            cpu.period_ns_mean.map_or_else(|| "unknown".to_owned(), |ns| real_quantity(ns, Unit::Ns)),
            percent(cpu.share_taken),
            cpu.late.histogram.summary().map_or_else(|| "unknown".to_owned(), |late| quantity(late.p99, Unit::Ns)),
        ]
    });
    let mut blocks =
        vec![Block::table(["CPU", "slots", "missed", "period", "taken", "late (p99)"], rows.collect::<Vec<_>>())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

fn quota_page(report: &quota::Report) -> Vec<Block> {
    let counted = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    vec![
        Block::row("control group", report.group.display().to_string()),
        Block::row("limit", format!("{} us of every {} us", report.quota_us, report.period_us)),
        Block::row("periods", counted(report.periods)),
        Block::row("throttled periods", counted(report.throttled_periods)),
        Block::row(
            "throttled for",
            report.throttled_ns.map_or_else(|| "unknown".to_owned(), |ns| quantity(ns, Unit::Ns)),
        ),
    ]
}
