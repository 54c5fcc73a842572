//! `evenkeel measure clock`.

use evenkeel_measure::meters::clock::{self, Sources};

use super::Context;
use crate::commands::guard::Guard;
use crate::failure::Outcome;
use crate::show::meters;

/// What asking for the time costs, whether it stays out of the kernel, and whether all CPUs' clocks agree
///
/// Batches of calls are timed by the cycle counter, every kind in turns. Whether a call enters the kernel is seen in a thread that may not
/// make the system call. With --each-source the machine is switched to every clock source on offer, and put back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Calls of each kind
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    calls: u64,
    /// Measure every clock source on offer, by switching the whole machine to each (root); what was in use is put back
    #[arg(long)]
    each_source: bool,
    /// Compare the clocks of so many CPUs with the first one's
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=4096))]
    cpus: u16,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let sources = match args.each_source {
        true => Sources::Each(Box::new(Guard::start()?)),
        false => Sources::Current,
    };
    let settings = clock::Settings { calls: args.calls, sources, cpus_max: args.cpus.into() };
    let report = context.measure(|watch| clock::run(settings, watch))?;
    context.answer("What asking for the time costs", &report, meters::clock::blocks)
}
