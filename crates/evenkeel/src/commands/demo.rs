//! `evenkeel demo`: all steps on this machine in about two minutes.
//! It inspects, audits, puts a real server under load, shows
//! that equal arms give equal results, proves one knob, restores everything, and writes a report.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_host::{Advice, Facts, Goal, Knob, Setting, State as Advised, advise, knobs};
use evenkeel_hostfs::Root;
use evenkeel_sys::process;
use evenkeel_trial::{ConcurrentTrials, Design, Outcome as Verdict, SessionWriter, Settle};
use evenkeel_workload::Workload;
use evenkeel_workload::arena::Arena;

use crate::args::StateArgs;
use crate::arms::Arms;
use crate::exit;
use crate::experiment::{self, Experiment};
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::overdue;
use crate::report::{self, FullReport, NotTried, SettingText};
use crate::session_files::TrialLock;
use crate::show::Out;

/// The demo measures many short pairs, not few long pairs.
/// A machine's speed changes over seconds, and the two windows of a pair should have the same speed.
/// With the default number of pairs, both trials fit in two minutes.
const WINDOW: Duration = Duration::from_millis(300);
const SETTLE: Duration = Duration::from_millis(50);
/// The demo reports an effect only if it is at least 10 %.
const SMALLEST_EFFECT_RATIO: f64 = 0.10;
const BOTS: u8 = 16;

/// The knobs that can matter to the reference server, the most important first.
/// The demo proves the first applicable knob.
fn candidates() -> Vec<&'static Knob> {
    let mut candidates: Vec<&Knob> = knobs::ALL.iter().copied().filter(|knob| knob.extras.shortens.is_some()).collect();
    candidates.sort_by_key(|knob| (knob.extras.shortens, knob.when()));
    candidates
}

/// Inspect, audit, prove one setting, undo it and write a report, in two minutes
///
/// Without root it proves a setting of the server's own process, and lists the settings that it could not try.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel demo
  evenkeel demo --pairs 20 --out report")]
pub(crate) struct Args {
    /// Folder for report.html and report.json
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Pairs of windows in each of the two trials
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(6..=1000))]
    pairs: u16,
    /// Seed of the order of the arms, to repeat a run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = Root::live();
    overdue::settle(&root, &args.state, out);
    let facts = Facts::probe(&root);
    let advice = advise(&facts, &Goal::Latency.into());
    let before = settings(&root);
    output_file::make_folder(&args.out)?;
    let stop = experiment::stop_flag()?;
    let _alone = TrialLock::take(&args.state)?;
    let concurrent = experiment::announce(out, "demo");
    if process::is_root() {
        experiment::refuse_early_if_interrupted(&root, &args.state)?;
    }
    let seed = args.seed.unwrap_or_else(experiment::fresh_seed);
    let mut full = report::begin(format!("evenkeel demo --seed {seed}"), facts, advice);
    show_machine(out, &full);

    out.status(&format!("3. Starting a game server with {BOTS} players on loopback"));
    let mut arena = experiment::start_arena(BOTS, seed)?;
    out.status(&format!("   {}", arena.describe()));
    let context = DemoContext { args, out, root: &root, seed, stop: &stop, concurrent: &concurrent };
    let proved = prove(&context, &mut full, &mut arena);
    arena.stop();

    full.settings = kept(before, settings(&root));
    full.all_as_before = Some(full.settings.iter().all(|kept| kept.before == kept.after));
    proved?;
    let files = report::write(&full, &args.out)?;
    show_end(out, &full, &files, &args.state.revert())?;
    Ok(exit_of(&full, stop.load(Ordering::Relaxed)))
}

/// The values that both trials of the demo need.
#[derive(Clone, Copy)]
struct DemoContext<'a> {
    args: &'a Args,
    out: &'a Out,
    root: &'a Root,
    seed: u64,
    stop: &'a AtomicBool,
    concurrent: &'a Arc<ConcurrentTrials>,
}

/// Runs the control, and then the trial of the first applicable knob.
fn prove(context: &DemoContext<'_>, full: &mut FullReport, arena: &mut Arena) -> Result<(), Failure> {
    let DemoContext { args, out, root, seed, stop, concurrent } = *context;
    let (chosen, not_tried) = choose(&full.advice, process::is_root());
    for group in not_tried.chunk_by(|one, next| one.why == next.why) {
        let knobs: Vec<&str> = group.iter().map(|not_tried| not_tried.knob.as_str()).collect();
        out.status(&format!("   not tried: {}: {}", knobs.join(", "), group[0].why));
    }
    full.not_tried = not_tried;
    let Some(setting) = chosen else {
        out.status("   No knob that can matter to this server applies here: there is nothing to prove.");
        return Ok(());
    };
    let arms = Arms::one(vec![setting]);
    let metric = experiment::usual_metric(arena, &arms.knobs())?;
    let mut design = Design::new(metric, args.pairs.into(), WINDOW, seed);
    design.settle = Settle::Fixed { time: SETTLE };
    design.smallest_effect_ratio = SMALLEST_EFFECT_RATIO;
    let seconds = design.planned().as_secs();
    for (number, control) in [(4, true), (5, false)] {
        let what = if control { "Control: the same setting against itself" } else { "Proving" };
        out.status(&format!(
            "{number}. {what}: {}, {} pairs of windows in random order, about {seconds} s",
            arms.settings[0], args.pairs
        ));
        let mut state = match process::is_root() {
            true => Some(args.state.open()?),
            false => None,
        };
        let experiment = Experiment {
            root,
            facts: &full.facts,
            state: state.as_mut(),
            state_args: &args.state,
            arms: &arms,
            control,
            same_already: Vec::new(),
            inert: Vec::new(),
            design: &design,
            stop,
            concurrent,
            progress: out.telling(),
            keep: &|_| Ok(SessionWriter::nowhere()),
            before: None,
        };
        for entry in experiment.measure(arena)?.trials {
            out.status(&format!("   {}: {}", entry.report.verdict, entry.sentence));
            full.trials.push(entry);
        }
    }
    Ok(())
}
/// The first recommended candidate that this user may switch.
/// For each other recommended knob, the reason why the demo does not try it.
fn choose(advice: &[Advice], is_root: bool) -> (Option<Setting>, Vec<NotTried>) {
    let wanted = |knob: &str| advice.iter().find(|advice| advice.knob == knob && advice.state == Advised::Set);
    let may = |knob: &str| is_root || knobs::find(knob).is_ok_and(Knob::is_of_server);
    let candidates: Vec<&str> = candidates().into_iter().map(|knob| knob.id).collect();
    let chosen = candidates.iter().copied().find(|knob| may(knob) && wanted(knob).is_some());
    let setting = chosen.and_then(wanted).and_then(|advice| {
        let value = advice.wanted.as_ref()?;
        Setting::parse(&format!("{}={value}", advice.knob)).ok()
    });
    let mut not_tried = Vec::new();
    let mut named = BTreeSet::new();
    for advice in advice.iter().filter(|advice| Some(advice.knob) != chosen && named.insert(advice.knob)) {
        let why = match advice.state {
            Advised::Set if !may(advice.knob) => "it needs root".to_owned(),
            Advised::Set => "one knob is enough for a demonstration: `evenkeel prove` tries any".to_owned(),
            _ if candidates.contains(&advice.knob) => advice.reason.clone(),
            _ => continue,
        };
        not_tried.push(NotTried { knob: advice.knob.to_owned(), why });
    }
    not_tried.sort_by(|one, other| one.why.cmp(&other.why));
    (setting, not_tried)
}

/// The text of every file of a knob, and of the files that the kernel changes together with it.
fn settings(root: &Root) -> Vec<(String, Option<String>)> {
    let facts = Facts::probe(root);
    let paths: BTreeSet<String> = knobs::ALL.iter().flat_map(|knob| evenkeel_host::files_of(knob, &facts)).collect();
    paths.into_iter().map(|path| (path.clone(), root.text(&path).ok())).collect()
}

fn kept(before: Vec<(String, Option<String>)>, after: Vec<(String, Option<String>)>) -> Vec<SettingText> {
    let after: std::collections::BTreeMap<String, Option<String>> = after.into_iter().collect();
    let later = |path: &String| after.get(path).cloned().flatten();
    before.into_iter().map(|(path, before)| SettingText { after: later(&path), path, before }).collect()
}

fn show_machine(out: &Out, full: &FullReport) {
    let facts = &full.facts;
    let hypervisor = facts
        .machine
        .hypervisor
        .known()
        .map_or("unknown hypervisor".to_owned(), |name| format!("{name:?}").to_lowercase());
    out.status("1. This machine");
    out.status(&format!("   {hypervisor}, kernel {}, CPUs {}", facts.kernel.release, facts.cpus.online));
    out.status(&format!("   clock source {}, idle driver {}", facts.clock.current, facts.idle.driver));
    if experiment::is_cramped(facts) {
        out.status("   With one CPU, server and players share it: expect wide intervals.");
    }
    let count = |state| full.advice.iter().filter(|advice| advice.state == state).count();
    out.status(&format!(
        "2. Advice: {} to set, {} to keep, {} not applicable here (`evenkeel audit` shows why)",
        count(Advised::Set),
        count(Advised::Keep),
        count(Advised::NotHere)
    ));
    for advice in full.advice.iter().filter(|advice| advice.state == Advised::Set) {
        let wanted = advice.wanted.as_deref().unwrap_or_default();
        out.status(&format!("   {}={wanted}: {}", advice.knob, advice.reason));
    }
}

fn is_as_before(full: &FullReport) -> bool {
    full.all_as_before == Some(true)
}

fn show_end(out: &Out, full: &FullReport, [page, json]: &[PathBuf; 2], revert: &str) -> Result<(), Failure> {
    let back = match is_as_before(full) {
        true => format!("6. Put back: all {} settings that were looked at read as before", full.settings.len()),
        false => "6. NOT put back:".to_owned(),
    };
    out.status(&back);
    for kept in full.settings.iter().filter(|kept| kept.before != kept.after) {
        out.status(&format!("   {}: {:?} before, {:?} now; run {revert}", kept.path, kept.before, kept.after));
    }
    out.answer_of_trial(full, || format!("Report: {} and {}\n", page.display(), json.display()))
}

fn exit_of(full: &FullReport, stopped: bool) -> exit::Exit {
    let fails = full.trials.iter().any(|entry| match entry.control {
        // The control compares equal arms.
        // If it finds a difference, the machine is too unsteady for a valid result of the trial.
        true => entry.report.verdict != Verdict::Same,
        false => entry.report.verdict == Verdict::Worse,
    });
    match (is_as_before(full), fails || stopped) {
        (false, _) => exit::NOT_UNDONE,
        (true, true) => exit::NO,
        (true, false) => exit::WELL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_a_tick_is_shortened_first() {
        let order: Vec<&str> = candidates().into_iter().map(|knob| knob.id).collect();
        assert_eq!(order, ["haltpoll.guest_halt_poll_ns", "cpuidle.dma_latency_us", "process.timer_slack_ns"]);
    }
}
