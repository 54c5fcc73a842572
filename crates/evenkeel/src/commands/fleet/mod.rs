//! `evenkeel fleet`: many machines at once, from files that they wrote.

mod audit;
mod diff;
mod files;
mod hosts;
pub(crate) mod table;

use crate::failure::Outcome;
use crate::show::Out;

/// Compare many machines by the files that they wrote
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Table(table::Args),
    Audit(audit::Args),
    Diff(diff::Args),
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.what {
        What::Table(args) => table::run(args, out),
        What::Audit(args) => audit::run(args, out),
        What::Diff(args) => diff::run(args, out),
    }
}
