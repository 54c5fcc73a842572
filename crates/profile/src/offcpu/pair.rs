//! `Pair`: a switch-out of a thread and its next switch-in.

use super::interval::Edges;
use crate::recording::{Span, Turn};

/// A switch-out and the next switch-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The CPU that the thread left. If the switch-out is missing, the CPU that the thread got.
    pub(super) cpu: u32,
    /// The CPU that the thread got, if recorded.
    pub(super) cpu_after: Option<u32>,
    pub(super) span: Span,
    pub(super) edges: Edges,
    /// The kind of the switch-out, if recorded.
    pub(super) turn: Option<Turn>,
    /// The process and thread that got the CPU at the switch-out, if recorded.
    pub(super) next: Option<(u32, u32)>,
    /// The time of the previous switch-in, if recorded.
    pub(super) given_at_ns: Option<u64>,
    /// Whether the thread ended at this switch-out.
    pub(super) has_ended: bool,
}
