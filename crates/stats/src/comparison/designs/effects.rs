//! Estimates the effect of each knob from windows that were measured in blocks.
//! The fit uses least squares within the blocks, gives less weight to spoilt blocks, and computes an error for every estimate.
//!
//! A block is a few windows next to each other in time, in random order.
//! Subtracting the block's mean removes what its windows have in common: the hour, a neighbour, a machine that slows down.
//! The remaining differences are noise, which the random order assigns to the knobs.
//! So the errors do not assume independent or normal noise, only a random order.
//! With heavy tails, plain least squares would waste most windows.
//! So blocks whose residuals exceed [`CLIP`] scales get less weight (Huber, "Robust Regression", 1973).
//! The error of each estimate takes these weights into account.

use super::{DesignError, Level};
use crate::comparison::student::two_sided_p_value;
use crate::quantile::median;

/// The maximum number of effects to estimate at once.
pub const TERMS_MAX: usize = 256;

/// A block gets less weight if its residual exceeds this many scales.
/// In the first draws of a screening, half of the information goes into the effects.
/// A tighter bound would then treat normal windows as spoilt and underestimate the errors.
const CLIP: f64 = 3.5;
/// The maximum number of reweighting rounds. Three or four suffice.
const ROUNDS: usize = 12;

/// One window.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The level of each knob.
    pub levels: &'a [Level],
    /// The block of the window.
    pub block: usize,
    /// The measured value, on a scale where effects add up: the logarithm for effects that are ratios.
    pub value: f64,
}

/// An effect to estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// The effect of one knob, averaged over the others.
    Main(usize),
    /// The interaction of two knobs: how much their joint effect exceeds the sum of their effects.
    Two(usize, usize),
}

/// One effect with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Which effect this is.
    pub term: Term,
    /// For one knob: the change of the value when it is switched on, averaged over the others.
    /// For two: half of the additional change of one knob when the other is on.
    pub effect: f64,
    /// The standard error of the effect.
    pub error: f64,
    /// How often noise alone would give a value this far from 0, by Student's t. There is no correction for many knobs.
    pub p_value: f64,
}

impl Estimate {
    /// The effect divided by its standard error.
    #[must_use]
    pub fn t(&self) -> f64 {
        if self.error > 0.0 { self.effect / self.error } else { f64::INFINITY.copysign(self.effect) }
    }
}

/// All effects of a set of windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The effects, in the order of the terms. None if a knob never had two levels within a block.
    pub estimates: Vec<Option<Estimate>>,
    /// Degrees of freedom of the errors.
    pub degrees: usize,
    /// The standard deviation of one window within its block, with less weight for spoilt blocks.
    pub noise: f64,
}

impl Fit {
    /// The estimate of a term.
    #[must_use]
    pub fn get(&self, term: Term) -> Option<&Estimate> {
        self.estimates.iter().flatten().find(|estimate| estimate.term == term)
    }
}

/// Estimates the effects. Blocks with a single window carry no information and are skipped.
///
/// # Errors
/// Fails if there are too few windows for the effects and their error, if two effects cannot be separated, or if a value is not a number.
///
/// ```
/// use evenkeel_stats::designs::{Design, Run, Term, fit, screening};
///
/// // The third knob lowers the value by a fifth of its logarithm; the machine drifts.
/// let design = screening(7)?;
/// let rows: Vec<_> = design.rows().iter().flat_map(|row| [row.clone(), Design::mirror_of(row)]).collect();
/// let value = |at: usize| 3.0 - 0.1 * rows[at].as_slice()[2].sign() + 0.05 * (at / 2) as f64;
/// let runs: Vec<_> = (0..rows.len()).map(|at| Run { levels: &rows[at], block: at / 2, value: value(at) }).collect();
/// let terms: Vec<_> = (0..7).map(Term::Main).collect();
/// let effect = fit(&runs, &terms)?.get(Term::Main(2)).map(|estimate| estimate.effect);
/// assert!(effect.is_some_and(|effect| (effect + 0.2).abs() < 1e-9));
/// # Ok::<(), evenkeel_stats::designs::DesignError>(())
/// ```
pub fn fit(runs: &[Run<'_>], terms: &[Term]) -> Result<Fit, DesignError> {
    check(runs, terms)?;
    let mut blocks = centred(runs, terms);
    let kept = drop_constant(&mut blocks, terms.len());
    let windows: usize = blocks.iter().map(|block| block.values.len()).sum();
    let too_few = DesignError::TooFew { terms: kept.len(), windows, blocks: blocks.len() };
    let degrees = windows.checked_sub(blocks.len() + kept.len()).filter(|degrees| *degrees > 0).ok_or(too_few)?;
    let mut solved = Solved::default();
    let mut weights = vec![1.0; blocks.len()];
    let mut noise = 0.0;
    for _ in 0..ROUNDS {
        solved = solve(&blocks, &weights, kept.len()).map_err(|at| DesignError::Aliased(name(terms[kept[at]])))?;
        noise = weigh(&blocks, &solved.coefficients, &mut weights, (windows - blocks.len()) as f64 / degrees as f64);
    }
    let errors = errors(&blocks, &solved.coefficients, &weights, degrees)
        .map_err(|at| DesignError::Aliased(name(terms[kept[at]])))?;
    let mut estimates = vec![None; terms.len()];
    for (at, term) in kept.iter().enumerate() {
        // With the coding -1 and 1, the levels are two units apart.
        let (effect, error) = (2.0 * solved.coefficients[at], 2.0 * errors[at]);
        let t = if error > 0.0 { effect / error } else { f64::INFINITY * effect };
        let p_value = two_sided_p_value(t, degrees);
        estimates[*term] = Some(Estimate { term: terms[*term], effect, error, p_value });
    }
    Ok(Fit { estimates, degrees, noise })
}

fn name(term: Term) -> String {
    match term {
        Term::Main(knob) => format!("the effect of knob {knob}"),
        Term::Two(a, b) => format!("the joint effect of knobs {a} and {b}"),
    }
}

fn check(runs: &[Run<'_>], terms: &[Term]) -> Result<(), DesignError> {
    let knobs = runs.iter().map(|run| run.levels.len()).min().unwrap_or(0);
    let beyond = |term: &&Term| match **term {
        Term::Main(knob) => knob >= knobs,
        Term::Two(a, b) => a >= knobs || b >= knobs || a == b,
    };
    if let Some(term) = terms.iter().find(beyond) {
        return Err(DesignError::Terms(format!("the windows have {knobs} knobs, but a requested effect is {term:?}")));
    }
    if terms.is_empty() || terms.len() > TERMS_MAX {
        return Err(DesignError::Terms(format!(
            "{} effects were requested: 1 to {TERMS_MAX} are possible",
            terms.len()
        )));
    }
    match runs.iter().find(|run| !run.value.is_finite()) {
        Some(run) => Err(DesignError::Terms(format!("{} is not a number that can be measured", run.value))),
        None => Ok(()),
    }
}

/// The windows of one block, each minus their mean.
struct Block {
    columns: Vec<Vec<f64>>,
    values: Vec<f64>,
}

fn centred(runs: &[Run<'_>], terms: &[Term]) -> Vec<Block> {
    let mut order: Vec<&Run<'_>> = runs.iter().collect();
    order.sort_by_key(|run| run.block);
    let of = |run: &Run<'_>, term: &Term| match *term {
        Term::Main(knob) => run.levels[knob].sign(),
        Term::Two(a, b) => run.levels[a].sign() * run.levels[b].sign(),
    };
    let mut blocks = Vec::new();
    for block in order.chunk_by(|a, b| a.block == b.block).filter(|block| block.len() > 1) {
        let less_mean = |number: &dyn Fn(&Run<'_>) -> f64| -> Vec<f64> {
            let mean = block.iter().map(|run| number(run)).sum::<f64>() / block.len() as f64;
            block.iter().map(|run| number(run) - mean).collect()
        };
        let columns: Vec<Vec<f64>> = terms.iter().map(|term| less_mean(&|run| of(run, term))).collect();
        blocks.push(Block { columns, values: less_mean(&|run| run.value) });
    }
    blocks
}

/// Removes columns without any difference, and returns the remaining terms.
fn drop_constant(blocks: &mut [Block], terms: usize) -> Vec<usize> {
    let varies = |term: &usize| blocks.iter().any(|block| block.columns[*term].iter().any(|entry| entry.abs() > 1e-9));
    let kept: Vec<usize> = (0..terms).filter(varies).collect();
    for block in blocks.iter_mut() {
        block.columns = kept.iter().map(|term| std::mem::take(&mut block.columns[*term])).collect();
    }
    kept
}

#[derive(Default)]
struct Solved {
    coefficients: Vec<f64>,
}

/// Weighted least squares by Cholesky. The error is the index of a column that depends on earlier columns.
fn solve(blocks: &[Block], weights: &[f64], terms: usize) -> Result<Solved, usize> {
    let mut sides = vec![0.0; terms];
    for (block, weight) in blocks.iter().zip(weights) {
        for (side, column) in sides.iter_mut().zip(&block.columns) {
            *side += weight * column.iter().zip(&block.values).map(|(x, y)| x * y).sum::<f64>();
        }
    }
    let lower = cholesky(squares(blocks, weights, terms))?;
    Ok(Solved { coefficients: backward(&lower, &forward(&lower, &sides)) })
}

fn squares(blocks: &[Block], weights: &[f64], terms: usize) -> Vec<Vec<f64>> {
    let mut squares = vec![vec![0.0; terms]; terms];
    for (block, weight) in blocks.iter().zip(weights) {
        for (row, x) in squares.iter_mut().zip(&block.columns) {
            // The lower half would suffice, but the whole is equally fast at this size.
            for (entry, y) in row.iter_mut().zip(&block.columns) {
                *entry += weight * x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
            }
        }
    }
    squares
}

/// The Cholesky factor of `matrix`, in its lower half. The error is the index of a column that depends on earlier columns.
fn cholesky(mut matrix: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, usize> {
    for a in 0..matrix.len() {
        let whole = matrix[a][a];
        for b in 0..=a {
            let sum: f64 = (0..b).map(|k| matrix[a][k] * matrix[b][k]).sum();
            let left = matrix[a][b] - sum;
            if a != b {
                matrix[a][b] = left / matrix[b][b];
            } else if left > 1e-9 * whole.max(f64::MIN_POSITIVE) {
                matrix[a][a] = left.sqrt();
            } else {
                return Err(a);
            }
        }
    }
    Ok(matrix)
}

fn forward(lower: &[Vec<f64>], sides: &[f64]) -> Vec<f64> {
    let mut solved = Vec::with_capacity(sides.len());
    for (row, side) in lower.iter().zip(sides) {
        let sum: f64 = solved.iter().zip(row).map(|(x, entry)| x * entry).sum();
        solved.push((side - sum) / row[solved.len()]);
    }
    solved
}

fn backward(lower: &[Vec<f64>], sides: &[f64]) -> Vec<f64> {
    let mut solved = sides.to_vec();
    for a in (0..sides.len()).rev() {
        let sum: f64 = (a + 1..sides.len()).map(|b| lower[b][a] * solved[b]).sum();
        solved[a] = (sides[a] - sum) / lower[a][a];
    }
    solved
}

fn residuals<'a>(block: &'a Block, coefficients: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    block.values.iter().enumerate().map(move |(at, value)| {
        value - block.columns.iter().zip(coefficients).map(|(column, b)| column[at] * b).sum::<f64>()
    })
}

/// The root mean square of a block's residuals, scaled so that blocks of all sizes have about the same median.
fn size(block: &Block, coefficients: &[f64]) -> f64 {
    let free = (block.values.len() - 1) as f64;
    let sum: f64 = residuals(block, coefficients).map(|residual| residual * residual).sum();
    // The median of chi-squared by Wilson and Hilferty.
    (sum / free).sqrt() / (1.0 - 2.0 / (9.0 * free)).powf(1.5)
}

/// Sets the weight of each block by its residuals, and returns the scale: the typical deviation of a window in a normal block.
/// Residuals are smaller than the noise, because the coefficients absorb a part.
/// `taken` corrects for that.
fn weigh(blocks: &[Block], coefficients: &[f64], weights: &mut [f64], taken: f64) -> f64 {
    let sizes: Vec<f64> = blocks.iter().map(|block| size(block, coefficients)).collect();
    let scale = median(&sizes).unwrap_or(0.0);
    for (weight, size) in weights.iter_mut().zip(&sizes) {
        *weight = if *size > CLIP * scale && scale > 0.0 { CLIP * scale / size } else { 1.0 };
    }
    scale * taken.sqrt()
}

/// The standard error of each coefficient, by Huber's second proposal.
fn errors(blocks: &[Block], coefficients: &[f64], weights: &[f64], degrees: usize) -> Result<Vec<f64>, usize> {
    let terms = coefficients.len();
    let clipped = |(block, weight): (&Block, &f64)| -> f64 {
        residuals(block, coefficients).map(|residual| (weight * residual).powi(2)).sum()
    };
    let sum: f64 = blocks.iter().zip(weights).map(clipped).sum();
    let whole = weights.iter().filter(|weight| **weight == 1.0).count() as f64 / weights.len() as f64;
    let whole = whole.max(0.1);
    // Huber's correction for the case that the effects use much of the information.
    let windows: usize = blocks.iter().map(|block| block.values.len() - 1).sum();
    let small = 1.0 + terms as f64 / windows as f64 * (1.0 - whole) / whole;
    let variance = (small / whole).powi(2) * sum / degrees as f64;
    let lower = cholesky(squares(blocks, &vec![1.0; blocks.len()], terms))?;
    let of = |at: usize| {
        // The diagonal of the inverse: the squared length of the solution for a unit vector.
        let unit: Vec<f64> = (0..terms).map(|other| f64::from(u8::from(other == at))).collect();
        let inverse: f64 = forward(&lower, &unit).iter().map(|entry| entry * entry).sum();
        (variance * inverse).sqrt()
    };
    Ok((0..terms).map(of).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::comparison::designs::{Design, factorial, screening};

    /// Noise that is autocorrelated (0.7 from window to window) and has the tails of Student's t with 3 degrees of freedom.
    struct Noise {
        chance: ChaCha8Rng,
        state: f64,
    }

    impl Noise {
        fn new(seed: u64) -> Noise {
            Noise { chance: ChaCha8Rng::seed_from_u64(seed), state: 0.0 }
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.chance.random::<f64>()).sum::<f64>() - 6.0
        }

        fn window(&mut self) -> f64 {
            self.state = 0.7 * self.state + 0.05 * self.normal();
            let square: f64 = (0..3).map(|_| self.normal().powi(2)).sum::<f64>() / 3.0;
            self.state + 0.03 * self.normal() / square.sqrt()
        }
    }

    /// Two draws of a design for 11 knobs, each row next to its mirror image. A coin decides which of the two comes first.
    fn mirrored(seed: u64, value: impl Fn(&[Level]) -> f64) -> (Vec<Vec<Level>>, Vec<f64>) {
        let mut noise = Noise::new(seed);
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for draw in 0..2 {
            for row in screening(11).unwrap().redrawn(seed * 2 + draw).rows() {
                let mirror = Design::mirror_of(row);
                let first_is_row = noise.chance.random::<bool>();
                for row in if first_is_row { [row, &mirror] } else { [&mirror, row] } {
                    values.push(value(row) + noise.window());
                    rows.push(row.clone());
                }
            }
        }
        (rows, values)
    }

    fn fit_of(rows: &[Vec<Level>], values: &[f64], block: usize, terms: &[Term]) -> Result<Fit, DesignError> {
        let runs: Vec<Run<'_>> = rows
            .iter()
            .zip(values)
            .enumerate()
            .map(|(at, (levels, value))| Run { levels, block: at / block, value: *value })
            .collect();
        fit(&runs, terms)
    }

    fn mains(knobs: usize) -> Vec<Term> {
        (0..knobs).map(Term::Main).collect()
    }

    #[test]
    fn errors_are_honest_on_a_machine_that_drifts_with_heavy_tails() {
        let truth =
            |row: &[Level]| 2.0 - 0.05 * row[3].sign() + 0.02 * row[7].sign() + 0.04 * row[0].sign() * row[1].sign();
        let (mut covered, mut claimed, mut all, mut nulls) = (0, 0, 0, 0);
        for seed in 0..300 {
            let (rows, values) = mirrored(seed, truth);
            let fit = fit_of(&rows, &values, 2, &mains(11)).unwrap();
            assert_eq!(fit.degrees, 24 - 11);
            for (knob, estimate) in fit.estimates.iter().flatten().enumerate() {
                let true_effect = [(3, -0.1), (7, 0.04)].iter().find(|(at, _)| *at == knob).map_or(0.0, |(_, e)| *e);
                // Student's t with 13 degrees: 2.16 standard errors for 95 %.
                covered += u32::from((estimate.effect - true_effect).abs() < 2.16 * estimate.error);
                all += 1;
                if true_effect == 0.0 {
                    claimed += u32::from(estimate.p_value < 0.05);
                    nulls += 1;
                }
            }
        }
        let (covered, claimed) = (f64::from(covered) / f64::from(all), f64::from(claimed) / f64::from(nulls));
        assert!((0.93..0.98).contains(&covered), "covered {covered} claimed {claimed}");
        assert!(claimed < 0.065, "claimed {claimed}");
    }

    #[test]
    fn pairs_of_knobs_are_seen_in_a_factorial() {
        // Either knob alone has the full effect. Both together have no larger effect.
        let truth = |row: &[Level]| if row[0] == Level::High || row[1] == Level::High { -0.2 } else { 0.0 };
        let mut noise = Noise::new(5);
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for draw in 0..4 {
            for row in factorial(3).unwrap().redrawn(draw).rows() {
                values.push(truth(row) + noise.window());
                rows.push(row.clone());
            }
        }
        let terms = [mains(3), vec![Term::Two(0, 1), Term::Two(0, 2), Term::Two(1, 2)]].concat();
        let fit = fit_of(&rows, &values, 4, &terms).unwrap();
        let of = |term| *fit.get(term).unwrap();
        assert!((of(Term::Main(0)).effect + 0.1).abs() < 4.0 * of(Term::Main(0)).error);
        assert!(of(Term::Two(0, 1)).effect > 0.05, "{:?}", of(Term::Two(0, 1)));
        assert!(of(Term::Two(0, 1)).p_value < 0.05, "{:?}", of(Term::Two(0, 1)));
        assert!(of(Term::Main(2)).effect.abs() < 4.0 * of(Term::Main(2)).error);
    }

    #[test]
    fn a_spoilt_block_does_not_carry_the_estimate_off() {
        let (rows, mut values) = mirrored(9, |row| -0.05 * row[3].sign());
        values[10] += 5.0;
        let fit = fit_of(&rows, &values, 2, &mains(11)).unwrap();
        assert!((fit.get(Term::Main(3)).unwrap().effect + 0.1).abs() < 0.08, "{fit:?}");
        assert!((0.02..0.15).contains(&fit.noise), "{}", fit.noise);
    }

    #[test]
    fn invalid_estimates_say_why() {
        let (rows, values) = mirrored(1, |_| 0.0);
        let few = fit_of(&rows[..12], &values[..12], 2, &mains(11)).unwrap_err().to_string();
        assert_eq!(few, "estimate 11 effects: 12 windows in 6 blocks do not separate them from noise");
        let alone = fit_of(&rows, &values, 1, &mains(2)).unwrap_err().to_string();
        assert_eq!(alone, "estimate 0 effects: 0 windows in 0 blocks do not separate them from noise");
        let twice = fit_of(&rows, &values, 2, &[Term::Main(0), Term::Main(0)]).unwrap_err().to_string();
        assert_eq!(twice, "estimate effects: these windows do not separate the effect of knob 0 from the others");
        let beyond = fit_of(&rows, &values, 2, &[Term::Two(1, 11)]).unwrap_err().to_string();
        assert_eq!(beyond, "estimate effects: the windows have 11 knobs, but a requested effect is Two(1, 11)");
        let mut odd = values.clone();
        odd[3] = f64::NAN;
        assert!(fit_of(&rows, &odd, 2, &mains(2)).is_err());
        assert!(fit_of(&rows, &values, 2, &[]).is_err() && fit(&[], &mains(1)).is_err());
    }

    #[test]
    fn a_knob_that_never_moved_has_no_estimate() {
        let (mut rows, values) = mirrored(1, |_| 0.0);
        rows.iter_mut().for_each(|row| row[4] = Level::Low);
        let fit = fit_of(&rows, &values, 2, &mains(11)).unwrap();
        assert!(fit.get(Term::Main(4)).is_none() && fit.get(Term::Main(5)).is_some());
        assert_eq!(fit.degrees, 24 - 10);
    }

    proptest! {
        #[test]
        fn a_shift_of_a_whole_block_changes_nothing(seed in 0..1000_u64, shifts in prop::collection::vec(-9.0..9.0f64, 24)) {
            let (rows, values) = mirrored(seed, |row| -0.1 * row[2].sign());
            let shifted: Vec<f64> = values.iter().enumerate().map(|(at, value)| value + shifts[at / 2]).collect();
            let [before, after] = [&values, &shifted].map(|values| fit_of(&rows, values, 2, &mains(11)).unwrap());
            for (before, after) in before.estimates.iter().flatten().zip(after.estimates.iter().flatten()) {
                prop_assert!((before.effect - after.effect).abs() < 1e-9 && (before.error - after.error).abs() < 1e-9);
            }
        }
    }
}
