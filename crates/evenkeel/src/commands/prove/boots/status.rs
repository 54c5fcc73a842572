//! `prove boots status`: the progress and the result of a trial over boots, on the terminal or as files.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::Root;
use evenkeel_stats::Verdict;
use evenkeel_trial::boots::{BootTransactions, BootsEnded, BootsReport, BootsState, read};

use super::context::{FILE, not_possible};
use super::live;
use crate::args::StateArgs;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::report;
use crate::show::page::fitted;
use crate::show::{self, Out};
use crate::view::terminal;

/// Print the progress and the result so far
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel prove boots status --report report")]
pub(crate) struct StatusArgs {
    /// Write boots.html, boots.md and boots.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) state: StateArgs,
}

pub(super) fn status(args: &StatusArgs, out: &Out) -> Outcome {
    let dir = args.state.path()?;
    let file = dir.join(FILE);
    let state = read(&file).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let Some(mut state) = state else {
        let cause = format!("{} has none", dir.display());
        return Err(Failure::text(exit::NOT_POSSIBLE, "report a trial over boots", cause)
            .hint("`evenkeel prove boots start KNOB=VALUE` begins one"));
    };
    let root = Root::live();
    let hands = BootTransactions::new(&root, &dir, &state.id, Vec::new()).map_err(not_possible)?;
    // After a revert, only the journal shows that the trial is over. The state records it at the next start.
    // The journal has no trial that is just beginning, or that was killed before its unit was written.
    // Such a trial is still in the boot in which it began.
    let is_over = match live::boot_id(&root) {
        Some(boot) if boot == state.begun_boot => hands.is_put_back().unwrap_or(false),
        _ => !hands.is_licensed().unwrap_or(true),
    };
    if state.ended.is_none() && is_over {
        state.ended = Some(BootsEnded::Cancelled);
    }
    let mut found = state.report();
    // evenkeel removes the unit last. While the unit exists, some settings may not be restored yet.
    found.is_put_back = state.ended.as_ref().and_then(|_| hands.is_licensed().ok()).map(|is_licensed| !is_licensed);
    show(&state, &found, args.report.as_deref(), out)?;
    // If a guard rejects B, the verdict is also "worse".
    let is_worse = found.comparison.is_some_and(|found| found.verdict == Verdict::Worse);
    Ok(if is_worse && state.ended == Some(BootsEnded::Whole) { exit::NO } else { exit::WELL })
}

/// Prints the report, and writes it into `folder` if the user named a folder.
pub(super) fn report(state: &BootsState, folder: Option<&Path>, out: &Out) -> Result<(), Failure> {
    show(state, &state.report(), folder, out)
}

fn show(state: &BootsState, found: &BootsReport, folder: Option<&Path>, out: &Out) -> Result<(), Failure> {
    let mut text = terminal::text(&report::boots::blocks(state, found));
    if let Some(folder) = folder {
        let json = show::json::answer(found)?;
        let page = report::boots::page(state, found, &json);
        let files = [("boots.html", page), ("boots.md", report::boots::document(state, found)), ("boots.json", json)];
        for (name, content) in files {
            text += &format!("report: {}\n", report::write_page(folder, name, &content)?.display());
        }
    }
    out.answer(found, || fitted(&text))
}
