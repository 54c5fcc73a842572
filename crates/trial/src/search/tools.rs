//! `Tools`: what a search needs besides its design (the system under search, the log, the stop flag). Also its stages and its progress.

use evenkeel_workload::Clock;
use serde::{Deserialize, Serialize};

use super::{Log, WindowResult};
use crate::arm::Arm;
use crate::error::TrialError;

/// The system under search: a live server with its host, or a simulated one.
pub trait Subject {
    /// Applies the arm's settings, and measures one window of it.
    ///
    /// # Errors
    /// A fatal error: the server can't be restarted, or the machine can't be kept safe.
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError>;

    /// The clock that measures the length of its windows.
    fn clock(&self) -> Clock {
        Clock::Machine
    }

    /// Announces that the arms of the next windows differ only in these knobs.
    fn compares(&mut self, knobs: &[usize]) {
        let _ = knobs;
    }
}

/// The stage of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The machine as it is, a few times.
    Baseline,
    /// All knobs together against the machine as it is.
    Whole,
    /// All knobs at once.
    Screen,
    /// Other values of the knobs that moved the metric.
    Ladder,
    /// The joint effects of these knobs.
    Pairs,
    /// Tries which knobs of the set can be left out.
    Trim,
    /// The set against the machine as it was.
    Confirm,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 7] =
        [Stage::Baseline, Stage::Whole, Stage::Screen, Stage::Ladder, Stage::Pairs, Stage::Trim, Stage::Confirm];
}

/// How far a search is.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchProgress {
    /// The stage of the search.
    pub stage: Stage,
    /// Windows so far.
    pub windows: usize,
    /// The estimated number of windows in the budget.
    pub of: usize,
    /// The results so far, in a few words.
    pub known: String,
}

/// The context of a search, besides its design.
pub struct Tools<'a> {
    /// The system under search.
    pub subject: &'a mut dyn Subject,
    /// The log of the windows so far, to which later ones are added.
    pub log: &'a mut Log,
    /// Whether the user asked to stop; checked before each window.
    pub stop: &'a dyn Fn() -> bool,
    /// Called before each window.
    pub on_progress: &'a mut dyn FnMut(&SearchProgress),
}
