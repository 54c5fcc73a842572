//! `history`: what was done to this machine, and what became of it.

use evenkeel_change::Transaction;
use serde::Serialize;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::show::change::JournalView;
use crate::show::{self, Out};

/// List what was done to this machine, and what became of it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Serialize)]
struct Answer {
    transactions: Vec<Transaction>,
    journal: JournalView,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let log = args.state.read()?;
    let answer = Answer { transactions: evenkeel_change::history(&root, &log), journal: JournalView::of(&log) };
    out.answer(&answer, || show::change::history(&answer.transactions, &answer.journal))?;
    Ok(exit::WELL)
}
