//! A report read again from its file: for the page, which shows what `report.json` says and nothing else, and for comparing
//! machines. It reads every format written so far; a file may come from anywhere, so nothing in it is taken on trust.

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::arm::{ARMS_MAX, ArmName};

mod across;
mod numbers;
mod shape;

pub use across::{Across, AcrossCaveat, Agreement, Asked, Cell, Machine, across};
pub use numbers::{by_arm, numbers};
pub use shape::{
    SavedAdvice, SavedArm, SavedBetween, SavedCaveat, SavedChoice, SavedControl, SavedCost, SavedDesign, SavedDropped,
    SavedEffect, SavedGuard, SavedIdentity, SavedLeft, SavedMechanism, SavedMetric, SavedNotTried, SavedReading,
    SavedSetting, SavedTrial, SavedWindow,
};

/// The newest format that is written; all from 1 on are read.
pub const FORMAT_MAX: u64 = 2;
/// The longest file that is read: a trial of the most pairs, with all its windows, is about a tenth of it.
pub const BYTES_MAX: usize = 64 << 20;
const TRIALS_MAX: usize = 1_000;
const WINDOWS_MAX: usize = 100_000;

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
    #[error("it has format {0}, and this version reads 1 to {FORMAT_MAX}: a later evenkeel wrote it")]
    Format(u64),
    /// JSON, but of something else.
    #[error("it has neither trials nor a verdict: it is no report of `evenkeel prove` or `evenkeel demo`")]
    Other,
    /// A number that no comparison of several arms can have.
    #[error("the choice: {0}")]
    Choice(String),
    /// A number that no trial can have.
    #[error("trial {trial}: {what}")]
    Impossible {
        /// Which, from 1.
        trial: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// A report. What its file does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// Version of the program that wrote it.
    pub evenkeel: Option<String>,
    /// How to repeat it.
    pub command: Option<String>,
    /// When it was taken, UTC.
    pub taken: Option<String>,
    /// The facts of the machine, as `inspect` tells them.
    pub facts: Value,
    /// The machine as `capture` writes it.
    pub capture: Option<String>,
    /// What would suit the machine.
    pub advice: Vec<SavedAdvice>,
    /// The trials, in the order in which they were run; of a session of several arms each beside A.
    pub trials: Vec<SavedTrial>,
    /// Which of several arms, of a session that had them: the trials are then its arms.
    pub choice: Option<SavedChoice>,
    /// What was not tried.
    pub not_tried: Vec<SavedNotTried>,
    /// Files of settings before and after.
    pub settings: Vec<SavedSetting>,
    /// Whether each reads the same as before; absent where nobody looked.
    pub all_as_before: Option<bool>,
}

impl Saved {
    /// Reads a file of any format so far: what `--report` wrote, or the answer of `prove --json`.
    ///
    /// # Errors
    /// If it is longer than [`BYTES_MAX`], no report, of a later format, or has numbers that no trial can have.
    pub fn parse(text: &str) -> Result<Saved, SavedError> {
        #[derive(Deserialize)]
        struct Head {
            format: u64,
            trials: Option<serde::de::IgnoredAny>,
            verdict: Option<serde::de::IgnoredAny>,
        }
        if text.len() > BYTES_MAX {
            return Err(SavedError::TooLong);
        }
        let shape = |error: serde_json::Error| SavedError::Shape(error.to_string());
        let head: Head = serde_json::from_str(text).map_err(shape)?;
        if !(1..=FORMAT_MAX).contains(&head.format) {
            return Err(SavedError::Format(head.format));
        }
        let saved = match (head.trials, head.verdict) {
            (Some(_), _) => serde_json::from_str(text).map_err(shape)?,
            (None, Some(_)) => Saved { trials: vec![serde_json::from_str(text).map_err(shape)?], ..Saved::default() },
            (None, None) => return Err(SavedError::Other),
        };
        saved.check()?;
        Ok(saved)
    }

    fn check(&self) -> Result<(), SavedError> {
        let bad = |trial: usize, what: String| Err(SavedError::Impossible { trial: trial + 1, what });
        if self.trials.len() > TRIALS_MAX {
            return bad(TRIALS_MAX, format!("a report has at most {TRIALS_MAX}"));
        }
        for (at, trial) in self.trials.iter().enumerate() {
            if let Some(what) = trial.impossible() {
                return bad(at, what);
            }
        }
        if let Some(choice) = self.choice.as_ref().filter(|choice| choice.is_too_long()) {
            let (between, named) = (choice.between.len(), choice.better.len().max(choice.alike.len()));
            let what = format!("{between} comparisons and {named} arms: of {ARMS_MAX} arms there are fewer");
            return Err(SavedError::Choice(what));
        }
        let between = self.choice.iter().flat_map(|choice| &choice.between);
        match between.filter_map(|between| between.effect).find_map(SavedEffect::impossible) {
            Some(what) => Err(SavedError::Choice(what)),
            None => Ok(()),
        }
    }

    /// Version of the program, kernel and so on, as the first trial tells them where the report itself does not.
    pub fn identity(&self) -> SavedIdentity {
        self.trials.first().map(|trial| trial.identity.clone()).unwrap_or_default()
    }

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

impl SavedTrial {
    /// Why these can't be the numbers of a trial, if they can't.
    fn impossible(&self) -> Option<String> {
        if self.windows.len() > WINDOWS_MAX {
            return Some(format!("{} windows: a trial has at most {WINDOWS_MAX}", self.windows.len()));
        }
        if self.dropped.len() > WINDOWS_MAX {
            return Some(format!("{} dropped pairs: a trial has at most {WINDOWS_MAX}", self.dropped.len()));
        }
        let control = self.control_stretch.as_ref();
        let windows = control.map_or(0, |control| control.windows.len());
        if windows > WINDOWS_MAX {
            return Some(format!("{windows} windows of a control: a trial has at most {WINDOWS_MAX}"));
        }
        let guards = self.guards.iter().filter_map(|guard| guard.effect);
        let effects = self.effect.into_iter().chain(control.and_then(|control| control.effect)).chain(guards);
        effects.into_iter().find_map(|effect| effect.impossible())
    }

    /// The sentences of what a sceptic should know, from whichever format.
    pub fn caveat_texts(&self) -> Vec<String> {
        match self.caveats.is_empty() {
            true => self.doubts.clone(),
            false => self.caveats.iter().map(|caveat| caveat.text.clone()).collect(),
        }
    }

    /// Whether and why the trial did not end as planned, in words.
    pub fn cut_short(&self) -> Option<String> {
        match &self.ended {
            Value::String(how) if how == "stopped" => Some("it was stopped".to_owned()),
            Value::String(how) if how == "out-of-spares" => Some("too many pairs were dropped".to_owned()),
            Value::String(how) if how == "out-of-time" => Some("its time was over".to_owned()),
            Value::String(how) if how == "cut-off" => Some("it was cut off".to_owned()),
            Value::Object(how) => {
                let why = how.get("failed").and_then(|failed| failed.get("why")).and_then(Value::as_str);
                Some(format!("it failed: {}", why.unwrap_or("the report does not say why")))
            }
            _ => None,
        }
    }

    /// The name of the arm that is compared with A.
    pub fn other(&self) -> ArmName {
        self.arms.iter().map(|arm| arm.arm).find(|arm| *arm != ArmName::A).unwrap_or(ArmName::B)
    }

    /// The windows of each pair that counts: A's and the other's, and which came first.
    pub fn pairs(&self) -> Vec<SavedPair<'_>> {
        pairs(&self.windows)
    }

    /// Whether it might end after any pair, so that its interval holds at every look.
    pub fn was_looked_at_after_every_pair(&self) -> bool {
        self.design.stop.get("sequential").is_some() || self.effect.is_some_and(|effect| effect.e_value.is_some())
    }

    /// The pairs that were tried in the part of the session that the verdict rests on.
    pub fn tried(&self) -> u64 {
        let dropped = self.dropped.iter().filter(|dropped| dropped.stretch.as_deref() != Some("control"));
        self.pairs.saturating_add(dropped.count() as u64)
    }
}

impl SavedChoice {
    fn is_too_long(&self) -> bool {
        self.between.len() > ARMS_MAX * ARMS_MAX || self.better.len() > ARMS_MAX || self.alike.len() > ARMS_MAX
    }
}

impl SavedControl {
    /// As of a trial.
    pub fn pairs_of_windows(&self) -> Vec<SavedPair<'_>> {
        pairs(&self.windows)
    }
}

fn pairs(windows: &[SavedWindow]) -> Vec<SavedPair<'_>> {
    let is_one_a = |two: &'_ [SavedWindow]| (two[0].arm == ArmName::A) != (two[1].arm == ArmName::A);
    let whole = |two: &'_ [SavedWindow]| two.len() == 2 && is_one_a(two) && two[0].pair == two[1].pair;
    let pair = |two: &'_ [SavedWindow]| whole(two).then(|| (two[0].arm, two[0].pair));
    windows
        .chunks(2)
        .filter_map(|two| {
            let (first, pair) = pair(two)?;
            let [a, b] = if first == ArmName::A { [&two[0], &two[1]] } else { [&two[1], &two[0]] };
            Some(SavedPair { pair, first, a, b })
        })
        .collect()
}

impl SavedEffect {
    /// Why this can't be an effect, if it can't.
    fn impossible(self) -> Option<String> {
        let is_ratio = |ratio: f64| ratio.is_finite() && ratio > 0.0;
        let ends = [Some(self.ratio), self.low, self.high];
        if let Some(ratio) = ends.into_iter().flatten().find(|ratio| !is_ratio(*ratio)) {
            return Some(format!("{ratio} is no ratio of two arms"));
        }
        if self.low.zip(self.high).is_some_and(|(low, high)| low > high) {
            return Some("its interval ends before it begins".to_owned());
        }
        let is_share = self.confidence > 0.0 && self.confidence < 1.0;
        (!is_share).then(|| format!("{} is no confidence", self.confidence))
    }

    /// Both ends of the interval, where it has both.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

/// The two windows of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedPair<'a> {
    /// Its number, from 0.
    pub pair: u64,
    /// The arm that was measured first.
    pub first: ArmName,
    /// The window of arm A.
    pub a: &'a SavedWindow,
    /// The window of the other arm.
    pub b: &'a SavedWindow,
}

impl SavedPair<'_> {
    /// The other to A; `None` where that is no ratio.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.b.value / self.a.value;
        (self.a.value > 0.0 && self.b.value > 0.0 && ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

#[cfg(test)]
mod tests;
