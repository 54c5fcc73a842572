//! Invalid inputs of this crate. Each message continues "failed to compare:".

use crate::comparison::limits::{MAX_ARMS, MAX_PAIRS, VALUE_RANGE};

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// There was nothing to compare.
    #[error("no pairs were measured")]
    NoPairs,
    /// More pairs than [`MAX_PAIRS`].
    #[error("{pairs} pairs are more than the {MAX_PAIRS} that one comparison takes")]
    TooManyPairs {
        /// How many pairs were given.
        pairs: usize,
    },
    /// A window's number has no ratio to another: it is zero, negative, infinite, not a number, or out of range.
    #[error(
        "{arm} of pair {pair} is {value:?}, not a number from {:e} to {:e}",
        VALUE_RANGE.start(),
        VALUE_RANGE.end()
    )]
    Value {
        /// Index of the pair, from 0.
        pair: usize,
        /// Name of the arm: `a` or `b`.
        arm: char,
        /// The value that was given.
        value: f64,
    },
    /// [`Options::confidence`](crate::Options::confidence) is not strictly between 0 and 1.
    #[error("a confidence of {0} is not between 0 and 1 (0.95 is usual)")]
    Confidence(f64),
    /// [`Options::smallest_effect_ratio`](crate::Options::smallest_effect_ratio) is negative, infinite or not a number.
    #[error("a smallest effect of {0} is not a share of 0 or more (0.05 is 5 %)")]
    SmallestEffect(f64),
    /// The allowed error over all claims is not strictly between 0 and 1.
    #[error("an error of {0} over all claims is not between 0 and 1 (0.05 is usual)")]
    ErrorRate(f64),
    /// An e-value is negative or not a number.
    #[error("e-value {index} is {value}, not a number of 0 or more")]
    EValue {
        /// The index of the value, from 0.
        index: usize,
        /// The value that was given.
        value: f64,
    },
    /// A p-value is not from 0 to 1.
    #[error("p-value {index} is {value}, not a number from 0 to 1")]
    PValue {
        /// The index of the value, from 0.
        index: usize,
        /// The value that was given.
        value: f64,
    },
    /// Two neighbouring boots to compare belong to the same arm.
    #[error("boots {} and {} are of one arm, and neighbours are compared", 2 * pair, 2 * pair + 1)]
    Neighbours {
        /// Index of the two, from 0.
        pair: usize,
    },
    /// A block of fewer than two arms, or of more than [`MAX_ARMS`].
    #[error("a block of {arms} arms is not one of 2 to {MAX_ARMS}")]
    Arms {
        /// The requested number of arms.
        arms: usize,
    },
}
