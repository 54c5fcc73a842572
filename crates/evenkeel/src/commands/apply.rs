//! `apply`: settings as one transaction, on this machine or, as a rehearsal, on a captured one.

use std::path::PathBuf;

use evenkeel_change::{ApplyError, HalfWay, Miss, State, Transaction, Undo};
use evenkeel_host::{Action, Advice, Facts, Knob, Plan, Setting, SettingError, State as Advised, advise, knobs};
use evenkeel_sys::{Root, RootKind};
use serde::Serialize;

use crate::args::{GoalArgs, HostArgs, StateArgs};
use crate::commands::capture;
use crate::exit::{self, Exit};
use crate::failure::{Aftermath, Failure, Outcome, exit_of};
use crate::show::{self, Out};
use crate::state;

/// The longest title of a transaction, in characters: enough to recognise it in the history.
const TITLE_CHARS_MAX: usize = 200;

/// Change settings as one transaction, which `evenkeel revert` puts back
///
/// All of it comes about, or nothing stays: every value is read back, and if one did not take, those before it are put
/// back. What undoes a change is on disk before the change.
///
/// With --host the machine is a captured one, held in memory: a rehearsal, which changes nothing else.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to set; KNOB@PLACE=VALUE for one queue or interrupt alone
    #[arg(value_name = "KNOB=VALUE", required_unless_present = "advised", conflicts_with = "advised")]
    settings: Vec<String>,
    /// Set all that `evenkeel audit` advises
    #[arg(long)]
    advised: bool,
    #[command(flatten)]
    goal: GoalArgs,
    /// Print what would be done, and change nothing
    #[arg(long)]
    plan_only: bool,
    #[command(flatten)]
    host: HostArgs,
    /// With --host: write the captured machine as it is afterwards to FILE
    #[arg(long, short, value_name = "FILE", requires = "host", conflicts_with = "plan_only")]
    output: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<Transaction>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.host.open()?;
    let facts = Facts::probe(&root);
    let settings = settings(args, &facts)?;
    let plan = plan(&facts, &settings)?;
    if args.plan_only || plan.steps.is_empty() {
        out.answer(&Answer { plan: &plan, transaction: None }, || show::change::plan(&plan))?;
        return Ok(exit::WELL);
    }
    if !args.advised {
        refuse_what_no_write_does(&plan)?;
    }
    let transaction = change(args, &root, &plan, &title(args, &settings))?;
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
    })?;
    Ok(exit::WELL)
}

/// The settings that were given, or those advised.
fn settings(args: &Args, facts: &Facts) -> Result<Vec<Setting>, Failure> {
    let settings: Result<Vec<Setting>, SettingError> = if args.advised {
        let advice = advise(facts, &args.goal.wish()).into_iter();
        advice.filter(|advice| advice.state == Advised::Set).filter_map(setting_of).collect()
    } else {
        args.settings.iter().map(|text| Setting::parse(text)).collect()
    };
    settings.map_err(|error| Failure::text(exit::WRONG_USE, "plan the change", error))
}

fn setting_of(advice: Advice) -> Option<Result<Setting, SettingError>> {
    let value = advice.wanted?;
    let setting = |knob: &'static Knob| Ok(Setting { knob, place: Some(advice.place), value: knob.check(&value)? });
    Some(knobs::find(advice.knob).and_then(setting))
}

fn plan(facts: &Facts, settings: &[Setting]) -> Result<Plan, Failure> {
    let plan = Plan::of(facts, settings).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    for (index, step) in plan.steps.iter().enumerate() {
        if plan.steps[..index].iter().any(|before| (&before.knob, &before.place) == (&step.knob, &step.place)) {
            let error = format!("{} is set twice at {}", step.knob, step.place);
            return Err(Failure::text(exit::WRONG_USE, "plan the change", error));
        }
    }
    Ok(plan)
}

/// Among advised settings they are passed over; but who asks for one by name should not be told that all is well.
fn refuse_what_no_write_does(plan: &Plan) -> Result<(), Failure> {
    for step in &plan.steps {
        let cause = match &step.action {
            Action::Hold { path } => format!("it lasts only while a process holds {path} open"),
            Action::ByHand { todo } => format!("it is done by hand: {todo}"),
            Action::Process => "the server itself sets it when it starts".to_owned(),
            Action::Write { .. } | Action::KernelArgument { .. } => continue,
        };
        let setting = format!("{}={}", step.knob, step.wanted);
        return Err(Failure::text(exit::NOT_POSSIBLE, format_args!("apply {setting}"), cause)
            .hint(format!("`evenkeel prove {setting}` measures what it does")));
    }
    Ok(())
}

fn title(args: &Args, settings: &[Setting]) -> String {
    if args.advised {
        return format!("advised for {}", args.goal.goal);
    }
    let settings: Vec<String> = settings.iter().map(Setting::to_string).collect();
    settings.join(" ").chars().take(TITLE_CHARS_MAX).collect()
}

fn change(args: &Args, root: &Root, plan: &Plan, title: &str) -> Result<Transaction, Failure> {
    let hand = root.hand().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let (mut state, _rehearsal) = open_state(args, root)?;
    evenkeel_change::apply(root, &hand, &mut state, plan, title).map_err(|error| match error {
        ApplyError::Journal(error) => state::failure(error),
        ApplyError::HalfWay(half_way) => half_way_failure(*half_way),
    })
}

/// The journal; that of a rehearsal is thrown away with its directory, unless one was named.
fn open_state(args: &Args, root: &Root) -> Result<(State, Option<tempfile::TempDir>), Failure> {
    if root.kind() != RootKind::Captured || args.state.state.is_some() {
        return Ok((args.state.open()?, None));
    }
    let dir = tempfile::tempdir()
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "make a directory for the rehearsal", &error))?;
    let state = State::open(dir.path()).map_err(state::failure)?;
    Ok((state, Some(dir)))
}

fn half_way_failure(half_way: HalfWay) -> Failure {
    let exit = exit_of_half_way(&half_way);
    // Its own words hold those of its cause, which must not be said twice.
    let failure = Failure::new(exit, anyhow::anyhow!("{half_way}"));
    let failure = if exit == exit::NOT_ALLOWED { failure.hint("run it as root (sudo)") } else { failure };
    let HalfWay { transaction, put_back, .. } = half_way;
    Failure { aftermath: Some(Box::new(Aftermath { transaction, put_back })), ..failure }
}

/// What was refused before anything changed is not possible here, or not allowed; only what was changed can be undone.
fn exit_of_half_way(half_way: &HalfWay) -> Exit {
    if !half_way.put_back.all_undone {
        return exit::NOT_UNDONE;
    }
    if half_way.put_back.files.iter().any(|file| file.undo != Undo::AsBefore) {
        return exit::UNDONE;
    }
    match &half_way.failure {
        evenkeel_change::Failure::Step(failure) => match failure.miss {
            Miss::Refused { errno } => exit_of(errno, exit::NOT_POSSIBLE),
            _ => exit::NOT_POSSIBLE,
        },
        evenkeel_change::Failure::Journal(_) => exit::NOT_POSSIBLE,
    }
}

fn epilogue(args: &Args, done: &Transaction, rehearsal: bool) -> String {
    if rehearsal {
        return "\nRehearsed on the captured machine; this one was not changed.\n".to_owned();
    }
    let again = args.state.again();
    format!("\nCheck: evenkeel verify{again}\nUndo:  evenkeel revert {}{again}\n", done.id)
}
