//! `apply`: changes settings as one transaction, on this machine, or as a rehearsal on a captured one.

use std::path::PathBuf;

use evenkeel_change::{
    ApplyError, Blocker, HalfWay, Job, Log, OnFailure, Outcome as StepOutcome, Owner, PlanFile, State, StepError,
    Transaction, Until,
};
use evenkeel_host::Facts;
use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::clock;
use serde::Serialize;

use crate::args::{HostArgs, StateArgs};
use crate::commands::{capture, watchdog};
use crate::exit::{self, Exit};
use crate::failure::{Aftermath, Failure, Outcome, exit_of};
use crate::overdue;
use crate::selection::{Selected, Selection, Term, can_be_set};
use crate::show::{self, Out};
use crate::state;
use crate::times;

/// Change settings as one transaction, which `evenkeel revert` undoes
///
/// evenkeel writes each old value to its journal, changes the setting, and reads it back.
/// If one setting fails, evenkeel restores all of them.
/// With --host, it rehearses the change on a captured machine in memory, and changes nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel apply vm.swappiness=10
  evenkeel apply --advised --plan-only         show what would change
  evenkeel apply --advised --try 60            undo it unless `evenkeel confirm` follows within 60 s
  evenkeel apply irq.affinity@24=0 --persist   one interrupt, and after each boot again")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Keep the settings after a reboot too, by files below /etc, which `revert` removes
    #[arg(long)]
    persist: bool,
    /// Undo the change after this time unless `evenkeel confirm` follows: for changes that may cut your connection
    #[arg(long = "try", value_name = "TIME", value_parser = times::whole_seconds(1..=TRY_SECONDS_MAX), conflicts_with_all = ["persist", "host"])]
    try_seconds: Option<u64>,
    /// Record a setting that fails and continue, instead of undoing all
    #[arg(long)]
    keep_going: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    plan_only: bool,
    #[command(flatten)]
    host: HostArgs,
    /// With --host: write the captured machine after the change to FILE
    #[arg(long, short, value_name = "FILE", requires = "host", conflicts_with = "plan_only")]
    output: Option<PathBuf>,
    /// The cluster's goal that this change belongs to; the agent of a node sets it
    #[arg(long, hide = true, value_name = "NAME/UID/GENERATION", value_parser = goal_owner, conflicts_with = "try_seconds")]
    for_goal: Option<Owner>,
    #[command(flatten)]
    state: StateArgs,
}

/// The maximum time that a change may wait for its confirmation, in seconds.
const TRY_SECONDS_MAX: u64 = 3600;

/// The maximum length of the name of a Kubernetes object.
const GOAL_NAME_BYTES_MAX: usize = 253;

fn goal_owner(text: &str) -> Result<Owner, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_word = |word: &str| {
        !word.is_empty()
            && word.len() <= GOAL_NAME_BYTES_MAX
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
    };
    match parts.as_slice() {
        [name, uid, generation] if is_word(name) && is_word(uid) => {
            let generation = generation.parse().map_err(|_| "the generation is a whole number".to_owned())?;
            Ok(Owner::Goal { name: (*name).to_owned(), uid: (*uid).to_owned(), generation })
        }
        _ => Err("expected NAME/UID/GENERATION".to_owned()),
    }
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer<'a> {
    plan: &'a PlanFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<Transaction>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    if !args.plan_only {
        overdue::settle(&root, &args.state, out);
    }
    let facts = Facts::probe(&root);
    let log = log_of(&args.state, &root)?;
    let term = if args.persist { Term::Lasting } else { Term::Runtime };
    let Selected { plan, stale, .. } = args.selection.plan(&root, &facts, &log, term)?;
    if args.plan_only || (plan.steps.is_empty() && plan.persist.is_none()) {
        out.answer(&Answer { plan: &plan, transaction: None }, || {
            show::plan::judged(&plan, &args.selection.advice(&facts))
        })?;
        return Ok(exit::WELL);
    }
    args.selection.refuse_what_can_not_be(&plan, args.keep_going)?;
    let leaves_some = plan.persist.is_none() && !plan.steps.iter().all(|planned| can_be_set(&planned.step));
    // With --advised, some advised settings are always beyond this command, so they do not change the exit code.
    let exit_if_set = if leaves_some && !args.selection.advised { exit::NO } else { exit::WELL };
    let is_done = plan.is_done(&root).map_err(|error| Failure::new(exit_of(error.errno, exit::NOT_POSSIBLE), error))?;
    // The agent of a node finds a goal by its transaction.
    // So a goal needs a transaction even if all values are already in force.
    if is_done && args.for_goal.is_none() {
        let text = match leaves_some {
            false => "Nothing to do: all values are set already.\n",
            true => {
                "Nothing to do: all values that this command can set are set already. --plan-only shows the others.\n"
            }
        };
        out.answer(&Answer { plan: &plan, transaction: None }, || text.to_owned())?;
        return Ok(exit_if_set);
    }
    if let Some(stale) = stale {
        return Err(Failure::new(exit::NOT_POSSIBLE, stale).hint("`evenkeel diff PLAN` shows what it would change now"));
    }
    let opinions = show::plan::opinions(&plan, &args.selection.advice(&facts));
    if !args.selection.advised && !opinions.is_empty() {
        out.status(&opinions);
    }
    let transaction = change(args, &root, &plan, out)?;
    if let Some(file) = &args.output {
        capture::write(file, &capture::text_of(&root))?;
    }
    let answer = Answer { plan: &plan, transaction: Some(transaction) };
    out.answer(&answer, || {
        let rehearsal = root.kind() == RootKind::Captured;
        answer
            .transaction
            .iter()
            .map(|done| show::change::transaction(done) + &epilogue(args, done, rehearsal))
            .collect()
    })
    .map_err(|failure| match root.kind() {
        RootKind::Captured => failure,
        _ => failure.after_a_change(format_args!("evenkeel revert{}", args.state.again())),
    })?;
    let missed = answer.transaction.iter().flat_map(|done| &done.steps);
    let all_came = !missed.into_iter().any(|step| matches!(step.outcome, StepOutcome::Missed(_)));
    Ok(if all_came { exit_if_set } else { exit::NO })
}

fn change(args: &Args, root: &Root, plan: &PlanFile, out: &Out) -> Result<Transaction, Failure> {
    let writer = root
        .writer()
        .map_err(|error| Failure::new(exit::NOT_POSSIBLE, error).hint("for an image: evenkeel image ROOT …"))?;
    let (mut state, _rehearsal) = open_state(&args.state, root)?;
    let until = args.try_seconds.map(|seconds| Until {
        boottime_ns: clock::boottime_ns().saturating_add(seconds.saturating_mul(1_000_000_000)),
        seconds,
    });
    let (steps, owned) = (plan.plan(), plan.owned());
    let title = match &args.for_goal {
        Some(Owner::Goal { name, generation, .. }) => format!("goal {name}, generation {generation}: {}", plan.title),
        _ => plan.title.clone(),
    };
    let job = Job {
        settings: &plan.settings,
        lasting: plan.persist.as_ref(),
        until,
        owned: &owned,
        on_failure: if args.keep_going { OnFailure::GoOn } else { OnFailure::PutBack },
        owner: args.for_goal.as_ref(),
        ..Job::new(&steps, &title)
    };
    let dir = args.state.path()?;
    let mut without_timer = None;
    let arm = |id| match args.try_seconds {
        Some(seconds) => watchdog::start(id, &dir, seconds).map(|why| without_timer = why),
        None => Ok(()),
    };
    let done = evenkeel_change::carry_out(root, &writer, &mut state, &job, arm).map_err(|error| match error {
        ApplyError::Journal(error) => state::failure(error),
        ApplyError::HalfWay(half_way) => half_way_failure(*half_way),
    })?;
    if let Some(why) = without_timer {
        out.warn(&format!(
            "if the process that undoes the change is killed, no systemd timer replaces it: systemd-run: {why}\n"
        ));
    }
    Ok(done)
}

/// Reads the journal. A rehearsal has an empty journal, unless the user named one.
pub(super) fn log_of(args: &StateArgs, root: &Root) -> Result<Log, Failure> {
    if root.kind() == RootKind::Captured && args.state.is_none() { Ok(Log::default()) } else { args.read() }
}

/// Opens the journal. A rehearsal has its journal in a temporary directory, unless the user named one.
pub(super) fn open_state(args: &StateArgs, root: &Root) -> Result<(State, Option<tempfile::TempDir>), Failure> {
    if root.kind() != RootKind::Captured || args.state.is_some() {
        return Ok((args.open()?, None));
    }
    let dir = tempfile::tempdir()
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "make a directory for the rehearsal", &error))?;
    let state = State::open(dir.path()).map_err(state::failure)?;
    Ok((state, Some(dir)))
}

pub(super) fn half_way_failure(half_way: HalfWay) -> Failure {
    let exit = exit_of_half_way(&half_way);
    // The error text already contains the text of its cause.
    let failure = Failure::new(exit, anyhow::anyhow!("{half_way}"));
    let failure = if exit == exit::NOT_ALLOWED { failure.hint("run it as root (sudo)") } else { failure };
    let HalfWay { transaction, put_back, .. } = half_way;
    Failure { aftermath: Some(Box::new(Aftermath { transaction, put_back })), ..failure }
}

/// The exit code of an apply that failed half-way.
/// If nothing was changed, the code shows whether the refused setting is impossible here or not allowed.
/// Otherwise it shows whether evenkeel undid the change.
fn exit_of_half_way(half_way: &HalfWay) -> Exit {
    if !half_way.put_back.all_undone {
        return exit::NOT_UNDONE;
    }
    if !half_way.put_back.changed_nothing() {
        return exit::UNDONE;
    }
    match &half_way.failure {
        evenkeel_change::Failure::Step(failure) => match failure.error {
            StepError::Refused { errno } => exit_of(errno, exit::NOT_POSSIBLE),
            StepError::Blocked { by: Blocker::Capability(_), .. } => exit::NOT_ALLOWED,
            _ => exit::NOT_POSSIBLE,
        },
        _ => exit::NOT_POSSIBLE,
    }
}

fn epilogue(args: &Args, done: &Transaction, rehearsal: bool) -> String {
    if rehearsal {
        return "\nRehearsed on the captured machine; this one was not changed.\n".to_owned();
    }
    let again = args.state.again();
    if let Some(seconds) = args.try_seconds {
        return format!(
            "\nIt undoes itself in {seconds} s. Keep it: evenkeel confirm {}{again}\nUndo it now: evenkeel revert {}{again}\n",
            done.id, done.id
        );
    }
    format!("\nCheck: evenkeel verify{again}\nUndo:  evenkeel revert {}{again}\n", done.id)
}
