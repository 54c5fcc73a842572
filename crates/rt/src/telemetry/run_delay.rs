//! `TickDelays`: how long the tick's thread waited for a CPU between the ends of two ticks, by the kernel's count.

use evenkeel_sys::schedstat::RunDelay;

/// Reads the wait for a CPU of the thread that does the ticks.
#[derive(Debug, Default)]
pub(super) struct TickDelays {
    /// The counted thread, by the kernel's number.
    thread: Option<u32>,
    /// None if this kernel does not count.
    counts: Option<RunDelay>,
    before_ns: Option<u64>,
}

impl TickDelays {
    /// The wait since the last call, in nanoseconds. `thread` is the calling thread. None if it is unknown, as at the first call in a thread.
    pub(super) fn since_last(&mut self, thread: u32) -> Option<u64> {
        if self.thread != Some(thread) {
            *self = TickDelays { thread: Some(thread), counts: RunDelay::of_this_thread().ok(), before_ns: None };
        }
        let now_ns = self.counts.as_ref()?.run_delay_ns().ok()?;
        Some(now_ns.saturating_sub(self.before_ns.replace(now_ns)?))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_first_tick_of_each_thread_has_no_earlier_count() {
        let mut delays = TickDelays::default();
        assert_eq!(delays.since_last(1), None);
        assert!(delays.since_last(1).is_some());
        // The ticks continue on another thread.
        assert_eq!(delays.since_last(2), None);
        assert!(delays.since_last(2).is_some());
    }
}
