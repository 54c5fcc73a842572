//! The order of more than two arms: every block has each arm once, in random order.
//!
//! Of any two arms of a block, each is equally likely to come first, wherever the other arms are.
//! The same holds for the two arms of a [`PairDesign`](crate::PairDesign). So the windows of two arms form one pair per block.
//! [`Sequential`](crate::Sequential) can compare these pairs as if the blocks had no other arms.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::comparison::error::StatsError;
use crate::comparison::limits::MAX_ARMS;

/// How many words of the key stream a block uses: two for each arm.
const WORDS_A_BLOCK: u128 = 2 * MAX_ARMS as u128;

/// A run of blocks, each with all arms in a random order.
///
/// ```
/// use evenkeel_stats::BlockDesign;
///
/// let design = BlockDesign::new(3, 10, 7)?;
/// // The arms in the order of measurement. The same seed gives the same order.
/// let order = design.order_of_block(4);
/// assert_eq!(order, BlockDesign::new(3, 5, 7)?.order_of_block(4));
/// assert_eq!(order[design.place_of(4, 2).unwrap()], 2);
/// # Ok::<(), evenkeel_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockDesign {
    arms: usize,
    blocks: u64,
    seed: u64,
}

impl BlockDesign {
    /// A design of this many blocks of this many arms.
    /// Log the seed: it reproduces the same orders in this release and in later ones.
    /// Draw the seed before anything is measured and independently of it.
    ///
    /// # Errors
    /// Fails with fewer than 2 arms or more than [`MAX_ARMS`].
    pub fn new(arms: usize, blocks: u64, seed: u64) -> Result<BlockDesign, StatsError> {
        if !(2..=MAX_ARMS).contains(&arms) {
            return Err(StatsError::Arms { arms });
        }
        Ok(BlockDesign { arms, blocks, seed })
    }

    /// The number of arms of each block.
    #[must_use]
    pub fn arms(&self) -> usize {
        self.arms
    }

    /// The number of planned blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The seed of the orders.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The arms of the block with this index, from 0, in the order of measurement.
    /// The stream of blocks has no end.
    /// If a rule that ignores the measured values drops a block, the next block beyond the plan replaces the dropped block.
    #[must_use]
    pub fn order_of_block(&self, block: u64) -> Vec<usize> {
        // This is the shuffle of Fisher and Yates, written out so that no library release can change the meaning of a logged seed.
        // The remainder of 64 random bits favours no arm by more than 1 in 2^58.
        let mut chance = ChaCha8Rng::seed_from_u64(self.seed);
        chance.set_word_pos(u128::from(block) * WORDS_A_BLOCK);
        let mut order: Vec<usize> = (0..self.arms).collect();
        for last in (1..self.arms).rev() {
            order.swap(last, (chance.next_u64() % (last as u64 + 1)) as usize);
        }
        order
    }

    /// The place, from 0, of an arm in the block with this index; `None` if there is no such arm.
    #[must_use]
    pub fn place_of(&self, block: u64, arm: usize) -> Option<usize> {
        self.order_of_block(block).iter().position(|one| *one == arm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    /// Logged seeds must stay valid, because people keep the reports that contain them.
    #[test]
    fn a_logged_seed_replays() {
        let rows = [(2, 0), (3, 1), (5, 42), (8, u64::MAX)].map(|(arms, seed)| {
            let design = BlockDesign::new(arms, 4, seed).unwrap();
            let orders: Vec<Vec<usize>> = (0..4).map(|block| design.order_of_block(block)).collect();
            format!("{arms} arms, {seed}: {orders:?}\n")
        });
        expect![[r#"
            2 arms, 0: [[1, 0], [0, 1], [0, 1], [0, 1]]
            3 arms, 1: [[0, 2, 1], [0, 2, 1], [1, 0, 2], [2, 0, 1]]
            5 arms, 42: [[4, 3, 1, 0, 2], [3, 4, 1, 0, 2], [4, 2, 1, 0, 3], [1, 4, 2, 0, 3]]
            8 arms, 18446744073709551615: [[3, 7, 5, 4, 1, 2, 0, 6], [0, 4, 7, 1, 3, 2, 6, 5], [2, 3, 4, 5, 1, 7, 6, 0], [3, 7, 2, 4, 0, 5, 6, 1]]
        "#]].assert_eq(&rows.concat());
    }

    #[test]
    fn a_block_is_of_two_arms_or_more() {
        for arms in [0, 1, MAX_ARMS + 1, usize::MAX] {
            assert_eq!(BlockDesign::new(arms, 1, 1), Err(StatsError::Arms { arms }));
        }
        assert_eq!(BlockDesign::new(1, 1, 1).unwrap_err().to_string(), "a block of 1 arms is not one of 2 to 64");
    }

    /// The count of each of the 24 orders of four arms is binomial, with mean 1000 and standard deviation 31.
    #[test]
    fn every_order_is_as_likely() {
        let design = BlockDesign::new(4, 24_000, 5).unwrap();
        let mut counts = std::collections::BTreeMap::new();
        for block in 0..design.blocks() {
            *counts.entry(design.order_of_block(block)).or_insert(0_i32) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (count - 1000).abs() < 140), "{counts:?}");
    }

    /// For each place of the third arm, a fair coin decides the order of the other two, independently of the previous block.
    #[test]
    fn two_arms_of_a_block_are_a_pair_with_a_fair_coin() {
        let design = BlockDesign::new(3, 30_000, 9).unwrap();
        let mut first = [0_i32; 3];
        let mut as_before = 0_i32;
        let mut before = None;
        for block in 0..design.blocks() {
            let order = design.order_of_block(block);
            let a_first = order.iter().position(|arm| *arm == 0) < order.iter().position(|arm| *arm == 1);
            first[design.place_of(block, 2).unwrap()] += i32::from(a_first);
            as_before += i32::from(before == Some(a_first));
            before = Some(a_first);
        }
        // The counts are binomial: means 5000 and 15000, standard deviations 50 and 87.
        assert!(first.iter().all(|count| (count - 5000).abs() < 250), "{first:?}");
        assert!((as_before - 15_000).abs() < 400, "{as_before}");
    }

    proptest! {
        #[test]
        fn every_block_has_every_arm_once(arms in 2..=MAX_ARMS, block in any::<u64>(), seed in any::<u64>()) {
            let design = BlockDesign::new(arms, 1, seed).unwrap();
            let mut order = design.order_of_block(block);
            for arm in 0..arms {
                prop_assert_eq!(design.place_of(block, arm), order.iter().position(|one| *one == arm));
            }
            prop_assert_eq!(design.place_of(block, arms), None);
            order.sort_unstable();
            prop_assert_eq!(order, (0..arms).collect::<Vec<_>>());
        }
    }
}
