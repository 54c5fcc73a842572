//! `Judged`: late ticks of one server that have the same cause.

use crate::sample::Cause;

/// Late ticks that have the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) late: u64,
    pub(super) missed: u64,
    pub(super) cause: Cause,
    pub(super) words: String,
    /// When the first of these ticks was due, on the monotonic clock. None if unknown.
    pub(super) due_ns: Option<u64>,
}
