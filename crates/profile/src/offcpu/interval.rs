//! `OffCpuInterval`: a time in which a thread had no CPU, with its reason.

use crate::recording::{Event, EventId, Recording, Span};
use crate::stack::StackId;

/// The thread number in the last switch record of an ended thread.
pub(super) const GONE: u32 = u32::MAX;

/// Why a thread had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The thread waited for a lock or a condition (futex).
    Futex,
    /// The thread waited for any of several files or sockets (poll, epoll, select, io_uring).
    Poll,
    /// The thread slept for a set time.
    Sleep,
    /// The thread waited for a socket or a pipe.
    Socket,
    /// The thread waited for a disk or another device.
    Disk,
    /// The thread waited for memory in a page fault.
    PageFault,
    /// The thread waited for a lock inside the kernel.
    KernelLock,
    /// Another thread took the CPU.
    Preempted,
    /// The thread called sched_yield.
    Yielded,
    /// The control group of the thread had used up its CPU limit.
    Throttled,
    /// The thread waited for its child or for a signal, or was stopped.
    Stopped,
    /// The kernel's records show the thread on the CPU, but the hypervisor ran another guest.
    Steal,
    /// The thread ended.
    Ended,
    /// The thread waited in the kernel for something else. The stack shows for what.
    Other,
    /// Unknown: the recording has no stack of this switch.
    #[default]
    Unknown,
}

impl Reason {
    /// All reasons.
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

    /// The name that tables and graphs show.
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

    /// Whether the thread was ready to run.
    pub fn is_forced(self) -> bool {
        matches!(self, Reason::Preempted | Reason::Throttled | Reason::Steal)
    }
}

/// Whether both ends of an interval are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edges {
    /// Both ends are known, and so is the length.
    #[default]
    Seen,
    /// The interval began before the recording, or before the sample that revealed it. The length is a lower bound.
    FromBefore,
    /// The interval continued after the recording. The length is a lower bound.
    ToAfter,
    /// Records were lost within the interval, so it may be several intervals.
    Torn,
}

/// A time in which a thread had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuInterval {
    /// The process of the thread.
    pub pid: u32,
    /// The thread that had no CPU.
    pub tid: u32,
    /// The CPU that the thread left. If the left CPU is unknown, the CPU that the thread got afterwards.
    pub cpu: u32,
    /// Start and end.
    pub span: Span,
    /// Whether both ends are known.
    pub edges: Edges,
    /// Why the thread had no CPU.
    pub reason: Reason,
    /// The stack of the thread when it left the CPU, if recorded.
    pub stack: Option<StackId>,
    /// The process and thread that took the CPU, if recorded. Thread 0 is idle.
    /// If the waiting thread was ready to run, this is the thread that had the CPU longest.
    pub taken_by: Option<(u32, u32)>,
    /// The thread that woke the waiting thread, and the stack of the waker, if recorded.
    pub woken_by: Option<(u32, Option<StackId>)>,
    /// The time of the wake-up, if recorded. After the wake-up, the thread waited for a CPU.
    pub woken_at_ns: Option<u64>,
}

/// The numbers of the events with these names, ignoring modifiers (`context-switches/period=1/`, `…:u`).
pub(crate) fn events_named(recording: &Recording, names: &[&str]) -> Vec<EventId> {
    let is_one = |event: &Event| {
        names.iter().any(|name| {
            event.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        })
    };
    (0..).zip(&recording.events).filter(|(_, event)| is_one(event)).map(|(number, _)| number).collect()
}
