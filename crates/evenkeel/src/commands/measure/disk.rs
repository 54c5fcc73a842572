//! `evenkeel measure disk`.

use std::path::PathBuf;

use evenkeel_measure::meters::disk;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// How long a small synchronous write takes, and whether boot and data share a volume
///
/// Writes up to 2000 blocks each way to a file without a name, which is gone however this ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the data
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    directory: PathBuf,
    /// Bytes of one write
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    block: u32,
    /// How long to write each way, in milliseconds, at the most
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    each: u64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let settings = disk::Settings {
        directory: args.directory.clone(),
        block_bytes: args.block as usize,
        each_ns: args.each * 1_000_000,
        ..disk::Settings::default()
    };
    let report = context.measure(|watch| disk::run(&settings, watch))?;
    context.answer("Synchronous writes", &report, meters::disk::blocks)
}
