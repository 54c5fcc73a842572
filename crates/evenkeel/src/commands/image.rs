//! `image`: what `apply --persist` writes, written into a root file system that was never booted.

use std::path::{Path, PathBuf};

use evenkeel_change::{ApplyError, Job, Log, OnFailure, PlanFile, RevertReport, State, Transaction, Which};
use evenkeel_host::Facts;
use evenkeel_sys::{Hand, Root};
use serde::Serialize;

use crate::commands::apply::half_way_failure;
use crate::exit;
use crate::failure::{Failure, Outcome, exit_of};
use crate::selection::{Selection, Term};
use crate::show::{self, Out};
use crate::state;

/// Where the journal is in the image: `verify` and `revert` on the machine that boots from it find it there.
const JOURNAL_DIRS: [&str; 3] = ["var", "lib", "evenkeel"];

/// Write what makes settings outlive a boot into an unbooted root file system
///
/// For machine images: everything goes to files below ROOT/etc and ROOT/boot, with a journal in ROOT/var/lib/evenkeel, so that
/// `evenkeel image --undo ROOT`, or `evenkeel revert` on a machine that was booted from it, takes it out again. Nothing outside
/// ROOT is read or written, whatever symbolic links it holds. Commands that only run inside the image are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The root directory of the image, mounted or unpacked
    #[arg(value_name = "ROOT")]
    image: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Take out again what was written
    #[arg(long)]
    undo: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a PlanFile,
    transaction: Transaction,
    /// Commands that have to run inside the image, or on its first boot.
    commands: Vec<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root =
        Root::mounted(&args.image).map_err(|error| Failure::new(exit_of(error.errno, exit::WRONG_USE), error))?;
    let dir = journal_dir(&args.image)?;
    if args.undo {
        return undo(&root, &dir, out);
    }
    let facts = Facts::probe(&root);
    let log = Log::read(&dir).map_err(state::failure)?;
    let selected = args.selection.plan(&root, &facts, &log, Term::Lasting)?;
    args.selection.refuse_what_can_not_be(&selected.plan)?;
    let mut state = State::open(&dir).map_err(state::failure)?;
    let plan = selected.plan.plan();
    let job = Job {
        settings: &selected.plan.settings,
        lasting: selected.plan.keep.as_ref(),
        on_failure: OnFailure::PutBack,
        ..Job::of(&plan, &selected.plan.title)
    };
    let done = evenkeel_change::carry_out(&root, &Hand::on_nothing(), &mut state, &job, |_| Ok(()));
    let transaction = done.map_err(|error| match error {
        ApplyError::Journal(error) => state::failure(error),
        ApplyError::HalfWay(half_way) => half_way_failure(*half_way),
    })?;
    let commands = selected.plan.keep.iter().flat_map(|lasting| &lasting.keep.commands);
    let commands = commands.filter(|command| !command.only_booted).map(|command| command.argv.join(" ")).collect();
    let answer = Answer { plan: &selected.plan, transaction, commands };
    out.answer(&answer, || show::plan::image(&answer.transaction, &answer.commands, &args.image))
        .map_err(|failure| failure.after_a_change(format_args!("evenkeel image --undo {}", args.image.display())))?;
    Ok(exit::WELL)
}

fn undo(root: &Root, dir: &Path, out: &Out) -> Outcome {
    let mut state = State::open_to_revert(dir).map_err(state::failure)?;
    let report: RevertReport = evenkeel_change::revert(root, &Hand::on_nothing(), &mut state, Which::All)
        .map_err(|error| Failure::new(exit::WRONG_USE, error))?;
    out.answer(&report, || show::change::reverted(&report, None))?;
    Ok(if report.all_undone { exit::WELL } else { exit::NOT_UNDONE })
}

/// The journal's folder, made step by step: none of them may be a link, which could lead to this machine's own journal.
fn journal_dir(image: &Path) -> Result<PathBuf, Failure> {
    let mut dir = image.to_path_buf();
    for name in JOURNAL_DIRS {
        dir.push(name);
        let tried = || format!("open the journal's folder {}", dir.display());
        match std::fs::symlink_metadata(&dir) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                let cause = "it is a symbolic link, or no directory: it could lead out of the image";
                return Err(Failure::text(exit::NOT_POSSIBLE, tried(), cause));
            }
            // The last one is made by the journal itself, for root alone.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && name == "evenkeel" => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir(&dir).map_err(|error| Failure::io(exit::NOT_POSSIBLE, tried(), &error))?;
            }
            Err(error) => return Err(Failure::io(exit::NOT_POSSIBLE, tried(), &error)),
        }
    }
    Ok(dir)
}
