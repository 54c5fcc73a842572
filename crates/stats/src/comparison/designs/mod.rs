//! Designs for many knobs at once: which knobs to switch on in which window, so that every window serves every knob.
//! These designs give the effect of each knob with a valid standard error.
//!
//! # Why many at once
//!
//! To compare one knob with the unchanged machine, half of the windows must have the knob on and half must not.
//! Each window can switch all other knobs too.
//! If each other knob is on in half of the windows of either kind, the effects of the others cancel out.
//! So `n` windows measure each of many knobs as exactly as if all `n` windows had measured that knob alone.
//!
//! | step | item |
//! |---|---|
//! | many knobs, main effects | [`screening`] (Plackett & Burman, "The Design of Optimum Multifactorial Experiments", 1946) |
//! | each row followed by its mirror image | [`Design::rows`] and [`Design::mirror_of`] |
//! | few knobs, pairs of them too | [`factorial`] |
//! | another draw of the same design | [`Design::redrawn`] |
//! | numbers to effects | [`fit`], [`Fit`] |
//!
//! A row and its mirror image, with every knob reversed, are neighbours in time and form a block of two.
//! The difference of the two contains every main effect.
//! Effects of pairs of knobs are equal in both windows, so they cancel.
//! A disturbance that affects both windows cancels too.
//! A coin decides which of the two windows comes first, as in a [`PairDesign`](crate::PairDesign).

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

/// Whether a knob is unchanged or switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Unchanged.
    Low,
    /// Switched.
    High,
}

impl Level {
    /// The opposite level.
    #[must_use]
    pub fn flipped(self) -> Level {
        match self {
            Level::Low => Level::High,
            Level::High => Level::Low,
        }
    }

    /// -1 or 1, for the computation.
    #[must_use]
    pub fn sign(self) -> f64 {
        match self {
            Level::Low => -1.0,
            Level::High => 1.0,
        }
    }

    fn from_bool(is_high: bool) -> Level {
        if is_high { Level::High } else { Level::Low }
    }
}

/// The level of each knob in each window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    factors: usize,
    rows: Vec<Vec<Level>>,
}

/// Why no design could be made, or why no effects could be estimated from the windows.
/// The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// Too many knobs, or none.
    #[error("design windows for {factors} knobs: from 1 to {most} is possible")]
    Factors {
        /// The requested number.
        factors: usize,
        /// The largest possible number.
        most: usize,
    },
    /// Fewer numbers than the effects and their error need.
    #[error("estimate {terms} effects: {windows} windows in {blocks} blocks do not separate them from noise")]
    TooFew {
        /// The number of requested effects.
        terms: usize,
        /// The number of windows in blocks of two or more.
        windows: usize,
        /// The number of those blocks.
        blocks: usize,
    },
    /// A term names a knob that the windows do not have, or there are too many terms.
    #[error("estimate effects: {0}")]
    Terms(String),
    /// The numbers of two effects are always equal, or a value is not a number.
    #[error("estimate effects: these windows do not separate {0} from the others")]
    Aliased(String),
}

impl Design {
    fn new(factors: usize, rows: Vec<Vec<Level>>) -> Design {
        Design { factors, rows }
    }

    /// The number of knobs.
    #[must_use]
    pub fn factors(&self) -> usize {
        self.factors
    }

    /// The windows, each with a level for every knob.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Level>] {
        &self.rows
    }

    /// The row with every knob reversed.
    #[must_use]
    pub fn mirror_of(row: &[Level]) -> Vec<Level> {
        row.iter().map(|level| level.flipped()).collect()
    }

    /// This design, redrawn. The columns are assigned to the knobs anew, each flipped or not, and the rows get another order.
    /// In one draw, the interaction of two knobs looks like the effect of some third knob.
    /// In the next draw it looks like the effect of another knob, so the error does not accumulate on one knob.
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
