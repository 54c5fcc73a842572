//! `Tick`, and what its time was spent on.

use serde::{Serialize, Serializer};

use crate::offcpu::Reason;
use crate::recording::Span;

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Its number: how many periods after the first, where it keeps time; else its place.
    pub number: u64,
    /// From when it was due, or began where that is not known, until it was done.
    pub span: Span,
    /// When it was given the CPU.
    pub begun_ns: u64,
}

impl Tick {
    /// How late it began.
    pub fn lateness_ns(&self) -> u64 {
        self.begun_ns.saturating_sub(self.span.start_ns)
    }
}

/// What a stretch of a tick's time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spent {
    /// It ran, at a place that samples tell.
    Ran,
    /// It ran, and the kernel got it memory that was not there.
    Faulted,
    /// It had a CPU, and no sample tells where it was.
    Unsampled,
    /// It had no CPU.
    Without(Reason),
    /// It was due and had not begun.
    Late,
}

impl Spent {
    /// Of which kind it is: a page fault is one cause, whether the CPU or the disk works for it.
    pub fn kind(self) -> Spent {
        if self == Spent::Faulted { Spent::Without(Reason::PageFault) } else { self }
    }

    /// A word or two for it, as JSON and the frames of graphs have it.
    pub fn name(self) -> &'static str {
        match self {
            Spent::Ran => "on a CPU",
            Spent::Faulted => "page fault, on a CPU",
            Spent::Unsampled => "on a CPU, not sampled",
            Spent::Late => "late",
            Spent::Without(reason) => reason.words(),
        }
    }

    /// The same for people, as the beginning of what is said of a stall.
    pub fn words(self) -> &'static str {
        match self {
            Spent::Ran => "work on a CPU",
            Spent::Faulted => "page fault",
            Spent::Unsampled => "no samples, so the CPU stood still or the hypervisor had it",
            Spent::Late => "late start",
            Spent::Without(reason) => match reason {
                Reason::Futex => "futex wait",
                Reason::Poll => "wait for files or sockets (poll)",
                Reason::Sleep => "sleep",
                Reason::Socket => "wait for a socket or pipe",
                Reason::Disk => "wait for a device",
                Reason::PageFault => "page fault",
                Reason::Preempted => "another thread had the CPU",
                Reason::Throttled => "throttled by the CPU limit of its control group",
                Reason::KernelLock => "wait for a kernel lock",
                Reason::Yielded => "gave the CPU away (sched_yield)",
                Reason::Stopped => "stopped",
                Reason::Steal => "the hypervisor had the CPU (steal)",
                Reason::Ended => "end of the thread",
                Reason::Other => "wait in the kernel",
                Reason::Unknown => "no CPU, for an unknown reason",
            },
        }
    }
}

impl Serialize for Spent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
