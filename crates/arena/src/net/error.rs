//! Why bytes are not a datagram of this protocol.

use thiserror::Error;

/// Why bytes are not a datagram of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The datagram ends early, or bytes are left over.
    #[error("wrong length for its kind")]
    Length,
    /// The magic number or the format is wrong.
    #[error("not a datagram of this game and format")]
    Header,
    /// The sender, a client or a server, must not send datagrams of this kind.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// A number is out of range.
    #[error("value out of range")]
    Range,
    /// A snapshot has changes from a baseline that is missing: the snapshot of this tick.
    #[error("changes since tick {0}, which is not known")]
    Baseline(u32),
}
