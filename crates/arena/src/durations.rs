//! Durations of one window, stored in nanoseconds and reported in microseconds.

use hdrhistogram::Histogram;

use crate::control::Quantiles;

/// The largest value that is recorded: a minute. No duration here is that long.
const MAX_NS: u64 = 60 * crate::time::SECOND_NS;

/// A histogram of durations that keeps three digits of each.
#[derive(Debug)]
pub(crate) struct DurationHistogram(Histogram<u64>);

impl DurationHistogram {
    #[expect(clippy::expect_used, reason = "the bounds are constants, and a test makes one")]
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NS, 3).expect("bounds are in order"))
    }

    pub(crate) fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Returns the quantiles since the last call.
    pub(crate) fn take(&mut self) -> Quantiles {
        let us = |ns: u64| (!self.0.is_empty()).then_some(ns as f64 / 1_000.0);
        let quantiles = Quantiles {
            count: self.0.len(),
            p50: us(self.0.value_at_quantile(0.5)),
            p90: us(self.0.value_at_quantile(0.9)),
            p99: us(self.0.value_at_quantile(0.99)),
            max: us(self.0.max()),
        };
        self.0.reset();
        quantiles
    }
}

/// Converts a summary from nanoseconds to microseconds.
pub(crate) fn quantiles(summary: Option<&evenkeel_rt::Summary>) -> Quantiles {
    let us = |ns: u64| ns as f64 / 1_000.0;
    summary.map_or_else(Quantiles::default, |summary| Quantiles {
        count: summary.count,
        p50: Some(us(summary.p50)),
        p90: Some(us(summary.p90)),
        p99: Some(us(summary.p99)),
        max: Some(us(summary.max)),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_window_is_reported_once_and_an_empty_one_has_no_numbers() {
        let mut histogram = DurationHistogram::new();
        for us in 1..=100 {
            histogram.record_ns(us * 1_000);
        }
        histogram.record_ns(u64::MAX);
        let json = |histogram: &mut DurationHistogram| serde_json::to_string(&histogram.take()).unwrap();
        expect![[r#"{"count":101,"p50":51.007,"p90":91.007,"p99":100.031,"max":60028878.847}"#]]
            .assert_eq(&json(&mut histogram));
        expect![[r#"{"count":0}"#]].assert_eq(&json(&mut histogram));
    }
}
