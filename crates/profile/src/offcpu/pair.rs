//! `Pair`: the moment at which a thread gave its CPU away, and the one at which it was given one again.

use super::interval::Edges;
use crate::recording::{Span, Turn};

/// From one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The CPU that it gave away, or was given where the first was not seen.
    pub(super) cpu: u32,
    /// The CPU that it was given, if that was seen.
    pub(super) cpu_after: Option<u32>,
    pub(super) span: Span,
    pub(super) edges: Edges,
    /// How it gave it away, if that was seen.
    pub(super) turn: Option<Turn>,
    /// Who was given the CPU then, if that was told.
    pub(super) next: Option<(u32, u32)>,
    /// When it had been given the CPU that it gave away, if that was seen.
    pub(super) given_at_ns: Option<u64>,
    /// Whether it was never to run again.
    pub(super) has_ended: bool,
}
