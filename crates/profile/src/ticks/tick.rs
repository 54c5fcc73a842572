//! `Tick`, and the kinds of a tick's time.

use serde::{Serialize, Serializer};

use crate::offcpu::Reason;
use crate::recording::Span;

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The number of the tick. With a fixed rate, it counts the periods since the first tick. Otherwise, it is the tick's index.
    pub number: u64,
    /// The time from due to done. If the due time is unknown, from begin to done.
    pub span: Span,
    /// When the tick began, that is, when its thread got the CPU.
    pub begun_ns: u64,
}

impl Tick {
    /// How late the tick began.
    pub fn lateness_ns(&self) -> u64 {
        self.begun_ns.saturating_sub(self.span.start_ns)
    }
}

/// A kind of a tick's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum Spent {
    /// The tick ran, at a sampled place.
    Ran,
    /// The tick ran in the kernel's handler of a page fault.
    Faulted,
    /// The tick had a CPU, but this time has no samples.
    Unsampled,
    /// The tick had no CPU, for this reason.
    Without(Reason),
    /// The tick was due but had not begun.
    Late,
}

impl Spent {
    /// The cause of the time. A page fault is one cause, whether it uses the CPU or waits for a disk.
    pub fn kind(self) -> Spent {
        if self == Spent::Faulted { Spent::Without(Reason::PageFault) } else { self }
    }

    /// The name of the kind in JSON and graphs.
    pub fn name(self) -> &'static str {
        match self {
            Spent::Ran => "on a CPU",
            Spent::Faulted => "page fault, on a CPU",
            Spent::Unsampled => "on a CPU, not sampled",
            Spent::Late => "late",
            Spent::Without(reason) => reason.words(),
        }
    }

    /// The name of the kind in sentences.
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
