//! `evenkeel prove`: an honest A/B of settings on a real server under load.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_host::{Action, Facts, Knob, Plan, Setting, knobs};
use evenkeel_hostfs::Root;
use evenkeel_sys::process;
use evenkeel_trial::kept::{Head, Kept};
use evenkeel_trial::{Beside, Design, Ended, Guard, Keep, Settle, Stop};
use evenkeel_workload::{Metric, Workload};

use crate::args::StateArgs;
use crate::arms::{self, Arms};
use crate::commands::{capture, side_by_side};
use crate::exit;
use crate::experiment::{self, Experiment};
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::report::{self, Told, ToldChoice, Tolds};
use crate::session_files::{self, TrialLock};
use crate::show::Out;
use crate::smallest_effect::SmallestEffect;
use crate::workload_args::{self, WorkloadArgs};
use crate::workload_settings;

mod boots;
mod budget;
mod goal;
mod inert;
mod resume;
mod told;

/// The most pairs of a trial for which nothing else was asked: enough for an effect of the usual smallest size in the usual noise.
const PAIRS_MAX: u16 = 100;
/// Length of a window, where nothing else was asked.
const WINDOW_MS: u32 = 1000;
/// Turns of a window, where nothing else was asked; and the shortest.
const TURNS: u32 = 4;
const TURN_MIN: Duration = Duration::from_millis(250);
/// What a turn holds at the least of what is measured, such as ticks.
const TURN_EVENTS: f64 = 5.0;
/// Of another process the kernel lets only root change the timer slack; two of our own servers change theirs by themselves.
const WITHOUT_ROOT: &str = "run it as root; of process.* knobs only a real-time class takes it, and the timer slack of every workload but \
                            arena and tick";

/// What a comparison of reports has no use for: to take it and pass it over would be a lie. Its workload is looked at apart.
const OF_A_TRIAL: [&str; 22] = [
    "settings",
    "goal",
    "from",
    "resume",
    "keep",
    "list_workloads",
    "boots",
    "boots_status",
    "boots_cancel",
    "metric",
    "guard",
    "pairs",
    "budget",
    "fixed",
    "settle",
    "window_ms",
    "turns",
    "percent",
    "control_pairs",
    "seed",
    "control",
    "anyway",
];

/// Prove settings on a server under load by an honest A/B, and put everything back
///
/// Arm A is the machine as it is, arm B has the settings. Both are measured in turns, pair by pair in a random order; after every
/// pair it is looked at whether that is enough. The verdict is better, worse, same, undecided or not-engaged, with its interval, its
/// caveats and what was dropped. First the machine is compared with itself, by the same path. With several arms (--arm) the windows
/// go block by block, each arm once in a block.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to prove, such as haltpoll.guest_halt_poll_ns=200000; several are proved together
    #[arg(value_name = "KNOB=VALUE", required_unless_present_any = ["arm", "control", "from", "goal", "list_workloads", "compare", "boots_status", "boots_cancel", "boots_resume"])]
    settings: Vec<String>,
    #[command(flatten)]
    plan: DesignArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Tell every workload, and what it needs
    #[arg(long, conflicts_with_all = ["settings", "from", "resume"])]
    list_workloads: bool,
    /// Keep what is measured in FILE, pair by pair [default: a file beside the journal]
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Go on with the session in FILE, which was cut off or stopped; `last` is the newest
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keep", "from", "seed", "control"])]
    resume: Option<PathBuf>,
    /// Measure nothing, and report the session in FILE; `last` is the newest
    #[arg(long, value_name = "FILE", conflicts_with_all = ["settings", "keep", "seed", "control"])]
    from: Option<PathBuf>,
    /// Prove the set of a goal file once more, as `evenkeel tune` found it, on this machine as it is now
    #[arg(long, value_name = "FILE", conflicts_with_all = ["settings", "from"])]
    goal: Option<PathBuf>,
    /// Measure nothing, and put reports (report.json) of several machines side by side; with --report also as compare.html
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = OF_A_TRIAL)]
    compare: Vec<PathBuf>,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    boots: boots::BootsArgs,
}

/// All that is decided before the first pair.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Design")]
struct DesignArgs {
    /// A further arm, such as 'haltpoll.guest_halt_poll_ns=50000 vm.swappiness=10'; given several times, all are measured in turns
    /// beside the machine as it is, and told which is best; at most 7
    #[arg(long, value_name = "SETTINGS", conflicts_with_all = ["from", "goal", "list_workloads", "compare"])]
    arm: Vec<String>,
    /// The number of a window that decides [default: by knob and workload]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// A number that may not get worse, with the smallest harm that vetoes, such as round_trip_us_p99=25; none for no guard; may be
    /// given several times [default: the tail of what decides, at 25 %]
    #[arg(long, value_name = "NAME[=PERCENT]")]
    guard: Vec<String>,
    /// The most pairs of windows, one of each arm [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(6..=5000))]
    pairs: Option<u16>,
    /// Finish within this time, such as 90s or 10m, counted from the first switch. The settle phase and the A/A phase take a share of it; a budget
    /// without room for a decision is refused
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// Look once, after all pairs, rather than after every pair: a narrower interval from the same pairs
    #[arg(long, conflicts_with = "budget")]
    fixed: bool,
    /// How long the machine is left alone after a switch, such as 500ms [default: found by itself]
    #[arg(long, value_name = "TIME", value_parser = time)]
    settle: Option<Duration>,
    /// Length of a window in milliseconds [default: 1000, or as long as 12 ticks of the server take]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    window_ms: Option<u32>,
    /// Cut the windows of a pair into so many turns, which the arms take one after the other, A B A B; 1 where a switch is felt for
    /// more than half a turn [default: 4, of 250 ms at least; 1 for a tail, and for numbers that come seldom]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    turns: Option<u32>,
    #[command(flatten)]
    smallest_effect: SmallestEffect,
    /// Pairs of the A/A phase, which compares the machine with itself before the first pair; 0 for none [default: 10, fewer in a short budget]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    control_pairs: Option<u16>,
    /// Seed of the order of the arms, to repeat a run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Compare the machine as it is with itself throughout, by the path of the settings if some are named: what the method says of nothing
    #[arg(long)]
    control: bool,
    /// Compare settings too of which the audit knows that they do nothing on this machine; else one window is measured, and the reason is printed
    #[arg(long)]
    anyway: bool,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.list_workloads {
        let list = workload_args::list();
        out.answer(&list, || list.text())?;
        return Ok(exit::WELL);
    }
    if !args.compare.is_empty() {
        let unused = args.workload.again() + &args.workload.command_again();
        if !unused.is_empty() {
            let cause = format!("nothing is measured for that, so{unused} can't be used with it");
            return Err(Failure::text(exit::WRONG_USE, "compare reports", cause));
        }
        return side_by_side::run(&args.compare, args.report.as_deref(), out);
    }
    overdue::settle(&Root::live(), &args.state, out);
    if let Some(exit) = boots::instead(args, out)? {
        return Ok(exit);
    }
    let root = Root::live();
    let facts = Facts::probe(&root);
    if let Some(file) = &args.from {
        let (_, kept) = session_files::read(&args.state, file)?;
        resume::refuse_to_tell_otherwise(&args.plan, &kept, file)?;
        // The session may have been kept on another machine: what this one is has no place in its report.
        return tell(args, out, facts, None, experiment::told_again(kept)?);
    }
    let by_goal = args.goal.as_ref().map(|file| goal::asked_by(args, file, &facts, out)).transpose()?;
    let typed = &args.plan;
    let args = by_goal.as_ref().unwrap_or(args);
    let capture = capture::text_of(&root);
    let arms = match args.plan.control && args.settings.is_empty() && args.plan.arm.is_empty() {
        true => Arms::nothing(),
        false => Arms::parse(&args.settings, &args.plan.arm)?,
    };
    let needs = Needs::of(&facts, &arms.settings)?;
    if needs.root && !process::is_root() {
        let error = anyhow::anyhow!("prove {}: it changes settings of the whole host", arms::told(&arms.settings));
        return Err(Failure::new(exit::NOT_ALLOWED, error).hint(WITHOUT_ROOT));
    }
    let _alone = TrialLock::take(&args.state)?;
    let beside = experiment::beside(out, &format!("prove {}", arms::told(&arms.settings)));
    let before = args.resume.as_ref().map(|file| session_files::read(&args.state, file)).transpose()?;
    if let Some((file, kept)) = &before {
        resume::refuse_others(typed, &arms, kept, file)?;
    }
    if let Some(folder) = &args.report {
        report::make_folder(folder)?;
    }
    let stop = experiment::stop_flag()?;
    experiment::tell_of_signals(out, &args.state);
    let told = measure(
        args,
        out,
        Ground { root: &root, facts: &facts, arms: &arms, needs, stop: &stop, beside: &beside },
        before,
    )?;
    tell(args, out, facts, Some(capture), told)
}

/// What a trial stands on.
struct Ground<'a> {
    root: &'a Root,
    facts: &'a Facts,
    arms: &'a Arms,
    needs: Needs,
    stop: &'a Arc<AtomicBool>,
    beside: &'a Arc<Beside>,
}

/// What a trial of some settings needs.
#[derive(Clone, Copy)]
struct Needs {
    journal: bool,
    root: bool,
}

impl Needs {
    fn of(facts: &Facts, settings: &[Setting]) -> Result<Needs, Failure> {
        let plan = Plan::of(facts, settings).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        experiment::refuse_twice(&plan)?;
        Ok(Needs {
            journal: plan.steps.iter().any(|step| matches!(step.action, Action::Write { .. })),
            // Of a server of one's own anybody may set what the kernel allows; it says so itself where it does not. What somebody
            // else would have to do for good is done to a process of ours, or refused.
            root: plan.steps.iter().any(|step| {
                let is_ours = matches!(step.action, Action::Process | Action::ByHand { .. });
                !is_ours && !knobs::find(&step.knob).is_ok_and(Knob::is_of_server)
            }),
        })
    }
}

fn measure(args: &Args, out: &Out, ground: Ground<'_>, before: Option<(PathBuf, Kept)>) -> Result<Tolds, Failure> {
    let Ground { root, facts, arms, needs, stop, beside } = ground;
    let seed = match &before {
        Some((_, kept)) => kept.head.design.seed,
        None => args.plan.seed.unwrap_or_else(experiment::fresh_seed),
    };
    let or_stopped = |failure| experiment::stopped_or(failure, stop);
    if needs.journal {
        experiment::refuse_early_if_interrupted(root, &args.state)?;
    }
    let mut workload = args.workload.start(seed, stop).map_err(or_stopped)?;
    for own in &arms.asked {
        workload_settings::rehearse(workload.as_mut(), own).map_err(or_stopped)?;
    }
    let design = match &before {
        Some((_, kept)) => {
            resume::refuse_another(workload.as_ref(), kept)?;
            kept.head.design.clone()
        }
        None => args.plan.design(workload.as_ref(), arms, seed)?,
    };
    let control = before.as_ref().map_or(args.plan.control, |(_, kept)| experiment::is_control(&kept.head.arms));
    let inert = match before.is_some() || control || args.plan.anyway {
        true => Vec::new(),
        false => inert::of(facts, arms),
    };
    let at_most = if design.stop.is_sequential() { "at most" } else { "about" };
    let time = match inert.is_empty() {
        true => format!("{at_most} {} s", design.planned_for(arms.count()).as_secs()),
        false => "one window".to_owned(),
    };
    out.say(&format!("{}\n{time}", workload.describe()));
    let is_one = !control && arms.count() == 2;
    let same =
        if is_one { experiment::same_already(root, &experiment::plans(facts, &arms.settings)?) } else { Vec::new() };
    same.iter().for_each(|words| out.say(words));
    let mut state = if needs.journal { Some(args.state.open()?) } else { None };
    let experiment = Experiment {
        root,
        facts,
        state: state.as_mut(),
        state_args: &args.state,
        arms,
        control,
        same_already: same,
        inert,
        design: &design,
        stop,
        beside,
        progress: out.telling(),
        keep: &|head| keep_in(args, out, before.as_ref(), head),
        before: before.as_ref().map(|(_, kept)| kept.record.clone()),
    };
    let told = experiment.measure(workload.as_mut());
    workload.stop();
    told
}

/// The file that it is kept in: the one that is gone on with, or a new one.
fn keep_in(args: &Args, out: &Out, before: Option<&(PathBuf, Kept)>, head: &Head) -> Result<Keep, Failure> {
    let keep = match before {
        Some((path, kept)) => Keep::go_on(path, kept).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?,
        None => session_files::begin(&args.state, args.keep.as_deref(), head)?,
    };
    if let Some(path) = keep.path() {
        out.say(&format!("kept in {}", path.display()));
    }
    Ok(keep)
}

impl DesignArgs {
    fn window_ms(&self) -> u32 {
        self.window_ms.unwrap_or(WINDOW_MS)
    }

    fn design(&self, workload: &dyn Workload, arms: &Arms, seed: u64) -> Result<Design, Failure> {
        let metric = match &self.metric {
            Some(name) => experiment::metric(workload, name)?,
            None => experiment::usual_metric(workload, &arms.knobs())?,
        };
        let window_ms = self.window_ms.unwrap_or_else(|| experiment::window_ms_with_ticks(workload, WINDOW_MS));
        let window = Duration::from_millis(window_ms.into());
        let pairs = usize::from(self.pairs.unwrap_or(PAIRS_MAX));
        let mut design = match self.fixed {
            true => Design { stop: Stop::After { pairs }, ..Design::sequential(metric, pairs, window, seed) },
            false => Design::sequential(metric, pairs, window, seed),
        };
        if let Stop::Sequential { budget, .. } = &mut design.stop {
            *budget = self.budget;
        }
        design.turns = self.turns.unwrap_or_else(|| usual_turns(workload, &design.metric, window));
        design.guards = self.guards(workload, &design.metric)?;
        if let Some(time) = self.settle {
            design.settle = Settle::Fixed { time };
        }
        design.control_pairs = match self.control_pairs {
            Some(pairs) => pairs.into(),
            None => design.control_pairs_that_fit(arms.count()),
        };
        design.smallest_effect_ratio = self.smallest_effect.ratio(&design.metric);
        design.check_for(arms.count()).map_err(|error| Failure::new(exit::WRONG_USE, error))?;
        budget::refuse_short(&design, arms.count(), self.control_pairs.is_some())?;
        Ok(design)
    }

    /// What may not get worse: those that were named, or the usual ones of what decides.
    fn guards(&self, workload: &dyn Workload, metric: &Metric) -> Result<Vec<Guard>, Failure> {
        match self.guard.as_slice() {
            [] => Ok(experiment::usual_guards(workload, metric)),
            [none] if none == "none" => Ok(Vec::new()),
            named => named.iter().map(|text| guard(workload, text)).collect(),
        }
    }
}

/// In how many turns arms share their windows where nobody said: a neighbour that comes and goes within seconds is then in both.
fn usual_turns(workload: &dyn Workload, metric: &Metric, window: Duration) -> u32 {
    if !workload.takes_turns() || metric.is_tail() {
        return 1;
    }
    // Each turn holds some of what is measured: five ticks of a server that ticks seldom.
    let events =
        workload.events_per_s().map_or(Duration::ZERO, |hz| Duration::from_secs_f64(TURN_EVENTS / hz.max(0.1)));
    let most = window.as_millis() / TURN_MIN.max(events).as_millis();
    u32::try_from(most).unwrap_or(TURNS).clamp(1, TURNS)
}

/// A guard as it is named: `round_trip_us_p99` or `round_trip_us_p99=10`.
pub(crate) fn guard(workload: &dyn Workload, text: &str) -> Result<Guard, Failure> {
    let (name, harm_ratio) = named_guard(text)?;
    Ok(Guard { metric: experiment::metric(workload, name)?, harm_ratio })
}

/// The name of a guard, and the smallest harm that vetoes, as a share; whether a workload measures it is not asked.
fn named_guard(text: &str) -> Result<(&str, f64), Failure> {
    let (name, percent) = text.split_once('=').unwrap_or((text, "25"));
    let harm = percent.trim_end_matches('%').parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent < 1000.0);
    let harm = harm.ok_or_else(|| {
        Failure::text(exit::WRONG_USE, format!("read --guard {text}"), format!("{percent:?} is no per cent above 0"))
    })?;
    Ok((name, harm / 100.0))
}

/// A share in per cent, as people write it: 0.07 is not 7.000000000000001 per cent.
fn percent_of(ratio: f64) -> f64 {
    (ratio * 1e14).round() / 1e12
}

/// A time as people write it: `500ms`, `90s`, `10m`, `1h`; seconds without a unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{unit:?} is no unit of time: ms, s, m, h")),
    };
    let number: u32 = number.parse().map_err(|_| format!("{text:?} is no time, such as 500ms, 90s or 10m"))?;
    let whole = u64::from(number) * ms;
    (whole <= 7 * 86_400_000).then(|| Duration::from_millis(whole)).ok_or_else(|| "a week is the most".to_owned())
}

fn tell(args: &Args, out: &Out, facts: Facts, capture: Option<String>, told: Tolds) -> Outcome {
    let was_stopped = told.trials.iter().any(|told| told.report.ended == Ended::Stopped);
    // A session that is told again ends as it is told, however its run ended.
    let code = if was_stopped && args.from.is_none() { exit::STOPPED } else { told::exit_of(&told) };
    let mut text = told::text(&told);
    let mut story = report::begin(again(args, &told), facts, Vec::new());
    story.capture = capture;
    (story.trials, story.choice) = (told.trials, told.choice);
    let kept_in = told.kept_in.as_deref();
    if let Some(folder) = &args.report {
        match report::write(&story, folder) {
            Ok([page, json]) => text += &format!("report: {} and {}\n", page.display(), json.display()),
            Err(failure) => {
                // That it can't be written either matters less than why there is no report.
                let _ = if out.is_json() { Ok(()) } else { out.text(&text) };
                return Err(untold(args, kept_in, " --report DIR", failure));
            }
        }
    }
    let answered = match (&story.choice, &story.trials[..]) {
        (None, [one]) => out.answer_of_trial(one, || text),
        _ => out.answer_of_trial(&Several { choice: &story.choice, trials: &story.trials }, || text),
    };
    answered.map_err(|failure| untold(args, kept_in, "", failure))?;
    Ok(code)
}

/// The failure to tell what was found, or to write its report, with how to have it all the same.
fn untold(args: &Args, kept_in: Option<&Path>, report: &str, failure: Failure) -> Failure {
    match (&args.from, kept_in) {
        // The file that it came from is still there.
        (Some(_), _) => failure,
        (None, Some(file)) => {
            let again = format!("`evenkeel prove --from {}{report}`", file.display());
            failure.hint(format!("what was measured is kept: {again} tells it again"))
        }
        (None, None) => failure.hint(
            "what was measured is not all kept on disk either: make room, or name other places by --keep and --report, and measure anew",
        ),
    }
}

/// The answer of several arms.
#[derive(serde::Serialize)]
struct Several<'a> {
    choice: &'a Option<ToldChoice>,
    trials: &'a [Told],
}

/// How to repeat it.
fn again(args: &Args, told: &Tolds) -> String {
    let Some(first) = told.trials.first() else { return "evenkeel prove".to_owned() };
    let asked = match &told.trials[..] {
        [one] if one.knob.is_empty() => String::new(),
        [one] => format!(" {}", one.knob),
        several => several.iter().map(|told| format!(" --arm '{}'", told.knob)).collect(),
    };
    format!(
        "evenkeel prove{asked}{}{}{}{}{}",
        args.workload.again(),
        report::design_again(&first.report.design),
        if first.control { " --control" } else { "" },
        if args.plan.anyway { " --anyway" } else { "" },
        args.workload.command_again()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let table = [
            ("500ms", Some(500)),
            ("90", Some(90_000)),
            ("90s", Some(90_000)),
            ("10m", Some(600_000)),
            ("1h", Some(3_600_000)),
        ];
        for (text, ms) in table {
            assert_eq!(time(text).ok(), ms.map(Duration::from_millis), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "10 m", "9999999999", "169h", "5d", "é"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
