//! `evenkeel measure rates`.

use evenkeel_measure::meters::rates::{self, Pages, Target};

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// What the kernel counts, as rates: steal, pressure, throttling, faults, switches
///
/// Of the whole machine, of a control group and of a server's own process. Nothing is traced: it reads /proc and the control groups' files
/// at both ends and now and then between.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Look at this process and its control group too
    #[arg(long, value_name = "PID", conflicts_with = "cgroup", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Look at this control group too, named as /proc/PID/cgroup does or by its directory [default: the process's, or our own]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// How long to look
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Milliseconds from one reading to the next
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    every: u64,
    /// Clear the marks of the process's pages first, so that those are told which it used meanwhile: slows its next use of each a little
    #[arg(long, requires = "pid")]
    clear_referenced: bool,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let settings = rates::Settings {
        target: match (args.pid, &args.cgroup) {
            (Some(pid), _) => Target::Process(pid),
            (None, Some(group)) => Target::Group(group.clone()),
            (None, None) => Target::Machine,
        },
        for_ms: args.seconds * 1000,
        every_ms: args.every,
        pages: if args.clear_referenced { Pages::ClearReferenced } else { Pages::AsTheyAre },
    };
    let report = context.measure(|watch| rates::run(&settings, watch))?;
    context.answer("What the kernel counts", &report, meters::rates::blocks)
}
