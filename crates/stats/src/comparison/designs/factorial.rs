//! Factorial designs for the few remaining knobs: every combination,
//! or a fraction in which no knob and no pair of knobs is confused with another.

use super::{Design, DesignError, Level};

/// The maximum number of knobs of [`factorial`].
pub const FACTORIAL_FACTORS_MAX: usize = 8;

/// The design has every combination of up to four knobs.
/// The design has half of the combinations for five, six and seven knobs, and a quarter for eight: at most 64 rows.
/// Main effects and pair effects can be separated
/// (resolution V or more; Box & Hunter, "The 2^(k-p) Fractional Factorial Designs", 1961).
///
/// # Errors
/// Fails for no knobs, and for more than [`FACTORIAL_FACTORS_MAX`].
pub fn factorial(factors: usize) -> Result<Design, DesignError> {
    // Each further column is the product of some of the free columns.
    let (free, products): (usize, &[&[usize]]) = match factors {
        1..=4 => (factors, &[]),
        5 => (4, &[&[0, 1, 2, 3]]),
        6 => (5, &[&[0, 1, 2, 3, 4]]),
        7 => (6, &[&[0, 1, 2, 3, 4, 5]]),
        8 => (6, &[&[0, 1, 2, 3], &[0, 1, 4, 5]]),
        _ => return Err(DesignError::Factors { factors, most: FACTORIAL_FACTORS_MAX }),
    };
    let rows = (0..1_usize << free).map(|number| {
        let mut row: Vec<Level> = (0..free).map(|bit| Level::from_bool(number >> bit & 1 == 1)).collect();
        for product in products {
            let low = product.iter().filter(|factor| row[**factor] == Level::Low).count();
            row.push(Level::from_bool(low % 2 == 0));
        }
        row
    });
    Ok(Design::new(factors, rows.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_and_pairs_of_knobs_are_separated() {
        let sizes = [2, 4, 8, 16, 16, 32, 64, 64];
        for (factors, size) in (1..=FACTORIAL_FACTORS_MAX).zip(sizes) {
            let design = factorial(factors).unwrap();
            assert_eq!(design.rows().len(), size, "{factors} knobs");
            let mains = (0..factors).map(|a| vec![a]);
            let pairs = (0..factors).flat_map(|a| (0..a).map(move |b| vec![a, b]));
            let columns: Vec<Vec<f64>> = mains
                .chain(pairs)
                .map(|term| design.rows().iter().map(|row| term.iter().map(|f| row[*f].sign()).product()).collect())
                .collect();
            for (at, column) in columns.iter().enumerate() {
                assert_eq!(column.iter().sum::<f64>(), 0.0, "{factors} knobs: term {at} is balanced");
                for other in &columns[..at] {
                    let dot: f64 = column.iter().zip(other).map(|(x, y)| x * y).sum();
                    assert_eq!(dot, 0.0, "{factors} knobs: term {at}");
                }
            }
        }
        assert!(factorial(0).is_err() && factorial(9).is_err());
    }
}
