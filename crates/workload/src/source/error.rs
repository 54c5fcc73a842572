//! The errors of a source.

use crate::error::only_shown;

only_shown! {
    /// An option that describes a measurement is invalid.
    InvalidMetric
}

only_shown! {
    /// A server's own numbers cannot be read, or a window has none.
    NoNumber
}
