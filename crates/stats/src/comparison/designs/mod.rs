//! Designs for many knobs at once: which of them to switch on in which window, so that every window serves every knob, and
//! what each of them does, with an honest error, from the windows' numbers.
//!
//! # Why many at once
//!
//! To compare one knob with the machine as it is, half of the windows must be of the one and half of the other. A window has
//! room for all the other knobs too: if each of them is on in half of the windows of either sort, they even out. So with `n`
//! windows every one of many knobs is known as exactly as if all `n` had been spent on it alone.
//!
//! | step | item |
//! |---|---|
//! | many knobs, main effects | [`screening`] (Plackett & Burman, "The Design of Optimum Multifactorial Experiments", 1946) |
//! | each row followed by its mirror image | [`Design::rows`] and [`Design::mirror_of`] |
//! | few knobs, pairs of them too | [`factorial`] |
//! | another draw of the same design | [`Design::redrawn`] |
//! | numbers to effects | [`fit`], [`Fit`] |
//!
//! A row and its mirror image, in which every knob is the other way, are neighbours in time and make a block of two. Their
//! difference has every main effect in it and no effect of any pair of knobs, which are the same in both; nor what the
//! machine did to both. Which of the two comes first is for a coin to decide, as in a [`PairDesign`](crate::PairDesign), and
//! for the same reason.

mod effects;
mod factorial;
mod hadamard;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use effects::{Estimate, Fit, Run, TERMS_MAX, Term, fit};
pub use factorial::{FACTORIAL_FACTORS_MAX, factorial};
pub use hadamard::{SCREENING_FACTORS_MAX, screening};

/// Whether a knob is as it was, or switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it was.
    Low,
    /// Switched.
    High,
}

impl Level {
    /// The other one.
    #[must_use]
    pub fn flipped(self) -> Level {
        match self {
            Level::Low => Level::High,
            Level::High => Level::Low,
        }
    }

    /// -1 and 1, as the mathematics has it.
    #[must_use]
    pub fn sign(self) -> f64 {
        match self {
            Level::Low => -1.0,
            Level::High => 1.0,
        }
    }

    fn of(is_high: bool) -> Level {
        if is_high { Level::High } else { Level::Low }
    }
}

/// Which knob is at which level in which window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    factors: usize,
    rows: Vec<Vec<Level>>,
}

/// A design that there is none of, or numbers that no effect follows from. Reads well after "failed to".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// Too many knobs, or none.
    #[error("design windows for {factors} knobs: from 1 to {most} is possible")]
    Factors {
        /// How many were asked for.
        factors: usize,
        /// The most.
        most: usize,
    },
    /// Fewer numbers than are needed for the effects and their error.
    #[error("estimate {terms} effects: {windows} windows in {blocks} blocks do not separate them from noise")]
    TooFew {
        /// Effects wanted.
        terms: usize,
        /// Windows of blocks with more than one.
        windows: usize,
        /// Those blocks.
        blocks: usize,
    },
    /// A term names a knob that a window's levels do not have, or too many were asked for.
    #[error("estimate effects: {0}")]
    Terms(String),
    /// The numbers of two effects are always the same, or a number is none.
    #[error("estimate effects: these windows do not separate {0} from the others")]
    Aliased(String),
}

impl Design {
    fn new(factors: usize, rows: Vec<Vec<Level>>) -> Design {
        Design { factors, rows }
    }

    /// How many knobs it is for.
    #[must_use]
    pub fn factors(&self) -> usize {
        self.factors
    }

    /// The windows, each with a level for each knob.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Level>] {
        &self.rows
    }

    /// A row with every knob the other way.
    #[must_use]
    pub fn mirror_of(row: &[Level]) -> Vec<Level> {
        row.iter().map(|level| level.flipped()).collect()
    }

    /// The same design with its columns dealt to the knobs anew, each turned or not, and its rows in another order. What two
    /// knobs together do looks in one draw like the effect of some third knob, in the next draw of another: so it does not
    /// add up.
    #[must_use]
    pub fn redrawn(&self, seed: u64) -> Design {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut columns: Vec<usize> = (0..self.factors).collect();
        columns.shuffle(&mut chance);
        let turned: Vec<bool> = (0..self.factors).map(|_| rand::RngExt::random::<bool>(&mut chance)).collect();
        let deal = |row: &Vec<Level>| -> Vec<Level> {
            let level = |(column, turned): (&usize, &bool)| if *turned { row[*column].flipped() } else { row[*column] };
            columns.iter().zip(&turned).map(level).collect()
        };
        let mut rows: Vec<Vec<Level>> = self.rows.iter().map(deal).collect();
        rows.shuffle(&mut chance);
        Design { factors: self.factors, rows }
    }
}
