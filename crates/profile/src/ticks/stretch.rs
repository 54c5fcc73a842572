//! `Stretch`: a time of work, from one sleep to the next.

use crate::offcpu::{OffCpuInterval, Reason};

/// A time of work between two waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) ran_ns: u64,
    /// The length of the wait before this work.
    pub(super) waited_ns: u64,
    /// The index of the wait before this work.
    pub(super) after: usize,
}

pub(super) fn stretches(life: &[OffCpuInterval], is_border: impl Fn(&OffCpuInterval) -> bool) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut now: Option<Stretch> = None;
    let mut since_ns = 0;
    for (at, interval) in life.iter().enumerate() {
        if let Some(now) = &mut now {
            now.ran_ns += interval.span.start_ns.saturating_sub(since_ns);
        }
        since_ns = interval.span.end_ns;
        if is_border(interval) {
            found.extend(now.map(|now| Stretch { end_ns: interval.span.start_ns, ..now }));
            let waited_ns = interval.span.length_ns();
            now = Some(Stretch { start_ns: since_ns, end_ns: since_ns, ran_ns: 0, waited_ns, after: at });
        }
    }
    found
}

/// Whether a thread may wait for its next tick with a wait of this kind. Preemptions and page faults are involuntary.
pub(super) fn sleeps(reason: Reason) -> bool {
    match reason {
        Reason::Futex
        | Reason::Poll
        | Reason::Sleep
        | Reason::Socket
        | Reason::Stopped
        | Reason::Other
        | Reason::Unknown => true,
        Reason::Disk
        | Reason::PageFault
        | Reason::KernelLock
        | Reason::Preempted
        | Reason::Yielded
        | Reason::Throttled
        | Reason::Steal
        | Reason::Ended => false,
    }
}
