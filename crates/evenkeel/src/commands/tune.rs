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
use crate::workload_args::WorkloadArgs;
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

/// Search for the smallest set of knobs that helps your server on this machine, and put everything back
///
/// All knobs that can be tried here are switched at once, by a design in which every window serves every knob. Those that move the
/// metric are tried at other values and in every combination; what is not needed is left out, and what remains is proved against
/// the machine as it is, on windows of its own. Ctrl-C ends it, tells what is known so far, and puts all back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Search among these alone; without a value the one that is advised [default: all that can be tried here]
    #[arg(long, value_name = "KNOB[=VALUE]", num_args = 1..)]
    knobs: Vec<String>,
    /// How long it may take, such as 90s, 20min or 1h; from the first window to the last [default: 20min]
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// The number of a window that decides [default: by knobs and workload]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    #[command(flatten)]
    smallest_effect: SmallestEffect,
    /// Length of a window in milliseconds [default: 1000, less where the budget has no room to try all knobs otherwise]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    window_ms: Option<u32>,
    /// How long the machine is left alone after a switch, in milliseconds [default: found by itself]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    settle_ms: Option<u32>,
    /// A number that may not get worse, with the smallest harm that vetoes, such as round_trip_us_p99=25; none for no guard; may be
    /// given several times [default: the tail of what decides, at 25 %]
    #[arg(long, value_name = "NAME[=PERCENT]")]
    guard: Vec<String>,
    /// Never run again what makes the metric, or a guard twice, so many times worse than it was [default: 3]
    #[arg(long, value_name = "TIMES")]
    stop_at: Option<f64>,
    /// Also try the knobs of network devices and their interrupts: a change of them may cut the line that you work by
    #[arg(long)]
    network_devices: bool,
    /// Seed of every order, to repeat a search
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the set with its evidence to FILE, as a plan that `evenkeel apply` takes
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Make the plan outlive the next boot; a set that no file can hold is planned so anyway
    #[arg(long, requires = "out")]
    persist: bool,
    /// The systemd unit of the server, for settings of its process that are to outlive a boot
    #[arg(long, value_name = "UNIT", requires = "out")]
    unit: Option<ServiceName>,
    /// Go on with the search that was cut off or stopped, as it was begun; FILE is one that was kept when another began [default FILE:
    /// last, the newest]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = resume::LAST)]
    resume: Option<PathBuf>,
    #[command(flatten)]
    goal: GoalArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    state: StateArgs,
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

/// What a search stands on.
struct Ground<'a> {
    args: &'a Args,
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
    let root = Root::live();
    overdue::settle(&root, &args.state, out);
    let facts = Facts::probe(&root);
    check(args)?;
    let stop = experiment::stop_flag()?;
    experiment::tell_of_signals(out, &args.state);
    // Before the server starts: what needs rights or another trial's end shall not take its time.
    let mut state = args.state.open()?;
    let path = resume::log_of(args)?;
    experiment::refuse_if_interrupted(&root, &state, &args.state)
        .map_err(|failure| resume::after_a_kill(failure, args, &path))?;
    let _alone = TrialLock::take(&args.state)?;
    let beside = experiment::beside(out, "tune");
    let ground = Ground { args, out, root: &root, facts: &facts, stop, beside };
    let ready = match &args.resume {
        Some(_) => resume::go_on(&ground, &path),
        None => begin(&ground, &mut state, &path),
    };
    let ready = ready.map_err(|failure| experiment::stopped_or(failure, &ground.stop))?;
    let before = readings(&root, &ready.plans);
    let (design, plans, spec) = (ready.design.clone(), ready.plans.clone(), ready.spec.clone());
    let mut told = measure(&ground, &mut state, ready)?;
    told.all_as_before = readings(&root, &plans) == before;
    drop(state);
    if let (Some(file), Verdict::Better) = (&args.out, told.answer.verdict) {
        let evidence = (&design, spec, HostWords::of(&facts));
        match goal::write(args, &root, &facts, file, evidence, &told) {
            Ok(written) => {
                told.goal_applies = written.file.is_some().then_some(written.applies);
                (told.goal_file, told.notes) = (written.file, written.notes);
            }
            Err(failure) => return unwritten(out, told, failure.hint(goal::again(args, file))),
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

fn check(args: &Args) -> Result<(), Failure> {
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
fn wanted(args: &Args) -> Result<Wanted, Failure> {
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

fn begin(ground: &Ground<'_>, state: &mut State, path: &Path) -> Result<Ready, Failure> {
    let Ground { args, root, facts, .. } = ground;
    let wanted = wanted(args)?;
    let mut offer = offer(root, facts, &args.goal.wish(), &wanted);
    keep_what_is_allowed(&mut offer);
    let seed = args.seed.unwrap_or_else(experiment::fresh_seed);
    let mut workload = args.workload.start(seed, &ground.stop)?;
    offer.keep_what_reaches(&mut *workload);
    let Offer { candidates, plans, left_out } = offer;
    if candidates.is_empty() {
        workload.stop();
        return Err(nothing_to_try(&left_out));
    }
    let mut design = design::asked(args, &*workload, candidates, seed)?;
    design.restarts = restarts(&plans);
    if args.settle_ms.is_none() && design::settle(ground, state, &mut design, &plans, &mut *workload)? {
        workload.stop();
        workload = args.workload.start(seed, &ground.stop)?;
    }
    let arguments = format!("{}{}", args.workload.again(), args.workload.command_again()).trim().to_owned();
    let spec = WorkloadSpec::of(args.workload.entry()?.name, &args.workload.options(seed)?);
    let spec = WorkloadSpec { arguments, ..spec };
    let context = Context::new(args, &design, spec.clone(), &left_out);
    let context = serde_json::to_value(context).map_err(not_possible)?;
    let log = resume::begin(ground, path, &Header::new(design.clone(), context))?;
    Ok(Ready { design, plans, left_out, spec, workload, log })
}

/// Starts the workload that our own log tells of, or another one like it in the place of one that died.
fn start(spec: &WorkloadSpec, seed: u64, stop: &Arc<AtomicBool>) -> Result<Box<dyn Workload>, WorkloadError> {
    let why = |failure: Failure| WorkloadError::Start { program: spec.name.clone(), why: failure.message() };
    workload_of(&spec.arguments).and_then(|workload| workload.start(seed, stop)).map_err(why)
}

/// The workload that these arguments name, as a shell reads them.
pub(crate) fn workload_of(arguments: &str) -> Result<WorkloadArgs, Failure> {
    #[derive(Debug, clap::Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        workload: WorkloadArgs,
    }
    let bad = |cause: String| Failure::text(exit::WRONG_USE, format!("read the workload {arguments}"), cause);
    let words = shlex::split(arguments).ok_or_else(|| bad("a quote is not closed".to_owned()))?;
    let line = <Line as clap::Parser>::try_parse_from(words).map_err(|error| bad(error.to_string()))?;
    Ok(line.workload)
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
        Failure::new(exit::NOT_UNDONE, error).hint(format!("{} tries again", ground.args.state.revert()))
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
        resume: resume::again(ground.args),
        revert: ground.args.state.revert(),
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

/// A time as people write it: `90s`, `20min`, `1h`; seconds without a unit.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(format!("{unit:?} is no unit of time: s, min, h")),
    };
    let number: u32 = number.parse().map_err(|_| format!("{text:?} is no time, such as 90s, 20min or 1h"))?;
    let whole = u64::from(number) * seconds;
    (1..=7 * 86_400)
        .contains(&whole)
        .then(|| Duration::from_secs(whole))
        .ok_or_else(|| "a second at least, a week at most".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_named_again_by_its_arguments() {
        let line = "--workload command --players 9 --ready-line 'up and running' -- server --port 1";
        let workload = workload_of(line).unwrap();
        let again = format!("{}{}", workload.again(), workload.command_again());
        assert_eq!(again.trim(), line);
        assert_eq!(workload_of("").unwrap().entry().unwrap().name, "arena");
        assert!(workload_of("--colour red").is_err() && workload_of("'").is_err());
    }

    #[test]
    fn a_budget_of_seconds_is_said_in_seconds() {
        let told = [0, 30_000, 88_200, 120_000, 121_000, 1_190_000, 3_600_000];
        let told = told.map(|ms| at_most(Duration::from_millis(ms)));
        assert_eq!(told, ["0 s", "30 s", "89 s", "120 s", "2 min", "20 min", "60 min"]);
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text| time(text).map(|time| time.as_secs());
        assert_eq!(
            [seconds("90"), seconds("90s"), seconds("20min"), seconds("2m"), seconds("1h")],
            [Ok(90), Ok(90), Ok(1200), Ok(120), Ok(3600)]
        );
        for bad in ["", "min", "5d", "0", "9999h", "-1s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
