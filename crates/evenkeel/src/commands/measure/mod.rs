//! `evenkeel measure METER`. The commands of the meters are in `meters/`.
//! The code that measures is in the crate `measure`.

mod all;
mod card;
mod compare;
mod context;
mod meter;
pub(super) mod meters;

#[cfg(test)]
pub(crate) use context::Observed;
pub(crate) use context::{Context, failure};
pub(crate) use meters::ticks::{hint as tick_hint, rate as tick_rate};

use std::path::PathBuf;

use evenkeel_hostfs::Root;

use crate::failure::Outcome;
use crate::overdue;
use crate::show::Out;

/// Measure what this machine does to a server
///
/// Each meter reports its numbers, the conditions of the measurement, and its lost samples.
/// `measure all` creates the machine's card in about two minutes. `measure compare` compares two cards.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  evenkeel measure all --quick --output card.json
  evenkeel measure gaps --seconds 30s
  sudo evenkeel measure ticks --pid 1234"
)]
pub(crate) struct Args {
    /// Also write the page to FILE as self-contained HTML
    #[arg(long, global = true, value_name = "FILE", display_order = 80)]
    report: Option<PathBuf>,
    /// A captured machine: refused, because time does not pass in a capture
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    host: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    #[command(flatten)]
    Meter(meters::Chosen),
    All(all::Args),
    Compare(compare::Args),
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.host.is_none() {
        overdue::settle_own(&Root::live(), out);
    }
    let context = Context::new(out, args.report.as_deref(), args.host.as_deref())?;
    match &args.what {
        What::Meter(meter) => meter.run(&context),
        What::All(args) => all::run(args, &context),
        What::Compare(args) => compare::run(args, &context),
    }
}
