//! `confirm`: keeps a change of `apply --try`.

use serde::Serialize;

use evenkeel_change::ConfirmError;
use evenkeel_hostfs::Root;

use crate::args::StateArgs;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::show::Out;
use crate::state;

/// Keep a change of `apply --try`, which would otherwise be undone
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel apply vm.swappiness=10 --try 60
  evenkeel confirm")]
pub(crate) struct Args {
    /// The number of the transaction, as `evenkeel history` lists it; without it, every waiting transaction
    transaction: Option<u64>,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer {
    confirmed: Vec<u64>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = Root::live();
    // First undo changes whose time limit has passed, because their confirmation comes too late.
    overdue::settle(&root, &args.state, out);
    let mut journal = args.state.open()?;
    let again = args.state.again();
    let confirmed = evenkeel_change::confirm(&root, &mut journal, args.transaction).map_err(|error| match error {
        ConfirmError::Journal(error) => state::failure(error),
        ConfirmError::Interrupted { id } => {
            Failure::new(exit::NO, error).hint(format!("put it back: evenkeel revert {id}{again}"))
        }
        error => Failure::new(exit::NO, error).hint(format!("list all changes: evenkeel history{again}")),
    })?;
    let answer = Answer { confirmed };
    out.answer(&answer, || {
        // Without a number, `revert` would undo all transactions.
        let line = |id: &u64| format!("Transaction {id} stays. Undo it with `evenkeel revert {id}{again}`.\n");
        answer.confirmed.iter().map(line).collect()
    })?;
    Ok(exit::WELL)
}
