//! Why bytes are not a datagram of this protocol.

use thiserror::Error;

/// Why bytes are not a datagram of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// It ends early, or bytes are left over.
    #[error("wrong length for its kind")]
    Length,
    /// Not our magic number or format.
    #[error("not a datagram of this game and format")]
    Header,
    /// No such kind from this side.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// A number is out of its range.
    #[error("value out of range")]
    Range,
    /// A snapshot says what has changed since one that is not there.
    #[error("changes since tick {0}, which is not known")]
    Baseline(u32),
}
