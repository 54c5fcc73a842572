//! `history`: the changes that were made to this machine, and their state.

use evenkeel_change::{PutBack, Status, Transaction};
use serde::Serialize;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::overdue;
use crate::show::change::JournalView;
use crate::show::{self, Out};

/// List the changes that evenkeel made to this machine, and whether each is still active
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel history
  evenkeel history --json")]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer {
    transactions: Vec<Transaction>,
    journal: JournalView,
    /// The changes that this command undid first, because nobody had confirmed them in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undone: Vec<PutBack>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let undone = overdue::settle(&root, &args.state, out);
    let log = args.state.read_noted(&root)?;
    let answer =
        Answer { transactions: evenkeel_change::history(&root, &log), journal: JournalView::from_log(&log), undone };
    out.answer(&answer, || show::change::history(&answer.transactions, &answer.journal))?;
    let is_overdue = answer.transactions.iter().any(|transaction| transaction.status == Status::Overdue);
    Ok(if is_overdue { exit::NO } else { exit::WELL })
}
