//! `verify`: checks whether applied settings are still in force.

use evenkeel_change::{PutBack, Verification};
use evenkeel_host::Facts;
use serde::Serialize;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::overdue;
use crate::show::change::JournalView;
use crate::show::{self, Out};

/// Check whether applied settings still hold; exit code 1 if not, 7 if a reboot or restart is missing
///
/// Reads the values in effect, not the files that set them at boot.
/// For each value that differs, it names the likely cause and the command that repairs the value.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel verify
  evenkeel verify --json")]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer {
    #[serde(flatten)]
    verification: Verification,
    journal: JournalView,
    /// Changes that this command has just undone, because nobody confirmed them in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undone: Vec<PutBack>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let undone = overdue::settle(&root, &args.state, out);
    let log = args.state.read_noted(&root)?;
    let facts = Facts::probe(&root);
    let again = args.state.again();
    let verification = evenkeel_change::verify(&root, &facts, &log).with_state_option(&again);
    let answer = Answer { verification, journal: JournalView::from_log(&log), undone };
    out.answer(&answer, || {
        let page = show::change::verification(&answer.verification, &answer.journal, &again);
        args.state.without_journal().unwrap_or_default() + &page
    })?;
    let found = &answer.verification;
    let holds = found.drift.is_empty() && found.interrupted.is_empty() && found.ended_by_reboot.is_empty();
    let holds = holds && found.overdue.is_empty();
    Ok(match (holds, found.pending.is_empty() && found.under_way.is_none()) {
        (false, _) => exit::NO,
        (true, false) => exit::PENDING,
        (true, true) => exit::WELL,
    })
}
