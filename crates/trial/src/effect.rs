//! `Effect`: the ratio of one arm to another, with its interval.

use serde::{Deserialize, Serialize};

use crate::comparison::{Judge, PairEffect};

/// The ratio of B to A with its interval. An end is None if the run could not bound it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The estimated ratio (Hodges–Lehmann).
    pub ratio: f64,
    /// The lower end of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The confidence of the interval, for example 0.95.
    pub confidence: f64,
    /// Whether the interval is valid only at the end, or after every pair.
    #[serde(default)]
    pub interval: Interval,
    /// The p-value of the signed-rank test. In a sequential trial, the p-value is 1 divided by the e-value, and is valid after every pair.
    pub p_value: f64,
    /// The e-value against "B has no effect".
    /// The trial claims a difference when the e-value reaches 1 / (1 - confidence). None unless the trial is sequential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_value: Option<f64>,
    /// The smallest effect that this run could have detected, as a share. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_visible_ratio: Option<f64>,
}

/// When an interval is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// Only after a number of pairs that was fixed beforehand.
    #[default]
    Fixed,
    /// After every pair, so the run may end as soon as the result is clear.
    Anytime,
}

impl Effect {
    /// Builds the effect from the test's estimate over the pairs so far.
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
