//! What goes over the network, and who may send it.

pub mod bits;
pub mod client;
pub mod cookie;
pub mod error;
pub mod gate;
pub mod limit;
pub mod mirror;
pub mod seen;
pub mod snapshot;
pub mod wire;

/// Whether nothing arrived, or a signal ended the wait.
pub(crate) fn is_quiet(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(kind, WouldBlock | TimedOut | Interrupted)
}
