//! `RunReport`: everything that one run reports. It is written to `report.json`, and read from there for the page and to compare machines.
//! It reads every format written so far (`upgrade`). A file may come from anywhere, so nothing in it is trusted (`validate`).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::arm::ArmName;
use crate::effect::Effect;
use crate::report::{Choice, ControlReport, Report};
use crate::session::Window;

mod across;
mod numbers;
mod read;
mod upgrade;
mod validate;

pub use across::{Across, AcrossCaveat, Agreement, Asked, Cell, Machine, across};
pub use numbers::{by_arm, numbers};

/// The newest format that is written; all from 1 on are read.
pub const FORMAT_MAX: u64 = 2;
/// The longest file that is read: a trial of the most pairs, with all its windows, is about a tenth of it.
pub const BYTES_MAX: usize = 64 << 20;

/// Why a file is no report.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    /// Longer than [`BYTES_MAX`].
    #[error("it is longer than {} MiB", BYTES_MAX >> 20)]
    TooLong,
    /// No JSON, or not of this shape: the reader says where.
    #[error("it can't be read as a report: {0}")]
    Shape(String),
    /// Written by a later version.
    #[error("it has format {0}, but this version reads 1 to {FORMAT_MAX}: a newer evenkeel wrote it")]
    Format(u64),
    /// JSON, but of something else.
    #[error("it has no trials and no verdict, so it is not a report of `evenkeel prove` or `evenkeel demo`")]
    Other,
    /// A value that no run can have.
    #[error("{at}: {why}")]
    Impossible {
        /// The field, with the trial that it belongs to.
        at: String,
        /// What is wrong with it.
        why: String,
    },
}

/// All that one run reports: `F` are the facts of the machine, `A` one finding of `audit`. What its file does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport<F = Value, A = AdviceLine> {
    /// Version of the program that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evenkeel: Option<String>,
    /// How to repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// When it was taken, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// The facts of the machine, as `inspect` reports them.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub facts: F,
    /// The machine as `capture` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// What would suit the machine.
    #[serde(default = "Vec::new")]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub advice: Vec<A>,
    /// The trials in the order of the runs; with several arms, each arm against A.
    #[serde(default)]
    pub trials: Vec<TrialEntry>,
    /// Which of several arms, of a session that had them: the trials are then its arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceEntry>,
    /// What was not tried.
    #[serde(default)]
    pub not_tried: Vec<NotTried>,
    /// Files of settings before and after.
    #[serde(default)]
    pub settings: Vec<SettingText>,
    /// Whether each reads the same as before; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_as_before: Option<bool>,
}

/// One trial of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialEntry {
    /// What was asked, as `KNOB=VALUE …`.
    #[serde(default)]
    pub knob: String,
    /// Whether both arms were the machine as it was, to see what the method says of nothing.
    #[serde(default)]
    pub control: bool,
    /// The verdict in one sentence.
    #[serde(default)]
    pub sentence: String,
    /// All of it.
    #[serde(flatten)]
    pub report: Report,
    /// The sentences of the caveats, as answers had them before these had figures.
    #[serde(default, rename = "doubts")]
    pub caveat_texts: Vec<String>,
}

/// Which of several arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceEntry {
    /// In one sentence.
    #[serde(default)]
    pub sentence: String,
    /// All of it.
    #[serde(flatten)]
    pub choice: Choice,
}

/// One finding of `audit`, as far as pages show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AdviceLine {
    /// The knob's id.
    pub knob: String,
    /// Where it would be set.
    pub place: String,
    /// set, keep, not-here and so on.
    pub state: String,
    /// The value in force.
    pub current: Option<String>,
    /// The value advised.
    pub wanted: Option<String>,
    /// Why.
    pub reason: String,
}

/// A knob that was not tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NotTried {
    /// The knob's id.
    pub knob: String,
    /// Why it was not.
    pub why: String,
}

/// The text of a setting's file; absent where it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SettingText {
    /// Its path.
    pub path: String,
    /// Before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// After it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl RunReport {
    /// A fact by its path in JSON, such as `/kernel/release`, as text; `None` where it is unknown.
    pub fn fact(&self, path: &str) -> Option<String> {
        match self.facts.pointer(path)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            // What names itself otherwise has its name in an object: `{"other": "bhyve"}`.
            Value::Object(object) if !object.contains_key("unknown") => {
                object.values().next().and_then(Value::as_str).map(str::to_owned)
            }
            _ => None,
        }
    }
}

impl Report {
    /// The name of the arm that is compared with A.
    pub fn other(&self) -> ArmName {
        self.arms.iter().map(|arm| arm.arm).find(|arm| *arm != ArmName::A).unwrap_or(ArmName::B)
    }

    /// The windows of each pair that counts: A's and the other's, and which came first.
    pub fn pairs_of_windows(&self) -> Vec<PairOfWindows<'_>> {
        pairs(&self.windows)
    }
}

impl ControlReport {
    /// As of a trial.
    pub fn pairs_of_windows(&self) -> Vec<PairOfWindows<'_>> {
        pairs(&self.windows)
    }
}

impl Effect {
    /// Both ends of the interval, where it has both.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

fn pairs(windows: &[Window]) -> Vec<PairOfWindows<'_>> {
    let is_one_a = |two: &[Window]| (two[0].arm == ArmName::A) != (two[1].arm == ArmName::A);
    let whole = |two: &[Window]| two.len() == 2 && is_one_a(two) && two[0].pair == two[1].pair;
    let pair = |two: &'_ [Window]| whole(two).then(|| (two[0].arm, two[0].pair));
    windows
        .chunks(2)
        .filter_map(|two| {
            let (first, pair) = pair(two)?;
            let [a, b] = if first == ArmName::A { [&two[0], &two[1]] } else { [&two[1], &two[0]] };
            Some(PairOfWindows { pair, first, a, b })
        })
        .collect()
}

/// The two windows of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairOfWindows<'a> {
    /// Its number, from 0.
    pub pair: usize,
    /// The arm that was measured first.
    pub first: ArmName,
    /// The window of arm A.
    pub a: &'a Window,
    /// The window of the other arm.
    pub b: &'a Window,
}

impl PairOfWindows<'_> {
    /// The other to A; `None` where that is no ratio.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.b.value / self.a.value;
        (self.a.value > 0.0 && self.b.value > 0.0 && ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

#[cfg(test)]
mod tests;
