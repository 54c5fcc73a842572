//! `StoppableSleep`: sleeps that a stop ends. A thread that sleeps for a signal's sake in short steps would wake far more often than it measures.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_sys::clock;

/// The last part of each sleep can't be ended: the kernel's timer wakes more exactly than a condition.
const EXACT_NS: u64 = 50_000_000;

/// Shared by the threads that sleep and the one that hears of the stop.
#[derive(Debug, Default)]
pub(super) struct StoppableSleep {
    stopped: Mutex<bool>,
    news: Condvar,
}

impl StoppableSleep {
    /// Ends all sleeps, within 50 ms.
    pub(super) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_all();
    }

    /// Sleeps until the monotonic clock reads `due_ns`. False if it was stopped.
    pub(super) fn until(&self, due_ns: u64) -> bool {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
            if *stopped {
                return false;
            }
            // A sleep that is hardly longer is not worth a second wake.
            if left_ns <= 2 * EXACT_NS {
                break;
            }
            let wait = self.news.wait_timeout(stopped, Duration::from_nanos(left_ns - EXACT_NS));
            stopped = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(stopped);
        clock::sleep_until_ns(due_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_a_sleep_of_an_hour_and_all_later_ones() {
        let sleeper = StoppableSleep::default();
        assert!(sleeper.until(0) && sleeper.until(clock::monotonic_ns() + 1_000_000));
        let until_ns = clock::monotonic_ns() + 3_600_000_000_000;
        std::thread::scope(|scope| {
            let asleep = scope.spawn(|| sleeper.until(until_ns));
            sleeper.stop();
            assert!(!asleep.join().unwrap());
        });
        assert!(!sleeper.until(0));
        assert!(clock::monotonic_ns() < until_ns);
    }
}
