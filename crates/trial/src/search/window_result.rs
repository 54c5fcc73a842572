//! `WindowResult`: the result of one window of a search.

use evenkeel_stats::VALUE_RANGE;
use evenkeel_workload::Sample;
use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;
use crate::rules::DropReason;

/// The result of one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WindowResult {
    /// A number.
    Measured {
        /// The number that decides.
        value: f64,
        /// Everything else that was measured.
        sample: Sample,
        /// The machine's conditions, and the counters that show which knobs were engaged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conditions: Option<Box<Conditions>>,
    },
    /// A rule dropped it. Rules use the conditions of the machine only.
    Dropped {
        /// The rule that dropped the window, in words.
        why: String,
        /// Other trials that ran at the same time, in words.
        #[serde(alias = "beside", default, skip_serializing_if = "Vec::is_empty")]
        other_trials: Vec<String>,
        /// The rule; missing in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<DropReason>,
    },
    /// The server ended or hung, and was restarted.
    Died {
        /// The observation.
        why: String,
    },
    /// A setting was refused, or did not take.
    Refused {
        /// The setting, by its index.
        setting: usize,
        /// The error of the kernel or the server.
        why: String,
    },
}

impl WindowResult {
    /// The other trials that ran during the window.
    pub(super) fn other_trials(&self) -> &[String] {
        match self {
            WindowResult::Measured { conditions, .. } => {
                conditions.as_ref().map_or(&[], |conditions| &conditions.other_trials)
            }
            WindowResult::Dropped { other_trials, .. } => other_trials,
            WindowResult::Died { .. } | WindowResult::Refused { .. } => &[],
        }
    }
}

/// Whether a number has a ratio to another.
pub(super) fn has_a_ratio(value: f64) -> bool {
    VALUE_RANGE.contains(&value)
}
