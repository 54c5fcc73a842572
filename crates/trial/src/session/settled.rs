//! `SettleSeen`: how long the trial waited after a switch, and how it found this time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::caveat::Caveat;

/// How long the trial waits after a switch, and how it found this time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettleSeen {
    /// The settle time in milliseconds.
    pub settle_ms: u64,
    /// How the settle time was found.
    pub how: SettleHow,
    /// For each short window after a switch, how far the metric was from its later level, as a share. The value is the largest of all arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift_ratios: Vec<f64>,
    /// The length of each short window in milliseconds. None if the settle time was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<u64>,
    /// The number of interleaves of each window. None if the number is 1.
    #[serde(alias = "turns", default, skip_serializing_if = "Option::is_none")]
    pub interleaves: Option<u32>,
}

/// How a settle time was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettleHow {
    /// The user gave the settle time.
    Asked,
    /// The trial measured the settle time: after this time, the metric had reached its level.
    Found,
    /// The metric still moved at the end of the observed time.
    Unsettled,
    /// The settle time could not be measured, so this is a guess.
    Guessed {
        /// Why the settle time could not be measured.
        why: String,
    },
}

impl SettleSeen {
    /// A settle time that the user gave.
    pub fn fixed(time: Duration) -> SettleSeen {
        SettleSeen {
            settle_ms: as_ms(time),
            how: SettleHow::Asked,
            drift_ratios: Vec::new(),
            step_ms: None,
            interleaves: None,
        }
    }

    /// The time.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }

    pub(crate) fn caveat(&self) -> Option<Caveat> {
        let settle_ms = self.settle_ms;
        match &self.how {
            SettleHow::Asked | SettleHow::Found => None,
            SettleHow::Unsettled => Some(Caveat::Unsettled { settle_ms }),
            SettleHow::Guessed { why } => Some(Caveat::SettleGuessed { settle_ms, why: why.clone() }),
        }
    }
}

pub(super) fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
