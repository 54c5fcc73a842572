//! Evaluates an A/A phase, in which both arms are equal. It finds how often noise alone makes the test claim a difference.
//! The function also finds how large an effect must be to be detected within a number of pairs.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::comparison::compare::{Options, Pair};
use crate::comparison::error::StatsError;
use crate::comparison::sequential::{Look, Sequential};
use crate::comparison::verdict::Verdict;

/// The number of simulated runs.
const RUNS: usize = 200;

/// The maximum number of pairs of a simulated run: more would take noticeable time.
const MOST_PLANNED: usize = 400;

/// An effect is detectable if this share of the runs finds it.
const FOUND_IN: f64 = 0.8;

/// The results of an A/A phase for the machine, the server and the metric.
///
/// In JSON an infinite `smallest_visible_ratio` is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// The test's result on the A/A phase itself. "Better" or "worse" here is a false claim.
    /// At a confidence of 0.95, one in twenty phases may have a false claim.
    /// False claims in two phases mean that the order of the arms affects the server somehow.
    pub stretch: Look,
    /// The pairs of each simulated run, evaluated after every pair.
    pub pairs_planned: usize,
    /// The number of simulated runs. Each consists of random pieces of this phase, with A and B of each pair swapped at random.
    pub runs: usize,
    /// The number of simulated runs in which the test claimed a difference between the equal arms.
    pub claims: usize,
    /// `claims` divided by `runs`: at most 1 - confidence, apart from chance over this many runs.
    pub claim_rate: f64,
    /// The smallest effect, as a share, that four in five of the runs would have detected in B.
    /// Infinite if no effect is detectable that often.
    pub smallest_visible_ratio: f64,
}

/// Summarises an A/A phase for a trial of this many pairs (at most 400 are simulated).
/// The phase may be short; 20 pairs or more make the figures useful.
/// The seed determines the random choices of the simulated runs.
///
/// # Errors
/// Fails as [`Sequential::add`] does, and [`StatsError::NoPairs`] if the phase is empty or nothing is planned.
pub fn calibrate(stretch: &[Pair], planned: usize, options: Options, seed: u64) -> Result<Calibration, StatsError> {
    let mut measured = Sequential::new(options)?;
    for pair in stretch {
        measured.add(*pair)?;
    }
    let pairs_planned = planned.min(MOST_PLANNED);
    if stretch.is_empty() || pairs_planned == 0 {
        return Err(StatsError::NoPairs);
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut claims, mut visible) = (0, Vec::with_capacity(2 * RUNS));
    for _ in 0..RUNS {
        let mut run = Sequential::new(Options { smallest_effect_ratio: 0.0, ..options })?;
        let mut claimed = false;
        for pair in made_up(stretch, pairs_planned, &mut random) {
            run.add(pair)?;
            claimed |= matches!(run.verdict(), Verdict::Better | Verdict::Worse);
        }
        claims += usize::from(claimed);
        // If B's numbers were larger by a factor, the bound would move by the same factor.
        // So the smallest detectable factor is the one that moves the bound to "no difference".
        visible.extend([1.0, -1.0].map(|way| (-run.bound(way)).max(0.0)));
    }
    visible.sort_unstable_by(f64::total_cmp);
    let at = (FOUND_IN * visible.len() as f64).ceil() as usize;
    Ok(Calibration {
        stretch: measured.look(),
        pairs_planned,
        runs: RUNS,
        claims,
        claim_rate: claims as f64 / RUNS as f64,
        smallest_visible_ratio: visible[at.clamp(1, visible.len()) - 1].exp_m1(),
    })
}

/// Builds a run from pieces of neighbouring pairs of the phase, because bad seconds come in groups.
/// A new coin toss assigns the arms of each pair.
fn made_up(stretch: &[Pair], planned: usize, random: &mut ChaCha8Rng) -> Vec<Pair> {
    let piece = stretch.len().isqrt();
    let mut pairs = Vec::with_capacity(planned + piece);
    while pairs.len() < planned {
        let start = random.random_range(0..stretch.len());
        pairs.extend((start..start + piece).map(|at| {
            let Pair { a, b } = stretch[at % stretch.len()];
            if random.random::<bool>() { Pair { a, b } } else { Pair { a: b, b: a } }
        }));
    }
    pairs.truncate(planned);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    /// Both arms are equal except for a random difference of this many percent in each pair.
    fn stretch(pairs: u32, wobble: f64) -> Vec<Pair> {
        let wave = |at: u32| 100.0 * (wobble / 100.0 * (f64::from(at) * 2.399).sin()).exp();
        (0..pairs).map(|pair| Pair { a: wave(2 * pair), b: wave(2 * pair + 1) }).collect()
    }

    fn calibrated(wobble: f64, planned: usize) -> Calibration {
        calibrate(&stretch(30, wobble), planned, Options::new(Direction::Lower), 1).unwrap()
    }

    #[test]
    fn more_noise_hides_larger_effects_and_more_pairs_show_smaller_ones() {
        let (calm, wild, long) = (calibrated(1.0, 20), calibrated(10.0, 20), calibrated(1.0, 80));
        assert!(calm.smallest_visible_ratio < wild.smallest_visible_ratio, "{calm:?} {wild:?}");
        assert!(long.smallest_visible_ratio < calm.smallest_visible_ratio, "{calm:?} {long:?}");
        // On the log scale, the smallest detectable effect grows in proportion to the noise.
        let times = wild.smallest_visible_ratio.ln_1p() / calm.smallest_visible_ratio.ln_1p();
        assert!((times - 10.0).abs() < 0.01, "{times}");
        for one in [calm, wild, long] {
            // The count is binomial over 200 runs at 5 % or less, so 20 is over three standard deviations above its mean.
            assert!(one.claims <= 20, "{one:?}");
        }
    }

    #[test]
    fn too_few_pairs_show_nothing() {
        assert_eq!(calibrated(1.0, 5).smallest_visible_ratio, f64::INFINITY);
        assert_eq!((calibrated(1.0, 5).claims, calibrated(1.0, 5).pairs_planned), (0, 5));
    }

    #[test]
    fn windows_that_are_all_equal_show_everything() {
        let calibration = calibrate(&[Pair { a: 5.0, b: 5.0 }; 3], 20, Options::new(Direction::Lower), 1).unwrap();
        assert!(calibration.smallest_visible_ratio < 1e-5 && calibration.claims == 0, "{calibration:?}");
        assert_eq!(calibration.stretch.verdict, Verdict::Undecided);
    }

    #[test]
    fn invalid_calibrations_say_why() {
        let failed =
            |stretch: &[Pair], planned| calibrate(stretch, planned, Options::new(Direction::Lower), 1).unwrap_err();
        assert_eq!(failed(&[], 10), StatsError::NoPairs);
        assert_eq!(failed(&[Pair { a: 1.0, b: 1.0 }], 0), StatsError::NoPairs);
        assert!(matches!(failed(&[Pair { a: 1.0, b: 0.0 }], 10), StatsError::Value { pair: 0, arm: 'b', .. }));
    }
}
