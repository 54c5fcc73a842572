//! `evenkeel profile view`.

use std::path::PathBuf;

use evenkeel_profile::fold::{Base, Folded};

use super::input;
use crate::exit;
use crate::failure::Outcome;
use crate::show::Out;

/// Show a recording: what ran, by its stacks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording: a perf.data file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let opened = input::open(&args.file)?;
    let recording = &opened.recording;
    let folded = Folded::of(recording, &opened.names, Base::Thread, recording.samples.iter());
    let text: String = folded.lines.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect();
    out.text(&text)?;
    Ok(exit::WELL)
}
