//! `Outcome`: the answer of a trial, a search or a trial over boots.

use std::fmt;

use evenkeel_stats::Verdict;
use serde::{Deserialize, Serialize};

/// The answer of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// B is better than A by more than the smallest effect that matters.
    Better,
    /// B is worse, or a guard got worse. If a guard got worse, the report names it.
    Worse,
    /// Any difference is smaller than the smallest effect that matters.
    Same,
    /// The measured pairs do not decide.
    Undecided,
    /// There is no difference that matters, and the counters show that the knobs were not engaged.
    /// Under another load, the knobs may have an effect.
    NotEngaged,
}

/// Prints the same name as in JSON.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Better => "better",
            Outcome::Worse => "worse",
            Outcome::Same => "same",
            Outcome::Undecided => "undecided",
            Outcome::NotEngaged => "not-engaged",
        })
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Better => Outcome::Better,
            Verdict::Worse => Outcome::Worse,
            Verdict::Same => Outcome::Same,
            Verdict::Undecided => Outcome::Undecided,
        }
    }
}
