//! `history`: lists the changes that evenkeel made to this machine, and their state.

use evenkeel_change::{IMAGE_DIR, JOURNAL, PutBack, Status, Transaction};
use evenkeel_hostfs::{Root, RootKind};
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
    /// Changes that this command has just undone, because nobody confirmed them in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undone: Vec<PutBack>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let undone = overdue::settle(&root, &args.state, out);
    let log = args.state.read_noted(&root)?;
    let answer =
        Answer { transactions: evenkeel_change::history(&root, &log), journal: JournalView::from_log(&log), undone };
    let again = args.state.again();
    out.answer(&answer, || match answer.transactions.is_empty() {
        true => nothing(args, &root) + &show::change::history(&[], &answer.journal, &again),
        false => show::change::history(&answer.transactions, &answer.journal, &again),
    })?;
    let is_overdue = answer.transactions.iter().any(|transaction| transaction.status == Status::Overdue);
    Ok(if is_overdue { exit::NO } else { exit::WELL })
}

/// The text for an empty journal. It also names other journals that may contain changes of this machine.
fn nothing(args: &Args, root: &Root) -> String {
    let Ok(dir) = args.state.path() else { return String::new() };
    let has_no_changes = || format!("The journal in {} has no changes.\n", dir.display());
    let mut text = args.state.without_journal().unwrap_or_else(has_no_changes);
    if let Some(of_root) = args.state.of_root() {
        text += &format!("Root's changes are in {}: `sudo evenkeel history` lists them.\n", of_root.display());
    }
    let mounted = args.host.root.as_ref().filter(|_| root.kind() == RootKind::Mounted && args.state.state.is_none());
    if let Some(dir) = mounted.map(|dir| dir.join(IMAGE_DIR)).filter(|dir| dir.join(JOURNAL).exists()) {
        text += &format!("That root has its own journal: `evenkeel history --state {}` lists it.\n", dir.display());
    }
    text
}
