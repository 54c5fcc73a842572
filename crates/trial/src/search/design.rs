//! `SearchDesign`: everything that is fixed before a search starts.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_stats::{Direction, Options};
use evenkeel_workload::Metric;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Level};
use crate::comparison::{GuardSet, Judge};
use crate::design::{Guard, Stop, check_guards};
use crate::error::TrialError;
use crate::search::settling::ClassSettle;
use crate::session::NetworkPath;
use crate::switch::Reach;

/// The maximum number of knobs of one search.
pub const CANDIDATES_MAX: usize = 100;
/// The maximum number of windows of one search. With windows of one second, they take about a day.
const WINDOWS_MAX: usize = 100_000;
/// The minimum number of windows. Fewer windows do not suffice to screen and confirm even one knob.
pub(super) const WINDOWS_MIN: usize = 80;

/// A candidate: one knob with its value, at one place or at several places with the same value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The settings of the candidate as `KNOB=VALUE` or `KNOB@PLACE=VALUE`, all of the same knob.
    pub settings: Vec<String>,
    /// Further values to try if the requested value helps, in the kernel's spelling.
    /// The search tries each list step by step as long as the metric improves.
    pub ways: Vec<Vec<String>>,
}

impl Candidate {
    /// A candidate of one setting without other values.
    pub fn plain(setting: impl Into<String>) -> Candidate {
        Candidate { settings: vec![setting.into()], ways: Vec::new() }
    }

    /// The candidate's settings at this level, as arguments. Empty if the level leaves them unchanged.
    pub fn at(&self, level: &Level) -> Vec<String> {
        match level {
            Level::AsItWas => Vec::new(),
            Level::Planned => self.settings.clone(),
            Level::Value(value) => {
                let with = |setting: &String| match setting.split_once('=') {
                    Some((knob, _)) => format!("{knob}={value}"),
                    None => setting.clone(),
                };
                self.settings.iter().map(with).collect()
            }
        }
    }
}

/// The limits of a search. The limit that is reached first ends the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// The maximum number of windows.
    pub windows: usize,
    /// The time limit in milliseconds, including switches and waits. None means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

/// The design of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchDesign {
    /// The candidates, the most promising first. If the budget is too small for all, the last ones are left out.
    pub candidates: Vec<Candidate>,
    /// The primary metric, which decides.
    pub metric: Metric,
    /// The smallest effect that matters, as a share: 0.05 is 5 %.
    pub smallest_effect_ratio: f64,
    /// The confidence of all claims together, over all knobs.
    pub confidence: f64,
    /// The guards: metrics that the set must not make worse. They are tested in the screening and in the confirmation.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// An arm is never run again if a metric is more than this many times worse than on the unchanged machine, in two windows in a row.
    pub guard_ratio: f64,
    /// The limits of the search.
    pub budget: Budget,
    /// The path of the workload's packets. It decides which counters show whether a knob was engaged.
    #[serde(default)]
    pub network: NetworkPath,
    /// The length of a window in milliseconds.
    pub window_ms: u64,
    /// The settle time after a switch in milliseconds. If `settles` is not empty, this is the longest settle time in that list.
    pub settle_ms: u64,
    /// The settle time of each kind of switch, and how the search found it. Empty if the user gave the settle time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settles: Vec<ClassSettle>,
    /// The indices of candidates whose switch needs new sockets or a restart.
    /// If the budget is too small for all candidates, these are left out first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<usize>,
    /// Whether to compare all candidates together with the unchanged machine first, as for a guide.
    /// If there is no difference that matters, the search screens no candidate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_first: bool,
    /// The seed of all random orders.
    pub seed: u64,
}

impl SearchDesign {
    /// A design with the default confidence, guard limit and settle time, and with windows of one second.
    pub fn new(candidates: Vec<Candidate>, metric: Metric, budget: Budget, seed: u64) -> SearchDesign {
        SearchDesign {
            candidates,
            smallest_effect_ratio: metric.smallest_effect_ratio(),
            metric,
            confidence: 0.95,
            guards: Vec::new(),
            guard_ratio: 3.0,
            budget,
            network: NetworkPath::default(),
            window_ms: 1000,
            settle_ms: 100,
            settles: Vec::new(),
            restarts: Vec::new(),
            whole_first: false,
            seed,
        }
    }

    /// Checks the design.
    ///
    /// # Errors
    /// Fails if the design can never give a result.
    pub fn check(&self) -> Result<(), TrialError> {
        let bad = |why: String| Err(TrialError::Design(why));
        if self.candidates.is_empty() || self.candidates.len() > CANDIDATES_MAX {
            return bad(format!("{} knobs to search among: from 1 to {CANDIDATES_MAX}", self.candidates.len()));
        }
        if self.is_too_short() {
            return bad(self.too_short());
        }
        if self.budget.windows > WINDOWS_MAX {
            return bad(format!("a budget of {} windows: at most {WINDOWS_MAX}", self.budget.windows));
        }
        if !(self.smallest_effect_ratio > 0.0 && self.smallest_effect_ratio < 10.0) {
            return bad(format!("{} as the smallest effect: more than 0, less than 10", self.smallest_effect_ratio));
        }
        if !(self.confidence > 0.5 && self.confidence < 1.0) {
            return bad(format!("a confidence of {}: more than 0.5, less than 1", self.confidence));
        }
        if self.guard_ratio.is_nan() || self.guard_ratio < 1.1 {
            return bad(format!("a stop limit of {} times the usual value: at least 1.1", self.guard_ratio));
        }
        check_guards(&self.guards, &self.metric)?;
        Ok(())
    }

    /// Whether the budget is too small for any search.
    pub fn is_too_short(&self) -> bool {
        self.windows() < WINDOWS_MIN
    }

    fn too_short(&self) -> String {
        let (given, quiet) = (self.windows(), self.settle_ms);
        let plural = if given == 1 { "" } else { "s" };
        let gives = format!(
            "the budget gives {given} window{plural} of {} ms, each after a settle time of {quiet} ms",
            self.window_ms
        );
        let least_ms = WINDOWS_MIN as u64 * (self.window_ms + quiet);
        match self.budget.time_ms {
            Some(_) => {
                format!("{gives}; a search takes at least {WINDOWS_MIN}, which is {} s", least_ms.div_ceil(1000))
            }
            None => format!("{gives}; a search takes at least {WINDOWS_MIN}"),
        }
    }

    /// The number of windows that the budget allows if windows take as long as planned.
    pub fn windows(&self) -> usize {
        let each_ms = (self.window_ms + self.settle_ms).max(1);
        let by_time = self.budget.time_ms.map_or(usize::MAX, |ms| usize::try_from(ms / each_ms).unwrap_or(usize::MAX));
        self.budget.windows.min(by_time)
    }

    /// The arm with the unchanged machine.
    pub fn baseline(&self) -> Arm {
        Arm::as_it_was(self.candidates.len())
    }

    /// The length of a window.
    pub fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms)
    }

    /// The maximum time to wait after a switch.
    pub fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }

    /// The time to wait after a switch of these kinds: the longest settle time that was found for any of them.
    /// If a kind was not measured separately, this is the longest settle time of all kinds.
    pub fn settle_after(&self, ways: &BTreeSet<Reach>) -> Duration {
        let of =
            |way: &Reach| self.settles.iter().find(|found| found.class == Some(*way)).map(|found| found.settle.time());
        let found: Option<Vec<Duration>> = ways.iter().map(of).collect();
        found.and_then(|found| found.into_iter().max()).unwrap_or_else(|| self.settle())
    }

    /// The logarithm of a window's value, negated if higher values are better, so that a lower cost is always better.
    pub(super) fn cost(&self, value: f64) -> f64 {
        match self.metric.better {
            Direction::Lower => value.ln(),
            Direction::Higher => -value.ln(),
        }
    }

    /// The ratio of the metric that corresponds to a change of cost.
    pub(super) fn ratio(&self, cost: f64) -> f64 {
        match self.metric.better {
            Direction::Lower => cost.exp(),
            Direction::Higher => (-cost).exp(),
        }
    }

    /// The smallest effect that matters, as a change of cost.
    pub(super) fn line(&self) -> f64 {
        self.smallest_effect_ratio.ln_1p()
    }

    /// A sequential test for one of `of` knobs: it may be evaluated after every pair.
    ///
    /// # Errors
    /// Fails if the options of the test are invalid.
    pub(super) fn judge(&self, of: usize) -> Result<Judge, TrialError> {
        let stop = Stop::Sequential { pairs_min: 1, pairs_max: usize::MAX, budget: None };
        Judge::new(&self.metric, self.smallest_effect_ratio, self.options(of).confidence, stop)
    }

    /// The guards of a comparison, tested once at the end.
    pub(super) fn guards_at_end(&self) -> GuardSet {
        GuardSet::at_end(&self.guards, self.confidence)
    }

    /// The options for the tests of `of` knobs. The error is divided among them, so that all claims together have the design's confidence.
    pub(super) fn options(&self, of: usize) -> Options {
        Options {
            confidence: 1.0 - (1.0 - self.confidence) / of.max(1) as f64,
            smallest_effect_ratio: self.smallest_effect_ratio,
            better: self.metric.better,
        }
    }
}
