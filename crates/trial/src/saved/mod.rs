//! `RunReport`: everything that one run reports. evenkeel writes it to `report.json`,
//! and reads that file to make the page and to compare machines. It reads every format written so far (`upgrade`).
//! A file may come from anywhere, so nothing in the file is trusted (`validate`).

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

/// The newest format, which evenkeel writes. evenkeel reads all formats from 1 on.
pub const FORMAT_MAX: u64 = 2;
/// The maximum length of a file to read, in bytes. A trial of the maximum number of pairs, with all its windows, takes about a tenth.
pub const BYTES_MAX: usize = 64 << 20;

/// Why a file is not a report.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    /// The file is longer than [`BYTES_MAX`].
    #[error("it is longer than {} MiB", BYTES_MAX >> 20)]
    TooLong,
    /// The file is not JSON, or has another structure. The text names the place.
    #[error("{0}")]
    Shape(String),
    /// A later version wrote the file.
    #[error("it has format {0}, but this version reads 1 to {FORMAT_MAX}: a newer evenkeel wrote it")]
    Format(u64),
    /// The file is JSON of another kind.
    #[error("it has no trials and no verdict, so it is not a report of `evenkeel prove` or `evenkeel demo`")]
    Other,
    /// The file has a value that a run cannot have.
    #[error("{at}: {why}")]
    Impossible {
        /// The field, and the trial to which it belongs.
        at: String,
        /// Why it is invalid.
        why: String,
    },
}

/// Everything that one run reports.
/// `F` is the type of the machine's facts, and `A` is the type of a finding of `audit`.
/// A value that the file does not have is None or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport<F = Value, A = AdviceLine> {
    /// The version of the program that wrote the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evenkeel: Option<String>,
    /// The command to repeat the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// When the report was made, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// The facts of the machine, as `inspect` reports them.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub facts: F,
    /// The machine as `capture` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// The findings of `audit` on this machine.
    #[serde(default = "Vec::new")]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub advice: Vec<A>,
    /// The trials in the order in which they ran. A session of several arms gives one trial for each arm against A.
    #[serde(default)]
    pub trials: Vec<TrialEntry>,
    /// The choice among several arms. None unless the session had several arms. The trials are then the arms of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceEntry>,
    /// Settings that the run did not try, with the reasons.
    #[serde(default)]
    pub not_tried: Vec<NotTried>,
    /// The files of settings, with their contents before and after.
    #[serde(default)]
    pub settings: Vec<SettingText>,
    /// Whether all files of settings have the same contents as before. None if the run did not check this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_as_before: Option<bool>,
}

/// One trial of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialEntry {
    /// The tested settings, as `KNOB=VALUE …`.
    #[serde(default)]
    pub knob: String,
    /// Whether both arms were the unchanged machine, as a check of the method.
    #[serde(default)]
    pub control: bool,
    /// The verdict in one sentence.
    #[serde(default)]
    pub sentence: String,
    /// The report of the trial.
    #[serde(flatten)]
    pub report: Report,
}

/// The choice among several arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceEntry {
    /// The choice in one sentence.
    #[serde(default)]
    pub sentence: String,
    /// The choice and its comparisons.
    #[serde(flatten)]
    pub choice: Choice,
}

/// One finding of `audit`, with the fields that pages show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AdviceLine {
    /// The knob's id.
    pub knob: String,
    /// The place where the setting would be set.
    pub place: String,
    /// set, keep, not-here and so on.
    pub state: String,
    /// The value in effect.
    pub current: Option<String>,
    /// The advised value.
    pub wanted: Option<String>,
    /// Why the value is advised or not.
    pub reason: String,
}

/// A knob that was not tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NotTried {
    /// The knob's id.
    pub knob: String,
    /// Why the knob was not tried.
    pub why: String,
}

/// The contents of a setting's file. None if it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SettingText {
    /// The path of the file.
    pub path: String,
    /// The contents before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The contents after the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl RunReport {
    /// A fact as text, by its path in JSON such as `/kernel/release`. `None` if the fact is unknown.
    pub fn fact(&self, path: &str) -> Option<String> {
        match self.facts.pointer(path)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            // A hypervisor that is not in the list has its name in an object: `{"other": "bhyve"}`.
            Value::Object(object) if !object.contains_key("unknown") => {
                object.values().next().and_then(Value::as_str).map(str::to_owned)
            }
            _ => None,
        }
    }
}

impl Report {
    /// The name of the arm that this report compares with A.
    pub fn other(&self) -> ArmName {
        self.arms.iter().map(|arm| arm.arm).find(|arm| *arm != ArmName::A).unwrap_or(ArmName::B)
    }

    /// The windows of each counted pair, and the arm that came first.
    pub fn pairs_of_windows(&self) -> Vec<PairOfWindows<'_>> {
        pairs(&self.windows)
    }
}

impl ControlReport {
    /// The windows of the A/A phase in pairs, as in a trial.
    pub fn pairs_of_windows(&self) -> Vec<PairOfWindows<'_>> {
        pairs(&self.windows)
    }
}

impl Effect {
    /// Both ends of the interval. None if one of them is unknown.
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
    /// The number of the pair, from 0.
    pub pair: usize,
    /// The arm that was measured first.
    pub first: ArmName,
    /// The window of arm A.
    pub a: &'a Window,
    /// The window of the other arm.
    pub b: &'a Window,
}

impl PairOfWindows<'_> {
    /// The ratio of the other window's value to A's. `None` if it is undefined.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.b.value / self.a.value;
        (self.a.value > 0.0 && self.b.value > 0.0 && ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

#[cfg(test)]
mod tests;
