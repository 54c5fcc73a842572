//! Student's t: how often noise alone would look as large as an estimate with this many degrees of freedom for its error.

/// Two-sided p-value of `t` with `degrees` of freedom, at least 1. NaN gives 1, because it is not evidence.
pub(crate) fn two_sided_p_value(t: f64, degrees: usize) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    let degrees = degrees.max(1) as f64;
    let x = degrees / (degrees + t * t);
    incomplete_beta(x, degrees / 2.0, 0.5).clamp(0.0, 1.0)
}

/// The regularised incomplete beta function, by Lentz's continued fraction ("Numerical Recipes", 6.4).
pub(crate) fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges fast on one side of the mean; the other side is the complement.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const STEPS_MAX: usize = 300;
    const TINY: f64 = 1e-300;
    let away = |number: f64| if number.abs() < TINY { TINY } else { number };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=STEPS_MAX {
        let m = step as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        let change = d * c;
        value *= change;
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_tables_come_out() {
        // Two-sided quantiles from textbooks.
        for (t, degrees, p) in [
            (12.706, 1, 0.05),
            (4.303, 2, 0.05),
            (2.228, 10, 0.05),
            (3.169, 10, 0.01),
            (2.042, 30, 0.05),
            (1.984, 100, 0.05),
            (2.576, 1_000_000, 0.01),
            (0.0, 5, 1.0),
        ] {
            let found = two_sided_p_value(t, degrees);
            assert!((found - p).abs() < 0.02 * p, "t {t} with {degrees}: {found}");
            assert_eq!(found, two_sided_p_value(-t, degrees));
        }
        assert_eq!(two_sided_p_value(f64::NAN, 3), 1.0);
        assert_eq!(two_sided_p_value(f64::INFINITY, 3), 0.0);
    }
}
