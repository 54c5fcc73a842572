//! Holds millions of durations in a fixed amount of memory, so a meter can record every one, and a tail such as p999 uses all of them.

use serde::Serialize;

/// Significant decimal digits: a quantile is at most 0.1 % above the recorded value.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of durations in nanoseconds, from 1 ns to an hour, with 3 significant digits.
/// A new histogram takes about 270 KB. Recording never allocates.
///
/// A value outside [`Histogram::LOW_NS`]`..=`[`Histogram::HIGH_NS`] is recorded as the nearer bound.
/// The value is also counted in [`clamped`](Histogram::clamped), so that no value disappears unnoticed.
///
/// ```
/// use evenkeel_stats::Histogram;
///
/// let mut wake_latency_ns = Histogram::new();
/// for value in 1..=1000 {
///     wake_latency_ns.record(value * 1000);
/// }
/// assert_eq!(wake_latency_ns.count(), 1000);
/// assert_eq!(wake_latency_ns.max(), Some(1_000_000));
/// let p99 = wake_latency_ns.quantile(0.99).unwrap();
/// assert!((990_000..=990_990).contains(&p99));
/// assert_eq!(Histogram::new().quantile(0.99), None);
/// ```
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u64>,
    // These fields are separate from the buckets, because they cost nothing and stay exact.
    min: u64,
    max: u64,
    sum: u128,
    clamped: u64,
}

impl Histogram {
    /// The smallest value that is recorded as it is, in nanoseconds.
    pub const LOW_NS: u64 = 1;
    /// The largest value that is recorded as it is, in nanoseconds: an hour.
    pub const HIGH_NS: u64 = 3_600_000_000_000;

    /// An empty histogram.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the bounds are constants, and every test of this file builds one")]
    pub fn new() -> Self {
        let buckets = hdrhistogram::Histogram::new_with_bounds(Self::LOW_NS, Self::HIGH_NS, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid");
        Self { buckets, min: u64::MAX, max: 0, sum: 0, clamped: 0 }
    }

    /// Records one duration in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        let value = value_ns.clamp(Self::LOW_NS, Self::HIGH_NS);
        self.clamped += u64::from(value != value_ns);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        self.buckets.saturating_record(value);
    }

    /// Adds all values that `other` recorded.
    pub fn merge(&mut self, other: &Self) {
        self.buckets += &other.buckets;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.clamped += other.clamped;
    }

    /// The number of recorded values, including clamped ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The number of recorded values outside the range.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// A value in nanoseconds that the share `q` (0 to 1) of the recorded values do not exceed.
    /// The result is the smallest such value to within 0.1 %, and never beyond [`max`](Histogram::max).
    ///
    /// `None` when nothing was recorded or `q` is not within 0 to 1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count() == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        // Use the upper edge of the bucket, so that a tail is never reported as shorter than it was.
        Some(self.buckets.value_at_quantile(q).clamp(self.min, self.max))
    }

    /// The smallest recorded value in nanoseconds, exact; `None` when nothing was recorded.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min)
    }

    /// The largest recorded value in nanoseconds, exact; `None` when nothing was recorded.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// The arithmetic mean in nanoseconds, exact but for the rounding of a double; `None` when nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The values in bars with upper ends 1, 2, 5, 10, 20, 50 and so on, including empty bars.
    /// The bars reach from the smallest value to the largest. The list is empty if nothing was recorded.
    #[must_use]
    pub fn bars(&self) -> Vec<Bar> {
        let (Some(min), Some(max)) = (self.min(), self.max()) else { return Vec::new() };
        let ends = (0..13).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
        let mut bars: Vec<Bar> = Vec::new();
        for upper in ends {
            let is_first = bars.is_empty();
            if (is_first && upper < min) || bars.last().is_some_and(|bar| bar.upper >= max) {
                continue;
            }
            bars.push(Bar { upper, count: 0 });
        }
        for bucket in self.buckets.iter_recorded() {
            // A bucket's upper end is up to a thousandth above the recorded value, and never beyond the largest.
            let value = bucket.value_iterated_to().clamp(min, max);
            let at = bars.partition_point(|bar| bar.upper < value);
            if let Some(bar) = bars.get_mut(at) {
                bar.count += bucket.count_since_last_iteration();
            }
        }
        bars
    }

    /// The usual quantiles; `None` when nothing was recorded.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Some(Summary {
            count: self.count(),
            min: self.min()?,
            p50: self.quantile(0.5)?,
            p90: self.quantile(0.9)?,
            p99: self.quantile(0.99)?,
            p999: self.quantile(0.999)?,
            max: self.max()?,
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The usual quantiles of a [`Histogram`].
/// All fields but `count` are in nanoseconds, so name the field that holds a summary accordingly: `wake_latency_ns`.
///
/// ```
/// use evenkeel_stats::{Histogram, Summary};
///
/// let mut lateness = Histogram::new();
/// lateness.record(40_000);
/// let Summary { count, max, .. } = lateness.summary().expect("a value was recorded");
/// assert_eq!((count, max), (1, 40_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// How many values were recorded.
    pub count: u64,
    /// The smallest value, exact.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The quantile 0.9.
    pub p90: u64,
    /// The quantile 0.99.
    pub p99: u64,
    /// The quantile 0.999.
    pub p999: u64,
    /// The largest value, exact.
    pub max: u64,
}

/// The number of values above the previous bar's upper end and up to `upper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bar {
    /// The upper end of the bar, which belongs to it.
    pub upper: u64,
    /// The number of values in the bar.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|v| histogram.record(v));
        histogram
    }

    fn check(values: impl IntoIterator<Item = u64>, expect: Expect) {
        let histogram = histogram(values);
        let (mean, clamped) = (histogram.mean(), histogram.clamped());
        let summary = serde_json::to_string(&histogram.summary()).unwrap();
        expect.assert_eq(&format!("{summary} mean {mean:?} clamped {clamped}"));
    }

    #[test]
    fn summaries() {
        check([], expect!["null mean None clamped 0"]);
        check(
            [1_000_000],
            expect![[
                r#"{"count":1,"min":1000000,"p50":1000000,"p90":1000000,"p99":1000000,"p999":1000000,"max":1000000} mean Some(1000000.0) clamped 0"#
            ]],
        );
        check(
            1..=1000,
            expect![[
                r#"{"count":1000,"min":1,"p50":500,"p90":900,"p99":990,"p999":999,"max":1000} mean Some(500.5) clamped 0"#
            ]],
        );
        check(
            [0, 7, u64::MAX],
            expect![[
                r#"{"count":3,"min":1,"p50":7,"p90":3600000000000,"p99":3600000000000,"p999":3600000000000,"max":3600000000000} mean Some(1200000000002.6667) clamped 2"#
            ]],
        );
    }

    #[test]
    fn bars_hold_every_value() {
        let bars = |values: &[u64]| -> Vec<(u64, u64)> {
            histogram(values.iter().copied()).bars().iter().map(|bar| (bar.upper, bar.count)).collect()
        };
        assert_eq!(bars(&[]), []);
        assert_eq!(bars(&[1]), [(1, 1)]);
        assert_eq!(bars(&[3, 5, 40]), [(5, 2), (10, 0), (20, 0), (50, 1)]);
        let longest = bars(&[u64::MAX]);
        assert_eq!(longest, [(5_000_000_000_000, 1)], "an hour is 3.6e12 ns");
    }

    #[test]
    fn an_invalid_share_has_no_quantile() {
        let histogram = histogram([1, 2, 3]);
        for q in [-0.01, 1.01, f64::NAN, f64::INFINITY] {
            assert_eq!(histogram.quantile(q), None, "{q}");
        }
    }

    fn durations() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..45).prop_flat_map(|bits| 0..=(1u64 << bits)), 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_quantile_is_within_a_thousandth_of_the_recorded_value(mut values in durations(), q in 0.0..=1.0f64) {
            let histogram = histogram(values.iter().copied());
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1].clamp(Histogram::LOW_NS, Histogram::HIGH_NS);
            let found = histogram.quantile(q).unwrap();
            let slack = exact / 1000;
            prop_assert!((exact - slack..=exact + slack).contains(&found), "{found} is not {exact}");
            prop_assert!((histogram.min().unwrap()..=histogram.max().unwrap()).contains(&found));
        }

        #[test]
        fn merging_is_recording_both(left in durations(), right in durations()) {
            let mut merged = histogram(left.iter().copied());
            merged.merge(&histogram(right.iter().copied()));
            let both = histogram(left.into_iter().chain(right));
            prop_assert_eq!(merged.summary(), both.summary());
            prop_assert_eq!((merged.mean(), merged.clamped()), (both.mean(), both.clamped()));
            let bars = both.bars();
            prop_assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), both.count());
            prop_assert!(bars.first().is_some_and(|bar| bar.count > 0) && bars.last().is_some_and(|bar| bar.count > 0));
        }
    }
}
