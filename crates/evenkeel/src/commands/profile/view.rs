//! `evenkeel profile view`.

use std::path::PathBuf;

use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::names::Names;
use evenkeel_profile::perf::file::PerfFile;
use evenkeel_profile::unwind::NoUnwind;

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// Show a recording: what ran, by its stacks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording: a perf.data file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let file = args.file.display();
    let bytes = std::fs::read(&args.file)
        .map_err(|error| Failure::io(exit::WRONG_USE, format!("read the recording {file}"), &error))?;
    let recording = PerfFile::parse(&bytes)
        .and_then(|file| file.recording(&mut NoUnwind))
        .map_err(|error| Failure::text(exit::WRONG_USE, format!("read the recording {file}"), error))?;
    let names = Names::of(&recording, |_| Vec::new());
    let folded = Folded::of(&recording, &names, Base::Thread, recording.samples.iter());
    let text: String = folded.lines.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect();
    out.text(&text)?;
    Ok(exit::WELL)
}
