//! `Counted`: a counter, or why it is unknown.

use evenkeel_measure::meters::rates::Unknown;

/// A counter, or why it is unknown. A `Counted` can be read back from JSON, whatever its value. The JSON of `Measured` is for people and
/// has no tag, and tables with numbers as keys cannot be read from such a form.
pub type Counted<T> = Result<T, Unknown>;
