//! Plackett–Burman designs: the columns of a Hadamard matrix, any two of which agree in exactly half of the rows.
//! Paley's constructions give most orders. Doubling a smaller matrix gives the rest.

use super::{Design, DesignError, Level};

/// The maximum number of knobs of [`screening`]: more than any machine has.
pub const SCREENING_FACTORS_MAX: usize = 127;

/// A design for `factors` knobs in the fewest rows that separate their main effects: a multiple of four, above the number of knobs.
/// Every knob is on in half of the rows, and for any two knobs each combination is equally frequent.
/// Measure each row next to its mirror image ([`Design::mirror_of`]).
///
/// # Errors
/// Fails for no knobs, and for more than [`SCREENING_FACTORS_MAX`].
///
/// ```
/// use evenkeel_stats::designs::screening;
///
/// let design = screening(30)?;
/// assert_eq!(design.rows().len(), 32);
/// assert_eq!(screening(11)?.rows().len(), 12);
/// # Ok::<(), evenkeel_stats::designs::DesignError>(())
/// ```
pub fn screening(factors: usize) -> Result<Design, DesignError> {
    let wrong = DesignError::Factors { factors, most: SCREENING_FACTORS_MAX };
    if factors == 0 || factors > SCREENING_FACTORS_MAX {
        return Err(wrong);
    }
    let least = (factors / 4 + 1) * 4;
    let square = (least..=SCREENING_FACTORS_MAX + 1).step_by(4).find_map(hadamard).ok_or(wrong)?;
    let rows = square.iter().map(|row| {
        // Rows are flipped so that the first column is all ones. That column belongs to the mean; the others belong to the knobs.
        let first = row[0];
        row[1..=factors].iter().map(|entry| Level::from_bool(*entry == first)).collect()
    });
    Ok(Design::new(factors, rows.collect()))
}

/// A Hadamard matrix of this order as signs (true is 1), if a construction in this file gives one.
fn hadamard(order: usize) -> Option<Vec<Vec<bool>>> {
    match order {
        1 => Some(vec![vec![true]]),
        2 => Some(vec![vec![true, true], vec![true, false]]),
        _ if !order.is_multiple_of(4) => None,
        _ => paley_one(order).or_else(|| doubled(order)).or_else(|| paley_two(order)),
    }
}

/// Sylvester's construction: `[H H; H -H]`.
fn doubled(order: usize) -> Option<Vec<Vec<bool>>> {
    let half = hadamard(order / 2)?;
    let side_by_side =
        |row: &Vec<bool>, same: bool| row.iter().copied().chain(row.iter().map(|e| *e == same)).collect();
    Some(
        half.iter().map(|row| side_by_side(row, true)).chain(half.iter().map(|row| side_by_side(row, false))).collect(),
    )
}

/// Paley's first construction, for a prime `order - 1` congruent to 3 modulo 4.
fn paley_one(order: usize) -> Option<Vec<Vec<bool>>> {
    let prime = order - 1;
    if !is_prime(prime) || prime % 4 != 3 {
        return None;
    }
    let squares = squares(prime);
    let entry = |row: usize, column: usize| match (row, column) {
        (0, _) => true,
        (_, 0) => false,
        _ if row == column => true,
        _ => squares[(prime + row - column) % prime],
    };
    Some((0..order).map(|row| (0..order).map(|column| entry(row, column)).collect()).collect())
}

/// Paley's second construction, for a prime `order / 2 - 1` congruent to 1 modulo 4.
fn paley_two(order: usize) -> Option<Vec<Vec<bool>>> {
    let prime = (order / 2).checked_sub(1)?;
    if !is_prime(prime) || prime % 4 != 1 {
        return None;
    }
    let squares = squares(prime);
    let entry = |row: usize, column: usize| {
        let (outer, inner) = ((row / 2, column / 2), (row % 2, column % 2));
        if outer.0 == outer.1 {
            // The block for a 0 of the symmetric matrix.
            return inner == (0, 0);
        }
        let one = outer.0 == 0 || outer.1 == 0 || squares[(prime + outer.0 - outer.1) % prime];
        // The block for a 1, and its negative for a -1.
        (inner != (1, 1)) == one
    };
    Some((0..order).map(|row| (0..order).map(|column| entry(row, column)).collect()).collect())
}

/// The nonzero squares modulo this number.
fn squares(prime: usize) -> Vec<bool> {
    let mut squares = vec![false; prime];
    for number in 1..prime {
        squares[number * number % prime] = true;
    }
    squares
}

fn is_prime(number: usize) -> bool {
    number > 1 && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dot(design: &Design, a: usize, b: usize) -> f64 {
        design.rows().iter().map(|row| row[a].sign() * row[b].sign()).sum()
    }

    #[test]
    fn every_number_of_knobs_has_a_design_that_is_balanced_and_orthogonal() {
        for factors in 1..=SCREENING_FACTORS_MAX {
            let design = screening(factors).unwrap();
            let rows = design.rows().len();
            assert!(rows > factors && rows.is_multiple_of(4) && rows <= factors + 8, "{factors} knobs in {rows} rows");
            for a in 0..factors {
                let on = design.rows().iter().filter(|row| row[a] == Level::High).count();
                assert_eq!(on * 2, rows, "knob {a} of {factors} is on in half of the rows");
                for b in 0..a {
                    assert_eq!(dot(&design, a, b), 0.0, "knobs {a} and {b} of {factors}");
                }
            }
        }
    }

    #[test]
    fn the_fewest_rows_are_those_of_the_literature() {
        let rows =
            [3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47].map(|factors| screening(factors).unwrap().rows().len());
        assert_eq!(rows, [4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48]);
    }

    #[test]
    fn impossible_designs_are_refused() {
        for factors in [0, SCREENING_FACTORS_MAX + 1, usize::MAX] {
            let message = screening(factors).unwrap_err().to_string();
            assert_eq!(message, format!("design windows for {factors} knobs: from 1 to 127 is possible"));
        }
    }

    proptest! {
        #[test]
        fn another_draw_is_as_good(factors in 1..60_usize, seed: u64) {
            let design = screening(factors).unwrap();
            let redrawn = design.redrawn(seed);
            prop_assert_eq!(&redrawn, &design.redrawn(seed));
            prop_assert_eq!(redrawn.rows().len(), design.rows().len());
            for a in 0..factors {
                // A flipped column has ones in place of zeros, and half of its rows are ones as before.
                let on = redrawn.rows().iter().filter(|row| row[a] == Level::High).count();
                prop_assert_eq!(on * 2, redrawn.rows().len());
                for b in 0..a {
                    prop_assert_eq!(dot(&redrawn, a, b), 0.0);
                }
            }
        }

        #[test]
        fn with_mirror_images_no_pair_of_knobs_looks_like_a_knob(factors in 3..40_usize, seed: u64) {
            let design = screening(factors).unwrap().redrawn(seed);
            let whole: Vec<Vec<Level>> =
                design.rows().iter().flat_map(|row| [row.clone(), Design::mirror_of(row)]).collect();
            let [a, b, c] = [0, factors / 2, factors - 1];
            let sum: f64 = whole.iter().map(|row| row[a].sign() * row[b].sign() * row[c].sign()).sum();
            prop_assert_eq!(sum, 0.0);
        }
    }
}
