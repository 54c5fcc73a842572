//! What a source can't do: be what was asked for, or give a window its number.

use crate::error::only_shown;

only_shown! {
    /// An option that says what is measured can't be meant.
    InvalidMetric
}

only_shown! {
    /// A server's own numbers can't be had or read, or there is none of a window.
    NoNumber
}
