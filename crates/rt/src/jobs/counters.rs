//! What a frame's jobs took: the difference of what all slots have counted.

use std::sync::atomic::{AtomicU64, Ordering};

use super::parts::{CALLER, Counted, Shared};

/// What one frame took. Counts of threads other than the caller's are whole for the frame's own jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Jobs of the frame that were run.
    pub jobs: u64,
    /// Of these, by the thread that opened the frame.
    pub by_caller: u64,
    /// Of these, by workers.
    pub by_workers: u64,
    /// Asynchronous jobs that ended meanwhile.
    pub asynchronous: u64,
    /// Jobs that were dropped, since one that they waited for panicked.
    pub dropped: u64,
    /// Jobs that panicked, asynchronous ones included.
    pub panics: u64,
    /// Jobs for which there was no room.
    pub full: u64,
    /// Threads that were woken by the caller and by workers.
    pub wakes: u64,
    /// What the caller slept, since all that was left was running elsewhere, in nanoseconds.
    pub waited_ns: u64,
    /// What the jobs took together, by the clock, in nanoseconds; one that waits for a frame within it has what it helped with counted too.
    pub busy_ns: u64,
    /// What the longest took, by the clock, in nanoseconds. Where jobs take less than 250 ns on average, up to eight are timed together,
    /// and this is what they took.
    pub longest_job_ns: u64,
}

/// What all slots have counted since the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    by_caller: u64,
    by_workers: u64,
    asynchronous: u64,
    dropped: u64,
    panics: u64,
    full: u64,
    wakes: u64,
    waited_ns: u64,
    busy_ticks: u64,
    longest_ticks: u64,
}

impl Totals {
    pub(super) fn of(shared: &Shared) -> Totals {
        let sum = |of: fn(&Counted) -> &AtomicU64| {
            shared.counted.iter().map(|slot| of(slot).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let caller = &shared.counted[CALLER];
        let by_caller = caller.jobs.load(Ordering::Relaxed);
        // Its jobs are all told, so no worker writes this now but for a frame to come.
        let longest = shared.counted.iter().map(|slot| slot.longest_ticks.swap(0, Ordering::Relaxed)).max();
        Totals {
            by_caller,
            by_workers: sum(|slot| &slot.jobs).wrapping_sub(by_caller),
            asynchronous: sum(|slot| &slot.asynchronous),
            dropped: sum(|slot| &slot.dropped),
            panics: sum(|slot| &slot.panics),
            full: sum(|slot| &slot.full),
            wakes: sum(|slot| &slot.wakes),
            waited_ns: caller.waited_ns.load(Ordering::Relaxed),
            busy_ticks: sum(|slot| &slot.busy_ticks),
            longest_ticks: longest.unwrap_or(0),
        }
    }

    /// What came since `before`. What a job took on average is learned from it.
    pub(super) fn since(&self, before: &Totals, shared: &Shared) -> FrameCounters {
        let by_caller = self.by_caller.wrapping_sub(before.by_caller);
        let by_workers = self.by_workers.wrapping_sub(before.by_workers);
        let busy_ticks = self.busy_ticks.wrapping_sub(before.busy_ticks);
        if let Some(mean) = busy_ticks.checked_div(by_caller + by_workers) {
            shared.learn(mean);
        }
        FrameCounters {
            jobs: by_caller + by_workers,
            by_caller,
            by_workers,
            asynchronous: self.asynchronous.wrapping_sub(before.asynchronous),
            dropped: self.dropped.wrapping_sub(before.dropped),
            panics: self.panics.wrapping_sub(before.panics),
            full: self.full.wrapping_sub(before.full),
            wakes: self.wakes.wrapping_sub(before.wakes),
            waited_ns: self.waited_ns.wrapping_sub(before.waited_ns),
            busy_ns: shared.ns_of(busy_ticks),
            longest_job_ns: shared.ns_of(self.longest_ticks),
        }
    }
}
