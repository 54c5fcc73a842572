//! `capture`: writes the machine into one text file. Other commands can read the file instead of the machine.

use std::path::{Path, PathBuf};

use evenkeel_host::guide::{Guide, LibraryGuide, Readings};
use evenkeel_host::{Facts, files_of, knobs};
use evenkeel_hostfs::Root;
use serde::Serialize;

use crate::args::{HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::show::Out;

/// Save this machine as one text file, which other commands read with --host FILE
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel capture --output machine.txt
  evenkeel audit --host machine.txt")]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer<'a> {
    capture: &'a str,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.metadata.open(&args.host)?;
    let facts = Facts::probe(&root);
    look_where_plans_look(&root, &facts);
    let text = text_of(&root);
    match &args.output {
        Some(file) => write(file, &text)?,
        None => out.answer(&Answer { capture: &text }, || text.clone())?,
    }
    Ok(exit::WELL)
}

/// The capture of `root`, with a comment that names the program.
/// It contains no time and no host name, because users send captures to other people.
pub(crate) fn text_of(root: &Root) -> String {
    let by = concat!("\n# taken by evenkeel ", env!("CARGO_PKG_VERSION"), "\n");
    root.capture().to_string().replacen('\n', by, 1)
}

pub(crate) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| output_file::failure(file, &error))
}

/// Reads the files that `apply` needs in addition to the facts.
/// With these files, a user can rehearse `apply` on the capture.
fn look_where_plans_look(root: &Root, facts: &Facts) {
    for file in knobs::ALL.iter().flat_map(|knob| files_of(knob, facts)) {
        // The capture also records a refused read, so the result does not matter here.
        let _ = root.text(&file);
    }
    // Read the files of the guides too, so that `guide` can check a guide on the capture.
    let guides: Vec<Guide> = LibraryGuide::all().filter_map(|entry| entry.guide().ok()).collect();
    let _ = Readings::take(root, facts, &guides);
}
