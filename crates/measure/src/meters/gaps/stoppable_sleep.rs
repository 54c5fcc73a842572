//! `StoppableSleep`: a sleep that a stop request ends. Short sleeps in a loop would wake the thread far more often than it measures.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_sys::clock;

/// The last part of each sleep cannot be interrupted, because the kernel's timer wakes more precisely than a condition variable.
const EXACT_NS: u64 = 50_000_000;

/// The state that the sleeping threads share with the thread that receives the stop.
#[derive(Debug, Default)]
pub(super) struct StoppableSleep {
    stopped: Mutex<bool>,
    news: Condvar,
}

impl StoppableSleep {
    /// Ends all sleeps within 50 ms.
    pub(super) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_all();
    }

    /// Sleeps until the monotonic clock reaches `due_ns`. False if a stop ended the sleep.
    pub(super) fn until(&self, due_ns: u64) -> bool {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left_ns = due_ns.saturating_sub(clock::monotonic_ns());
            if *stopped {
                return false;
            }
            // If the sleep is barely longer than its last part, a second wake is not worth its cost.
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
