//! The two kinds of objects that threads sleep on: a word in memory (futex), and a timerfd.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;

use rustix::thread::futex;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::errno::Errno;

const NS: u64 = 1_000_000_000;

/// How a wait on a word ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The wait ended by a wake, or without a reason. Check the word.
    Woken,
    /// The word already had another value.
    NotAsleep,
    /// The time limit ended the wait.
    TimedOut,
}

/// Sleeps while `word` has the value `while_is`, for at most `limit_ns`.
///
/// # Errors
/// The kernel's error. An interruption by a signal counts as a wake.
pub fn wait(word: &AtomicU32, while_is: u32, limit_ns: u64) -> Result<Waited, Errno> {
    match futex::wait(word, futex::Flags::PRIVATE, while_is, Some(&timespec(limit_ns))) {
        Ok(()) | Err(rustix::io::Errno::INTR) => Ok(Waited::Woken),
        Err(rustix::io::Errno::AGAIN) => Ok(Waited::NotAsleep),
        Err(rustix::io::Errno::TIMEDOUT) => Ok(Waited::TimedOut),
        Err(errno) => Err(errno.into()),
    }
}

/// Wakes a thread that sleeps on `word`. Returns whether a thread slept.
///
/// # Errors
/// The kernel's error.
pub fn wake(word: &AtomicU32) -> Result<bool, Errno> {
    Ok(futex::wake(word, futex::Flags::PRIVATE, 1)? > 0)
}

/// A timer of the monotonic clock, awaited by reading a file (timerfd_create(2)). The kernel adds no slack to its time.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// A timer that is not set.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> Result<TimerFd, Errno> {
        Ok(TimerFd(rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// Sleeps until the monotonic clock reaches `deadline_ns`.
    ///
    /// # Errors
    /// The kernel's error; `EINVAL` for 0, because 0 would disable the timer.
    pub fn sleep_until_ns(&self, deadline_ns: u64) -> Result<(), Errno> {
        if deadline_ns == 0 {
            return Err(Errno::INVAL);
        }
        let when = Itimerspec { it_interval: timespec(0), it_value: timespec(deadline_ns) };
        rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &when)?;
        loop {
            match rustix::io::read(&self.0, &mut [0; 8]) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.map(|_| ()).map_err(Errno::from),
            }
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS).cast_signed(), tv_nsec: (ns % NS).cast_signed() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::clock;

    #[test]
    fn a_sleeper_is_woken_and_an_awake_thread_is_reported() {
        let word = AtomicU32::new(0);
        assert_eq!(wait(&word, 1, NS), Ok(Waited::NotAsleep));
        assert_eq!(wait(&word, 0, 1_000_000), Ok(Waited::TimedOut));
        assert_eq!(wake(&word), Ok(false));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, NS).unwrap();
                }
            });
            clock::sleep_until_ns(clock::monotonic_ns() + 5_000_000);
            word.store(1, Ordering::Release);
            wake(&word).unwrap();
            sleeper.join().unwrap();
        });
    }

    #[test]
    fn a_timer_that_is_a_file_never_ends_early() {
        let timer = TimerFd::new().unwrap();
        let deadline_ns = clock::monotonic_ns() + 2_000_000;
        timer.sleep_until_ns(deadline_ns).unwrap();
        assert!(clock::monotonic_ns() >= deadline_ns);
        // A deadline in the past returns at once.
        timer.sleep_until_ns(1).unwrap();
        assert_eq!(timer.sleep_until_ns(0), Err(Errno::INVAL));
    }
}
