//! Evidence on whether a number of sessions holds the limit, window by window. It is valid after every window.

use serde::{Deserialize, Serialize};

/// The stake of the boldly bet half of the capital. With this stake, eight windows that all agree are enough.
const STAKE: f64 = 0.9;

/// Counts the windows with one number of sessions, by result.
///
/// The hypothesis is that half of the windows hold the limit. Two bets are made against this hypothesis.
/// One bet is that most windows hold the limit, the other that most do not.
/// A bet multiplies its capital by `1 + s` for each window on its side, and by `1 - s` for each other window.
/// If the hypothesis is true, the capital of a bet reaches 100 in less than 1 of 100 cases, whenever the search stops (Ville).
/// Half of the capital uses one large stake, for clear cases. The other half is spread over all stakes, for close cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Windows in which all sessions held the limit.
    pub held: u32,
    /// Windows in which at least one session broke the limit.
    pub broken: u32,
}

impl Evidence {
    /// Adds a window.
    pub fn add(&mut self, is_held: bool) {
        *(if is_held { &mut self.held } else { &mut self.broken }) += 1;
    }

    /// The number of windows.
    pub fn windows(&self) -> u32 {
        self.held + self.broken
    }

    /// The capital of a bet that the limit is held in most windows.
    pub fn for_held(&self) -> f64 {
        capital(f64::from(self.held), f64::from(self.broken))
    }

    /// The capital of a bet that most windows do not hold the limit.
    pub fn for_broken(&self) -> f64 {
        capital(f64::from(self.broken), f64::from(self.held))
    }

    /// Whether more windows held the limit than broke it. False for equal numbers.
    pub fn leans_to_held(&self) -> bool {
        self.held > self.broken
    }
}

fn capital(own: f64, other: f64) -> f64 {
    let bold = own * (1.0 + STAKE).ln() + other * (1.0 - STAKE).ln();
    0.5 * bold.exp() + 0.5 * spread(own, other)
}

/// The mean over all stakes from 0 to 1 of `(1 + s)^own (1 - s)^other`, by Simpson's rule.
fn spread(own: f64, other: f64) -> f64 {
    const PARTS: u32 = 64;
    let at = |part: u32| {
        let stake = f64::from(part) / f64::from(PARTS);
        let lost = if other == 0.0 { 0.0 } else { other * (1.0 - stake).ln() };
        (own * (1.0 + stake).ln() + lost).exp()
    };
    let weight = |part: u32| match part {
        0 | PARTS => 1.0,
        part if part % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=PARTS).map(|part| weight(part) * at(part)).sum::<f64>() / (3.0 * f64::from(PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_cases_take_eight_windows() {
        let all = |held| Evidence { held, broken: 0 }.for_held();
        assert!(all(7) < 100.0 && all(8) > 100.0, "{} {}", all(7), all(8));
        let mixed = Evidence { held: 5, broken: 5 };
        assert!(mixed.for_held() < 1.0 && mixed.for_broken() < 1.0);
        assert_eq!(mixed.for_held(), mixed.for_broken());
        let large = Evidence { held: 100_000, broken: 100_000 };
        assert!(large.for_held() < 1.0);
    }

    /// The expected capital of a bet on a fair coin is its stake: no bet gains on average.
    #[test]
    fn no_bet_gains_against_a_coin() {
        let mut mean = 0.0;
        for outcome in 0..1_u32 << 12 {
            let held = outcome.count_ones();
            mean += Evidence { held, broken: 12 - held }.for_held() / f64::from(1 << 12);
        }
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
    }
}
