//! `fleet diff`: which hosts differ from their group, and how.

use evenkeel_fleet::audit::FleetDiff;

use super::hosts::{CaptureArgs, read};
use crate::exit;
use crate::failure::Outcome;
use crate::show::{self, Out};

/// List the captured machines that differ from their group, with the value of the machine and of the group
///
/// Groups, values and facts are those of `evenkeel fleet audit`. Exits with code 1 if a host differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel fleet diff hosts/
  evenkeel fleet diff hosts/ --by instance --by kernel
  evenkeel fleet diff hosts/*.txt --md")]
pub(crate) struct Args {
    #[command(flatten)]
    captures: CaptureArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let read = read(&args.captures)?;
    let diff = FleetDiff::new(&read.hosts, &args.captures.by(), read.unread);
    match args.captures.md {
        true => out.text(&show::fleet::diff::markdown(&diff, args.captures.all))?,
        false => out.answer(&diff, || show::fleet::diff::page(&diff, args.captures.all))?,
    }
    Ok(if diff.differing > 0 { exit::NO } else { exit::WELL })
}
