//! The guarantees of the sequential test: exact cases in a table, and properties that hold for any pairs.

use super::*;
use crate::comparison::compare::tests::{mirrored, near, options, pairs};
use expect_test::{Expect, expect};
use proptest::prelude::*;

const LATENCY: Options = Options { confidence: 0.95, smallest_effect_ratio: 0.05, better: Direction::Lower };

fn result_of(pairs: &[Pair], options: Options) -> Sequential {
    let mut test = Sequential::new(options).unwrap();
    pairs.iter().for_each(|pair| test.add(*pair).unwrap());
    test
}

fn check(pairs: &[(f64, f64)], expect: Expect) {
    let pairs: Vec<Pair> = pairs.iter().map(|&(a, b)| Pair { a, b }).collect();
    expect.assert_eq(&serde_json::to_string(&result_of(&pairs, LATENCY).look()).unwrap());
}

#[test]
fn looks() {
    check(
        &[],
        expect![[
            r#"{"pairs":0,"e_value":0.5,"ratio":null,"low":0.0,"high":null,"verdict":"undecided","decided":false,"smallest_visible_ratio":null}"#
        ]],
    );
    check(
        &[(1.0, 2.0)],
        expect![[
            r#"{"pairs":1,"e_value":0.798,"ratio":2.0,"low":0.0,"high":null,"verdict":"undecided","decided":false,"smallest_visible_ratio":null}"#
        ]],
    );
    check(
        &[(1.0, 2.0); 6],
        expect![[
            r#"{"pairs":6,"e_value":12.1385086042346,"ratio":2.0,"low":0.0,"high":null,"verdict":"undecided","decided":false,"smallest_visible_ratio":null}"#
        ]],
    );
    check(
        &[(1.0, 2.0); 7],
        expect![[
            r#"{"pairs":7,"e_value":22.049211195628097,"ratio":2.0,"low":1.9999999999999998,"high":2.0,"verdict":"worse","decided":true,"smallest_visible_ratio":1.1102230246251565e-16}"#
        ]],
    );
    check(
        &[(1.0, 1.0); 6],
        expect![[
            r#"{"pairs":6,"e_value":0.5,"ratio":1.0,"low":0.0,"high":null,"verdict":"undecided","decided":false,"smallest_visible_ratio":null}"#
        ]],
    );
    check(
        &[(1.0, 1.0); 7],
        expect![[
            r#"{"pairs":7,"e_value":0.5,"ratio":1.0,"low":1.0,"high":1.0,"verdict":"same","decided":true,"smallest_visible_ratio":8.881784197001252e-22}"#
        ]],
    );
    check(
        &[(10.0, 9.0), (20.0, 17.0), (30.0, 27.5), (11.0, 9.8), (21.0, 19.0), (8.0, 8.1), (9.0, 8.0)],
        expect![[
            r#"{"pairs":7,"e_value":2.2886222096794357,"ratio":0.9011881213984246,"low":0.8500000000000001,"high":1.0162146113311106,"verdict":"undecided","decided":false,"smallest_visible_ratio":0.0934105366082825}"#
        ]],
    );
    check(
        &[(1e-150, 1e150); 40],
        expect![[
            r#"{"pairs":40,"e_value":61409159311.370575,"ratio":9.999999999999763e+299,"low":9.999999999998627e+299,"high":1.00000000000009e+300,"verdict":"worse","decided":true,"smallest_visible_ratio":1.136868377216225e-13}"#
        ]],
    );
}

#[test]
fn a_pair_that_is_refused_leaves_the_test_as_it_was() {
    let mut test = result_of(&[Pair { a: 1.0, b: 1.1 }; 3], LATENCY);
    let before = test.look();
    let error = test.add(Pair { a: 1.0, b: 0.0 }).unwrap_err();
    assert_eq!(error.to_string(), "b of pair 3 is 0.0, not a number from 1e-150 to 1e150");
    assert_eq!(test.look(), before);
    assert!(Sequential::new(Options { confidence: 1.0, ..LATENCY }).is_err());
    assert!(Sequential::new(Options { smallest_effect_ratio: -1.0, ..LATENCY }).is_err());
}

/// An e-value promises that the mean wealth over all outcomes of the coins stays at its initial value, at every look.
#[test]
fn the_mean_wealth_over_all_orders_is_the_initial_wealth() {
    const SIZES: [f64; 10] = [0.3, 0.0, 0.01, 2.0, 0.31, 0.02, 0.5, 9.0, 0.3, 0.1];
    for theta in [0.0, 0.25] {
        for pairs in 1..=SIZES.len() {
            let mean = (0_u32..1 << pairs).map(|coins| {
                let mut asked = Asked::new(theta);
                let mut past = Vec::new();
                for (pair, size) in SIZES[..pairs].iter().enumerate() {
                    let log_ratio = theta + if coins >> pair & 1 == 1 { *size } else { -size };
                    asked.bet(log_ratio, scale_of(&past), f64::INFINITY);
                    past.push(log_ratio);
                    past.sort_unstable_by(f64::total_cmp);
                }
                asked.above.wealth.sum() / f64::from(1 << pairs)
            });
            assert!((mean.sum::<f64>() - 1.0).abs() < 1e-9, "{theta} {pairs}");
        }
    }
}

#[test]
fn an_effect_that_turned_is_not_decided() {
    let up = [Pair { a: 1.0, b: 1.2 }; 12];
    let down = [Pair { a: 1.2, b: 1.0 }; 40];
    let test = result_of(&[&up[..], &down[..]].concat(), LATENCY);
    let look = test.look();
    assert_eq!((look.verdict, look.decided), (Verdict::Undecided, false));
    assert!(look.low < 0.9 && look.high > 1.1, "{look:?}");
}

#[test]
fn the_most_pairs_are_taken() {
    let mut test = Sequential::new(LATENCY).unwrap();
    for i in 0..500 {
        test.add(Pair { a: 1.0, b: 1.1 + f64::from(i % 7) / 1000.0 }).unwrap();
    }
    test.log_ratios.resize(MAX_PAIRS, 0.1);
    assert_eq!(test.add(Pair { a: 1.0, b: 1.0 }), Err(StatsError::TooManyPairs { pairs: MAX_PAIRS + 1 }));
}

proptest! {
    #[test]
    fn swapping_the_arms_mirrors_the_answer(pairs in pairs(), options in options()) {
        let swapped: Vec<Pair> = pairs.iter().map(|p| Pair { a: p.b, b: p.a }).collect();
        let (one, other) = (result_of(&pairs, options).look(), result_of(&swapped, options).look());
        prop_assert!(near(one.ratio, 1.0 / other.ratio), "{one:?} {other:?}");
        prop_assert!(near(one.low, 1.0 / other.high) && near(one.high, 1.0 / other.low), "{one:?} {other:?}");
        prop_assert_eq!(one.verdict, mirrored(other.verdict));
        prop_assert_eq!(one.e_value, other.e_value);
    }

    /// Neither the unit nor the level on that day matters, because the test compares only the two windows of each pair.
    #[test]
    fn a_factor_on_both_arms_changes_nothing(pairs in pairs(), factor in 1e-9..1e9f64) {
        let scaled: Vec<Pair> = pairs.iter().map(|p| Pair { a: p.a * factor, b: p.b * factor }).collect();
        let (one, other) = (result_of(&pairs, LATENCY).look(), result_of(&scaled, LATENCY).look());
        prop_assert!(near(one.ratio, other.ratio) && near(one.low, other.low) && near(one.high, other.high));
        prop_assert!(near(one.e_value, other.e_value));
    }

    #[test]
    fn a_factor_on_one_arm_moves_the_interval_by_it(pairs in pairs(), factor in 0.1..10.0f64) {
        // There is no smallest effect here, because the lines of a smallest effect would not move with the factor.
        let options = Options { smallest_effect_ratio: 0.0, ..LATENCY };
        let scaled: Vec<Pair> = pairs.iter().map(|p| Pair { a: p.a, b: p.b * factor }).collect();
        let (one, other) = (result_of(&pairs, options).look(), result_of(&scaled, options).look());
        prop_assert!(near(one.ratio * factor, other.ratio), "{one:?} {other:?}");
        prop_assert!(near(one.low * factor, other.low) && near(one.high * factor, other.high), "{one:?} {other:?}");
    }

    #[test]
    fn the_interval_holds_the_estimate_and_grows_with_the_confidence(pairs in pairs(), options in options()) {
        let one = result_of(&pairs, options);
        let look = one.look();
        prop_assert!(look.low <= look.ratio && look.ratio <= look.high, "{look:?}");
        let surer = result_of(&pairs, Options { confidence: (1.0 + options.confidence) / 2.0, ..options });
        let ((above, below), (surer_above, surer_below)) = (one.ends(), surer.ends());
        prop_assert!(surer_above <= above && below <= surer_below);
    }

    /// An effect excluded at one look stays excluded, unless the other side also excludes it.
    #[test]
    fn verdict_and_interval_say_the_same(pairs in pairs(), options in options()) {
        let test = result_of(&pairs, options);
        let (look, line) = (test.look(), 1.0 + options.smallest_effect_ratio);
        prop_assert_eq!(look.decided, look.verdict != Verdict::Undecided);
        match (look.verdict, options.better) {
            (Verdict::Same, _) => prop_assert!(1.0 / line <= look.low * (1.0 + 1e-12) && look.high <= line * (1.0 + 1e-12)),
            (Verdict::Better, Direction::Higher) | (Verdict::Worse, Direction::Lower) => {
                prop_assert!(look.low >= 1.0 && look.ratio > 1.0 && look.ratio >= line.sqrt() * (1.0 - 1e-12));
            }
            (Verdict::Better, Direction::Lower) | (Verdict::Worse, Direction::Higher) => {
                prop_assert!(look.high <= 1.0 && look.ratio < 1.0 && look.ratio <= (1.0 + 1e-12) / line.sqrt());
            }
            (Verdict::Undecided, _) => {}
        }
    }

    /// This property lets bisection find the ends of the interval.
    #[test]
    fn effects_beyond_an_excluded_one_are_excluded(pairs in pairs(), theta in -1.0..1.0f64, further in 0.0..1.0f64) {
        let test = result_of(&pairs, Options { confidence: 0.6, ..LATENCY });
        prop_assert!(!test.excludes(theta, 1.0) || test.excludes(theta - further, 1.0));
    }

    #[test]
    fn no_number_makes_it_panic(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..40), options in options()) {
        let mut test = Sequential::new(options).unwrap();
        for (a, b) in values {
            let _refused_or_not = test.add(Pair { a, b });
            let look = test.look();
            prop_assert!(look.e_value >= 0.0 && look.low <= look.high);
        }
    }
}
