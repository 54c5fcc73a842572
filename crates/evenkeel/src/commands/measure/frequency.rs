//! `evenkeel measure frequency`.

use evenkeel_measure::meters::frequency;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// How fast each CPU's cycles are, alone and with all busy, beside a sibling, and after vector instructions
///
/// By a chain of instructions of known length where the processor's counters are closed, as they are in most guests; by the counters too
/// where they are open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each CPU is watched each way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(20..=60_000))]
    each: u64,
    /// Pairs of CPUs that are put against each other, at the most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=4096))]
    pairs: u16,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let settings = frequency::Settings { each_ns: args.each * 1_000_000, pairs_max: args.pairs.into() };
    let report = context.measure(|watch| frequency::run(&settings, watch))?;
    context.answer("How fast the CPUs are", &report, meters::frequency::blocks)
}
