//! What a machine lets one see, told from a stretch in which both arms were alike: how often such noise makes the test
//! claim something all the same, and how large an effect must be to be found in so many pairs.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::comparison::compare::{Options, Pair};
use crate::comparison::error::StatsError;
use crate::comparison::sequential::{Look, Sequential};
use crate::comparison::verdict::Verdict;

/// Runs made up from the stretch.
const RUNS: usize = 200;

/// The most pairs that a made-up run has: beyond, the time would be felt.
const MOST_PLANNED: usize = 400;

/// An effect is visible if so many of the runs find it.
const FOUND_IN: f64 = 0.8;

/// What an A/A stretch says of the machine, the server and the metric.
///
/// In JSON an endless `smallest_visible_ratio` is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Calibration {
    /// What the test says of the stretch itself. A "better" or "worse" here is a false claim: one in twenty stretches may
    /// have one at a confidence of 0.95; a second one means that the order of the arms reaches the server by some path.
    pub stretch: Look,
    /// The pairs that each made-up run had, and looked at after each.
    pub pairs_planned: usize,
    /// How many runs were made up: stretches of the sizes as measured, each with a fresh coin.
    pub runs: usize,
    /// In how many of them the arms, which are alike, were told apart.
    pub claims: usize,
    /// `claims` by `runs`: at most 1 - confidence, but for the luck of so many runs.
    pub claim_rate: f64,
    /// The smallest effect, as a share, that four in five of the runs would have told from none, had B had it; infinite if
    /// there is none.
    pub smallest_visible_ratio: f64,
}

/// Sums up an A/A stretch for a trial of so many pairs (at most 400 are simulated). The stretch may be short; 20 pairs or
/// more make the figures worth something. The seed makes the coins of the made-up runs.
///
/// # Errors
/// As [`Sequential::add`], and [`StatsError::NoPairs`] if the stretch is empty or nothing is planned.
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
        // Were B's numbers larger by a factor, all that is excluded would move up by it: that of the bound's size is the
        // smallest that moves it beyond "no difference".
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

/// Pairs of the stretch in pieces of neighbours, since a bad second seldom comes alone, each pair's arms as a fresh coin has
/// them.
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

    /// Alike but for a wobble of so many percent, different in each pair.
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
        // Ten times the noise hides ten times the effect, on the log scale: nothing else has a unit.
        let times = wild.smallest_visible_ratio.ln_1p() / calm.smallest_visible_ratio.ln_1p();
        assert!((times - 10.0).abs() < 0.01, "{times}");
        for one in [calm, wild, long] {
            // Binomial over 200 runs at 5 % or less: 20 is over three standard deviations above.
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
    fn what_cannot_be_summed_up_says_why() {
        let failed =
            |stretch: &[Pair], planned| calibrate(stretch, planned, Options::new(Direction::Lower), 1).unwrap_err();
        assert_eq!(failed(&[], 10), StatsError::NoPairs);
        assert_eq!(failed(&[Pair { a: 1.0, b: 1.0 }], 0), StatsError::NoPairs);
        assert!(matches!(failed(&[Pair { a: 1.0, b: 0.0 }], 10), StatsError::Value { pair: 0, arm: 'b', .. }));
    }
}
