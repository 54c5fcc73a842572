//! `Tick`, and the kinds of its time.

use serde::{Serialize, Serializer};

use crate::offcpu::Reason;
use crate::recording::Span;

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Its number: periods since the first tick if it has a fixed rate, else its index.
    pub number: u64,
    /// From due, or begun if the due time is unknown, to done.
    pub span: Span,
    /// When it got the CPU.
    pub begun_ns: u64,
}

impl Tick {
    /// How late it began.
    pub fn lateness_ns(&self) -> u64 {
        self.begun_ns.saturating_sub(self.span.start_ns)
    }
}

/// A kind of a tick's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum Spent {
    /// It ran, at a sampled place.
    Ran,
    /// It ran in a page fault.
    Faulted,
    /// It had a CPU, but no samples.
    Unsampled,
    /// It had no CPU.
    Without(Reason),
    /// It was due but had not begun.
    Late,
}

impl Spent {
    /// The cause. A page fault is one cause, whether it uses the CPU or waits for a disk.
    pub fn kind(self) -> Spent {
        if self == Spent::Faulted { Spent::Without(Reason::PageFault) } else { self }
    }

    /// Its name in JSON and graphs.
    pub fn name(self) -> &'static str {
        match self {
            Spent::Ran => "on a CPU",
            Spent::Faulted => "page fault, on a CPU",
            Spent::Unsampled => "on a CPU, not sampled",
            Spent::Late => "late",
            Spent::Without(reason) => reason.words(),
        }
    }

    /// Its name in sentences.
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
