//! `plan`: writes the changes
//! that `apply` would make as data, for a review or for a later `apply`, `script`, `image` or `diff`.

use std::path::PathBuf;

use evenkeel_change::Log;
use evenkeel_host::Facts;
use evenkeel_hostfs::RootKind;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::overdue;
use crate::selection::{Selection, Term};
use crate::show::{self, Out};

/// Show what a change would do, and save it as a plan for `apply`, `script` and `diff`
///
/// A plan lists every step:
/// the current and the new value, side effects, when it takes effect, how to undo it, and the advice of `audit`.
/// `apply` refuses a plan on a machine that needs other steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel plan vm.swappiness=10
  evenkeel plan --advised --output plan.json
  evenkeel apply plan.json")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Keep the settings after a reboot too
    #[arg(long)]
    persist: bool,
    /// Write the plan to FILE, as JSON
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    overdue::settle(&root, &args.state, out);
    let facts = Facts::probe(&root);
    let log = match root.kind() {
        RootKind::Captured if args.state.state.is_none() => Log::default(),
        _ => args.state.read()?,
    };
    let term = if args.persist { Term::Lasting } else { Term::Runtime };
    let selected = args.selection.plan(&root, &facts, &log, term)?;
    let text = selected.plan.text().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    match &args.output {
        Some(file) => std::fs::write(file, &text).map_err(|error| output_file::failure(file, &error))?,
        None => out.plain(&text, || show::plan::judged(&selected.plan, &args.selection.advice(&facts)))?,
    }
    Ok(exit::WELL)
}
