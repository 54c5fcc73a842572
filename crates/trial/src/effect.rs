//! `Effect`: the ratio of one arm to another, with its interval.

use serde::{Deserialize, Serialize};

use crate::comparison::{Judge, PairEffect};

/// The ratio of B to A with its interval. Ends that the run could not bound are absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The Hodges–Lehmann estimate.
    pub ratio: f64,
    /// The lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// When the interval holds.
    #[serde(default)]
    pub interval: Interval,
    /// The p-value of the signed-rank test. In a sequential trial it is the inverse of the e-value, and holds at every look.
    pub p_value: f64,
    /// In a sequential trial, the e-value against "B has no effect"; it decides at 1 / (1 - confidence).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_value: Option<f64>,
    /// The smallest effect that this run could have detected, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_visible_ratio: Option<f64>,
}

/// When an interval holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// If it is computed once, after a number of pairs that was fixed beforehand.
    #[default]
    Fixed,
    /// After every pair, so that the run may end as soon as the result is clear.
    Anytime,
}

impl Effect {
    /// The effect as the test sees it now.
    pub(crate) fn from_pairs(seen: &PairEffect, judge: &Judge) -> Effect {
        Effect {
            ratio: seen.ratio,
            low: PairEffect::bounded(seen.low),
            high: PairEffect::bounded(seen.high),
            confidence: judge.options().confidence,
            interval: if judge.is_sequential() { Interval::Anytime } else { Interval::Fixed },
            p_value: seen.p_value,
            e_value: seen.e_value.filter(|e_value| e_value.is_finite()),
            smallest_visible_ratio: PairEffect::bounded(seen.smallest_visible_ratio),
        }
    }
}
