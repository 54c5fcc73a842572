//! `verify`: whether what was applied still holds.

use evenkeel_change::Verification;
use serde::Serialize;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::show::change::JournalView;
use crate::show::{self, Out};

/// Check whether what was applied still holds; exit code 1 if not
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    verification: Verification,
    journal: JournalView,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let log = args.state.read()?;
    let answer = Answer { verification: evenkeel_change::verify(&root, &log), journal: JournalView::of(&log) };
    out.answer(&answer, || show::change::verification(&answer.verification, &answer.journal))?;
    let found = &answer.verification;
    let holds = found.drift.is_empty() && found.interrupted.is_empty() && found.ended_by_reboot.is_empty();
    Ok(if holds { exit::WELL } else { exit::NO })
}
