//! `Design`: all that is decided before a trial starts, so that nothing seen on the way can bend it.

use std::time::Duration;

use serde::Serialize;

use crate::error::TrialError;
use crate::metric::Metric;
use crate::rules::Rules;

/// The most pairs of windows in one trial: with windows of a second that is more than five hours.
const PAIRS_MAX: usize = 10_000;

/// How a trial is run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Design {
    /// The one number that decides.
    pub metric: Metric,
    /// Pairs of windows, one of each arm, that the verdict is to rest on.
    pub pairs: usize,
    /// Further pairs that may replace dropped ones.
    pub spare_pairs: usize,
    /// How long one window measures.
    #[serde(rename = "window_ms", serialize_with = "as_ms")]
    pub window: Duration,
    /// How long the machine is left alone after a switch.
    #[serde(rename = "settle_ms", serialize_with = "as_ms")]
    pub settle: Duration,
    /// Seed of the order of the arms within each pair.
    pub seed: u64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// The smallest effect that matters, as a share: 0.05 is five per cent.
    pub smallest_effect_ratio: f64,
    /// When a window is dropped.
    pub rules: Rules,
}

fn as_ms<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u128(duration.as_millis())
}

impl Design {
    /// A design with the usual settle time, confidence and rules: a third as many spare pairs as pairs.
    pub fn new(metric: Metric, pairs: usize, window: Duration, seed: u64) -> Design {
        Design {
            metric,
            pairs,
            spare_pairs: pairs / 3,
            window,
            settle: Duration::from_millis(100),
            seed,
            confidence: 0.95,
            smallest_effect_ratio: 0.05,
            rules: Rules::default(),
        }
    }

    /// The time that the planned pairs take, switching not counted.
    pub fn planned(&self) -> Duration {
        let windows = u32::try_from(self.pairs * 2).unwrap_or(u32::MAX);
        (self.window + self.settle).saturating_mul(windows)
    }

    /// # Errors
    /// If no verdict could ever come of it.
    pub(crate) fn check(&self) -> Result<(), TrialError> {
        let bad = |why: String| Err(TrialError::Design(why));
        if self.pairs == 0 || self.pairs + self.spare_pairs > PAIRS_MAX {
            return bad(format!(
                "{} pairs and {} spare ones: at least 1, at most {PAIRS_MAX}",
                self.pairs, self.spare_pairs
            ));
        }
        if self.window < Duration::from_millis(10) || self.window > Duration::from_secs(3600) {
            return bad(format!("a window of {:?}: at least 10 ms, at most an hour", self.window));
        }
        if !(self.smallest_effect_ratio > 0.0 && self.smallest_effect_ratio < 10.0) {
            return bad(format!("{} as the smallest effect: more than 0, less than 10", self.smallest_effect_ratio));
        }
        if !(self.confidence > 0.5 && self.confidence < 1.0) {
            return bad(format!("a confidence of {}: more than 0.5, less than 1", self.confidence));
        }
        Ok(())
    }
}
