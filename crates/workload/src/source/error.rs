//! Errors of sources.

use crate::error::only_shown;

only_shown! {
    /// An option that describes a metric is invalid.
    InvalidMetric
}

only_shown! {
    /// A server's own values cannot be read, or a window has none.
    NoNumber
}
