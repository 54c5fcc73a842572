//! Exact quantiles of a few numbers, such as the numbers of a trial's windows.
//! For millions of durations use [`Histogram`](crate::Histogram).

/// The quantile `q` (0 to 1) of `values`, in their own unit and in any order.
/// The function interpolates linearly between order statistics at position `q * (n - 1)`: type 7 of Hyndman & Fan,
/// "Sample Quantiles in Statistical Packages" (The American Statistician, 1996), the default of R and NumPy.
///
/// `None` when `values` is empty, when one of them is infinite or not a number, and when `q` is not within 0 to 1.
///
/// ```
/// # use evenkeel_stats::quantile;
/// assert_eq!(quantile(&[40.0, 10.0, 20.0, 30.0], 0.5), Some(25.0));
/// assert_eq!(quantile(&[40.0, 10.0, f64::NAN], 0.5), None);
/// ```
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=1.0).contains(&q) || !values.iter().all(|v| v.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let position = q * (sorted.len() - 1) as f64;
    // `q` is at most 1, so the floor and the ceiling of the position are indices of `sorted`.
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    let share = position.fract();
    // A weighted sum, because the difference in `below + share * (above - below)` can overflow.
    // The clamp removes a rounding error of the last bit.
    Some((below * (1.0 - share) + above * share).clamp(below, above))
}

/// The median of `values`, in their own unit; `None` as for [`quantile`].
///
/// ```
/// # use evenkeel_stats::median;
/// assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
/// ```
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The median absolute deviation from the median, in the unit of `values`;
/// `None` as for [`quantile`], or when a deviation is too large for a double.
///
/// The result is not scaled. Multiplied by 1.4826, it estimates the standard deviation of normal noise.
///
/// ```
/// # use evenkeel_stats::median_absolute_deviation;
/// assert_eq!(median_absolute_deviation(&[1.0, 2.0, 3.0, 4.0, 1000.0]), Some(1.0));
/// ```
#[must_use]
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let center = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|v| (v - center).abs()).collect();
    median(&deviations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_those_of_r() {
        // Computed in R by quantile(c(15, 20, 35, 40, 50), c(0, .25, .4, .9, 1)); median; mad(..., constant = 1)
        let values = [50.0, 15.0, 40.0, 20.0, 35.0];
        let row = [0.0, 0.25, 0.4, 0.9, 1.0].map(|q| quantile(&values, q).unwrap());
        let spread = (median(&values), median_absolute_deviation(&values));
        expect!["[15.0, 20.0, 29.0, 46.0, 50.0] (Some(35.0), Some(15.0))"].assert_eq(&format!("{row:?} {spread:?}"));
    }

    #[test]
    fn no_quantile_gives_none() {
        for (values, q) in [
            (&[][..], 0.5),
            (&[1.0, f64::NAN], 0.5),
            (&[1.0, f64::INFINITY], 0.5),
            (&[1.0], -0.1),
            (&[1.0], 1.1),
            (&[1.0], f64::NAN),
        ] {
            assert_eq!(quantile(values, q), None, "{values:?} at {q}");
        }
        assert_eq!(median_absolute_deviation(&[]), None);
        assert_eq!(median_absolute_deviation(&[-f64::MAX, f64::MAX, f64::MAX]), None);
    }

    proptest! {
        #[test]
        fn quantile_grows_with_q_and_stays_within_the_values(
            values in prop::collection::vec(-1e308..1e308f64, 1..40),
            (p, q) in (0.0..=1.0, 0.0..=1.0),
        ) {
            let (low, high) = (quantile(&values, f64::min(p, q)).unwrap(), quantile(&values, f64::max(p, q)).unwrap());
            prop_assert!(quantile(&values, 0.0).unwrap() <= low && low <= high);
            prop_assert!(high <= quantile(&values, 1.0).unwrap());
        }
    }
}
