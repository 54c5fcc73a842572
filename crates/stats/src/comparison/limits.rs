//! What one comparison takes at the most.

use std::ops::RangeInclusive;

/// The most pairs that one comparison takes: far beyond any trial, and still done in an instant.
pub const MAX_PAIRS: usize = 10_000;

/// What the number of a window may be, in any unit. Within it no ratio overflows a double.
pub const VALUE_RANGE: RangeInclusive<f64> = 1e-150..=1e150;

/// The most arms of a block. Its windows should still be neighbours in time.
pub const MAX_ARMS: usize = 64;
