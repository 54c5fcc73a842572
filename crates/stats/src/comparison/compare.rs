//! The comparison of two arms from pairs of windows: a ratio with an interval that is valid for any noise, and a verdict.

use serde::Serialize;

use crate::comparison::error::StatsError;
use crate::comparison::limits::{MAX_PAIRS, VALUE_RANGE};
use crate::comparison::signed_rank::{critical_rank, two_sided_p_value};
use crate::comparison::verdict::{Direction, LogEffect, Verdict};
use crate::comparison::walsh::WalshAverages;

/// Two neighbouring windows, one of each arm, each reduced to one number: a mean, a p99, a rate.
/// Both numbers have the same unit and lie within [`VALUE_RANGE`].
///
/// Use one number per window, never one per request, because a disturbance affects all requests of a window alike.
/// If each request counts as an independent observation, any two windows differ "significantly".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The window of arm A, the reference.
    pub a: f64,
    /// The window of arm B.
    pub b: f64,
}

/// The options of a comparison. Fix them before measuring, like the number of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Confidence of the interval, strictly between 0 and 1.
    pub confidence: f64,
    /// The smallest effect that matters, as a share: 0.05 is 5 %, a ratio of 1.05 or its reciprocal.
    /// 0 or more. At 0 every difference matters, and no two arms are ever the same.
    pub smallest_effect_ratio: f64,
    /// Which direction is better.
    pub better: Direction,
}

impl Options {
    /// A confidence of 0.95, and 5 % as the smallest effect that matters.
    #[must_use]
    pub fn new(better: Direction) -> Self {
        Self { confidence: 0.95, smallest_effect_ratio: 0.05, better }
    }
}

/// The result for B against A from a run of pairs. Ratios are b / a: below 1, B's number is lower.
///
/// In JSON an infinite `high` or `smallest_visible_ratio` is `null`, because JSON has no infinity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// How many pairs were compared.
    pub pairs: usize,
    /// Hodges–Lehmann estimate of the ratio b / a.
    pub ratio: f64,
    /// Lower end of the interval for the ratio; 0 with too few pairs for the confidence.
    pub low: f64,
    /// Upper end of the interval for the ratio; infinite with too few pairs for the confidence.
    pub high: f64,
    /// The requested confidence of the interval. The actual one is equal or slightly higher.
    pub confidence: f64,
    /// Two-sided p-value of "B has no effect" by the signed-rank test.
    /// The p-value is informative: the verdict follows the interval alone, which is slightly stricter on tied data.
    pub p_value: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The requested smallest effect that matters.
    pub smallest_effect_ratio: f64,
    /// The smallest detectable effect of this run, as a share like `smallest_effect_ratio`.
    /// The effect is half the width of the interval on the log scale, and infinite with too few pairs for the confidence.
    /// The figure shows whether an "undecided" run was close to a decision or had no chance.
    pub smallest_visible_ratio: f64,
}

/// Compares two arms by pairs of windows.
/// The result is valid because the pairs were measured in the random order of a [`PairDesign`](crate::PairDesign).
///
/// Each pair gives ln(b / a). The estimate is the median of the Walsh averages of these logarithms.
/// The median is robust against a few outliers
/// (Hodges & Lehmann, "Estimates of Location Based on Rank Tests", 1963).
/// The interval inverts Wilcoxon's signed-rank test, so it does not assume normal noise.
/// If B multiplies every window by one factor, the interval contains that factor with the requested confidence, for any noise.
/// The distribution is exact up to 200 pairs, and normal beyond 200.
/// Ties and zeros only widen the interval, because the interval includes its ends.
/// With fewer than 6 pairs at 0.95, no finite interval reaches the confidence.
/// The interval is then (0, ∞), and the verdict is undecided.
///
/// # Errors
///
/// Fails with a [`StatsError`] when there are no pairs or more than [`MAX_PAIRS`], and when an option is outside its range.
/// It also fails when a value is outside [`VALUE_RANGE`]. The error then names the pair and the arm of the value.
///
/// ```
/// use evenkeel_stats::{Direction, Options, Pair, Verdict, compare};
///
/// let requests_per_s = [(100.0, 131.0), (90.0, 118.0), (104.0, 133.0), (80.0, 107.0), (95.0, 122.0), (99.0, 130.0)];
/// let pairs = requests_per_s.map(|(a, b)| Pair { a, b });
/// let comparison = compare(&pairs, Options::new(Direction::Higher))?;
/// assert_eq!(comparison.verdict, Verdict::Better);
/// assert_eq!(format!("{:.2}", comparison.ratio), "1.31");
///
/// let five = compare(&pairs[..5], Options::new(Direction::Higher))?;
/// assert_eq!((five.low, five.high, five.verdict), (0.0, f64::INFINITY, Verdict::Undecided));
/// # Ok::<(), evenkeel_stats::StatsError>(())
/// ```
pub fn compare(pairs: &[Pair], options: Options) -> Result<Comparison, StatsError> {
    check_options(options)?;
    let log_ratios = log_ratios(pairs)?;
    let effect = log_effect(&log_ratios, options.confidence);
    Ok(Comparison {
        pairs: pairs.len(),
        ratio: effect.estimate.exp(),
        low: effect.low.exp(),
        high: effect.high.exp(),
        confidence: options.confidence,
        p_value: two_sided_p_value(&log_ratios),
        verdict: effect.verdict(options.smallest_effect_ratio, options.better),
        smallest_effect_ratio: options.smallest_effect_ratio,
        smallest_visible_ratio: ((effect.high - effect.low) / 2.0).exp_m1(),
    })
}

pub(crate) fn check_options(options: Options) -> Result<(), StatsError> {
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        return Err(StatsError::Confidence(options.confidence));
    }
    let smallest = options.smallest_effect_ratio;
    if !(smallest.is_finite() && smallest >= 0.0) {
        return Err(StatsError::SmallestEffect(smallest));
    }
    Ok(())
}

fn log_ratios(pairs: &[Pair]) -> Result<Vec<f64>, StatsError> {
    match pairs.len() {
        0 => return Err(StatsError::NoPairs),
        1..=MAX_PAIRS => {}
        pairs => return Err(StatsError::TooManyPairs { pairs }),
    }
    pairs.iter().enumerate().map(|(index, pair)| log_ratio(index, pair)).collect()
}

/// ln(b / a) of the pair with this index.
pub(crate) fn log_ratio(index: usize, pair: &Pair) -> Result<f64, StatsError> {
    for (arm, value) in [('a', pair.a), ('b', pair.b)] {
        if !VALUE_RANGE.contains(&value) {
            return Err(StatsError::Value { pair: index, arm, value });
        }
    }
    // Use a difference of logs rather than the log of a ratio: swapping the arms then flips the sign exactly, and with it every result.
    Ok(pair.b.ln() - pair.a.ln())
}

/// With a probability of at most half the error, `k - 1` or fewer Walsh averages are at or below the truth.
/// So the `k`-th smallest average is the lower end of the interval, and the `k`-th largest is the upper end.
///
/// An average that equals the true value counts as beyond that value.
/// This rule makes ties and zeros safe: no way of breaking ties would leave more averages on that side.
fn log_effect(log_ratios: &[f64], confidence: f64) -> LogEffect {
    let averages = WalshAverages::new(log_ratios);
    let estimate = averages.median();
    match critical_rank(log_ratios.len(), (1.0 - confidence) / 2.0) {
        0 => LogEffect { estimate, low: f64::NEG_INFINITY, high: f64::INFINITY },
        k => LogEffect { estimate, low: averages.smallest(k), high: averages.smallest(averages.count() + 1 - k) },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(pairs: &[(f64, f64)], options: Options, expect: Expect) {
        let pairs: Vec<Pair> = pairs.iter().map(|&(a, b)| Pair { a, b }).collect();
        expect.assert_eq(&match compare(&pairs, options) {
            Ok(comparison) => serde_json::to_string(&comparison).unwrap(),
            Err(error) => format!("failed to compare: {error}"),
        });
    }

    const LATENCY: Options = Options { confidence: 0.95, smallest_effect_ratio: 0.05, better: Direction::Lower };

    #[test]
    fn comparisons() {
        check(
            &[(1.0, 2.0)],
            LATENCY,
            expect![[
                r#"{"pairs":1,"ratio":2.0,"low":0.0,"high":null,"confidence":0.95,"p_value":1.0,"verdict":"undecided","smallest_effect_ratio":0.05,"smallest_visible_ratio":null}"#
            ]],
        );
        check(
            &[(1.0, 1.0); 6],
            LATENCY,
            expect![[
                r#"{"pairs":6,"ratio":1.0,"low":1.0,"high":1.0,"confidence":0.95,"p_value":1.0,"verdict":"same","smallest_effect_ratio":0.05,"smallest_visible_ratio":0.0}"#
            ]],
        );
        check(
            &[(1.0, 2.0); 6],
            LATENCY,
            expect![[
                r#"{"pairs":6,"ratio":2.0,"low":2.0,"high":2.0,"confidence":0.95,"p_value":0.03125,"verdict":"worse","smallest_effect_ratio":0.05,"smallest_visible_ratio":0.0}"#
            ]],
        );
        check(
            &[(1.0, 2.0); 5],
            Options { confidence: 0.9, ..LATENCY },
            expect![[
                r#"{"pairs":5,"ratio":2.0,"low":2.0,"high":2.0,"confidence":0.9,"p_value":0.0625,"verdict":"worse","smallest_effect_ratio":0.05,"smallest_visible_ratio":0.0}"#
            ]],
        );
        check(
            &[(10.0, 9.0), (20.0, 17.0), (30.0, 27.5), (11.0, 9.8), (21.0, 19.0), (8.0, 8.1), (9.0, 8.0)],
            LATENCY,
            expect![[
                r#"{"pairs":7,"ratio":0.9011881213984246,"low":0.8702141847112856,"high":0.9571162043197412,"confidence":0.95,"p_value":0.03125,"verdict":"better","smallest_effect_ratio":0.05,"smallest_visible_ratio":0.04874343559646974}"#
            ]],
        );
        check(
            &[(1e-150, 1e150); 8],
            LATENCY,
            expect![[
                r#"{"pairs":8,"ratio":9.999999999999763e+299,"low":9.999999999999763e+299,"high":9.999999999999763e+299,"confidence":0.95,"p_value":0.0078125,"verdict":"worse","smallest_effect_ratio":0.05,"smallest_visible_ratio":0.0}"#
            ]],
        );
    }

    #[test]
    fn invalid_pairs_say_why() {
        check(&[], LATENCY, expect!["failed to compare: no pairs were measured"]);
        check(
            &[(1.0, 1.0); MAX_PAIRS + 1],
            LATENCY,
            expect!["failed to compare: 10001 pairs are more than the 10000 that one comparison takes"],
        );
        check(
            &[(1.0, 1.0), (1.0, 0.0)],
            LATENCY,
            expect!["failed to compare: b of pair 1 is 0.0, not a number from 1e-150 to 1e150"],
        );
        check(
            &[(-1.0, 1.0)],
            LATENCY,
            expect!["failed to compare: a of pair 0 is -1.0, not a number from 1e-150 to 1e150"],
        );
        check(
            &[(1.0, f64::NAN)],
            LATENCY,
            expect!["failed to compare: b of pair 0 is NaN, not a number from 1e-150 to 1e150"],
        );
        check(
            &[(f64::INFINITY, 1.0)],
            LATENCY,
            expect!["failed to compare: a of pair 0 is inf, not a number from 1e-150 to 1e150"],
        );
        check(
            &[(1.0, 1e151)],
            LATENCY,
            expect!["failed to compare: b of pair 0 is 1e151, not a number from 1e-150 to 1e150"],
        );
        check(
            &[(1.0, 1.0)],
            Options { confidence: 1.0, ..LATENCY },
            expect!["failed to compare: a confidence of 1 is not between 0 and 1 (0.95 is usual)"],
        );
        check(
            &[(1.0, 1.0)],
            Options { confidence: f64::NAN, ..LATENCY },
            expect!["failed to compare: a confidence of NaN is not between 0 and 1 (0.95 is usual)"],
        );
        check(
            &[(1.0, 1.0)],
            Options { smallest_effect_ratio: -0.1, ..LATENCY },
            expect!["failed to compare: a smallest effect of -0.1 is not a share of 0 or more (0.05 is 5 %)"],
        );
        check(
            &[(1.0, 1.0)],
            Options { smallest_effect_ratio: f64::INFINITY, ..LATENCY },
            expect!["failed to compare: a smallest effect of inf is not a share of 0 or more (0.05 is 5 %)"],
        );
    }

    #[test]
    fn the_most_pairs_are_taken() {
        let pairs: Vec<Pair> = (0..MAX_PAIRS).map(|i| Pair { a: 1.0, b: 1.1 + (i % 7) as f64 / 1000.0 }).collect();
        let comparison = compare(&pairs, LATENCY).unwrap();
        assert_eq!(comparison.verdict, Verdict::Worse);
        assert!((comparison.ratio - 1.103).abs() < 0.001 && comparison.high - comparison.low < 0.001);
    }

    pub(crate) fn pairs() -> impl Strategy<Value = Vec<Pair>> {
        let value = || 0.5..2.0f64;
        let tilted = (0.5..2.0f64, prop::collection::vec((value(), value()), 1..32));
        tilted.prop_map(|(tilt, pairs)| pairs.into_iter().map(|(a, b)| Pair { a, b: b * tilt }).collect())
    }

    pub(crate) fn options() -> impl Strategy<Value = Options> {
        (0.5..0.999f64, 0.0..0.5f64, any::<bool>()).prop_map(|(confidence, smallest_effect_ratio, lower)| Options {
            confidence,
            smallest_effect_ratio,
            better: if lower { Direction::Lower } else { Direction::Higher },
        })
    }

    pub(crate) fn mirrored(verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        }
    }

    pub(crate) fn near(x: f64, y: f64) -> bool {
        x == y || (x / y - 1.0).abs() < 1e-9
    }

    proptest! {
        #[test]
        fn swapping_the_arms_mirrors_the_answer(pairs in pairs(), options in options()) {
            let swapped: Vec<Pair> = pairs.iter().map(|p| Pair { a: p.b, b: p.a }).collect();
            let (one, other) = (compare(&pairs, options).unwrap(), compare(&swapped, options).unwrap());
            prop_assert!(near(one.ratio, 1.0 / other.ratio), "{one:?} {other:?}");
            prop_assert!(near(one.low, 1.0 / other.high) && near(one.high, 1.0 / other.low), "{one:?} {other:?}");
            prop_assert_eq!(one.verdict, mirrored(other.verdict));
            prop_assert_eq!(one.p_value, other.p_value);
            prop_assert_eq!(one.smallest_visible_ratio, other.smallest_visible_ratio);
        }

        #[test]
        fn the_other_direction_mirrors_the_verdict(pairs in pairs(), options in options()) {
            let flipped = match options.better {
                Direction::Lower => Direction::Higher,
                Direction::Higher => Direction::Lower,
            };
            let one = compare(&pairs, options).unwrap();
            let other = compare(&pairs, Options { better: flipped, ..options }).unwrap();
            prop_assert_eq!(one.verdict, mirrored(other.verdict));
        }

        /// Neither the unit nor the level on that day matters, because the test compares only the two windows of each pair.
        #[test]
        fn a_factor_on_both_arms_changes_nothing(pairs in pairs(), factor in 1e-9..1e9f64, options in options()) {
            let scaled: Vec<Pair> = pairs.iter().map(|p| Pair { a: p.a * factor, b: p.b * factor }).collect();
            let (one, other) = (compare(&pairs, options).unwrap(), compare(&scaled, options).unwrap());
            prop_assert!(near(one.ratio, other.ratio) && near(one.low, other.low) && near(one.high, other.high));
            prop_assert_eq!(one.verdict, other.verdict);
        }

        #[test]
        fn a_factor_on_one_arm_is_the_ratio(pairs in pairs(), factor in 0.1..10.0f64, options in options()) {
            let scaled: Vec<Pair> = pairs.iter().map(|p| Pair { a: p.a, b: p.b * factor }).collect();
            let (one, other) = (compare(&pairs, options).unwrap(), compare(&scaled, options).unwrap());
            prop_assert!(near(one.ratio * factor, other.ratio), "{one:?} {other:?}");
            prop_assert!(near(one.smallest_visible_ratio + 1.0, other.smallest_visible_ratio + 1.0));
        }

        #[test]
        fn the_order_of_the_pairs_changes_nothing(pairs in pairs(), options in options()) {
            let reversed: Vec<Pair> = pairs.iter().rev().copied().collect();
            prop_assert_eq!(compare(&pairs, options), compare(&reversed, options));
        }

        #[test]
        fn the_interval_holds_the_estimate_and_grows_with_the_confidence(pairs in pairs(), options in options()) {
            let one = compare(&pairs, options).unwrap();
            prop_assert!(one.low <= one.ratio && one.ratio <= one.high);
            let surer = compare(&pairs, Options { confidence: (1.0 + options.confidence) / 2.0, ..options }).unwrap();
            prop_assert!(surer.low <= one.low && one.high <= surer.high);
        }

        /// Without ties the interval and the test agree: the interval excludes 1 exactly if p is at most alpha.
        #[test]
        fn the_interval_excludes_one_when_the_test_rejects(pairs in pairs(), confidence in 0.5..0.999f64) {
            let one = compare(&pairs, Options { confidence, ..LATENCY }).unwrap();
            prop_assert_eq!(one.low > 1.0 || one.high < 1.0, one.p_value <= 1.0 - confidence);
        }

        #[test]
        fn no_number_makes_it_panic(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20), options in options()) {
            let pairs: Vec<Pair> = values.into_iter().map(|(a, b)| Pair { a, b }).collect();
            if let Ok(comparison) = compare(&pairs, options) {
                prop_assert!(comparison.ratio.is_finite() && (0.0..=1.0).contains(&comparison.p_value));
            }
        }
    }
}
