//! Wilcoxon's signed-rank distribution: the distribution of the rank sum of the positive differences when each sign is a fair coin.
//! With a [`PairDesign`](crate::PairDesign), the signs are fair coins if B has no effect.
//!
//! Up to [`EXACT_PAIRS`] pairs, the distribution is enumerated exactly over the sign flips of the given ranks, including ties.
//! Beyond that number, we use a normal distribution with the same mean and variance and a continuity correction.
//! At 200 pairs the two distributions differ by less than 0.0005 in probability.
//!
//! Differences of equal size share their average rank.
//! Zeros keep their place in the ranking but count for neither side
//! (J. W. Pratt, "Remarks on Zeros and Ties in the Wilcoxon Signed Rank Procedures", JASA 1959).
//! Suppose zeros were dropped first. Then many windows without a difference plus a few small differences could look like evidence.
//! Ranks are doubled throughout, so that average ranks are whole numbers.

/// The maximum number of pairs for exact enumeration: 200 take about 4 million additions.
pub(crate) const EXACT_PAIRS: usize = 200;

/// Two-sided p-value of finite differences: how often sign flips of these sizes would give a rank sum this far from its mean.
/// The p-value is 1 if all differences are zero.
pub(crate) fn two_sided_p_value(differences: &[f64]) -> f64 {
    let (mut ranks, mut positive) = (Vec::with_capacity(differences.len()), 0);
    let mut by_size = differences.to_vec();
    by_size.sort_unstable_by(|x, y| x.abs().total_cmp(&y.abs()));
    let mut before = 0;
    for ties in by_size.chunk_by(|x, y| x.abs() == y.abs()) {
        let through = before + ties.len();
        // The mean of the ranks before + 1 ..= through, doubled.
        let doubled_rank = before + 1 + through;
        for difference in ties.iter().filter(|d| **d != 0.0) {
            ranks.push(doubled_rank);
            positive += if *difference > 0.0 { doubled_rank } else { 0 };
        }
        before = through;
    }
    let total: usize = ranks.iter().sum();
    // The distribution is symmetric, so both tails are equal.
    let nearer = positive.min(total - positive);
    (2.0 * RankSum::from_ranks(&ranks).at_most(nearer)).min(1.0)
}

/// The largest `k` for which the rank sum of `pairs` untied differences is below `k` with a probability of at most `tail`.
/// The `k`-th smallest and `k`-th largest Walsh average then bound the interval of confidence `1 - 2 tail`.
/// The result is 0 with too few pairs.
pub(crate) fn critical_rank(pairs: usize, tail: f64) -> usize {
    let ranks: Vec<usize> = (1..=pairs).map(|rank| 2 * rank).collect();
    let rank_sum = RankSum::from_ranks(&ranks);
    let (mut fits, mut too_large) = (0, pairs * (pairs + 1) / 2 + 1);
    while too_large - fits > 1 {
        let middle = fits.midpoint(too_large);
        if rank_sum.at_most(2 * (middle - 1)) <= tail {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    fits
}

/// Distribution of the doubled rank sum of the positive differences.
enum RankSum {
    /// Cumulative probability, by index.
    Exact(Vec<f64>),
    Normal {
        mean: f64,
        sd: f64,
    },
}

impl RankSum {
    fn from_ranks(doubled_ranks: &[usize]) -> Self {
        if doubled_ranks.len() <= EXACT_PAIRS { Self::exact(doubled_ranks) } else { Self::normal(doubled_ranks) }
    }

    /// Adds one rank after another. A coin decides for each rank whether the sum includes it.
    fn exact(doubled_ranks: &[usize]) -> Self {
        let mut probability = vec![0.0; doubled_ranks.iter().sum::<usize>() + 1];
        probability[0] = 1.0;
        let mut reach = 0;
        for &rank in doubled_ranks {
            reach += rank;
            // Go downwards, so that each value that is read does not yet include this coin.
            for sum in (0..=reach).rev() {
                let without_rank = if sum >= rank { probability[sum - rank] } else { 0.0 };
                probability[sum] = 0.5 * (probability[sum] + without_rank);
            }
        }
        let mut so_far = 0.0;
        for p in &mut probability {
            so_far += *p;
            *p = so_far;
        }
        Self::Exact(probability)
    }

    fn normal(doubled_ranks: &[usize]) -> Self {
        let (sum, squares) = doubled_ranks.iter().fold((0.0, 0.0), |(sum, squares), &rank| {
            let rank = rank as f64;
            (sum + rank, squares + rank * rank)
        });
        Self::Normal { mean: sum / 2.0, sd: f64::sqrt(squares) / 2.0 }
    }

    /// Probability that the doubled sum is `sum` or less. `sum` is at most the sum of all ranks.
    fn at_most(&self, sum: usize) -> f64 {
        match self {
            Self::Exact(cumulative) => cumulative[sum],
            // Half a rank of correction, which is 1 when doubled.
            Self::Normal { mean, sd } => {
                let z = (sum as f64 + 1.0 - mean) / sd;
                0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    /// Printed tables give a critical value that is one less ("reject at T or less"):
    /// Wilcoxon & Wilcox 1964 for two-sided 5 % and 1 %.
    #[test]
    fn critical_ranks_are_those_of_the_tables() {
        let mut rows = String::new();
        for pairs in [5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 50] {
            let [five, one] = [0.025, 0.005].map(|tail| critical_rank(pairs, tail).checked_sub(1));
            rows += &format!("{pairs:2} pairs: 5 % {five:?} 1 % {one:?}\n");
        }
        expect![[r#"
             5 pairs: 5 % None 1 % None
             6 pairs: 5 % Some(0) 1 % None
             7 pairs: 5 % Some(2) 1 % None
             8 pairs: 5 % Some(3) 1 % Some(0)
             9 pairs: 5 % Some(5) 1 % Some(1)
            10 pairs: 5 % Some(8) 1 % Some(3)
            12 pairs: 5 % Some(13) 1 % Some(7)
            15 pairs: 5 % Some(25) 1 % Some(15)
            20 pairs: 5 % Some(52) 1 % Some(37)
            25 pairs: 5 % Some(89) 1 % Some(68)
            30 pairs: 5 % Some(137) 1 % Some(109)
            50 pairs: 5 % Some(434) 1 % Some(373)
        "#]]
        .assert_eq(&rows);
    }

    /// Computed by hand: 2 / 2^5; 4 / 2^6; 2 / 2^9; no evidence in the fourth and fifth case; 2 / 2^4.
    /// In the last case all ranks are equal, and the p-value is that of 3 of 4 heads or worse.
    #[test]
    fn p_values() {
        let rows = [
            &[1.0, 2.0, 3.0, 4.0, 5.0][..],
            &[-1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            &[1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30],
            &[0.0, 0.0, 0.0],
            &[1.0, -1.0],
            &[1.0, 1.0, 1.0, 1.0],
            &[0.0, 0.0, 1.0, 1.0, 1.0, -1.0],
        ]
        .map(|differences| format!("{differences:?}: {:.6}\n", two_sided_p_value(differences)));
        expect![[r#"
            [1.0, 2.0, 3.0, 4.0, 5.0]: 0.062500
            [-1.0, 2.0, 3.0, 4.0, 5.0, 6.0]: 0.062500
            [1.83, 0.5, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.3]: 0.003906
            [0.0, 0.0, 0.0]: 1.000000
            [1.0, -1.0]: 1.000000
            [1.0, 1.0, 1.0, 1.0]: 0.125000
            [0.0, 0.0, 1.0, 1.0, 1.0, -1.0]: 0.625000
        "#]]
        .assert_eq(&rows.concat());
    }

    #[test]
    fn the_normal_takes_over_smoothly() {
        let ranks: Vec<usize> = (1..=EXACT_PAIRS).map(|rank| 2 * rank).collect();
        let (exact, normal) = (RankSum::exact(&ranks), RankSum::normal(&ranks));
        let total: usize = ranks.iter().sum();
        let worst = (0..=total / 2).map(|half| 2 * half).map(|sum| (exact.at_most(sum) - normal.at_most(sum)).abs());
        assert!(worst.fold(0.0, f64::max) < 0.0005);
        let share = |pairs: usize| critical_rank(pairs, 0.025) as f64 / (pairs * (pairs + 1) / 2) as f64;
        assert!(share(EXACT_PAIRS) < share(EXACT_PAIRS + 1));
        assert!(share(EXACT_PAIRS + 1) < share(EXACT_PAIRS + 2));
    }

    proptest! {
        /// The definition: enumerates all sign flips. Small whole numbers give ties and zeros.
        #[test]
        fn p_value_is_the_share_of_sign_flips_as_extreme(sizes in prop::collection::vec(-5i32..=5, 1..9)) {
            let sizes: Vec<f64> = sizes.into_iter().map(f64::from).collect();
            let distance = |x: &[f64]| {
                let rank = |d: f64| {
                    let below = x.iter().filter(|e| e.abs() < d.abs()).count();
                    let equal = x.iter().filter(|e| e.abs() == d.abs()).count();
                    below as f64 + (equal as f64 + 1.0) / 2.0
                };
                x.iter().filter(|d| **d != 0.0).map(|d| rank(*d) * d.signum()).sum::<f64>().abs()
            };
            let observed = distance(&sizes);
            let flips = 1u32 << sizes.len();
            let extreme = (0..flips).filter(|flip| {
                let flipped: Vec<f64> =
                    (0..).zip(&sizes).map(|(i, d)| if flip >> i & 1 == 1 { -d } else { *d }).collect();
                distance(&flipped) >= observed
            });
            let share = extreme.count() as f64 / f64::from(flips);
            prop_assert!((two_sided_p_value(&sizes) - share).abs() < 1e-12);
        }
    }
}
