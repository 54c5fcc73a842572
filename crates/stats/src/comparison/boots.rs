//! Compares two arms that only a reboot can switch: one number per boot, few boots, and the conclusions that these allow.
//!
//! # Assumptions
//!
//! A coin decides the order of each block of four boots: A-B-B-A or B-A-A-B. So a steady drift cancels within every block.
//! There are too few blocks to base a test on the coin alone, because four boots have one toss.
//! So from eight boots on, the p-value is that of the permutation test over all assignments of half of the boots to B.
//! The test is exact if the effects of single boots are exchangeable.
//! If neighbouring boots are alike (a lasting neighbour on the host, a slow drift),
//! chance makes A and B differ less in this order than in others. Then the test errs less often than promised.
//! The test fails for noise that is periodic in step with the order.
//!
//! Four boots have six assignments, so a permutation test cannot give a p-value below one in three.
//! Here we also assume that the effect of a boot on the logarithm of the number is normal.
//! We then use Student's test with two degrees of freedom.
//! A claim also needs all boots of B on one side of all boots of A.
//! So a claim errs at most one time in three even if the assumption is false.

use serde::{Deserialize, Serialize};

use crate::comparison::compare::Options;
use crate::comparison::error::StatsError;
use crate::comparison::limits::VALUE_RANGE;
use crate::comparison::pairs::{Order, PairDesign};
use crate::comparison::verdict::{LogEffect, Verdict};
use crate::comparison::walsh::WalshAverages;

/// Boots per block.
pub const BOOTS_BLOCK: usize = 4;
/// The maximum number of boots of one comparison: 12,870 assignments of half of them to B.
pub const BOOTS_MAX: usize = 16;

/// The maximum share of comparisons of equal arms that claim a difference.
pub const BOOTS_ERROR: f64 = 0.05;

/// The maximum number of bisections for an end of the interval: more than a double's mantissa has bits.
const BISECTIONS: u32 = 64;

/// A boot and its measured number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boot {
    /// Whether the boot had arm B.
    pub is_b: bool,
    /// The number measured in the boot.
    pub value: f64,
}

/// The comparison of B against A over boots. Ratios are b / a.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootsComparison {
    /// How many boots were compared: complete blocks only.
    pub boots: usize,
    /// Hodges–Lehmann estimate over the ratios of neighbouring boots.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The confidence of the interval: at least this share of intervals contains the true ratio.
    pub confidence: f64,
    /// How often equal arms would differ this much, in either direction.
    pub p_value: f64,
    /// Whether every boot of one arm is below every boot of the other.
    pub is_apart: bool,
    /// The verdict.
    pub verdict: Verdict,
}

/// Whether each of this many boots belongs to B: blocks of A-B-B-A, which a coin from the seed may mirror.
pub fn boot_order(boots: usize, seed: u64) -> Vec<bool> {
    let blocks = boots.div_ceil(BOOTS_BLOCK) as u64;
    let block = |order| match order {
        Order::AFirst => [false, true, true, false],
        Order::BFirst => [true, false, false, true],
    };
    PairDesign::new(blocks, seed).orders().flat_map(block).take(boots).collect()
}

/// Compares boots in the order of measurement. An incomplete last block is ignored.
///
/// # Errors
/// Fails if there is no complete block, if a block is not two boots of each arm, or if a number is not positive.
pub fn compare_boots(boots: &[Boot], options: Options) -> Result<BootsComparison, StatsError> {
    let whole = &boots[..boots.len().min(BOOTS_MAX) / BOOTS_BLOCK * BOOTS_BLOCK];
    if whole.is_empty() {
        return Err(StatsError::NoPairs);
    }
    if !(options.smallest_effect_ratio >= 0.0 && options.smallest_effect_ratio.is_finite()) {
        return Err(StatsError::SmallestEffect(options.smallest_effect_ratio));
    }
    for (pair, boot) in whole.iter().enumerate() {
        if !VALUE_RANGE.contains(&boot.value) {
            return Err(StatsError::Value {
                pair: pair / 2,
                arm: if boot.is_b { 'b' } else { 'a' },
                value: boot.value,
            });
        }
    }
    let uneven = whole.chunks_exact(2).position(|two| two[0].is_b == two[1].is_b);
    if let Some(pair) = uneven {
        return Err(StatsError::Neighbours { pair });
    }
    let ratios: Vec<f64> = whole
        .chunks_exact(2)
        .map(|two| (two[1].value / two[0].value).ln() * if two[1].is_b { 1.0 } else { -1.0 })
        .collect();
    let estimate = WalshAverages::new(&ratios).median();
    let (p_value, (low, high)) = if whole.len() == BOOTS_BLOCK {
        let normal = Normal::fit(whole);
        (normal.p_value(), normal.interval(BOOTS_ERROR))
    } else {
        let relabelled = Relabelled::new(whole);
        (relabelled.p_value(0.0), relabelled.interval(BOOTS_ERROR))
    };
    let effect = LogEffect { estimate, low, high };
    Ok(BootsComparison {
        boots: whole.len(),
        ratio: estimate.exp(),
        low: low.exp(),
        high: high.exp(),
        confidence: 1.0 - BOOTS_ERROR,
        p_value,
        is_apart: is_apart(whole),
        verdict: effect.verdict(options.smallest_effect_ratio, options.better),
    })
}

fn is_apart(boots: &[Boot]) -> bool {
    let ends = |of_b: bool| {
        let values = boots.iter().filter(|boot| boot.is_b == of_b).map(|boot| boot.value);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (a, b) = (ends(false), ends(true));
    a.1 < b.0 || b.1 < a.0
}

/// Student's test that compares two boots of B with two boots of A.
struct Normal {
    /// Mean log of B minus mean log of A.
    difference: f64,
    /// The standard error of `difference`, pooled over both arms.
    standard_error: f64,
    /// The possible rounding difference between means of the same numbers in another order.
    slack: f64,
}

impl Normal {
    fn fit(boots: &[Boot]) -> Normal {
        let logs = |of_b: bool| -> Vec<f64> {
            boots.iter().filter(|boot| boot.is_b == of_b).map(|boot| boot.value.ln()).collect()
        };
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let (a, b) = (logs(false), logs(true));
        let squares = |logs: &[f64]| logs.iter().map(|log| (log - mean(logs)).powi(2)).sum::<f64>();
        // With two values each, the variance of one arm is half of the sum of all squares. The same holds for the difference of two means.
        let standard_error = (0.5 * (squares(&a) + squares(&b))).sqrt();
        let slack = 1e-12 * a.iter().chain(&b).map(|log| log.abs()).sum::<f64>();
        Normal { difference: mean(&b) - mean(&a), standard_error, slack }
    }

    /// For two degrees of freedom: 1 - |t| / √(t² + 2).
    fn p_value(&self) -> f64 {
        let difference = self.difference.abs();
        if difference <= self.slack {
            return 1.0;
        }
        1.0 - difference / difference.hypot(std::f64::consts::SQRT_2 * self.standard_error)
    }

    fn interval(&self, error: f64) -> (f64, f64) {
        let share = 1.0 - error;
        let reach = self.standard_error * share * (2.0 / (1.0 - share * share)).sqrt() + self.slack;
        (self.difference - reach, self.difference + reach)
    }
}

/// B's sum minus A's sum, for each way to assign half of the boots to B.
struct Relabelled {
    /// For each assignment: the difference of the sums of logs, and the change of that difference per unit of shift in B's logs.
    ways: Vec<(f64, f64)>,
    seen: f64,
    half: f64,
    /// The possible rounding difference between sums of the same numbers in another order.
    slack: f64,
}

impl Relabelled {
    fn new(boots: &[Boot]) -> Relabelled {
        let count = boots.len();
        let half = count / 2;
        let logs: Vec<f64> = boots.iter().map(|boot| boot.value.ln()).collect();
        let middle = logs.iter().sum::<f64>() / count as f64;
        let truth: u32 = boots.iter().enumerate().filter(|(_, boot)| boot.is_b).map(|(at, _)| 1 << at).sum();
        let difference = |way: u32| -> f64 {
            let sign = |at: usize| if (way >> at) & 1 == 1 { 1.0 } else { -1.0 };
            logs.iter().enumerate().map(|(at, log)| sign(at) * (log - middle)).sum()
        };
        let all = (0..1_u32 << count).filter(|way| way.count_ones() as usize == half);
        let shared = |way: u32| 2.0 * f64::from((way & truth).count_ones()) - half as f64;
        Relabelled {
            ways: all.map(|way| (difference(way), shared(way))).collect(),
            seen: difference(truth),
            half: half as f64,
            slack: 1e-9 * logs.iter().map(|log| (log - middle).abs()).sum::<f64>(),
        }
    }

    /// How often a random assignment differs at least as much as the true assignment, after `shift` is subtracted from B's logs.
    fn p_value(&self, shift: f64) -> f64 {
        let seen = (self.seen - shift * self.half).abs();
        let slack = self.slack + 1e-9 * shift.abs();
        let as_far = self.ways.iter().filter(|(sum, shared)| (sum - shift * shared).abs() + slack >= seen).count();
        as_far as f64 / self.ways.len() as f64
    }

    /// The range of shifts that the test does not reject at this error rate.
    fn interval(&self, error: f64) -> (f64, f64) {
        let centre = self.seen / self.half;
        let end = |towards: f64| {
            // The centre is never rejected: its p-value is 1.
            // Far from the centre, only the true assignment and its mirror image differ as much.
            let (mut held, mut step) = (0.0, self.slack.max(1e-9));
            while step < 1e6 && self.p_value(centre + towards * step) > error + 1e-12 {
                held = step;
                step *= 2.0;
            }
            let mut refused = step;
            for _ in 0..BISECTIONS {
                let middle = f64::midpoint(held, refused);
                if self.p_value(centre + towards * middle) > error + 1e-12 { held = middle } else { refused = middle }
            }
            centre + towards * refused
        };
        (end(-1.0), end(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use proptest::prelude::*;

    fn boots(is_b: &[bool], values: &[f64]) -> Vec<Boot> {
        is_b.iter().zip(values).map(|(is_b, value)| Boot { is_b: *is_b, value: *value }).collect()
    }

    const ABBA: [bool; 4] = [false, true, true, false];

    #[test]
    fn blocks_are_abba_or_its_mirror_by_the_seed() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let order = boot_order(8, seed);
            for block in order.chunks_exact(4) {
                assert!(block == ABBA || block == ABBA.map(|b| !b), "{block:?}");
            }
            assert_eq!(order, boot_order(8, seed));
            seen.insert(order);
        }
        assert_eq!(seen.len(), 4, "both blocks are tossed");
    }

    #[test]
    fn four_boots_claim_by_student_and_only_what_lies_apart() {
        let options = Options::new(Direction::Lower);
        let rows: [([f64; 4], Verdict, bool); 6] = [
            ([100.0, 80.0, 82.0, 101.0], Verdict::Better, true),
            ([80.0, 100.0, 101.0, 82.0], Verdict::Worse, true),
            // The arms do not overlap here.
            // Equal arms do so 1 time in 3, and these arms are not far enough apart for a claim.
            ([100.0, 80.0, 95.0, 120.0], Verdict::Undecided, true),
            ([100.0, 80.0, 104.0, 101.0], Verdict::Undecided, false),
            ([100.0, 100.5, 99.8, 100.1], Verdict::Same, false),
            ([100.0, 80.0, 80.0, 100.0], Verdict::Better, true),
        ];
        for (values, verdict, apart) in rows {
            let found = compare_boots(&boots(&ABBA, &values), options).unwrap();
            assert_eq!((found.verdict, found.is_apart), (verdict, apart), "{values:?}: {found:?}");
            assert!(found.low <= found.ratio && found.ratio <= found.high, "{found:?}");
        }
        // From a table: t with two degrees of freedom is 4.302653 at 5 %. Logs of B are 0 and 2, those of A are `apart` more.
        let found = |apart: f64| {
            let logs = [apart, 0.0, 2.0, 2.0 + apart];
            compare_boots(&boots(&ABBA, &logs.map(f64::exp)), options).unwrap()
        };
        for apart in [4.0, 6.0, 6.1, 8.0] {
            let t = apart / 2.0_f64.sqrt();
            let (low, high) = (found(apart).low.ln(), found(apart).high.ln());
            assert!((low + apart + 4.302_653 * 2.0_f64.sqrt()).abs() < 1e-5, "{low}");
            assert!((low + high + 2.0 * apart).abs() < 1e-9, "{low} {high}");
            assert_eq!(found(apart).p_value <= 0.05, t > 4.302_653, "{:?}", found(apart));
        }
        assert!((found(4.302_653 * 2.0_f64.sqrt()).p_value - 0.05).abs() < 1e-6);
        let same = compare_boots(&boots(&ABBA, &[3.3; 4]), options).unwrap();
        assert_eq!((same.p_value, same.verdict), (1.0, Verdict::Same));
    }

    /// Checks the error rate from eight boots on by exact counting.
    /// For any numbers, at most the allowed share of all assignments leads to a claim.
    #[test]
    fn no_more_assignments_lead_to_a_claim_than_promised() {
        let heaps = |at: usize| [0.0, 0.0, 0.3, 5.0][at % 4] + at as f64 * 1e-3;
        let numbers: [fn(usize) -> f64; 4] =
            [|at| at as f64, |at| (at * at) as f64 * 0.01, |at| (at % 2) as f64, heaps];
        for (count, at_best) in [(8_usize, 2.0 / 70.0), (12, 46.0 / 924.0)] {
            for of in numbers {
                let all: Vec<u32> = (0..1_u32 << count).filter(|way| way.count_ones() as usize == count / 2).collect();
                let claims = |way: &&u32| {
                    let boot = |at: usize| Boot { is_b: (**way >> at) & 1 == 1, value: of(at).exp() };
                    Relabelled::new(&(0..count).map(boot).collect::<Vec<_>>()).p_value(0.0) <= BOOTS_ERROR
                };
                let share = all.iter().filter(claims).count() as f64 / all.len() as f64;
                assert!(share <= at_best + 1e-12, "{count} boots: {share}");
            }
        }
    }

    #[test]
    fn an_even_drift_cancels_in_a_block() {
        let values: Vec<f64> = (0..8).map(|boot| 100.0 * 1.03_f64.powi(boot)).collect();
        let found = compare_boots(&boots(&boot_order(8, 1), &values), Options::new(Direction::Lower)).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.verdict, Verdict::Undecided);
    }

    #[test]
    fn invalid_comparisons_say_why() {
        let options = Options::new(Direction::Lower);
        let four = |values: [f64; 4]| compare_boots(&boots(&ABBA, &values), options).unwrap_err();
        assert_eq!(compare_boots(&[], options), Err(StatsError::NoPairs));
        assert_eq!(compare_boots(&boots(&ABBA[..3], &[1.0; 3]), options), Err(StatsError::NoPairs));
        assert_eq!(four([1.0, 1.0, 1.0, 0.0]), StatsError::Value { pair: 1, arm: 'a', value: 0.0 });
        assert_eq!(four([1.0, f64::INFINITY, 1.0, 1.0]), StatsError::Value { pair: 0, arm: 'b', value: f64::INFINITY });
        let odd = compare_boots(&boots(&[false, true, true, true], &[1.0; 4]), options);
        assert_eq!(odd, Err(StatsError::Neighbours { pair: 1 }));
        // The fifth boot starts an incomplete block, which is ignored.
        let five = boots(&[false, true, true, false, true], &[100.0, 80.0, 82.0, 101.0, 1.0]);
        assert_eq!(compare_boots(&five, options), compare_boots(&five[..4], options));
    }

    proptest! {
        #[test]
        fn the_interval_and_the_p_value_agree(
            seed in any::<u64>(),
            blocks in 1_usize..=3,
            logs in prop::collection::vec(-1.0..1.0f64, 12),
        ) {
            let order = boot_order(blocks * 4, seed);
            let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            let found = compare_boots(&boots(&order, &values), Options::new(Direction::Higher)).unwrap();
            let excludes = found.low > 1.0 || found.high < 1.0;
            prop_assert_eq!(excludes, found.p_value <= BOOTS_ERROR + 1e-9, "{:?}", found);
            prop_assert!(found.is_apart || !excludes || order.len() > 4, "{:?}", found);
            // Exchanging the names of the arms changes no result but the direction.
            let mirrored: Vec<bool> = order.iter().map(|b| !b).collect();
            let other = compare_boots(&boots(&mirrored, &values), Options::new(Direction::Higher)).unwrap();
            prop_assert!((found.ratio * other.ratio - 1.0).abs() < 1e-9);
            prop_assert!((found.low * other.high - 1.0).abs() < 1e-6, "{:?} {:?}", found, other);
        }
    }
}
