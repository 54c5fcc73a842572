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
    /// The window was measured.
    Measured {
        /// The value of the primary metric, which decides.
        value: f64,
        /// All measured metrics.
        sample: Sample,
        /// The machine's conditions, and the counters that show which knobs were engaged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conditions: Option<Box<Conditions>>,
    },
    /// A rule dropped the window. Rules use only the conditions of the machine.
    Dropped {
        /// The text of the reason why the rule dropped the window.
        why: String,
        /// The other trials that ran at the same time, as texts.
        #[serde(alias = "beside", default, skip_serializing_if = "Vec::is_empty")]
        other_trials: Vec<String>,
        /// The rule that dropped the window. None in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<DropReason>,
    },
    /// The server ended or hung, and was restarted.
    Died {
        /// What happened to the server.
        why: String,
    },
    /// A setting was refused, or its value did not take effect.
    Refused {
        /// The index of the setting.
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

/// Whether this value can form a ratio with other values.
pub(super) fn has_a_ratio(value: f64) -> bool {
    VALUE_RANGE.contains(&value)
}
