//! `SettleSeen`: how long the trial waited after a switch, and how that was found.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::caveat::Caveat;

/// How long the machine was left alone after a switch, and how that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettleSeen {
    /// The time, in milliseconds.
    pub settle_ms: u64,
    /// How it was found.
    pub how: SettleHow,
    /// How far the metric was from its later level in each short window after a switch, as a share; the largest of all arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift_ratios: Vec<f64>,
    /// How long each short window was, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<u64>,
    /// Interleaves of each window, if more than one.
    #[serde(alias = "turns", default, skip_serializing_if = "Option::is_none")]
    pub interleaves: Option<u32>,
}

/// How a settle time was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettleHow {
    /// The user requested it.
    Asked,
    /// It was measured: after this time the metric had reached its level.
    Found,
    /// The metric still moved at the end of the observed time.
    Unsettled,
    /// It could not be measured, and is a guess.
    Guessed {
        /// Why.
        why: String,
    },
}

impl SettleSeen {
    /// A time that was asked for.
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
