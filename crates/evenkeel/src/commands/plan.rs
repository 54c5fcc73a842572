//! `plan`: what `apply` would do, as data: for review, and for `apply`, `script`, `image` and `diff` to carry out later.

use std::path::PathBuf;

use evenkeel_change::Log;
use evenkeel_host::Facts;
use evenkeel_hostfs::RootKind;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::selection::{Selection, Term};
use crate::show::{self, Out};

/// Write what would be done as a plan, which `apply`, `script` and `diff` carry out
///
/// A plan tells every step with the value seen, the value wanted, what changes along with it, when it takes effect and how it
/// is undone. It is carried out only on a machine that still needs exactly these steps.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Make it outlive the next boot
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
        Some(file) => std::fs::write(file, &text)
            .map_err(|error| Failure::io(exit::WRONG_USE, format_args!("write the plan {}", file.display()), &error))?,
        None => out.plain(&text, || show::plan::page(&selected.plan))?,
    }
    Ok(exit::WELL)
}
