//! Two arms that only a reboot can switch: one number a boot, few boots, and what may honestly be said of those.
//!
//! # What is assumed, and what is not
//!
//! Boots go A-B-B-A in blocks of four, or B-A-A-B, as a coin says: so an even drift cancels within every block. There are far too few
//! blocks for the coin alone to carry a test (four boots have one toss). So the p-value is that of the permutation test over all ways
//! in which half of the boots could have been B's: exact if what a boot does to a number beside the arm is exchangeable, boot for boot.
//! Where neighbouring boots are alike (a neighbour on the host that stays, a slow drift), A-B-B-A differs less by chance than the
//! other orders do, and the test errs less often than it says. What it can't stand is noise that comes and goes in step with the order.
//!
//! Four boots have six ways. So the most that they can say by chance alone is one in three for either direction, one in six for the one
//! that was hoped for: [`error_of`] is what a claim over so many boots promises, and it is 5 % only from eight boots on.

use serde::{Deserialize, Serialize};

use crate::compare::{Options, VALUE_RANGE};
use crate::error::StatsError;
use crate::pairs::{Order, PairDesign};
use crate::verdict::{LogEffect, Verdict};
use crate::walsh::WalshAverages;

/// Boots of a block.
pub const BOOTS_BLOCK: usize = 4;
/// The most boots of one comparison: 12,870 ways to call half of them B's.
pub const BOOTS_MAX: usize = 16;

/// The most bisections of an interval's end: more than a double has bits to tell apart.
const BISECTIONS: u32 = 64;

/// One boot's number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boot {
    /// Whether it was one of B's.
    pub is_b: bool,
    /// The number that it is boiled down to.
    pub value: f64,
}

/// What boots say of B against A. Ratios are b / a.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BootsComparison {
    /// How many boots were compared: whole blocks.
    pub boots: usize,
    /// Hodges–Lehmann estimate over the ratios of neighbouring boots.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How often the interval holds the truth, at least.
    pub confidence: f64,
    /// How often boots that are alike would differ so much, in either direction.
    pub p_value: f64,
    /// Whether every boot of one arm is below every boot of the other.
    pub is_apart: bool,
    /// What may be said.
    pub verdict: Verdict,
}

/// Whether each of so many boots is B's: blocks of A-B-B-A, which a coin from the seed may mirror.
pub fn boot_order(boots: usize, seed: u64) -> Vec<bool> {
    let blocks = boots.div_ceil(BOOTS_BLOCK) as u64;
    let block = |order| match order {
        Order::AFirst => [false, true, true, false],
        Order::BFirst => [true, false, false, true],
    };
    PairDesign::new(blocks, seed).orders().flat_map(block).take(boots).collect()
}

/// How often a claim over so many boots may err: 5 %, or what so few can promise at best.
pub fn error_of(boots: usize) -> f64 {
    let at_best = 2.0 / ways(boots / BOOTS_BLOCK * BOOTS_BLOCK);
    at_best.clamp(0.05, 1.0)
}

/// In how many ways half of the boots can be B's.
fn ways(boots: usize) -> f64 {
    let half = boots / 2;
    (0..half).fold(1.0, |ways, at| ways * (boots - at) as f64 / (at + 1) as f64)
}

/// Compares boots in the order in which they were measured. What is left of a block that was not finished is passed over.
///
/// # Errors
/// If there is no whole block, if a block is not two boots of each arm, or if a number has no ratio to another.
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
    let error = error_of(whole.len());
    let relabelled = Relabelled::of(whole);
    let ratios: Vec<f64> = whole
        .chunks_exact(2)
        .map(|two| (two[1].value / two[0].value).ln() * if two[1].is_b { 1.0 } else { -1.0 })
        .collect();
    let estimate = WalshAverages::new(&ratios).median();
    let (low, high) = relabelled.interval(error);
    let effect = LogEffect { estimate, low, high };
    Ok(BootsComparison {
        boots: whole.len(),
        ratio: estimate.exp(),
        low: low.exp(),
        high: high.exp(),
        confidence: 1.0 - error,
        p_value: relabelled.p_value(0.0),
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

/// What B's sum less A's would be for every way to call half of the boots B's.
struct Relabelled {
    /// For each way: the difference of the sums of logs, and how many boots more than half are B's in truth, times two.
    ways: Vec<(f64, f64)>,
    seen: f64,
    half: f64,
    /// What sums of the same numbers in another order may differ by.
    slack: f64,
}

impl Relabelled {
    fn of(boots: &[Boot]) -> Relabelled {
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

    /// How often alike boots would differ so much if B's logs were `shift` too high.
    fn p_value(&self, shift: f64) -> f64 {
        let seen = (self.seen - shift * self.half).abs();
        let slack = self.slack + 1e-9 * shift.abs();
        let as_far = self.ways.iter().filter(|(sum, shared)| (sum - shift * shared).abs() + slack >= seen).count();
        as_far as f64 / self.ways.len() as f64
    }

    /// The shifts that the test does not refuse at this error.
    fn interval(&self, error: f64) -> (f64, f64) {
        let centre = self.seen / self.half;
        let end = |towards: f64| {
            // The test's own centre is refused by no error below 1. Far out only the truth and its mirror image are as far.
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
    fn what_so_many_boots_can_promise() {
        let promised: Vec<f64> = [4, 8, 12, 16].map(error_of).into();
        assert_eq!(promised, [2.0 / 6.0, 0.05, 0.05, 0.05]);
        assert_eq!([4, 8, 16].map(ways), [6.0, 70.0, 12_870.0]);
    }

    #[test]
    fn four_boots_say_only_that_they_lie_apart() {
        let options = Options::new(Direction::Lower);
        let rows: [([f64; 4], Verdict, bool, f64); 4] = [
            ([100.0, 80.0, 82.0, 101.0], Verdict::Better, true, 2.0 / 6.0),
            ([80.0, 100.0, 101.0, 82.0], Verdict::Worse, true, 2.0 / 6.0),
            ([100.0, 80.0, 104.0, 101.0], Verdict::Undecided, false, 1.0),
            ([100.0, 100.5, 99.8, 100.1], Verdict::Same, false, 1.0),
        ];
        for (values, verdict, apart, p) in rows {
            let found = compare_boots(&boots(&ABBA, &values), options).unwrap();
            assert_eq!((found.verdict, found.is_apart), (verdict, apart), "{values:?}: {found:?}");
            assert!((found.p_value - p).abs() < 1e-9, "{values:?}: {found:?}");
            assert!(found.low <= found.ratio && found.ratio <= found.high, "{found:?}");
        }
        // By hand: what separates the arms least and most.
        let found = compare_boots(&boots(&ABBA, &[100.0, 80.0, 82.0, 101.0]), options).unwrap();
        assert!((found.low - 80.0 / 101.0).abs() < 1e-6 && (found.high - 82.0 / 100.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn an_even_drift_cancels_in_a_block() {
        let values: Vec<f64> = (0..8).map(|boot| 100.0 * 1.03_f64.powi(boot)).collect();
        let found = compare_boots(&boots(&boot_order(8, 1), &values), Options::new(Direction::Lower)).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.verdict, Verdict::Undecided);
    }

    #[test]
    fn what_can_not_be_compared_says_why() {
        let options = Options::new(Direction::Lower);
        let four = |values: [f64; 4]| compare_boots(&boots(&ABBA, &values), options).unwrap_err();
        assert_eq!(compare_boots(&[], options), Err(StatsError::NoPairs));
        assert_eq!(compare_boots(&boots(&ABBA[..3], &[1.0; 3]), options), Err(StatsError::NoPairs));
        assert_eq!(four([1.0, 1.0, 1.0, 0.0]), StatsError::Value { pair: 1, arm: 'a', value: 0.0 });
        assert_eq!(four([1.0, f64::INFINITY, 1.0, 1.0]), StatsError::Value { pair: 0, arm: 'b', value: f64::INFINITY });
        let odd = compare_boots(&boots(&[false, true, true, true], &[1.0; 4]), options);
        assert_eq!(odd, Err(StatsError::Neighbours { pair: 1 }));
        // A fifth boot is half a block.
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
            prop_assert_eq!(excludes, found.p_value <= error_of(order.len()) + 1e-9, "{:?}", found);
            if order.len() == 4 {
                prop_assert_eq!(excludes, found.is_apart, "{:?}", found);
            }
            // The names of the arms are no more than names.
            let mirrored: Vec<bool> = order.iter().map(|b| !b).collect();
            let other = compare_boots(&boots(&mirrored, &values), Options::new(Direction::Higher)).unwrap();
            prop_assert!((found.ratio * other.ratio - 1.0).abs() < 1e-9);
            prop_assert!((found.low * other.high - 1.0).abs() < 1e-6, "{:?} {:?}", found, other);
        }
    }
}
