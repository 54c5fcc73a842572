//! `evenkeel prove`: an honest A/B of settings on a real server under load.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_host::{Action, Facts, Plan, Setting};
use evenkeel_sys::{Root, process};
use evenkeel_trial::workload::arena::Arena;
use evenkeel_trial::{Design, Ended, Outcome as Verdict, Workload};

use crate::args::StateArgs;
use crate::commands::side_by_side;
use crate::exit;
use crate::experiment::{self, Experiment};
use crate::failure::{Failure, Outcome};
use crate::report::{Story, Told};
use crate::show::Out;

/// Prove settings on a server under load by an honest A/B, and put everything back
///
/// Arm A is the machine as it is, arm B has the settings. Both are measured in turns, pair by pair in a random order, while
/// one server runs on; the verdict is better, worse, same or undecided, with its interval, its doubts and what was dropped.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to prove, such as haltpoll.guest_halt_poll_ns=200000
    #[arg(required_unless_present = "compare", value_name = "KNOB=VALUE")]
    settings: Vec<String>,
    /// Measure nothing: put reports of several machines side by side
    #[arg(long, value_name = "REPORT.json", num_args = 1.., conflicts_with = "settings")]
    compare: Vec<PathBuf>,
    /// The number of a window that decides [default: by knob]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Pairs of windows, one of each arm
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(6..=5000))]
    pairs: u16,
    /// Length of a window in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=600_000))]
    window_ms: u32,
    /// The smallest effect that matters, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    smallest_effect: f64,
    /// Players in the reference server
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64))]
    bots: u8,
    /// Seed of the order of the arms, to repeat a run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Compare the machine as it is with itself, by the same path: what the method says of nothing
    #[arg(long)]
    control: bool,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if !args.compare.is_empty() {
        return side_by_side::run(&args.compare, args.report.as_deref(), out);
    }
    let settings = parse(&args.settings)?;
    let root = Root::live();
    let facts = Facts::probe(&root);
    let plan = Plan::of(&facts, &settings).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let needs_journal = plan.steps.iter().any(|step| matches!(step.action, Action::Write { .. }));
    let needs_root = plan.steps.iter().any(|step| !matches!(step.action, Action::Process));
    if needs_root && !process::is_root() {
        let error = anyhow::anyhow!("prove {}: it changes settings of the whole host", args.settings.join(" "));
        return Err(Failure::new(exit::NOT_ALLOWED, error).hint("run it as root; process.* knobs need none"));
    }
    let stop = experiment::stop_flag()?;
    let seed = args.seed.unwrap_or_else(experiment::fresh_seed);
    let mut arena = experiment::start_arena(args.bots, seed)?;
    let design = design_of(args, &arena, &settings, seed)?;
    out.say(&format!("{}\nabout {} s", arena.describe(), design.planned().as_secs()));
    let mut state = if needs_journal { Some(args.state.open()?) } else { None };
    let experiment = Experiment {
        root: &root,
        facts: &facts,
        state: state.as_mut(),
        settings: &settings,
        control: args.control,
        design: &design,
        stop: &stop,
        progress: out.shows_progress(),
    };
    let told = experiment.measure(&mut arena);
    arena.stop();
    tell(args, out, facts, told?, seed)
}

fn design_of(args: &Args, arena: &Arena, settings: &[Setting], seed: u64) -> Result<Design, Failure> {
    let name = args.metric.as_deref().unwrap_or_else(|| experiment::usual_metric(settings));
    let metric = experiment::metric(arena, name)?;
    let window = Duration::from_millis(args.window_ms.into());
    let mut design = Design::new(metric, args.pairs.into(), window, seed);
    if !(args.smallest_effect > 0.0 && args.smallest_effect < 1000.0) {
        let cause = format!("{} is not between 0 and 1000 per cent", args.smallest_effect);
        return Err(Failure::text(exit::WRONG_USE, "read --smallest-effect", cause));
    }
    design.smallest_effect_ratio = args.smallest_effect / 100.0;
    Ok(design)
}

fn tell(args: &Args, out: &Out, facts: Facts, told: Told, seed: u64) -> Outcome {
    let code = exit_of(&told);
    let mut text = text(&told, seed);
    let mut story = Story::new(format!("evenkeel prove {} --seed {seed}", args.settings.join(" ")), facts, Vec::new());
    story.trials.push(told);
    if let Some(folder) = &args.report {
        let [page, json] = story.write(folder)?;
        text += &format!("report: {} and {}\n", page.display(), json.display());
    }
    out.answer(&story.trials[0], || text)?;
    Ok(code)
}
fn parse(texts: &[String]) -> Result<Vec<Setting>, Failure> {
    let parsed = texts.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>();
    parsed.map_err(|error| Failure::text(exit::WRONG_USE, "read the settings", error))
}

fn text(told: &Told, seed: u64) -> String {
    let report = &told.report;
    let mut text = format!("{}: {}\n", report.verdict, told.sentence);
    let number = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
    for arm in &report.arms {
        let cpu = number(arm.cpu_share.map(|share| share * 100.0));
        let median = number(arm.median);
        text +=
            &format!("  {:?}  median {median} {}, server's CPU {cpu} %: {}\n", arm.arm, report.metric.unit, arm.values);
    }
    text += &format!(
        "  {} pairs, {} dropped, seed {seed}, metric {}\n",
        report.pairs,
        report.dropped.len(),
        report.metric.name
    );
    for doubt in &report.doubts {
        text += &format!("  doubt: {doubt}\n");
    }
    text
}

/// A verdict of worse is a "no"; a trial that failed on the way was not possible here, and was undone.
fn exit_of(told: &Told) -> exit::Exit {
    match (&told.report.ended, told.report.verdict) {
        (Ended::Failed { .. }, _) => exit::UNDONE,
        (_, Verdict::Worse) => exit::NO,
        _ => exit::WELL,
    }
}
