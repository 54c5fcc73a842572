//! `revert`: restores everything, or the changes of one transaction.

use std::path::PathBuf;

use evenkeel_change::{RevertError, RevertReport, Which};
use evenkeel_hostfs::{HostWriter, Root};

use crate::args::{HostArgs, StateArgs};
use crate::commands::capture;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::show::{self, Out};
use crate::state;

/// Undo one change, or all changes; repeating it does no harm
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel revert        undo all
  evenkeel revert 3      undo one, as `evenkeel history` lists it")]
pub(crate) struct Args {
    /// The transaction's number, as `evenkeel history` lists it; without it, all transactions
    transaction: Option<u64>,
    #[command(flatten)]
    host: HostArgs,
    /// With --host: write the captured machine after the change to FILE
    #[arg(long, short, value_name = "FILE", requires = "host")]
    output: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    overdue::settle(&root, &args.state, out);
    // Do not create a folder that the user mistyped.
    let writer = root.writer().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let is_missing = args.state.is_missing()?;
    let report = if is_missing { nothing(args)? } else { reverted(args, &root, &writer)? };
    if let Some(file) = &args.output {
        capture::write(file, &capture::text_of(&root))?;
    }
    out.answer(&report, || {
        let without = args.state.without_journal().filter(|_| is_missing).unwrap_or_default();
        without + &show::change::reverted(&report, args.state.of_root())
    })?;
    Ok(if report.all_undone { exit::WELL } else { exit::NOT_UNDONE })
}

fn reverted(args: &Args, root: &Root, writer: &HostWriter) -> Result<RevertReport, Failure> {
    let mut state = args.state.open_to_revert()?;
    let which = args.transaction.map_or(Which::All, Which::Transaction);
    evenkeel_change::revert(root, writer, &mut state, which).map_err(|error| match error {
        RevertError::Journal(error) => state::failure(error),
        error => Failure::new(exit::WRONG_USE, error),
    })
}

/// The report for a folder that does not exist.
fn nothing(args: &Args) -> Result<RevertReport, Failure> {
    match args.transaction {
        Some(id) => Err(Failure::new(exit::WRONG_USE, RevertError::Unknown { id })),
        None => Ok(RevertReport { transactions: Vec::new(), losses: Vec::new(), all_undone: true }),
    }
}
