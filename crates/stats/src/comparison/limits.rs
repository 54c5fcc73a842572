//! The limits of one comparison.

use std::ops::RangeInclusive;

/// The maximum number of pairs of a comparison: far beyond any trial, and still computed in an instant.
pub const MAX_PAIRS: usize = 10_000;

/// The range of a window's number, in any unit. Within it no ratio overflows a double.
pub const VALUE_RANGE: RangeInclusive<f64> = 1e-150..=1e150;

/// The maximum number of arms in a block. With more arms, the windows of a block would be too far apart in time.
pub const MAX_ARMS: usize = 64;
