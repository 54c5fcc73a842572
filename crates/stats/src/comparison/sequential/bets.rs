//! The bets behind the sequential test: a purse that is staked, pair after pair, on which of the two windows is the larger.
//!
//! If B multiplies every window by exp(θ), then the sign of ln(b / a) - θ is the coin of the order and nothing else,
//! whatever its size is and whatever came before. Whoever bets a share of the purse on a fair coin has, on average, what
//! he had. So the purse, which begins at 1, reaches 20 with a probability of at most 1 in 20, however often one looks
//! (J. Ville, "Étude critique de la notion de collectif", 1939): a large purse speaks against θ.
//!
//! How much to bet may follow from the size at hand and from all that came before, since neither knows the coin. Many
//! gamblers share the purse, because the best bet is not known: an average of fair purses is fair, and it grows like its
//! best part, less a constant.

/// The pairs before the first size that is weighed: until then there is nothing to weigh it against.
const PAIRS_BEFORE_SCALE: usize = 4;

/// How a gambler sees the difference at hand.
#[derive(Clone, Copy)]
enum Sees {
    /// Its sign alone: nothing that noise can do to a size matters.
    Sign,
    /// Its size too, against so many times the median deviation of the past, and no more than that. Small differences
    /// are mostly noise, and large ones mostly are not.
    SizeUpTo(f64),
}

/// One gambler: what he sees, the share of his purse that he bets at the most, and the share of the whole purse that he
/// begins with.
struct Gambler {
    sees: Sees,
    most: f64,
    begins_with: f64,
}

const fn gambler(sees: Sees, most: f64, begins_with: f64) -> Gambler {
    Gambler { sees, most, begins_with }
}

/// Bold ones end a run of clear pairs at once, careful ones see a small effect in much noise. All bet on "larger". The shares
/// were chosen on simulated noise and recorded traces; the promise holds with any.
const GAMBLERS: [Gambler; 6] = [
    gambler(Sees::Sign, 0.97, 0.2),
    gambler(Sees::Sign, 0.8, 0.1),
    gambler(SIZE, 0.12, 0.1),
    gambler(SIZE, 0.3, 0.2),
    gambler(SIZE, 0.5, 0.2),
    gambler(SIZE, 0.75, 0.2),
];

const SIZE: Sees = Sees::SizeUpTo(MOST_DEVIATIONS);

/// Sizes count up to so many median deviations: beyond, a size is as likely a neighbour's doing as the setting's.
pub(crate) const MOST_DEVIATIONS: f64 = 1.25;

/// Beyond this a purse is not counted on: it has long said all, and must not overflow.
const MOST: f64 = 1e300;

/// The purse of those who bet that B is the larger by more than the θ asked of.
#[derive(Debug, Clone)]
pub(crate) struct Purse {
    held: [f64; GAMBLERS.len()],
}

impl Purse {
    pub(crate) fn new() -> Self {
        Self { held: GAMBLERS.map(|gambler| gambler.begins_with) }
    }

    /// Bets on one pair, whose ln(b / a) is larger than θ by `difference`. `scale` is that of the pairs before
    /// ([`scale_of`]). A difference of 0 has no sign: nobody wins or loses.
    ///
    /// What is left grows with `difference`, so that the θ against which it speaks are all those below one bound.
    pub(crate) fn bet(&mut self, difference: f64, scale: Option<f64>) {
        let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
        for (held, gambler) in self.held.iter_mut().zip(&GAMBLERS) {
            let seen = match (gambler.sees, scale) {
                (Sees::SizeUpTo(times), Some(scale)) if scale > 0.0 => (difference / (times * scale)).clamp(-1.0, 1.0),
                _ => sign,
            };
            *held = (*held * (1.0 + gambler.most * seen)).min(MOST);
        }
    }

    /// What all hold together: 1 at the beginning.
    pub(crate) fn sum(&self) -> f64 {
        self.held.iter().sum()
    }
}

/// The median deviation of the log ratios so far, in rising order, from their median: what the next size is weighed against. It
/// does not change when all are moved alike, so it says nothing of θ. `None` as long as they are too few.
pub(crate) fn scale_of(rising: &[f64]) -> Option<f64> {
    let count = rising.len();
    if count < PAIRS_BEFORE_SCALE {
        return None;
    }
    let (mut below, mut above) = (rising[..count.div_ceil(2)].iter().rev(), rising[count.div_ceil(2)..].iter());
    let center = rising[(count - 1) / 2].midpoint(rising[count / 2]);
    // From the middle outwards, the nearer of the next two first: deviations in rising order.
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
    fn all_begin_with_one_together() {
        assert!((Purse::new().sum() - 1.0).abs() < 1e-12);
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
