//! What `prove` and `demo` share: one trial from its settings to its report, with progress on a terminal and a way to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_change::State;
use evenkeel_host::{Facts, Plan, Setting};
use evenkeel_sys::{CpuSet, Root};
use evenkeel_trial::workload::Placement;
use evenkeel_trial::workload::arena::{Arena, Config};
use evenkeel_trial::{Arm, Design, Metric, Progress, Switch, Titles, Trial, Watch, Workload, run};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit;
use crate::failure::Failure;
use crate::report::{Claim, Told};

/// Set by SIGINT or SIGTERM: the trial then ends after the window that it is in, puts everything back and reports.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |error| Failure::io(exit::NOT_POSSIBLE, "listen for signals", &error);
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second signal ends the program as it would have without us; the journal then puts the host back.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag)).map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(failed)?;
    }
    Ok(flag)
}

/// Starts the reference server with its bots, from the folder that holds this program.
pub(crate) fn start_arena(bots: u8, seed: u64) -> Result<Arena, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find the folder of this program", &error))?;
    let programs = program.parent().map_or_else(PathBuf::new, PathBuf::from);
    Arena::start(Config { programs, bots, tick_hz: 50, work_us: 300, seed, placement: Placement::Apart })
        .map_err(not_possible)
}

fn not_possible(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}

/// One trial of some settings.
pub(crate) struct Experiment<'a> {
    pub(crate) root: &'a Root,
    pub(crate) facts: &'a Facts,
    pub(crate) state: Option<&'a mut State>,
    pub(crate) settings: &'a [Setting],
    /// Compare arm A with itself.
    pub(crate) control: bool,
    pub(crate) design: &'a Design,
    pub(crate) stop: &'a AtomicBool,
    /// Whether to draw a bar.
    pub(crate) progress: bool,
}

impl Experiment<'_> {
    /// Runs it. The host is as before when this returns, or the error says what is not.
    pub(crate) fn measure(self, workload: &mut dyn Workload) -> Result<Told, Failure> {
        if let Some(state) = &self.state {
            refuse_if_interrupted(self.root, state)?;
        }
        let asked = self.settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let plans = plans(self.facts, self.settings)?;
        let title = if self.control { format!("control of {asked}") } else { format!("prove {asked}") };
        let arms = match self.control {
            true => [Arm::as_it_was(plans.len()), Arm::as_it_was(plans.len())],
            false => [Arm::as_it_was(plans.len()), Arm::planned(plans.len())],
        };
        let hand = self.root.hand().map_err(not_possible)?;
        let mut switch = Switch::begin(self.root, &hand, self.state, &title, &plans).map_err(not_possible)?;
        let watch = Watch::start(self.root, &plans);
        let bar = bar(self.progress, self.design.pairs, &title);
        let stop = || self.stop.load(Ordering::Relaxed);
        let mut trial = Trial { design: self.design, arms, switch: &mut switch, workload, watch: &watch, stop: &stop };
        let record = run(&mut trial, &mut |progress| show(&bar, progress));
        bar.finish_and_clear();
        let restored = switch.end();
        restored.map_err(|error| Failure::new(exit::NOT_UNDONE, error).hint("`evenkeel revert` tries again"))?;
        let record = record.map_err(not_possible)?;
        let as_it_was = "as it was".to_owned();
        let values = if self.control { [as_it_was.clone(), as_it_was] } else { [as_it_was, asked.clone()] };
        let titles = Titles { title, values, workload: workload.describe() };
        let report = record.report(self.design, titles).map_err(not_possible)?;
        Ok(Told {
            knob: asked,
            control: self.control,
            sentence: Claim::of(&report, &report.arms[1].values, self.control).sentence(),
            report,
        })
    }
}

/// A plan for each setting.
pub(crate) fn plans(facts: &Facts, settings: &[Setting]) -> Result<Vec<Plan>, Failure> {
    let plan = |setting: &Setting| Plan::of(facts, std::slice::from_ref(setting)).map_err(not_possible);
    settings.iter().map(plan).collect()
}

/// What an interrupted run left on the host would pass for the host as it was.
fn refuse_if_interrupted(root: &Root, state: &State) -> Result<(), Failure> {
    let interrupted = evenkeel_change::interrupted(root, state.log());
    let Some(first) = interrupted.first() else { return Ok(()) };
    let error =
        anyhow::anyhow!("start from the host as it was: transaction {first} was interrupted and has not been put back");
    Err(Failure::new(exit::NOT_POSSIBLE, error).hint("run `evenkeel revert` first"))
}

fn bar(shown: bool, pairs: usize, title: &str) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(pairs as u64).with_message(title.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:24}] {pos}/{len} pairs, {prefix}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_position(progress.pairs as u64);
    let dropped = if progress.dropped > 0 { format!(", {} dropped", progress.dropped) } else { String::new() };
    bar.set_prefix(format!("{} s left{dropped}", progress.left.as_secs()));
}

/// The metric of this name, or the usual one.
pub(crate) fn metric(workload: &dyn Workload, name: &str) -> Result<Metric, Failure> {
    let metrics = workload.metrics();
    let names = || metrics.iter().map(|metric| metric.name.as_ref()).collect::<Vec<_>>().join(", ");
    let found = metrics.iter().find(|metric| metric.name == name).cloned();
    found.ok_or_else(|| {
        Failure::text(exit::WRONG_USE, format!("measure {name:?}"), format!("the workload gives {}", names()))
    })
}

/// The metric that a knob acts on most directly in the reference server.
pub(crate) fn usual_metric(settings: &[Setting]) -> &'static str {
    match settings.iter().all(|setting| setting.knob.id == "process.timer_slack_ns") {
        true => "tick_lateness_us_p50",
        false => "round_trip_us_p50",
    }
}

/// A seed nobody chose, which the report then names.
pub(crate) fn fresh_seed() -> u64 {
    evenkeel_sys::clock::realtime_ns() % 1_000_000_000
}

/// Whether one CPU is all there is, so that server and load share it.
pub(crate) fn is_cramped(facts: &Facts) -> bool {
    facts.cpus.online.known().is_some_and(|online: &CpuSet| online.len() < 2)
}
