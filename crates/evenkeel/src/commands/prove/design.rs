//! The options of a trial that must be fixed before its first pair, and their defaults.

use std::time::Duration;

use evenkeel_trial::{Design, Guard, Settle, Stop};
use evenkeel_workload::{Metric, Workload};

use super::budget;
use crate::arms::Arms;
use crate::exit;
use crate::experiment;
use crate::failure::Failure;
use crate::smallest_effect::SmallestEffect;
use crate::times::{SettleArgs, WindowArgs, time};

/// The default for the maximum number of pairs.
/// It is enough to detect the default smallest effect at a usual level of noise.
const PAIRS_MAX: u16 = 100;
/// The default length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// The default number of interleaves, and the minimum length of an interleave.
const INTERLEAVES: u32 = 4;
const INTERLEAVE_MIN: Duration = Duration::from_millis(250);
/// The minimum number of measured events in an interleave, such as ticks.
const INTERLEAVE_EVENTS: f64 = 5.0;

/// The options for the primary metric of trials over pairs and over boots.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Design")]
pub(crate) struct DecisionArgs {
    /// The metric that decides [default: chosen by knob and workload]
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Reject B if NAME gets worse by PERCENT; repeatable; none:
    /// no guard [default: p99 of the metric, or p90 with few ticks, 25]
    #[arg(long, value_name = "NAME[=PERCENT]")]
    pub(crate) guard: Vec<String>,
    #[command(flatten)]
    pub(crate) smallest_effect: SmallestEffect,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    /// Seed of the random order, to repeat a run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// The decisions that the user makes before the first pair.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Design")]
pub(crate) struct DesignArgs {
    /// Another arm, such as 'KNOB=VALUE KNOB=VALUE'; repeatable
    #[arg(long, value_name = "SETTINGS", conflicts_with = "goal")]
    pub(super) arm: Vec<String>,
    #[command(flatten)]
    pub(super) decision: DecisionArgs,
    /// Maximum number of pairs of windows [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(6..=5000))]
    pairs: Option<u16>,
    /// Maximum time after the first switch, such as 90s or 10m
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// Test only once, after all pairs; gives a narrower interval
    #[arg(long, conflicts_with = "budget")]
    fixed: bool,
    #[command(flatten)]
    settle: SettleArgs,
    /// Interleaves within a pair [default: 4, or 1 for a tail]
    #[arg(long, alias = "turns", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    interleaves: Option<u32>,
    /// Pairs of the A/A check before the trial; 0: none [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    control_pairs: Option<u16>,
    /// Compare A with A for the whole trial, to test the method itself
    #[arg(long)]
    pub(super) control: bool,
    /// Also test settings without effect here according to the audit
    #[arg(long)]
    pub(super) anyway: bool,
}

impl DecisionArgs {
    pub(super) fn window(&self) -> Duration {
        self.window.asked().unwrap_or(WINDOW)
    }

    /// The guards that the user named, or else the default guards of the primary metric.
    pub(super) fn guards(
        &self,
        workload: &dyn Workload,
        metric: &Metric,
        window: Option<Duration>,
    ) -> Result<Vec<Guard>, Failure> {
        match self.guard.as_slice() {
            [] => Ok(experiment::usual_guards(workload, metric, window)),
            [none] if none == "none" => Ok(Vec::new()),
            named => named.iter().map(|text| guard(workload, text)).collect(),
        }
    }
}

impl DesignArgs {
    /// A design with these options, and the defaults for all other values.
    pub(crate) fn new(decision: DecisionArgs, budget: Option<Duration>, settle: SettleArgs) -> DesignArgs {
        DesignArgs { decision, budget, settle, ..DesignArgs::default() }
    }

    pub(super) fn design(&self, workload: &dyn Workload, arms: &Arms, seed: u64) -> Result<Design, Failure> {
        let decision = &self.decision;
        let metric = match &decision.metric {
            Some(name) => experiment::metric(workload, name)?,
            None => experiment::usual_metric(workload, &arms.knobs())?,
        };
        let window = decision.window.asked().unwrap_or_else(|| experiment::window_with_ticks(workload, WINDOW));
        let pairs = usize::from(self.pairs.unwrap_or(PAIRS_MAX));
        let mut design = match self.fixed {
            true => Design { stop: Stop::After { pairs }, ..Design::sequential(metric, pairs, window, seed) },
            false => Design::sequential(metric, pairs, window, seed),
        };
        if let Stop::Sequential { budget, .. } = &mut design.stop {
            *budget = self.budget;
        }
        design.interleaves = self.interleaves.unwrap_or_else(|| default_interleaves(workload, &design.metric, window));
        // The trial measures a guard on a tail in each interleave,
        // so the interleave's length decides which tail is possible.
        design.guards = decision.guards(workload, &design.metric, Some(window / design.interleaves.max(1)))?;
        if let Some(time) = self.settle.asked() {
            design.settle = Settle::Fixed { time };
        }
        design.control_pairs = match self.control_pairs {
            Some(pairs) => pairs.into(),
            None => design.control_pairs_that_fit(arms.count()),
        };
        design.smallest_effect_ratio = decision.smallest_effect.ratio(&design.metric);
        design.check_for(arms.count()).map_err(|error| Failure::new(exit::WRONG_USE, error))?;
        budget::refuse_short(&design, arms.count(), self.control_pairs.is_some())?;
        Ok(design)
    }
}

/// The default number of interleaves.
/// If a disturbance comes and goes within seconds, interleaves give both arms a share of it.
fn default_interleaves(workload: &dyn Workload, metric: &Metric, window: Duration) -> u32 {
    if !workload.takes_turns() || metric.is_tail() {
        return 1;
    }
    // Each interleave must be long enough for some measured events, such as five ticks of a slow server.
    let events =
        workload.events_per_s().map_or(Duration::ZERO, |hz| Duration::from_secs_f64(INTERLEAVE_EVENTS / hz.max(0.1)));
    let most = window.as_millis() / INTERLEAVE_MIN.max(events).as_millis();
    u32::try_from(most).unwrap_or(INTERLEAVES).clamp(1, INTERLEAVES)
}

/// Parses a guard: `round_trip_us_p99` or `round_trip_us_p99=10`.
pub(crate) fn guard(workload: &dyn Workload, text: &str) -> Result<Guard, Failure> {
    let (name, harm_ratio) = named_guard(text)?;
    Ok(Guard { metric: experiment::metric(workload, name)?, harm_ratio })
}

/// The name of a guard, and the smallest harm at which the guard rejects B, as a share.
/// Does not check whether the workload has this metric.
pub(super) fn named_guard(text: &str) -> Result<(&str, f64), Failure> {
    let (name, percent) = text.split_once('=').unwrap_or((text, "25"));
    let harm = percent.trim_end_matches('%').parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent < 1000.0);
    let harm = harm.ok_or_else(|| {
        Failure::text(
            exit::WRONG_USE,
            format!("read --guard {text}"),
            format!("{percent:?} is not a percentage above 0"),
        )
    })?;
    Ok((name, harm / 100.0))
}

/// Converts a share to per cent and rounds it: 0.07 becomes 7, not 7.000000000000001.
pub(super) fn percent_of(ratio: f64) -> f64 {
    (ratio * 1e14).round() / 1e12
}
