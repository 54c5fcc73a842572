//! `Counted`: a counter, or why it is unknown.

use evenkeel_measure::meters::rates::Unknown;

/// A counter, or why the counter is unknown. Unlike `Measured`, this type can be read back from JSON.
/// The JSON of `Measured` is for people and does not mark whether a value is known.
/// A table whose keys are numbers cannot be read back from that JSON.
pub type Counted<T> = Result<T, Unknown>;
