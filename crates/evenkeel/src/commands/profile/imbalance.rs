//! `evenkeel profile imbalance`.

use std::path::PathBuf;

use evenkeel_profile::imbalance::{Imbalance, imbalance};
use serde::Serialize;

use super::input;
use crate::exit;
use crate::failure::Outcome;
use crate::show::{Out, blocks, profile};

/// Which CPU was full, by which threads and functions, beside those that idled
///
/// From a recording of whole CPUs. With every switch in it busy shares are exact; from samples alone they have an error, which is told. What a
/// hypervisor took is counted to the thread that had the CPU: `evenkeel measure gaps` tells that apart.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording: a perf.data file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Answer<'a> {
    verdict: String,
    #[serde(flatten)]
    imbalance: &'a Imbalance,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let opened = input::open(&args.file)?;
    let seen = imbalance(&opened.recording, &opened.names, &|_| None);
    let answer = Answer { verdict: profile::imbalance::verdict(&seen), imbalance: &seen };
    out.answer(&answer, || blocks::text(&profile::imbalance::blocks(&seen)))?;
    Ok(exit::WELL)
}
