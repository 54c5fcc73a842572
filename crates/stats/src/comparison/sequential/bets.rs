//! The bets behind the sequential test.
//! A bettor starts with a wealth of 1 and bets, pair after pair, on which of the two windows has the larger value.
//!
//! If B multiplies every window by exp(θ), then the sign of ln(b / a) - θ depends only on the random order of the pair.
//! The size of ln(b / a) and all earlier pairs do not matter. Bets on a fair coin keep the expected wealth at 1.
//! So the wealth reaches 20 with a probability of at most 1 in 20,
//! however often the test looks (J. Ville, "Étude critique de la notion de collectif", 1939).
//! A large wealth is evidence against θ.
//!
//! The size of a bet may depend on the size of the difference and on all earlier pairs, because neither depends on the coin of this pair.
//! The best bet is unknown, so several strategies share the wealth.
//! An average of fair bets is fair, and its wealth grows like that of its best strategy, minus a constant.

/// Before this many pairs there is no scale, so only signs count.
const PAIRS_BEFORE_SCALE: usize = 4;

/// The part of a difference that a strategy uses.
#[derive(Clone, Copy)]
enum Sees {
    /// Only the sign, so noise in the size does not matter.
    Sign,
    /// The size too, relative to this multiple of the median deviation of earlier pairs, and clamped to that multiple.
    /// Small differences are mostly noise. Large differences mostly are not.
    SizeUpTo(f64),
}

/// A strategy: the part of a difference that it uses, the largest share of its wealth that it bets, and its share of the initial wealth.
struct BettingStrategy {
    sees: Sees,
    most: f64,
    begins_with: f64,
}

const fn strategy(sees: Sees, most: f64, begins_with: f64) -> BettingStrategy {
    BettingStrategy { sees, most, begins_with }
}

/// Bold strategies end a run of clear pairs early. Careful strategies find small effects in much noise.
/// All strategies bet on "larger".
/// The shares were chosen on simulated noise and recorded traces. The error bound holds for any shares.
const STRATEGIES: [BettingStrategy; 6] = [
    strategy(Sees::Sign, 0.97, 0.2),
    strategy(Sees::Sign, 0.8, 0.1),
    strategy(SIZE, 0.12, 0.1),
    strategy(SIZE, 0.3, 0.2),
    strategy(SIZE, 0.5, 0.2),
    strategy(SIZE, 0.75, 0.2),
];

const SIZE: Sees = Sees::SizeUpTo(MOST_DEVIATIONS);

/// Sizes are clamped to this many median deviations: a larger one is as likely an effect of a neighbour as of the setting.
pub(crate) const MOST_DEVIATIONS: f64 = 1.25;

/// The wealth is capped here so that it does not overflow. By then the test has decided.
const MOST: f64 = 1e300;

/// The wealth of the bet that B is larger by more than θ.
#[derive(Debug, Clone)]
pub(crate) struct Wealth {
    held: [f64; STRATEGIES.len()],
}

impl Wealth {
    pub(crate) fn new() -> Self {
        Self { held: STRATEGIES.map(|strategy| strategy.begins_with) }
    }

    /// Bets on one pair, whose ln(b / a) is larger than θ by `difference`.
    /// `scale` is the scale of the earlier pairs ([`scale_of`]). A difference of 0 changes nothing.
    ///
    /// The wealth after the bet grows with `difference`, so the excluded θ are all those below one bound.
    pub(crate) fn bet(&mut self, difference: f64, scale: Option<f64>) {
        let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
        for (held, strategy) in self.held.iter_mut().zip(&STRATEGIES) {
            let outcome = match (strategy.sees, scale) {
                (Sees::SizeUpTo(times), Some(scale)) if scale > 0.0 => (difference / (times * scale)).clamp(-1.0, 1.0),
                _ => sign,
            };
            *held = (*held * (1.0 + strategy.most * outcome)).min(MOST);
        }
    }

    /// The total, initially 1.
    pub(crate) fn sum(&self) -> f64 {
        self.held.iter().sum()
    }
}

/// The median absolute deviation of the log ratios so far, given in rising order. `None` if there are too few ratios.
/// A shift of all ratios does not change the deviation, so the scale does not depend on θ.
pub(crate) fn scale_of(rising: &[f64]) -> Option<f64> {
    let count = rising.len();
    if count < PAIRS_BEFORE_SCALE {
        return None;
    }
    let (mut below, mut above) = (rising[..count.div_ceil(2)].iter().rev(), rising[count.div_ceil(2)..].iter());
    let center = rising[(count - 1) / 2].midpoint(rising[count / 2]);
    // Walk outwards from the middle and take the nearer of the next two values. This gives the deviations in rising order.
    let (mut left, mut right) = (below.next(), above.next());
    let mut next = || {
        let (to_left, to_right) = (left.map(|value| center - value), right.map(|value| value - center));
        match (to_left, to_right) {
            (Some(deviation), other) if other.is_none_or(|other| deviation <= other) => {
                left = below.next();
                deviation
            }
            (_, Some(deviation)) => {
                right = above.next();
                deviation
            }
            _ => f64::INFINITY,
        }
    };
    let lower = (0..=(count - 1) / 2).fold(0.0, |_, _| next());
    Some(if count % 2 == 1 { lower } else { lower.midpoint(next()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_initial_wealth_is_one() {
        assert!((Wealth::new().sum() - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_scale_is_the_median_absolute_deviation(mut values in prop::collection::vec(-1e3..1e3f64, 0..40)) {
            values.sort_unstable_by(f64::total_cmp);
            let expected = crate::median_absolute_deviation(&values).filter(|_| values.len() >= PAIRS_BEFORE_SCALE);
            match (scale_of(&values), expected) {
                (Some(scale), Some(expected)) => prop_assert!((scale - expected).abs() < 1e-9, "{scale} {expected}"),
                (scale, expected) => prop_assert_eq!(scale, expected),
            }
        }
    }
}
