//! How the tests of `compare` and `boots` make a verdict from an interval; `Sequential` has a rule of its own.
//! The interval is compared with two lines, "no difference" and "the smallest difference that matters".
//! One line alone would not do: a long enough run makes any difference significant, and a short run hides all differences.
//!
//! On the log scale let the interval be `[low, high]`, the estimate `e`, and `L = ln(1 + smallest effect)`:
//!
//! | rule, in this order | verdict | what it says |
//! |---|---|---|
//! | `-L < low` and `high < L` | same | whatever the difference is, it is too small to matter |
//! | `0 < low` and `L <= e` | b is higher | there is a difference, and its best estimate matters |
//! | `high < 0` and `e <= -L` | b is lower | likewise |
//! | otherwise | undecided | this run cannot decide |
//!
//! Two cases need an argument.
//! An interval that excludes 0 but lies wholly within ±L is *same*,
//! because a real difference that is too small is no reason to change a host.
//! An interval that excludes 0 and reaches beyond L, while its estimate does not,
//! is *undecided*: the difference is real, but whether it matters is still open.
//! A stricter rule (the whole interval beyond L) would forever reject a true effect of L or slightly more.
//! A weaker rule would claim effects that the user called too small.
//!
//! Both claims need the interval to exclude 0.
//! So two equal arms are called different at most as often as the interval errs, whatever the smallest effect.
//! *Same* errs if the truth is L or more but the interval lies within ±L.
//! In that case one end of the interval is wrong, which happens at most half as often.

use serde::{Deserialize, Serialize};

/// The verdict on B against A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, and the best guess is that the difference matters.
    Better,
    /// B is worse, and the best guess is that the difference matters.
    Worse,
    /// Any difference is smaller than the smallest that matters.
    Same,
    /// The run cannot decide.
    Undecided,
}

/// Which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Lower is better, as for a latency.
    Lower,
    /// Higher is better, as for a throughput.
    Higher,
}

/// An estimate of `ln(b / a)` with its interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEffect {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl LogEffect {
    /// The verdict by the rules at the head of this file; `smallest` is a share, 0 or more (0 never gives `Same`).
    pub(crate) fn verdict(self, smallest: f64, better: Direction) -> Verdict {
        let matters = smallest.ln_1p();
        let (b_is_higher, b_is_lower) = match better {
            Direction::Higher => (Verdict::Better, Verdict::Worse),
            Direction::Lower => (Verdict::Worse, Verdict::Better),
        };
        if -matters < self.low && self.high < matters {
            Verdict::Same
        } else if 0.0 < self.low && matters <= self.estimate {
            b_is_higher
        } else if self.high < 0.0 && self.estimate <= -matters {
            b_is_lower
        } else {
            Verdict::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    const SMALLEST: f64 = 0.05;

    /// Builds the effect from ratios, which are easier to read than logarithms.
    fn effect(low: f64, estimate: f64, high: f64) -> LogEffect {
        LogEffect { estimate: estimate.ln(), low: low.ln(), high: high.ln() }
    }

    #[test]
    fn the_rules_row_by_row() {
        let rows = [
            ("no difference, narrow", [0.98, 1.00, 1.02]),
            ("no difference, wide", [0.90, 1.00, 1.11]),
            ("real but too small to matter", [1.01, 1.02, 1.03]),
            ("real, estimate too small", [1.01, 1.04, 1.08]),
            ("real, estimate matters", [1.02, 1.06, 1.10]),
            ("all of it matters", [1.08, 1.10, 1.12]),
            ("estimate matters, not shown", [0.99, 1.10, 1.22]),
            ("lower, all of it matters", [0.80, 0.82, 0.84]),
            ("lower, estimate matters", [0.90, 0.94, 0.98]),
            ("lower, real but too small", [0.96, 0.98, 0.99]),
            ("ends at the smallest effect", [1.00, 1.02, 1.05]),
            ("too few pairs", [0.0, 0.5, f64::INFINITY]),
        ];
        let mut table = String::new();
        for (name, [low, estimate, high]) in rows {
            let effect = effect(low, estimate, high);
            let [lower, higher] = [Direction::Lower, Direction::Higher].map(|way| effect.verdict(SMALLEST, way));
            table += &format!("{name:29} lower is better: {lower:9?} higher is better: {higher:?}\n");
        }
        expect![[r#"
            no difference, narrow         lower is better: Same higher is better: Same
            no difference, wide           lower is better: Undecided higher is better: Undecided
            real but too small to matter  lower is better: Same higher is better: Same
            real, estimate too small      lower is better: Undecided higher is better: Undecided
            real, estimate matters        lower is better: Worse higher is better: Better
            all of it matters             lower is better: Worse higher is better: Better
            estimate matters, not shown   lower is better: Undecided higher is better: Undecided
            lower, all of it matters      lower is better: Better higher is better: Worse
            lower, estimate matters       lower is better: Better higher is better: Worse
            lower, real but too small     lower is better: Same higher is better: Same
            ends at the smallest effect   lower is better: Undecided higher is better: Undecided
            too few pairs                 lower is better: Undecided higher is better: Undecided
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn without_a_smallest_effect_nothing_is_the_same() {
        assert_eq!(effect(1.0, 1.0, 1.0).verdict(0.0, Direction::Lower), Verdict::Undecided);
        assert_eq!(effect(1.001, 1.002, 1.003).verdict(0.0, Direction::Lower), Verdict::Worse);
    }

    proptest! {
        #[test]
        fn a_claim_needs_an_interval_without_zero(
            mut ends in prop::array::uniform3(-1.0..1.0f64),
            smallest in 0.0..1.0f64,
        ) {
            ends.sort_unstable_by(f64::total_cmp);
            let [low, estimate, high] = ends;
            let verdict = LogEffect { low, estimate, high }.verdict(smallest, Direction::Higher);
            prop_assert!(verdict != Verdict::Better || low > 0.0);
            prop_assert!(verdict != Verdict::Worse || high < 0.0);
            prop_assert!(verdict != Verdict::Same || estimate.abs().exp() < 1.0 + smallest);
        }
    }
}
