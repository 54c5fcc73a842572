//! `evenkeel measure memory`.

use evenkeel_measure::meters::memory;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// How long a load takes and how much goes through, by working set, page and NUMA node
///
/// Pointers in a random ring over every cache line of a working set, with small and huge pages in turns; reading, writing and copying by
/// one thread and by all CPUs; and threads that allocate and free, counted in page faults. Never takes more than half of the memory that
/// is left, and changes no setting.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The largest working set, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    largest: u32,
    /// The CPU that latency is measured on [default: the first allowed]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let largest_bytes = (args.largest as usize) << 20;
    let settings = memory::Settings { largest_bytes, cpu: args.cpu, ..memory::Settings::default() };
    let report = context.measure(|watch| memory::run(&settings, watch))?;
    context.answer("Memory", &report, meters::memory::blocks)
}
