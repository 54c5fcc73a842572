//! `OffCpuInterval`: a time in which a thread had no CPU, and why.

use crate::recording::{Event, EventId, Recording, Span};
use crate::stack::StackId;

/// The number of a thread whose number was taken from it already: it gives its CPU away for the last time.
pub(super) const GONE: u32 = u32::MAX;

/// Why a thread had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It waited for a lock or a condition (futex).
    Futex,
    /// It waited for one of several files or sockets (poll, epoll, select, io_uring).
    Poll,
    /// It slept for a time that it chose.
    Sleep,
    /// It waited for a socket or a pipe.
    Socket,
    /// It waited for a disk or another device.
    Disk,
    /// It waited for memory that was not there: a page fault.
    PageFault,
    /// It waited for a lock of the kernel's own.
    KernelLock,
    /// Another thread took the CPU.
    Preempted,
    /// It gave the CPU to whoever wants it (sched_yield), and had more to do.
    Yielded,
    /// Its control group had used up its CPU time.
    Throttled,
    /// It waited for its child or for a signal, or was stopped.
    Stopped,
    /// It had the CPU by the kernel's records, and the machine did not run: another guest of the host did.
    Steal,
    /// It has ended.
    Ended,
    /// It waited in the kernel for something that is none of these: its stack tells.
    Other,
    /// Nobody knows: the recording does not tell where it was.
    #[default]
    Unknown,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 15] = [
        Reason::Futex,
        Reason::Poll,
        Reason::Sleep,
        Reason::Socket,
        Reason::Disk,
        Reason::PageFault,
        Reason::KernelLock,
        Reason::Preempted,
        Reason::Yielded,
        Reason::Throttled,
        Reason::Stopped,
        Reason::Steal,
        Reason::Ended,
        Reason::Other,
        Reason::Unknown,
    ];

    /// One or two words for it, as tables and graphs show it.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Futex => "futex",
            Reason::Poll => "poll",
            Reason::Sleep => "sleep",
            Reason::Socket => "socket or pipe",
            Reason::Disk => "disk",
            Reason::PageFault => "page fault",
            Reason::KernelLock => "kernel lock",
            Reason::Preempted => "preempted",
            Reason::Yielded => "yielded",
            Reason::Throttled => "throttled",
            Reason::Stopped => "stopped",
            Reason::Steal => "steal",
            Reason::Ended => "ended",
            Reason::Other => "other",
            Reason::Unknown => "unknown",
        }
    }

    /// Whether it could have run on, and was kept from it.
    pub fn is_forced(self) -> bool {
        matches!(self, Reason::Preempted | Reason::Throttled | Reason::Steal)
    }
}

/// Whether both ends of a interval were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edges {
    /// Both: its length is known.
    #[default]
    Seen,
    /// It was without a CPU before the recording began, or before the sample that tells of it was due: it lasted at least so long.
    FromBefore,
    /// It was still without one when the recording ended: it lasted at least so long.
    ToAfter,
    /// Records were lost while it lasted: it may be several intervals with some running between them.
    Torn,
}

/// A stretch of time in which a thread had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuInterval {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU that it gave away; where that was not seen, the one that it was given.
    pub cpu: u32,
    /// From when to when.
    pub span: Span,
    /// Whether both ends were seen.
    pub edges: Edges,
    /// Why.
    pub reason: Reason,
    /// Where it was, if that was recorded.
    pub stack: Option<StackId>,
    /// The process and thread that took the CPU, if that was recorded; thread 0 is the idle one. Of one that could have run on it is who
    /// had the CPU longest of the interval.
    pub taken_by: Option<(u32, u32)>,
    /// The thread that woke it, and where that was, if it was recorded.
    pub woken_by: Option<(u32, Option<StackId>)>,
    /// When it was woken, if that was recorded: from then on it waited for a CPU.
    pub woken_at_ns: Option<u64>,
}

/// The numbers of the events with one of these names, whatever was asked of them besides (`context-switches/period=1/`, `…:u`).
pub(crate) fn events_named(recording: &Recording, names: &[&str]) -> Vec<EventId> {
    let is_one = |event: &Event| {
        names.iter().any(|name| {
            event.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        })
    };
    (0..).zip(&recording.events).filter(|(_, event)| is_one(event)).map(|(number, _)| number).collect()
}
