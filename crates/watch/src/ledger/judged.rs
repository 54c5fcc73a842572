//! `Judged`: late ticks of one server with one cause.

use crate::sample::Cause;

/// Late ticks with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) late: u64,
    pub(super) missed: u64,
    pub(super) cause: Cause,
    pub(super) words: String,
    /// When the first of them was due, on the monotonic clock.
    pub(super) due_ns: Option<u64>,
}
