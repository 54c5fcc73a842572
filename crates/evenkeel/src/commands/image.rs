//! `image`: writes the files of `apply --persist` into a root file system that has never been booted.

use std::path::PathBuf;

use evenkeel_change::{ApplyError, Job, Log, OnFailure, PlanFile, RevertReport, State, Transaction, Which};
use evenkeel_host::Facts;
use evenkeel_hostfs::{HostWriter, Image, Root};
use serde::Serialize;

use crate::commands::apply::half_way_failure;
use crate::exit;
use crate::failure::{Failure, Outcome, exit_of};
use crate::selection::{Selection, Term};
use crate::show::{self, Out};
use crate::state;

/// Write settings into the root file system of a machine image
///
/// Writes files below ROOT/etc and ROOT/boot, with a journal in ROOT/var/lib/evenkeel.
/// `evenkeel image --undo ROOT` removes all of them again.
/// On a machine that booted the image, `evenkeel revert` removes them.
/// The command reads and writes nothing outside ROOT, whatever symbolic links ROOT contains.
/// It prints the commands that have to run inside the image.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel image /mnt/image vm.swappiness=10
  evenkeel image --undo /mnt/image")]
pub(crate) struct Args {
    /// The root directory of the image, mounted or unpacked
    #[arg(value_name = "ROOT")]
    image: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Remove what evenkeel wrote
    #[arg(long)]
    undo: bool,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer<'a> {
    plan: &'a PlanFile,
    transaction: Transaction,
    /// Commands that have to run inside the image, or on its first boot.
    commands: Vec<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root =
        Root::mounted(&args.image).map_err(|error| Failure::new(exit_of(error.errno, exit::WRONG_USE), error))?;
    let Some(image) = root.image() else {
        let tried = format!("open {} as an image", args.image.display());
        return Err(Failure::text(exit::WRONG_USE, tried, "it is a machine that runs"));
    };
    if image.open_folder("etc").is_err() {
        let tried = format!("open {} as an image", args.image.display());
        return Err(Failure::text(exit::WRONG_USE, tried, "it has no folder etc")
            .hint("name the root directory of a system: the folder that has etc, usr and var"));
    }
    if args.undo {
        return undo(&root, &image, out);
    }
    let facts = Facts::probe(&root);
    let log = Log::read_in(&image).map_err(state::failure)?;
    let selected = args.selection.plan(&root, &facts, &log, Term::Lasting)?;
    args.selection.refuse_what_can_not_be(&selected.plan, false)?;
    let mut state = State::open_in(&image).map_err(state::failure)?;
    let plan = selected.plan.plan();
    let job = Job {
        settings: &selected.plan.settings,
        lasting: selected.plan.persist.as_ref(),
        on_failure: OnFailure::PutBack,
        ..Job::new(&plan, &selected.plan.title)
    };
    let done = evenkeel_change::carry_out(&root, &HostWriter::on_nothing(), &mut state, &job, |_| Ok(()));
    let transaction = done.map_err(|error| match error {
        ApplyError::Journal(error) => state::failure(error),
        ApplyError::HalfWay(half_way) => half_way_failure(*half_way),
    })?;
    let commands = selected.plan.persist.iter().flat_map(|lasting| &lasting.persist.commands);
    let commands = commands.filter(|command| !command.only_booted).map(|command| command.argv.join(" ")).collect();
    let answer = Answer { plan: &selected.plan, transaction, commands };
    out.answer(&answer, || show::plan::image(&answer.transaction, &answer.commands, &args.image))
        .map_err(|failure| failure.after_a_change(format_args!("evenkeel image --undo {}", args.image.display())))?;
    Ok(exit::WELL)
}

fn undo(root: &Root, image: &Image, out: &Out) -> Outcome {
    let mut state = State::open_to_revert_in(image).map_err(state::failure)?;
    let report: RevertReport = evenkeel_change::revert(root, &HostWriter::on_nothing(), &mut state, Which::All)
        .map_err(|error| Failure::new(exit::WRONG_USE, error))?;
    if report.all_undone && report.losses.is_empty() {
        state.remove_closed_in(image).map_err(state::failure)?;
    }
    out.answer(&report, || show::change::reverted(&report, None))?;
    Ok(if report.all_undone { exit::WELL } else { exit::NOT_UNDONE })
}
