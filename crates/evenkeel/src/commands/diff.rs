//! `diff`: compares the machine with a plan. It lists each value and each file that the plan would change.

use evenkeel_change::{Lasting, PlanFile, before_and_after};
use evenkeel_host::Facts;
use evenkeel_hostfs::Root;

use crate::args::{HostArgs, StateArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::selection::{Selection, Term, can_be_set};
use crate::show::plan::{Difference, FileDifference};
use crate::show::{self, Out};

/// Show what a plan would change on this machine; exit code 1 if it would change anything
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel diff plan.json
  evenkeel diff vm.swappiness=10 --host machine.txt")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Compare the files of `--persist` too
    #[arg(long)]
    persist: bool,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    overdue::settle(&root, &args.state, out);
    let facts = Facts::probe(&root);
    let log = args.state.read()?;
    let term = if args.persist { Term::Lasting } else { Term::Runtime };
    let plan = args.selection.plan(&root, &facts, &log, term)?.plan;
    let difference = difference(&root, plan)?;
    out.answer(&difference, || show::plan::difference(&difference))?;
    // `apply` cannot set a property of a process without --persist, so such a property would always differ.
    let differs = difference.steps.iter().any(|planned| args.persist || can_be_set(&planned.step));
    Ok(if differs || !difference.files.is_empty() { exit::NO } else { exit::WELL })
}

fn difference(root: &Root, plan: PlanFile) -> Result<Difference, Failure> {
    let kept = plan.persist.iter().flat_map(|Lasting { persist, .. }| &persist.files);
    let mut files = Vec::new();
    for file in kept {
        let (before, after) = before_and_after(root, file)
            .map_err(|why| Failure::text(exit::NOT_POSSIBLE, format_args!("compare {}", file.path), why))?;
        if before != after {
            let text = similar::TextDiff::from_lines(&before, &after);
            let diff = text.unified_diff().header(&file.path, &file.path).to_string();
            files.push(FileDifference { path: file.path.clone(), diff });
        }
    }
    let steps = plan.steps.into_iter().filter(|planned| !planned.already_so).collect();
    Ok(Difference { steps, files })
}
