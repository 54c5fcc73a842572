//! Order statistics of the Walsh averages: the means of all pairs of differences, including the pair of each difference with itself.
//! The median of the averages is the Hodges–Lehmann estimate, and two of the averages are the ends of its interval.

/// The averages `(x[i] + x[j]) / 2`, `i <= j`, of finite differences, without storing them: 10,000 differences have 50 million.
pub(crate) struct WalshAverages {
    sorted: Vec<f64>,
}

impl WalshAverages {
    /// Takes the differences in any order. All must be finite, and there must be at least one difference.
    pub(crate) fn new(differences: &[f64]) -> Self {
        debug_assert!(!differences.is_empty() && differences.iter().all(|d| d.is_finite()));
        let mut sorted = differences.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { sorted }
    }

    /// How many averages there are: n (n + 1) / 2.
    pub(crate) fn count(&self) -> usize {
        self.sorted.len() * (self.sorted.len() + 1) / 2
    }

    /// The median of the averages.
    pub(crate) fn median(&self) -> f64 {
        let count = self.count();
        average(self.smallest(count.div_ceil(2)), self.smallest(count / 2 + 1))
    }

    /// The `rank`-th smallest average, exactly, `rank` from 1 to [`count`](Self::count).
    ///
    /// Bisection over the doubles themselves, in their order, ends after at most 64 counts of n steps each.
    pub(crate) fn smallest(&self, rank: usize) -> f64 {
        debug_assert!((1..=self.count()).contains(&rank));
        let (mut low, mut high) = (key(self.sorted[0]), key(self.sorted[self.sorted.len() - 1]));
        while low < high {
            let middle = low.midpoint(high);
            if self.count_up_to(value(middle)) >= rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        value(low)
    }

    /// How many averages are at most `limit`. As the first index grows, the largest second index that fits falls.
    /// So both indices walk the list once. The rounded average grows with both indices, as the true average does.
    fn count_up_to(&self, limit: f64) -> usize {
        let (mut count, mut end) = (0, self.sorted.len());
        for (start, &first) in self.sorted.iter().enumerate() {
            while end > start && average(first, self.sorted[end - 1]) > limit {
                end -= 1;
            }
            if end <= start {
                break;
            }
            count += end - start;
        }
        count
    }
}

fn average(x: f64, y: f64) -> f64 {
    (x + y) / 2.0
}

/// Maps doubles to integers of the same order (that of [`f64::total_cmp`]).
/// Negative doubles have all bits flipped, the others only the sign.
/// The integers are unsigned, because the midpoint of negative integers rounds up and the bisection would not end.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits ^ SIGN }
}

/// The inverse of [`key`].
fn value(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key ^ SIGN })
}

const SIGN: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Half of the differences lie on a coarse grid, so that ties and zeros occur.
    fn differences() -> impl Strategy<Value = Vec<f64>> {
        let one = prop_oneof![(-4i32..=4).prop_map(|i| f64::from(i) / 4.0), -1e3..1e3f64];
        prop::collection::vec(one, 1..24)
    }

    proptest! {
        #[test]
        fn every_rank_is_that_of_the_sorted_averages(differences in differences()) {
            let mut all: Vec<f64> = Vec::new();
            for (i, x) in differences.iter().enumerate() {
                all.extend(differences[..=i].iter().map(|y| average(*x, *y)));
            }
            all.sort_unstable_by(f64::total_cmp);
            let walsh = WalshAverages::new(&differences);
            prop_assert_eq!(walsh.count(), all.len());
            let found: Vec<f64> = (1..=all.len()).map(|rank| walsh.smallest(rank)).collect();
            prop_assert_eq!(&found, &all);
            prop_assert_eq!(walsh.median(), crate::median(&all).unwrap());
        }

        #[test]
        fn keys_keep_the_order_of_doubles(x in any::<f64>(), y in any::<f64>()) {
            prop_assert_eq!(key(x).cmp(&key(y)), x.total_cmp(&y));
            prop_assert_eq!(value(key(x)).to_bits(), x.to_bits());
        }
    }

    #[test]
    fn ten_thousand_differences_need_no_fifty_million_averages() {
        let differences: Vec<f64> = (0..10_000).map(f64::from).collect();
        let walsh = WalshAverages::new(&differences);
        assert_eq!((walsh.smallest(1), walsh.median(), walsh.smallest(50_005_000)), (0.0, 4999.5, 9999.0));
    }
}
