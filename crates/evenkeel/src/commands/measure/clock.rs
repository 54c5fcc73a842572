//! `evenkeel measure clock`.

use evenkeel_measure::meters::clock;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// What asking for the time costs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Calls of each kind
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    calls: u64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let report = context.measure(|watch| clock::run(&clock::Settings { calls: args.calls }, watch))?;
    context.answer("What asking for the time costs", &report, meters::clock::blocks)
}
