//! `evenkeel profile switches`.

use std::path::PathBuf;

use evenkeel_profile::offcpu::{self, table};

use super::input;
use crate::exit;
use crate::failure::Outcome;
use crate::show::{Out, blocks, profile};

/// Why threads had no CPU: each switch-out by reason and length
///
/// Who took the CPU, which lock, which file a page fault waited for. The recording must have the switches (perf record --switch-events), and
/// for the reasons their stacks (-e context-switches -c 1 -g). A switch of which one end was not seen is told as open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording: a perf.data file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tell of these processes alone; several with commas
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let opened = input::open(&args.file)?;
    let spells = offcpu::spells(&opened.recording, &opened.names);
    let is_wanted = |pid| args.pid.is_empty() || args.pid.contains(&pid);
    let report = table::report(&opened.recording, &opened.names, &spells, is_wanted);
    out.answer(&report, || blocks::text(&profile::switches::blocks(&report)))?;
    Ok(exit::WELL)
}
