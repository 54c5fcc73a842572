//! A share with its interval, from windows at random moments: the mean of numbers from 0 to 1, each with a weight.
//!
//! The interval is that of Clopper and Pearson, with the sum of the numbers in place of the count of successes.
//! Numbers between 0 and 1 vary less than a coin with the same mean.
//! So the interval contains the true share at least as often as promised.

use serde::Serialize;

use crate::comparison::student::incomplete_beta;

/// The interval contains the true share in at least this share of all measurements.
const CONFIDENCE: f64 = 0.95;
/// Halvings of the interval from 0 to 1.
const STEPS: u32 = 50;

/// A share of the time, from 0 to 1, with the ends of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The estimate.
    pub share: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Adds windows, in memory that does not grow with their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareSum {
    weight: f64,
    weight_squares: f64,
    sum: f64,
}

impl ShareSum {
    /// Adds one window that represents `weight` of the whole. `value` is clamped to 0 to 1. Weights of 0 or less are ignored.
    pub fn add(&mut self, weight: f64, value: f64) {
        if weight > 0.0 && weight.is_finite() && !value.is_nan() {
            self.weight += weight;
            self.weight_squares += weight * weight;
            self.sum += weight * value.clamp(0.0, 1.0);
        }
    }

    /// Adds the windows of another place, such as another CPU.
    pub fn merge(&mut self, other: &ShareSum) {
        self.weight += other.weight;
        self.weight_squares += other.weight_squares;
        self.sum += other.sum;
    }

    /// The same windows, with their mean raised to `mean` if the mean was lower.
    #[must_use]
    pub fn with_mean_of_at_least(&self, mean: f64) -> ShareSum {
        ShareSum { sum: self.sum.max(self.weight * mean.clamp(0.0, 1.0)), ..*self }
    }

    /// The weight of all windows together.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The share. None without windows.
    pub fn share(&self) -> Option<Share> {
        if self.weight <= 0.0 {
            return None;
        }
        let share = (self.sum / self.weight).clamp(0.0, 1.0);
        // Windows of unequal weight count as fewer windows of equal weight (Kish).
        let windows = self.weight * self.weight / self.weight_squares;
        let hits = share * windows;
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let low = root(tail, |p| if hits <= 0.0 { 1.0 } else { incomplete_beta(p, hits, windows - hits + 1.0) });
        let high =
            root(1.0 - tail, |p| if hits >= windows { 0.0 } else { incomplete_beta(p, hits + 1.0, windows - hits) });
        Some(Share { share, low: low.min(share), high: high.max(share) })
    }
}

/// The point where a function that rises from 0 to 1 reaches `level`.
fn root(level: f64, rises: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if rises(middle) < level { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share_of(values: &[f64]) -> Share {
        let mut sum = ShareSum::default();
        values.iter().for_each(|value| sum.add(3.0, *value));
        sum.share().unwrap()
    }

    #[test]
    fn the_printed_intervals_come_out() {
        // Another program computed this table from sums of the binomial distribution.
        let table = [(0, 10, 0.0, 0.308_497), (1, 10, 0.002_529, 0.445_016), (5, 10, 0.187_086, 0.812_914)];
        let more = [(10, 10, 0.691_503, 1.0), (36, 120, 0.219_756, 0.390_396)];
        for (hits, windows, low, high) in table.into_iter().chain(more) {
            let values: Vec<f64> = (0..windows).map(|at| if at < hits { 1.0 } else { 0.0 }).collect();
            let said = share_of(&values);
            let off = (said.low - low).abs().max((said.high - high).abs());
            assert!(off < 1e-4, "{hits} of {windows}: {said:?}");
        }
    }

    #[test]
    fn no_window_has_no_share_and_unequal_ones_are_worth_fewer() {
        assert_eq!(ShareSum::default().share(), None);
        let mut odd = ShareSum::default();
        [(0.0, 0.5), (-1.0, 0.5), (f64::NAN, 0.5), (1.0, f64::NAN)]
            .iter()
            .for_each(|(weight, value)| odd.add(*weight, *value));
        assert_eq!(odd.share(), None);
        let (mut even, mut uneven) = (ShareSum::default(), ShareSum::default());
        for at in 0..40_u32 {
            let value = f64::from(at % 2);
            even.add(1.0, value);
            uneven.add(if at < 2 { 30.0 } else { 1.0 }, value);
        }
        let (even, uneven) = (even.share().unwrap(), uneven.share().unwrap());
        assert!((even.share - 0.5).abs() < 1e-9 && (uneven.share - 0.5).abs() < 1e-9);
        assert!(uneven.high - uneven.low > 1.5 * (even.high - even.low), "{even:?} {uneven:?}");
    }

    proptest! {
        #[test]
        fn the_interval_is_around_the_share(values in prop::collection::vec((0.001_f64..1e9, -0.5_f64..1.5), 1..200)) {
            let mut sum = ShareSum::default();
            values.iter().for_each(|(weight, value)| sum.add(*weight, *value));
            let said = sum.share().unwrap();
            prop_assert!(0.0 <= said.low && said.low <= said.share && said.share <= said.high && said.high <= 1.0, "{:?}", said);
        }
    }
}
