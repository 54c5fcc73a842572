//! `Counted`: a counter, or why it is unknown.

use evenkeel_measure::meters::rates::Unknown;

/// A counter, or why it is unknown. The JSON of `Measured` is for people; a `Counted` can be read back whatever its value: tables
/// with numbers as keys cannot be read from a form without a tag.
pub type Counted<T> = Result<T, Unknown>;
