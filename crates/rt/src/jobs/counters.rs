//! `FrameCounters`: the difference between the counts of all slots before and after a frame.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::parts::{CALLER, Counted, Shared};

/// The counters of one frame. `Display` writes one line.
///
/// ```
/// use evenkeel_rt::jobs::{FrameCounters, JobSettings, Jobs, Queue};
///
/// let mut jobs = Jobs::start(&JobSettings::default())?;
/// jobs.frame(|frame| frame.push(Queue(0), || println!("move the players")))?;
/// let FrameCounters { jobs: ran, longest_job_ns, .. } = jobs.last_frame();
/// println!("{ran} jobs, the longest took {longest_job_ns} ns");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Jobs of the frame that ran.
    pub jobs: u64,
    /// The jobs that ran on the thread that opened the frame.
    pub by_caller: u64,
    /// The jobs that ran on workers.
    pub by_workers: u64,
    /// Asynchronous jobs that ended during the frame.
    pub asynchronous: u64,
    /// Jobs that were dropped because a job that they depend on panicked.
    pub dropped: u64,
    /// Jobs that panicked, asynchronous ones included.
    pub panics: u64,
    /// Jobs that found their queue full.
    pub full: u64,
    /// Threads that the caller and workers woke.
    pub wakes: u64,
    /// How often a thread left a job to others because its CPU was about to be taken away.
    /// The thread looks for a job again every 50 us.
    pub left: u64,
    /// How long the caller slept because the remaining jobs ran on other threads, in nanoseconds.
    pub waited_ns: u64,
    /// The sum of the jobs' durations, in nanoseconds. If a job opens a nested frame, its duration includes the jobs that it ran for that frame.
    pub busy_ns: u64,
    /// The duration of the longest job, in nanoseconds.
    /// If jobs take less than 250 ns on average, up to eight are timed together, and this field has the sum of the group.
    pub longest_job_ns: u64,
}

impl fmt::Display for FrameCounters {
    /// Writes one line, such as `100 jobs (60 here, 40 on workers) took 1.2ms of CPU, the longest 40.0µs; waited 12.0µs, woke 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Duration::from_nanos;
        write!(f, "{} jobs ({} here, {} on workers) ", self.jobs, self.by_caller, self.by_workers)?;
        write!(f, "took {:.1?} of CPU, the longest {:.1?}", time(self.busy_ns), time(self.longest_job_ns))?;
        write!(f, "; waited {:.1?}, woke {}", time(self.waited_ns), self.wakes)?;
        let rare = [
            (self.asynchronous, "asynchronous"),
            (self.left, "left to others"),
            (self.full, "found no room"),
            (self.panics, "panicked"),
            (self.dropped, "dropped"),
        ];
        rare.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}

/// The counts of all slots since the start.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    by_caller: u64,
    by_workers: u64,
    asynchronous: u64,
    dropped: u64,
    panics: u64,
    full: u64,
    wakes: u64,
    left: u64,
    waited_ns: u64,
    busy_ticks: u64,
    longest_ticks: u64,
}

impl Totals {
    pub(super) fn read(shared: &Shared) -> Totals {
        let sum = |of: fn(&Counted) -> &AtomicU64| {
            shared.counted.iter().map(|slot| of(slot).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let caller = &shared.counted[CALLER];
        let by_caller = caller.jobs.load(Ordering::Relaxed);
        // All jobs of the frame are reported, so no worker writes this value before the next frame.
        let longest = shared.counted.iter().map(|slot| slot.longest_ticks.swap(0, Ordering::Relaxed)).max();
        Totals {
            by_caller,
            by_workers: sum(|slot| &slot.jobs).wrapping_sub(by_caller),
            asynchronous: sum(|slot| &slot.asynchronous),
            dropped: sum(|slot| &slot.dropped),
            panics: sum(|slot| &slot.panics),
            full: sum(|slot| &slot.full),
            wakes: sum(|slot| &slot.wakes),
            left: sum(|slot| &slot.left),
            waited_ns: caller.waited_ns.load(Ordering::Relaxed),
            busy_ticks: sum(|slot| &slot.busy_ticks),
            longest_ticks: longest.unwrap_or(0),
        }
    }

    /// The difference from `before`. Also updates the average duration of a job.
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
            left: self.left.wrapping_sub(before.left),
            waited_ns: self.waited_ns.wrapping_sub(before.waited_ns),
            busy_ns: shared.ns_of(busy_ticks),
            longest_job_ns: shared.ns_of(self.longest_ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rare_counts_only_where_there_are_any() {
        let counters = FrameCounters {
            jobs: 1000,
            by_caller: 600,
            by_workers: 400,
            wakes: 2,
            waited_ns: 12_000,
            busy_ns: 1_200_000,
            longest_job_ns: 40_000,
            ..FrameCounters::default()
        };
        let line = "1000 jobs (600 here, 400 on workers) took 1.2ms of CPU, the longest 40.0µs; waited 12.0µs, woke 2";
        assert_eq!(counters.to_string(), line);
        assert_eq!(FrameCounters { panics: 1, ..counters }.to_string(), format!("{line}, 1 panicked"));
    }
}
