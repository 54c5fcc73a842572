//! `Stretch`: a time in which a thread worked, from one sleep to the next.

use crate::offcpu::{OffCpuInterval, Reason};

/// A stretch between two borders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) ran_ns: u64,
    /// How long the interval before it was.
    pub(super) waited_ns: u64,
    /// The interval that it begins after.
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

/// Whether a thread may wait so for its next tick. It was not its own will where it lost the CPU, or memory was not there.
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
