//! Corrections that limit the error of many claims together, for example about many knobs.
//! Twenty settings without effect, each tested at 5 %, give a false winner in 64 runs of 100.

use crate::comparison::error::StatsError;

/// Returns for each e-value, in the given order, whether it may be claimed.
/// The expected share of false claims is at most `error` (0.05 is usual).
/// The function claims the k largest e-values, for the largest k for which each of the k is at least n / (k error)
/// (R. Wang, A. Ramdas, "False discovery rate control with e-values", JRSS B 2022).
/// The e-values may depend on each other in any way, so all tests may share one baseline.
///
/// # Errors
/// Fails when a value is negative or not a number, or `error` is not strictly between 0 and 1.
///
/// ```
/// use evenkeel_stats::e_benjamini_hochberg;
///
/// // A single e-value of 25 is enough at 5 %. Among four e-values, one must reach 80, or two must reach 40 each.
/// assert_eq!(e_benjamini_hochberg(&[25.0, 0.1, 1.0, 0.5], 0.05)?, [false; 4]);
/// assert_eq!(e_benjamini_hochberg(&[45.0, 0.1, 41.0, 0.5], 0.05)?, [true, false, true, false]);
/// # Ok::<(), evenkeel_stats::StatsError>(())
/// ```
pub fn e_benjamini_hochberg(e_values: &[f64], error: f64) -> Result<Vec<bool>, StatsError> {
    check_error(error)?;
    for (index, &value) in e_values.iter().enumerate() {
        if value.is_nan() || value < 0.0 {
            return Err(StatsError::EValue { index, value });
        }
    }
    let mut falling = e_values.to_vec();
    falling.sort_unstable_by(|x, y| y.total_cmp(x));
    let count = e_values.len() as f64;
    let last = falling.iter().enumerate().rev().find(|&(before, value)| value * (before + 1) as f64 * error >= count);
    // Equal values are claimed together: if one of them is large enough for its k, the others are large enough for a larger k.
    Ok(e_values.iter().map(|value| last.is_some_and(|(_, least)| value >= least)).collect())
}

/// Returns for each p-value, in the given order, whether it may be claimed.
/// The probability of any false claim is at most `error`.
/// In rising order, the function claims p-values as long as the k-th of n is at most error / (n - k + 1)
/// (S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979).
/// The p-values may depend on each other in any way. An e-value above 1 gives the p-value 1 / e.
///
/// # Errors
/// Fails when a value is not from 0 to 1, or `error` is not strictly between 0 and 1.
///
/// ```
/// # use evenkeel_stats::holm;
/// assert_eq!(holm(&[0.04, 0.001, 0.02, 0.2], 0.05)?, [false, true, false, false]);
/// # Ok::<(), evenkeel_stats::StatsError>(())
/// ```
pub fn holm(p_values: &[f64], error: f64) -> Result<Vec<bool>, StatsError> {
    check_error(error)?;
    if let Some((index, &value)) = p_values.iter().enumerate().find(|(_, value)| !(0.0..=1.0).contains(*value)) {
        return Err(StatsError::PValue { index, value });
    }
    let mut rising = p_values.to_vec();
    rising.sort_unstable_by(f64::total_cmp);
    let left = (1..=p_values.len()).rev();
    let first_kept =
        rising.iter().zip(left).find(|&(value, left)| value * left as f64 > error).map(|(value, _)| *value);
    // Equal values are claimed together, because the bound rises with each step. The first value that fails ends the claims.
    Ok(p_values.iter().map(|value| first_kept.is_none_or(|kept| *value < kept)).collect())
}

fn check_error(error: f64) -> Result<(), StatsError> {
    if error > 0.0 && error < 1.0 { Ok(()) } else { Err(StatsError::ErrorRate(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_values_give_no_claims() {
        assert_eq!(e_benjamini_hochberg(&[], 0.05), Ok(vec![]));
        assert_eq!(holm(&[], 0.05), Ok(vec![]));
    }

    #[test]
    fn a_single_claim_needs_only_its_own_test() {
        for (e_value, claimed) in [(0.0, false), (19.9, false), (20.0, true), (f64::INFINITY, true)] {
            assert_eq!(e_benjamini_hochberg(&[e_value], 0.05), Ok(vec![claimed]), "{e_value}");
        }
        for (p_value, claimed) in [(0.0, true), (0.05, true), (0.0501, false), (1.0, false)] {
            assert_eq!(holm(&[p_value], 0.05), Ok(vec![claimed]), "{p_value}");
        }
    }

    #[test]
    fn unknown_values_are_named() {
        let said = |result: Result<Vec<bool>, StatsError>| result.unwrap_err().to_string();
        assert_eq!(said(e_benjamini_hochberg(&[1.0, -1.0], 0.05)), "e-value 1 is -1, not a number of 0 or more");
        assert_eq!(said(e_benjamini_hochberg(&[f64::NAN], 0.05)), "e-value 0 is NaN, not a number of 0 or more");
        assert_eq!(said(holm(&[0.5, 1.1], 0.05)), "p-value 1 is 1.1, not a number from 0 to 1");
        assert_eq!(said(holm(&[f64::NAN], 0.05)), "p-value 0 is NaN, not a number from 0 to 1");
        for error in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(said(holm(&[0.5], error)).starts_with("an error of "));
            assert!(said(e_benjamini_hochberg(&[1.0], error)).starts_with("an error of "));
        }
    }

    /// The definition of a self-consistent set: the largest set in which each value is at least n / (k error).
    fn largest_consistent(e_values: &[f64], error: f64) -> usize {
        let sets = 0_u32..1 << e_values.len();
        let consistent = |set: &u32| {
            (0..).zip(e_values).all(|(i, value)| {
                set >> i & 1 == 0 || value * f64::from(set.count_ones()) * error >= e_values.len() as f64
            })
        };
        sets.filter(consistent).map(|set| set.count_ones() as usize).max().unwrap_or(0)
    }

    /// The closed test: it rejects a hypothesis if it rejects every set that contains the hypothesis.
    /// The closed test tests a set by the smallest p-value in the set times the size of the set.
    fn closed_bonferroni(p_values: &[f64], error: f64, at: usize) -> bool {
        (0_u32..1 << p_values.len()).filter(|set| set >> at & 1 == 1).all(|set| {
            let members = || (0..).zip(p_values).filter(move |(i, _)| set >> i & 1 == 1).map(|(_, value)| *value);
            members().fold(f64::INFINITY, f64::min) * members().count() as f64 <= error
        })
    }

    proptest! {
        #[test]
        fn the_largest_set_that_bears_itself_out(
            e_values in prop::collection::vec(prop_oneof![0.0..200.0f64, (0..8).prop_map(|i| 20.0 * f64::from(i))], 0..9),
        ) {
            let claimed = e_benjamini_hochberg(&e_values, 0.05).unwrap();
            prop_assert_eq!(claimed.iter().filter(|one| **one).count(), largest_consistent(&e_values, 0.05));
            let least = e_values.iter().zip(&claimed).filter(|(_, one)| **one).map(|(e, _)| *e).fold(f64::INFINITY, f64::min);
            prop_assert!(e_values.iter().zip(&claimed).all(|(e, one)| *one == (*e >= least)));
        }

        #[test]
        fn holm_is_the_closed_test(
            p_values in prop::collection::vec(prop_oneof![0.0..0.1f64, (0..9).prop_map(|i| f64::from(i) / 128.0), 0.0..1.0f64], 0..8),
        ) {
            let claimed = holm(&p_values, 0.0625).unwrap();
            for (at, one) in claimed.iter().enumerate() {
                prop_assert_eq!(*one, closed_bonferroni(&p_values, 0.0625, at), "{}", at);
            }
        }

        #[test]
        fn more_evidence_never_takes_a_claim_away(
            e_values in prop::collection::vec(0.0..200.0f64, 1..20), at in any::<prop::sample::Index>(), more in 0.0..100.0f64,
        ) {
            let mut stronger = e_values.clone();
            stronger[at.index(e_values.len())] += more;
            let (before, after) = (e_benjamini_hochberg(&e_values, 0.05).unwrap(), e_benjamini_hochberg(&stronger, 0.05).unwrap());
            prop_assert!(before.iter().zip(&after).all(|(before, after)| after >= before));
        }
    }
}
