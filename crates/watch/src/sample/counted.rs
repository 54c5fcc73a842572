//! `Counted`: a counter, or why it is unknown.

use evenkeel_measure::meters::rates::Unknown;

/// A counter, or why it is unknown. Unlike `Measured`, whose form in JSON is for people, this one can be read back whatever it holds: tables
/// with numbers as keys cannot be read from a form without a tag.
pub type Counted<T> = Result<T, Unknown>;
