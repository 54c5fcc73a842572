//! `evenkeel measure imbalance`.

use evenkeel_measure::meters::imbalance;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// One CPU full while others idle, with the threads and interrupts that fill it
///
/// Reads what the kernel counts by CPU and by thread, at the beginning and after each second. Shares are of one CPU.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to look, in seconds
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How long a part is that is judged by itself, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    part: u64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let settings = imbalance::Settings { for_ns: args.seconds * 1_000_000_000, part_ns: args.part * 1_000_000 };
    let report = context.measure(|watch| imbalance::run(&settings, watch))?;
    context.answer("How even the CPUs' work is", &report, meters::imbalance::blocks)
}
