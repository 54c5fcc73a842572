//! Timers as files. [`Alarm`] is set before there is time to sleep, so that going to sleep costs no more than a switch. [`Interrupts`] are
//! timer interrupts on purpose, on the CPU of the thread that asks for them, which wake nobody: this is how a meter of interrupts gets some
//! at known times.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::errno::Errno;

/// A timer to sleep for.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// `EMFILE` if the process may not have more files.
    pub fn new() -> Result<Alarm, Errno> {
        Ok(Alarm { timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)? })
    }

    /// Sets it to a time of the monotonic clock, 1 or more; what it was set to before is forgotten.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn set(&self, at_ns: u64) -> Result<(), Errno> {
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once(at_ns.max(1)))?;
        Ok(())
    }

    /// Sleeps until the time it was set to; returns at once if that has passed. One that is not set is waited for until a signal ends it.
    ///
    /// # Errors
    /// What the kernel said.
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

/// Timers that fire together. They end when this is dropped, or with the process.
#[derive(Debug)]
pub struct Interrupts {
    timers: Vec<OwnedFd>,
}

impl Interrupts {
    /// Arms `together` timers for each of these times of the monotonic clock. Where the calling thread is bound to one CPU, they fire
    /// there. More of them make each interrupt longer.
    ///
    /// # Errors
    /// `EMFILE` if they are more than the process may have files; `EINVAL` if a time is too long.
    pub fn arm(times_ns: &[u64], together: usize) -> Result<Interrupts, Errno> {
        let mut timers = Vec::with_capacity(times_ns.len() * together);
        for at_ns in times_ns {
            // One that repeats would fire once: the kernel arms it anew only when somebody reads it.
            let when = once(*at_ns);
            for _ in 0..together {
                let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
                timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &when)?;
                timers.push(timer);
            }
        }
        Ok(Interrupts { timers })
    }

    /// How many timers there are.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether there are none.
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
            // They fire on the CPU that armed them, which this thread may have left.
            let patience = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
            let mut wanted = [rustix::event::PollFd::new(timer, rustix::event::PollFlags::IN)];
            assert_eq!(rustix::event::poll(&mut wanted, Some(&patience)), Ok(1));
            let mut bytes = [0; 8];
            assert_eq!(rustix::io::read(timer, &mut bytes), Ok(8));
            assert_eq!(u64::from_ne_bytes(bytes), 1);
        }
    }
}
