//! The order of two arms. This coin toss is the only randomness that the verdict relies on.
//! So the coin has its own module, and a logged seed replays it.
//!
//! # Why a coin makes the test exact
//!
//! A pair is two neighbouring windows of time. Suppose B has no effect.
//! Then the machine gives the two windows the same two numbers in either order of the arms.
//! The two numbers are the same whatever the machine's drift, autocorrelation and neighbours are.
//! Only the coin decides which of the two numbers is called `b`. So the sign of `ln(b / a)` is a coin toss, and its size is fixed.
//! The signs of different pairs are independent because the tosses are independent.
//! The signed-rank distribution needs nothing more: there is no assumption about the noise.
//! Fixed orders lose this property. In A…A B…B, a drift looks like an effect.
//! In ABAB…, a steady drift or a periodic disturbance looks like an effect.
//!
//! The tosses are not balanced to equal numbers of each order, because balanced tosses would depend on each other.
//! So drift widens the interval, but it does not bias the interval.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Which arm of a pair is measured first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A, then B.
    AFirst,
    /// B, then A.
    BFirst,
}

/// A run of pairs, each measured in an order that a fair coin decides.
/// Both arms of a pair are measured before the next pair begins.
/// So no run of two pairs or more has all of A before all of B.
///
/// ```
/// use evenkeel_stats::{Order, PairDesign};
///
/// let design = PairDesign::new(20, 7);
/// let planned: Vec<Order> = design.orders().collect();
/// assert_eq!(planned.len(), 20);
/// // The same seed gives the same orders, and there is always another pair to replace a dropped pair.
/// assert_eq!(PairDesign::new(5, 7).order_of_pair(3), planned[3]);
/// let _spare: Order = design.order_of_pair(20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairDesign {
    pairs: u64,
    seed: u64,
}

impl PairDesign {
    /// A design of this many pairs. Log the seed: it reproduces the same orders in this release and in later ones.
    ///
    /// Draw the seed before anything is measured and independently of it.
    #[must_use]
    pub fn new(pairs: u64, seed: u64) -> Self {
        Self { pairs, seed }
    }

    /// The number of planned pairs.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// The seed of the coin.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The order of the pair with this index, from 0.
    /// The stream of orders has no end, and does not depend on the planned number of pairs.
    /// If a rule that ignores both arms' values drops a pair, the next pair beyond the plan replaces the dropped pair.
    #[must_use]
    pub fn order_of_pair(&self, pair: u64) -> Order {
        // Each pair uses one word of the key stream, addressed by the pair's index. So the order does not depend on earlier calls.
        let mut coin = ChaCha8Rng::seed_from_u64(self.seed);
        coin.set_word_pos(u128::from(pair));
        if coin.next_u32() & 1 == 0 { Order::AFirst } else { Order::BFirst }
    }

    /// The orders of the planned pairs.
    pub fn orders(&self) -> impl Iterator<Item = Order> + '_ {
        (0..self.pairs).map(|pair| self.order_of_pair(pair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn letters(design: PairDesign) -> String {
        design.orders().map(|order| if order == Order::AFirst { 'A' } else { 'B' }).collect()
    }

    /// Logged seeds are in reports that people keep. If these orders changed, old reports could not be replayed.
    #[test]
    fn a_logged_seed_replays() {
        let rows =
            [0, 1, 42, u64::MAX].map(|seed| format!("{seed}: {}\n", letters(PairDesign::new(32, seed)))).concat();
        expect![[r#"
            0: ABBBAAAABBBBABABAAAAABBABAAAAABA
            1: BABABBAABBAABAAABBAABABABBBBABBA
            42: BBAAAAABAAABABABAAABABBBBBBAAAAB
            18446744073709551615: AAABAABABAAAAABBBABAABAAAABAAAAB
        "#]]
        .assert_eq(&rows);
    }

    #[test]
    fn pairs_beyond_the_plan_continue_the_same_stream() {
        let long = PairDesign::new(100, 9);
        let short = PairDesign::new(3, 9);
        for (pair, order) in (0..).zip(long.orders()) {
            assert_eq!(short.order_of_pair(pair), order);
        }
        assert_ne!(letters(long), letters(PairDesign::new(100, 10)));
        let _end_of_the_index = short.order_of_pair(u64::MAX);
    }

    /// The coin is fair over pairs, over seeds, and from one pair to the next.
    /// Each count is binomial with mean 5000 and standard deviation 50. The limit of 200 is four standard deviations.
    #[test]
    fn the_coin_is_fair_and_has_no_memory() {
        let fair = |heads: usize| heads.abs_diff(5000) < 200;
        let in_one_run: Vec<Order> = PairDesign::new(10_001, 3).orders().collect();
        let first_of_each_seed = (0..10_000).map(|seed| PairDesign::new(1, seed).order_of_pair(0));
        assert!(fair(in_one_run[1..].iter().filter(|order| **order == Order::AFirst).count()));
        assert!(fair(in_one_run.windows(2).filter(|two| two[0] == two[1]).count()));
        assert!(fair(first_of_each_seed.filter(|order| *order == Order::AFirst).count()));
    }
}
