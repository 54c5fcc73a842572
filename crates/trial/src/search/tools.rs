//! `Tools`: what a search uses besides its design: the system under search, the log, and the stop flag.
//! The file also has the stages of a search and the progress.

use evenkeel_workload::Clock;
use serde::{Deserialize, Serialize};

use super::{Log, WindowResult};
use crate::arm::Arm;
use crate::error::TrialError;

/// The system under search: a live server with its host, or a simulated one.
pub trait Subject {
    /// Applies the arm's settings, and measures one window of the arm.
    ///
    /// # Errors
    /// Fails with a fatal error: the server can't be restarted, or the host can't be restored.
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError>;

    /// The clock that measures the duration of windows.
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
    /// A few windows of the unchanged machine.
    Baseline,
    /// Compares all knobs together with the unchanged machine.
    Whole,
    /// Finds the knobs that move the metric, with all knobs at once.
    Screen,
    /// Tries other values of the knobs that moved the metric.
    Ladder,
    /// Measures the joint effects of these knobs.
    Pairs,
    /// Finds the knobs of the set that can be left out.
    Trim,
    /// Compares the set with the unchanged machine.
    Confirm,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 7] =
        [Stage::Baseline, Stage::Whole, Stage::Screen, Stage::Ladder, Stage::Pairs, Stage::Trim, Stage::Confirm];
}

/// The progress of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchProgress {
    /// The stage of the search.
    pub stage: Stage,
    /// The number of windows so far.
    pub windows: usize,
    /// An estimate of the number of windows in the budget.
    pub of: usize,
    /// The results so far, as a short text.
    pub known: String,
}

/// What a search uses besides its design.
pub struct Tools<'a> {
    /// The system under search.
    pub subject: &'a mut dyn Subject,
    /// The log of the windows so far, to which later ones are added.
    pub log: &'a mut Log,
    /// Returns whether the user asked to stop. The search calls this before each window.
    pub stop: &'a dyn Fn() -> bool,
    /// The search calls this before each window.
    pub on_progress: &'a mut dyn FnMut(&SearchProgress),
}
