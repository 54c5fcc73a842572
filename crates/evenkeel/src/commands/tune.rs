//! `evenkeel tune`: a search for the smallest set of knobs that helps one server on this machine, and puts everything back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_change::{ServiceName, State};
use evenkeel_host::{Action, Facts, Plan};
use evenkeel_hostfs::Root;
use evenkeel_sys::process;
use evenkeel_trial::search::{
    Answer, Header, HostWords, LeftOut, LeftOutReason, Live, Log, Offer, SearchDesign, Tools, Verdict, Wanted,
    WorkloadSpec, offer, restarts, search,
};
use evenkeel_trial::{Beside, Rules, Switch, Watch};
use evenkeel_workload::{Workload, WorkloadError};
use resume::Context;
use serde::Serialize;

use crate::args::{GoalArgs, StateArgs};
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::session_files::TrialLock;
use crate::show::{Out, tune as page};
use crate::smallest_effect::SmallestEffect;
use crate::times::time;
use crate::workload_args::{WorkloadArgs, workload_of};
use crate::workload_settings;

mod design;
mod goal;
mod resume;

/// How long a search may take, how long a window is, and how many times worse one may be, where nobody says.
const BUDGET: Duration = Duration::from_secs(20 * 60);
const WINDOW_MS: u32 = 1000;
const STOP_AT: f64 = 3.0;
/// The most windows that a budget of time may be.
const WINDOWS_MAX: usize = 100_000;

/// What `--help` ends with.
const EXAMPLES: &str = "\
All knobs are switched at once, by a design in which every window serves every knob. Those that
move the metric are tried at other values and together. What is not needed is left out, and the rest
is proved against this machine as it is. Ctrl-C stops it, and everything is put back.

Examples:
  evenkeel tune --workload tick --budget 2min
  sudo evenkeel tune --budget 20min --out goal.json --see ticks -- ./my-server --port 7777
  sudo evenkeel tune resume        # continue the search that was stopped or killed";

/// Search for the smallest set of knobs that helps your server on this machine, and put everything back
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "evenkeel tune [OPTIONS] [-- <CMD>...]\n       evenkeel tune <COMMAND>",
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    search: SearchArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Resume(resume::Args),
}

/// What a new search is asked for.
#[derive(Debug, clap::Args)]
struct SearchArgs {
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// What is written of what was found.
#[derive(Debug, clap::Args)]
struct OutArgs {
    /// Write the set with its evidence to FILE, for `evenkeel apply`
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Make the plan outlive the next boot
    #[arg(long, requires = "out")]
    persist: bool,
    /// The systemd unit of the server, for settings of its process
    #[arg(long, value_name = "UNIT", requires = "out")]
    unit: Option<ServiceName>,
}

/// What is searched among, and by what it is decided.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Search")]
struct PlanArgs {
    /// Search among these alone [default: all that can be tried here]
    #[arg(long, value_name = "KNOB[=VALUE]", num_args = 1..)]
    knobs: Vec<String>,
    /// Finish within this time, such as 90s or 1h [default: 20min]
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// The number of a window that decides [default: by knobs, workload]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    #[command(flatten)]
    smallest_effect: SmallestEffect,
    /// Length of a window in ms [default: 1000, less in a short budget]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    window_ms: Option<u32>,
    /// Wait this many ms after each switch [default: found]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    settle_ms: Option<u32>,
    /// Reject what makes NAME worse by PERCENT; repeatable; none for no guard [default: its p99, 25]
    #[arg(long, value_name = "NAME[=PERCENT]")]
    guard: Vec<String>,
    /// Never repeat what makes the metric so many times worse [default: 3]
    #[arg(long, value_name = "TIMES")]
    stop_at: Option<f64>,
    /// Also try knobs of network devices: one may cut the line you work by
    #[arg(long)]
    network_devices: bool,
    /// Seed of every order, to repeat a search
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    goal: GoalArgs,
}

/// The answer of `--json`.
#[derive(Serialize)]
pub(crate) struct Told {
    /// What was found.
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// What was decided before.
    pub(crate) design: SearchDesign,
    /// The server with its load.
    pub(crate) workload: String,
    /// Knobs that were not tried, and why.
    pub(crate) not_tried: Vec<LeftOut>,
    /// Whether every setting that was switched reads as before.
    pub(crate) all_as_before: bool,
    /// The goal file, where one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal_file: Option<String>,
    /// Whether `evenkeel apply` takes it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal_applies: Option<bool>,
    /// What a user should know of the goal file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// The command that goes on with it, for people.
    #[serde(skip)]
    pub(crate) resume: String,
    /// The one that puts back what was not.
    #[serde(skip)]
    pub(crate) revert: String,
}

/// What a search stands on, whether it begins or goes on.
struct Ground<'a> {
    out_args: &'a OutArgs,
    state: &'a StateArgs,
    /// The command that continues it.
    resume: String,
    out: &'a Out,
    root: &'a Root,
    facts: &'a Facts,
    stop: Arc<AtomicBool>,
    beside: Arc<Beside>,
}

/// A search that is ready to begin, or to go on.
struct Ready {
    design: SearchDesign,
    plans: Vec<Plan>,
    left_out: Vec<LeftOut>,
    spec: WorkloadSpec,
    workload: Box<dyn Workload>,
    log: Log,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.what {
        Some(What::Resume(args)) => resume::run(args, out),
        None => {
            let SearchArgs { out: out_args, state, plan, workload } = &args.search;
            let path = state.path()?.join(resume::LOG);
            let asked = Asked { out_args, state, path: &path, resume: resume::again(None, state) };
            run_search(asked, out, |ground, state| begin(ground, plan, workload, state, &path))
        }
    }
}

/// What is asked of a search, whether it begins or goes on.
struct Asked<'a> {
    out_args: &'a OutArgs,
    state: &'a StateArgs,
    /// Its log.
    path: &'a Path,
    /// The command that continues it.
    resume: String,
}

/// Runs the search that `ready` makes ready.
fn run_search(
    asked: Asked<'_>,
    out: &Out,
    ready: impl FnOnce(&Ground<'_>, &mut State) -> Result<Ready, Failure>,
) -> Outcome {
    let Asked { out_args, state: state_args, path, resume } = asked;
    let root = Root::live();
    let here = std::env::current_dir().unwrap_or_default();
    overdue::settle(&root, state_args, out);
    let facts = Facts::probe(&root);
    check(out_args)?;
    let stop = experiment::stop_flag()?;
    experiment::tell_of_signals(out, state_args);
    // Before the server starts: what needs rights or another trial's end shall not take its time.
    let mut state = state_args.open()?;
    experiment::refuse_if_interrupted(&root, &state, state_args)
        .map_err(|failure| resume::after_a_kill(failure, &resume, path))?;
    let _alone = TrialLock::take(state_args)?;
    let beside = experiment::beside(out, "tune");
    let ground = Ground { out_args, state: state_args, resume, out, root: &root, facts: &facts, stop, beside };
    let ready = ready(&ground, &mut state).map_err(|failure| experiment::stopped_or(failure, &ground.stop))?;
    let before = readings(&root, &ready.plans);
    let (design, plans, spec) = (ready.design.clone(), ready.plans.clone(), ready.spec.clone());
    let mut told = measure(&ground, &mut state, ready)?;
    told.all_as_before = readings(&root, &plans) == before;
    drop(state);
    if let (Some(file), Verdict::Better) = (&out_args.out, told.answer.verdict) {
        let evidence = (&design, spec, HostWords::of(&facts));
        // The workload may be of another folder, where the file was not meant to be.
        let is_here = std::env::current_dir().is_ok_and(|folder| folder == here);
        let file = &if is_here { file.clone() } else { here.join(file) };
        match goal::write(&ground, file, evidence, &told) {
            Ok(written) => {
                told.goal_applies = written.file.is_some().then_some(written.applies);
                (told.goal_file, told.notes) = (written.file, written.notes);
            }
            Err(failure) => return unwritten(out, told, failure.hint(goal::again(&ground, file))),
        }
    }
    out.answer(&told, || page::page(&told))?;
    Ok(match (&told.answer.ended, told.answer.verdict) {
        (_, Verdict::Better) => exit::WELL,
        (evenkeel_trial::search::SearchEnded::Failed { .. }, _) => exit::UNDONE,
        (evenkeel_trial::search::SearchEnded::Stopped, _) => exit::STOPPED,
        _ => exit::NO,
    })
}

/// The outcome where the goal can't be written; what was found is told all the same.
fn unwritten(out: &Out, mut told: Told, failure: Failure) -> Outcome {
    if !out.is_json() {
        out.answer(&told, || page::page(&told))?;
        return Err(failure);
    }
    // The answer is the one document on standard output, and tells itself what is missing.
    told.notes.push(format!("{}; {}", failure.message(), failure.hint.as_deref().unwrap_or_default()));
    out.answer(&told, String::new)?;
    out.aside(&format!("evenkeel: {}\n", told.notes.concat()));
    Ok(failure.exit)
}

fn check(args: &OutArgs) -> Result<(), Failure> {
    // A file that can't be written is better known before twenty minutes have passed.
    let folder = args.out.as_ref().and_then(|file| file.parent()).filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(Failure::text(exit::WRONG_USE, format!("write into {}", folder.display()), "there is no such folder"))
        }
        _ => Ok(()),
    }
}

/// What was asked to be searched among.
fn wanted(args: &PlanArgs) -> Result<Wanted, Failure> {
    let bad = |error: evenkeel_host::SettingError| Failure::text(exit::WRONG_USE, "read --knobs", error);
    let mut named = Vec::new();
    for text in &args.knobs {
        named.push(match text.contains('=') {
            true => workload_settings::parse(text).map(|setting| (setting.knob, Some(setting))).map_err(bad)?,
            false => (workload_settings::find(text).map_err(bad)?, None),
        });
    }
    Ok(match (named.is_empty(), args.network_devices) {
        (false, _) => Wanted::Named(named),
        (true, true) => Wanted::AllAndNetwork,
        (true, false) => Wanted::All,
    })
}

fn begin(
    ground: &Ground<'_>,
    plan: &PlanArgs,
    asked: &WorkloadArgs,
    state: &mut State,
    path: &Path,
) -> Result<Ready, Failure> {
    let Ground { root, facts, .. } = ground;
    let wanted = wanted(plan)?;
    let mut offer = offer(root, facts, &plan.goal.wish(), &wanted);
    keep_what_is_allowed(&mut offer);
    let seed = plan.seed.unwrap_or_else(experiment::fresh_seed);
    let mut workload = asked.start(seed, &ground.stop)?;
    offer.keep_what_reaches(&mut *workload);
    let Offer { candidates, plans, left_out } = offer;
    if candidates.is_empty() {
        workload.stop();
        return Err(nothing_to_try(&left_out));
    }
    let mut design = design::asked(plan, &*workload, candidates, seed)?;
    design.restarts = restarts(&plans);
    if plan.settle_ms.is_none() && design::settle(ground, state, &mut design, &plans, &mut *workload)? {
        workload.stop();
        workload = asked.start(seed, &ground.stop)?;
    }
    let spec = WorkloadSpec::of(asked.entry()?.name, &asked.options(seed)?);
    let spec = WorkloadSpec { arguments: asked.line(), ..spec };
    let context = Context::new(spec.clone(), &left_out);
    let context = serde_json::to_value(context).map_err(not_possible)?;
    let log = resume::begin(ground, path, &Header::new(design.clone(), context))?;
    Ok(Ready { design, plans, left_out, spec, workload, log })
}

/// Starts the workload that our own log tells of, or another one like it in the place of one that died.
fn start(spec: &WorkloadSpec, seed: u64, stop: &Arc<AtomicBool>) -> Result<Box<dyn Workload>, WorkloadError> {
    let why = |failure: Failure| WorkloadError::Start { program: spec.name.clone(), why: failure.message() };
    workload_of(&spec.arguments).and_then(|workload| workload.start(seed, stop)).map_err(why)
}

/// Leaves out what takes root, for those who are not.
fn keep_what_is_allowed(offer: &mut Offer) {
    if process::is_root() {
        return;
    }
    for at in (0..offer.plans.len()).rev() {
        if offer.plans[at].steps.iter().any(|step| step.action != Action::Process) {
            let knob = offer.plans.remove(at).steps.first().map(|step| step.knob.clone()).unwrap_or_default();
            offer.candidates.remove(at);
            offer.left_out.push(LeftOut { knob, why: LeftOutReason::NeedsRoot });
        }
    }
}

fn nothing_to_try(left_out: &[LeftOut]) -> Failure {
    let needs_root = left_out.iter().any(|left| left.why == LeftOutReason::NeedsRoot);
    let code = if needs_root { exit::NOT_ALLOWED } else { exit::NOT_POSSIBLE };
    let whys: Vec<String> = left_out.iter().map(|LeftOut { knob, why }| format!("{knob}: {why}")).collect();
    Failure::text(code, "find a knob that can be tried here", whys.join("; "))
}

fn not_possible(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}

/// Runs the search. The host is as before when this returns, or the error says what is not.
fn measure(ground: &Ground<'_>, state: &mut State, ready: Ready) -> Result<Told, Failure> {
    let Ready { design, plans, left_out, spec, workload, mut log } = ready;
    let described = workload.describe();
    let knobs = design.candidates.len();
    let at_most = at_most(Duration::from_millis(design.budget.time_ms.unwrap_or_default()));
    ground.out.say(&format!("{described}\n{knobs} knobs, at most {at_most}, metric {}", design.metric.name));
    let hand = ground.root.hand().map_err(not_possible)?;
    let title = format!("tune {} by {}", spec.name, design.metric.name);
    let mut switch = Switch::begin(ground.root, &hand, Some(state), &title, &plans).map_err(not_possible)?;
    let watch = Watch::start(ground.root, &plans).beside(&ground.beside).of_workload(workload.as_ref());
    let bar = page::bar(ground.out.shows_progress());
    let revive = || start(&spec, design.seed, &ground.stop);
    let mut live = Live {
        design: &design,
        plans: &plans,
        switch: &mut switch,
        workload,
        revive: &revive,
        watch: &watch,
        rules: Rules::default(),
        revivals: 0,
    };
    let answer = search(
        &design,
        Tools {
            subject: &mut live,
            log: &mut log,
            stop: &|| ground.stop.load(Ordering::Relaxed),
            on_progress: &mut |progress| {
                ground.beside.news().iter().for_each(|words| bar.suspend(|| ground.out.aside(&format!("{words}\n"))));
                page::show(&bar, progress);
            },
        },
    );
    bar.finish_and_clear();
    live.workload.stop();
    drop(live);
    switch.end().map_err(|error| {
        Failure::new(exit::NOT_UNDONE, error).hint(format!("{} tries again", ground.state.revert()))
    })?;
    let answer = answer.map_err(not_possible)?;
    Ok(Told {
        answer,
        design,
        workload: described,
        not_tried: left_out,
        all_as_before: false,
        goal_file: None,
        goal_applies: None,
        notes: Vec::new(),
        resume: ground.resume.clone(),
        revert: ground.state.revert(),
    })
}

/// What every file reads that the plans write.
fn readings(root: &Root, plans: &[Plan]) -> BTreeMap<String, Option<String>> {
    let files = plans.iter().flat_map(|plan| &plan.steps).filter_map(|step| match &step.action {
        Action::Write { path, .. } => Some(path.clone()),
        _ => None,
    });
    files.map(|path| (path.clone(), root.text(&path).ok())).collect()
}

/// A budget in words; what finding the settle time took is no longer in it, so it may be any number of seconds.
fn at_most(time: Duration) -> String {
    match time.as_secs_f64().ceil() {
        seconds if seconds <= 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_seconds_is_said_in_seconds() {
        let told = [0, 30_000, 88_200, 120_000, 121_000, 1_190_000, 3_600_000];
        let told = told.map(|ms| at_most(Duration::from_millis(ms)));
        assert_eq!(told, ["0 s", "30 s", "89 s", "120 s", "2 min", "20 min", "60 min"]);
    }
}
