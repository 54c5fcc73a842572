//! `evenkeel measure quantum`.

use clap::ValueEnum;
use evenkeel_measure::meters::quantum::{self, Class, Method, Order, Settings};
use evenkeel_stats::periodicity::Count;
use evenkeel_sys::CpuSet;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// Whether CPUs are given in slots by the hypervisor: period, share, phase
///
/// A thread spins on each CPU in short bursts and notes the gaps in which it did not run. All gaps of some seconds are folded, and the
/// answer is one of: none, fixed slot, token bucket (a CPU limit of this process's control group) or irregular. As root the thread is a
/// real-time one, which no ordinary neighbour interrupts; else gaps that other threads made are told by the kernel's mark and set aside.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// CPUs to measure, as 0-3,8; all that this process may use unless told
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// Seconds on each CPU, from 0.1 to 600
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Gaps shorter than this do not count, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = clap::value_parser!(u64).range(20..=10_000))]
    threshold_us: u64,
    /// Which gaps count; all: those that other threads of this machine make too
    #[arg(long, value_enum, default_value_t)]
    count: Counted,
    /// The class of the thread that spins; auto: real-time where that is allowed and no CPU limit is set
    #[arg(long, value_enum, default_value_t)]
    class: Classes,
    /// All CPUs at once, not one after the other: their phases are then of one time, and the machine is slow to answer
    #[arg(long)]
    together: bool,
    /// How to find the period; siege: the first gap over 1 ms within 50 ms, for comparison
    #[arg(long, value_enum, default_value_t)]
    method: Methods,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Counted {
    #[default]
    Foreign,
    All,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Classes {
    #[default]
    Auto,
    Fifo,
    Ordinary,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Methods {
    #[default]
    Fold,
    Siege,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let settings = Settings {
        cpus: args.cpus.clone(),
        duration_ns: (args.seconds * 1e9) as u64,
        threshold_ns: args.threshold_us * 1000,
        count: match args.count {
            Counted::Foreign => Count::Foreign,
            Counted::All => Count::All,
        },
        class: match args.class {
            Classes::Auto => Class::Auto,
            Classes::Fifo => Class::Fifo,
            Classes::Ordinary => Class::Ordinary,
        },
        order: if args.together { Order::Together } else { Order::InTurn },
        method: match args.method {
            Methods::Fold => Method::Fold,
            Methods::Siege => Method::Siege,
        },
    };
    let report = context.measure(|watch| quantum::run(&settings, watch))?;
    context.answer("Who has the CPUs, and when", &report, meters::quantum::blocks)
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    let set = CpuSet::parse_list(text).filter(|set| set.first().is_some());
    set.ok_or_else(|| "not a list of CPUs, as 0-3,8".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.1..=600.0).contains(seconds));
    number.ok_or_else(|| "not a number from 0.1 to 600".to_owned())
}
