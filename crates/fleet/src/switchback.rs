//! A trial over many hosts. Similar hosts form pairs. In each block of time, one host of each pair has the settings, chosen at random.
//!
//! Each host's number is divided by the same host's number from before the trial.
//! For each pair and block this gives one ratio: the host with the settings to the host without them.
//! A change of the whole fleet, such as the load of an evening, affects both hosts and cancels.
//! A difference between the hosts cancels by the numbers from before, and on average by the random choice.
//! The choices are independent.
//! So the error bound of the sequential test of `evenkeel-stats` holds over all pairs and blocks, whatever hosts, days and neighbours do.
//! Pure: the caller passes numbers and a seed.

use std::collections::BTreeMap;

use evenkeel_stats::{
    Direction, Look, Options, Order, Pair, PairDesign, Sequential, StatsError, Verdict, median,
    median_absolute_deviation,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The number of each host in one block. A host without a number is not in the map.
pub type Numbers = BTreeMap<String, f64>;

/// The maximum number of hosts of a trial.
pub const HOSTS_MAX: usize = 2_000;
/// The maximum number of blocks that the power table looks ahead, and the maximum number of ratios of a pair in a block.
const BLOCKS_MAX: usize = 400;
const RATIOS_MAX: usize = 10_000;
/// How many trials the power table simulates for each effect.
const SIMULATED: u64 = 100;
/// Blocks after a switch are reported as different if they differ from the others by more than this many standard errors.
const CARRY_OVER_ERRORS: f64 = 3.0;

/// Two hosts that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostPair {
    /// The first host of the pair.
    pub first: String,
    /// The second host of the pair.
    pub second: String,
}

/// The pairs of hosts, and the seed of the random order.
#[derive(Clone, Debug, PartialEq)]
pub struct Switchback {
    pairs: Vec<HostPair>,
    /// The typical number of each host in the blocks before the trial.
    before: Numbers,
    seed: u64,
}

/// The hosts of each pair that have the settings in one block, and those that do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arms {
    /// The hosts with the settings.
    pub with: Vec<String>,
    /// The hosts without the settings.
    pub without: Vec<String>,
}

/// The measurements so far, and the state of the test.
#[derive(Clone, Debug)]
pub struct Evidence {
    test: Sequential,
    /// For each pair and block with both numbers: the pair, the block, whether the pair switched before the block,
    /// and the logarithm of the ratio.
    ratios: Vec<(usize, u64, bool, f64)>,
    /// How many numbers were missing: of hosts with the settings, and of hosts without.
    missing: [usize; 2],
    blocks: u64,
}

/// How many blocks it takes to detect an effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Power {
    /// The effect, as a share: 0.05 is 5 %.
    pub effect_ratio: f64,
    /// The number of blocks after which half of the trials have a verdict; none if that is more than `blocks_max`.
    pub blocks_p50: Option<u64>,
    /// The number of blocks after which nine of ten trials have a verdict; none if that is more than `blocks_max`.
    pub blocks_p90: Option<u64>,
    /// How many blocks the simulated trials had: 400, or fewer with many hosts.
    pub blocks_max: u64,
}

/// A limit of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "caveat", rename_all = "kebab-case")]
pub enum Caveat {
    /// More numbers are missing in one arm than in the other arm. Maybe the settings stop hosts from reporting.
    Missing {
        /// The number of missing numbers of hosts with the settings.
        with: usize,
        /// The number of missing numbers of hosts without the settings.
        without: usize,
    },
    /// The guard ended the goal on these hosts. Their pairs left the trial, so the result leaves out hosts on which the goal did harm.
    GuardStopped {
        /// The hosts.
        hosts: Vec<String>,
    },
    /// Blocks after a switch differ from the others: the previous arm still has an effect after the wash-out.
    CarryOver {
        /// How much they differ, as a ratio.
        ratio: f64,
    },
}

/// Why hosts cannot be paired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// Too few hosts have a number.
    #[error("{hosts} hosts have a number above 0 in each block before the trial, and a trial takes 2 at least")]
    TooFew {
        /// The number of hosts that have a number above 0 in each block.
        hosts: usize,
    },
    /// There are more than [`HOSTS_MAX`] hosts.
    #[error("{hosts} hosts are more than {HOSTS_MAX}")]
    TooMany {
        /// The number of hosts.
        hosts: usize,
    },
}

impl Switchback {
    /// Pairs hosts with similar numbers in the blocks before the trial. If the number of hosts is odd, one is left out.
    ///
    /// # Errors
    /// If there are too few hosts, or too many.
    pub fn pair(blocks: &[Numbers], seed: u64) -> Result<Switchback, PairingError> {
        let Some(first) = blocks.first() else { return Err(PairingError::TooFew { hosts: 0 }) };
        let mut hosts = Vec::new();
        for host in first.keys() {
            let numbers: Option<Vec<f64>> = blocks.iter().map(|block| usable(block.get(host))).collect();
            hosts.extend(numbers.and_then(|numbers| median(&numbers)).map(|number| (number, host.clone())));
        }
        if hosts.len() > HOSTS_MAX {
            return Err(PairingError::TooMany { hosts: hosts.len() });
        }
        hosts.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let pairs: Vec<HostPair> = hosts
            .chunks_exact(2)
            .map(|pair| HostPair { first: pair[0].1.clone(), second: pair[1].1.clone() })
            .collect();
        if pairs.is_empty() {
            return Err(PairingError::TooFew { hosts: hosts.len() });
        }
        let before = hosts.into_iter().map(|(number, host)| (host, number)).collect();
        Ok(Switchback { pairs, before, seed })
    }

    /// The pairs.
    pub fn pairs(&self) -> &[HostPair] {
        &self.pairs
    }

    /// Which hosts have the settings in a block. Blocks are counted from 0.
    pub fn arms(&self, block: u64) -> Arms {
        let mut arms = Arms { with: Vec::new(), without: Vec::new() };
        for (index, pair) in self.pairs.iter().enumerate() {
            let (with, without) =
                if self.first_has_it(block, index) { (&pair.first, &pair.second) } else { (&pair.second, &pair.first) };
            arms.with.push(with.clone());
            arms.without.push(without.clone());
        }
        arms
    }

    fn first_has_it(&self, block: u64, pair: usize) -> bool {
        let coin = block.saturating_mul(self.pairs.len() as u64).saturating_add(pair as u64);
        PairDesign::new(0, self.seed).order_of_pair(coin) == Order::BFirst
    }

    /// No evidence yet.
    ///
    /// # Errors
    /// If the confidence or the smallest effect is out of range.
    pub fn evidence(&self, options: Options) -> Result<Evidence, StatsError> {
        Ok(Evidence { test: Sequential::new(options)?, ratios: Vec::new(), missing: [0; 2], blocks: 0 })
    }

    /// Adds the next block.
    pub fn add(&self, evidence: &mut Evidence, numbers: &Numbers) {
        let block = evidence.blocks;
        evidence.blocks += 1;
        for (index, pair) in self.pairs.iter().enumerate() {
            let first_has_it = self.first_has_it(block, index);
            let relative = |host: &String| Some(usable(numbers.get(host))? / self.before.get(host)?);
            let (first, second) = (relative(&pair.first), relative(&pair.second));
            let (b, a) = if first_has_it { (first, second) } else { (second, first) };
            evidence.missing[0] += usize::from(b.is_none());
            evidence.missing[1] += usize::from(a.is_none());
            // Skip a pair if one of its numbers is missing. This rule does not depend on the values.
            let (Some(a), Some(b)) = (a, b) else { continue };
            if evidence.test.add(Pair { a, b }).is_ok() {
                let switched =
                    block.checked_sub(1).is_some_and(|before| self.first_has_it(before, index) != first_has_it);
                evidence.ratios.push((index, block, switched, (b / a).ln()));
            }
        }
    }

    /// Estimates how many blocks are needed to detect each effect. The noise is measured in blocks in which no host had the settings.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn power(&self, before: &[Numbers], options: Options, effects: &[f64]) -> Result<Vec<Power>, StatsError> {
        let mut noise = self.evidence(options)?;
        before.iter().for_each(|block| self.add(&mut noise, block));
        let ratios: Vec<f64> = noise.ratios.iter().map(|(.., ratio)| *ratio).collect();
        let center = median(&ratios).unwrap_or(0.0);
        let residuals: Vec<f64> = ratios.iter().map(|ratio| ratio - center).collect();
        effects.iter().map(|effect| self.power_of(&residuals, options, *effect)).collect()
    }

    fn power_of(&self, residuals: &[f64], options: Options, effect_ratio: f64) -> Result<Power, StatsError> {
        let blocks_max = (RATIOS_MAX / self.pairs.len()).clamp(1, BLOCKS_MAX) as u64;
        let mut needed = Vec::new();
        for trial in 0..SIMULATED {
            let chance = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(trial));
            needed.push(self.simulated_blocks(residuals, options, effect_ratio, chance, blocks_max)?);
        }
        // A trial without a verdict sorts after all numbers of blocks.
        needed.sort_unstable_by_key(|blocks| blocks.unwrap_or(u64::MAX));
        let of = |share: u64| needed.get((SIMULATED * share / 100) as usize).copied().flatten();
        Ok(Power { effect_ratio, blocks_p50: of(50), blocks_p90: of(90), blocks_max })
    }

    /// The number of blocks until a verdict; none if there is no verdict within `blocks_max`.
    fn simulated_blocks(
        &self,
        residuals: &[f64],
        options: Options,
        effect: f64,
        mut chance: ChaCha8Rng,
        blocks_max: u64,
    ) -> Result<Option<u64>, StatsError> {
        let effect = if options.better == Direction::Lower { -effect.ln_1p() } else { effect.ln_1p() };
        let mut test = Sequential::new(options)?;
        for block in 1..=blocks_max {
            for _ in &self.pairs {
                let Some(residual) = residuals.get(chance.random_range(0..residuals.len().max(1))) else {
                    return Ok(None);
                };
                let residual = if chance.random() { *residual } else { -residual };
                test.add(Pair { a: 1.0, b: (residual + effect).exp() })?;
            }
            if test.verdict() == Verdict::Better {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

fn usable(number: Option<&f64>) -> Option<f64> {
    number.copied().filter(|number| number.is_finite() && *number > 0.0)
}

impl Evidence {
    /// The verdict so far.
    pub fn look(&self) -> Look {
        self.test.look()
    }

    /// How many blocks were added.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The number of ratios so far: one for each pair and block with both numbers.
    pub fn ratios(&self) -> usize {
        self.ratios.len()
    }

    /// The limits of the result.
    pub fn caveats(&self) -> Vec<Caveat> {
        let [with, without] = self.missing;
        // A fair coin shows one side more than three standard deviations too often.
        let is_uneven = (with as f64 - without as f64).abs() > 3.0 * ((with + without) as f64).sqrt();
        let missing = is_uneven.then_some(Caveat::Missing { with, without });
        missing.into_iter().chain(self.carry_over()).collect()
    }

    fn carry_over(&self) -> Option<Caveat> {
        let of = |wanted: bool| -> Vec<f64> {
            let after_first = self.ratios.iter().filter(|(_, block, ..)| *block > 0);
            after_first.filter(|(_, _, switched, _)| *switched == wanted).map(|(.., ratio)| *ratio).collect()
        };
        let (switched, stayed) = (of(true), of(false));
        if switched.len() < 8 || stayed.len() < 8 {
            return None;
        }
        let difference = median(&switched)? - median(&stayed)?;
        // The standard error of a median of normal numbers, estimated from their median absolute deviation.
        let error =
            |ratios: &[f64]| Some(1.253 * 1.4826 * median_absolute_deviation(ratios)? / (ratios.len() as f64).sqrt());
        let error = error(&switched)?.hypot(error(&stayed)?);
        (difference.abs() > CARRY_OVER_ERRORS * error).then(|| Caveat::CarryOver { ratio: difference.exp() })
    }
}

#[cfg(test)]
#[path = "switchback_tests.rs"]
mod tests;
