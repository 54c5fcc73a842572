//! Timers as files. You set an [`Alarm`] in advance, so that going to sleep costs only a switch.
//! [`Interrupts`] are deliberate timer interrupts on the calling thread's CPU that wake no thread.
//! With them, a meter of interrupts has some interrupts at known times.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::errno::Errno;

/// A timer that a thread sleeps for.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// A timer that is not set.
    ///
    /// # Errors
    /// `EMFILE` if the process may not open more files.
    pub fn new() -> Result<Alarm, Errno> {
        Ok(Alarm { timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)? })
    }

    /// Sets the timer to a time of the monotonic clock, 1 or more. This replaces an earlier time.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(&self, at_ns: u64) -> Result<(), Errno> {
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once(at_ns.max(1)))?;
        Ok(())
    }

    /// Sleeps until the timer's time. Returns at once if that time has passed. If no time is set, it waits for a signal.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&self) -> Result<(), Errno> {
        let mut fired = [0; 8];
        loop {
            match rustix::io::read(&self.timer, &mut fired) {
                Err(rustix::io::Errno::INTR) => {}
                read => return Ok(read.map(|_| ())?),
            }
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

fn once(at_ns: u64) -> Itimerspec {
    let it_value =
        Timespec { tv_sec: (at_ns / 1_000_000_000).cast_signed(), tv_nsec: (at_ns % 1_000_000_000).cast_signed() };
    Itimerspec { it_value, it_interval: Timespec { tv_sec: 0, tv_nsec: 0 } }
}

/// Timers that fire together. They end when this value is dropped, or with the process.
#[derive(Debug)]
pub struct Interrupts {
    timers: Vec<OwnedFd>,
}

impl Interrupts {
    /// Arms `together` timers for each of these times of the monotonic clock.
    /// If the calling thread is pinned to one CPU, the timers fire on that CPU. More timers make each interrupt longer.
    ///
    /// # Errors
    /// `EMFILE` if the process may not open that many files; `EINVAL` if a time is too large.
    pub fn arm(times_ns: &[u64], together: usize) -> Result<Interrupts, Errno> {
        let mut timers = Vec::with_capacity(times_ns.len() * together);
        for at_ns in times_ns {
            // A repeating timer would fire only once, because the kernel rearms it only when a program reads it.
            let when = once(*at_ns);
            for _ in 0..together {
                let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
                timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &when)?;
                timers.push(timer);
            }
        }
        Ok(Interrupts { timers })
    }

    /// The number of timers.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether there are no timers.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_ends_a_sleep() {
        let alarm = Alarm::new().unwrap();
        let at_ns = crate::clock::monotonic_ns() + 2_000_000;
        alarm.set(u64::MAX / 4).unwrap();
        alarm.set(at_ns).unwrap();
        alarm.wait().unwrap();
        assert!(crate::clock::monotonic_ns() >= at_ns);
        alarm.set(0).unwrap();
        alarm.wait().unwrap();
    }

    #[test]
    fn timers_fire() {
        let start_ns = crate::clock::monotonic_ns() + 1_000_000;
        let timers = Interrupts::arm(&[start_ns, start_ns + 1000], 2).unwrap();
        assert_eq!(timers.len(), 4);
        crate::clock::sleep_until_ns(start_ns + 2_000_000);
        for timer in &timers.timers {
            // The timers fire on the CPU that armed them, and this thread may have left that CPU.
            let patience = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
            let mut wanted = [rustix::event::PollFd::new(timer, rustix::event::PollFlags::IN)];
            assert_eq!(rustix::event::poll(&mut wanted, Some(&patience)), Ok(1));
            let mut bytes = [0; 8];
            assert_eq!(rustix::io::read(timer, &mut bytes), Ok(8));
            assert_eq!(u64::from_ne_bytes(bytes), 1);
        }
    }
}
