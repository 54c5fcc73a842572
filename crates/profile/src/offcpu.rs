//! `Spell`: a stretch of time in which a thread had no CPU, and why.

use crate::recording::Span;
use crate::stack::StackId;

/// Why a thread had no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Another thread took the CPU.
    Preempted,
    /// Its control group had used up its CPU time.
    Throttled,
    /// It waited for its child or was stopped.
    Stopped,
    /// Nobody knows: the recording does not tell where it was.
    Unknown,
}

/// A stretch of time in which a thread had no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU that it gave away.
    pub cpu: u32,
    /// From when to when.
    pub span: Span,
    /// Why.
    pub reason: Reason,
    /// Where it was, if that was recorded.
    pub stack: Option<StackId>,
    /// The process and thread that took the CPU, if that was recorded; thread 0 is the idle one.
    pub taken_by: Option<(u32, u32)>,
    /// The thread that woke it, and where that was, if it was recorded.
    pub woken_by: Option<(u32, Option<StackId>)>,
}
