//! `Counted`: a counter, or why it is unknown.

use evenkeel_measure::meters::rates::Unknown;

/// A counter, or why it is unknown. Unlike `Measured`, it can be read back from JSON. The JSON of `Measured` is for people: it does not
/// mark which of the two it is, and a table with numbers as keys cannot be read from such a form.
pub type Counted<T> = Result<T, Unknown>;
