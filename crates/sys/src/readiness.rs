//! `Readiness`: sleeps until one of many sockets has something to say, or until a time of the clock, exact to what the kernel's timers give: a
//! load generator that has to send at a set time can't wait in milliseconds, and poll(2) looks at every socket at each call.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;

use crate::errno::Errno;
use crate::timer_fd::Alarm;

/// What the timer is called among the sockets, whose names have 32 bits.
const ALARM: u64 = u64::MAX;
/// Sockets that one wait can return; the others come with the next.
const EVENTS_MAX: usize = 64;
/// As good as never: 146 years.
const NEVER_NS: u64 = u64::MAX / 4;

/// What is waited for on a socket, beside its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadAndWrite,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// Sockets that are waited for together (epoll(7), level triggered), and one timer.
#[derive(Debug)]
pub struct Readiness {
    epoll: OwnedFd,
    alarm: Alarm,
    set_ns: u64,
}

impl Readiness {
    /// One without sockets.
    ///
    /// # Errors
    /// `EMFILE` if the process may not have more files.
    pub fn new() -> Result<Readiness, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new()?;
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM), EventFlags::IN)?;
        Ok(Readiness { epoll, alarm, set_ns: NEVER_NS })
    }

    /// Adds a socket, whose events have this `name`. Closing the socket removes it.
    ///
    /// # Errors
    /// What the kernel said: `EEXIST` if it is there already.
    pub fn add(&self, socket: impl AsFd, name: u32, interest: Interest) -> Result<(), Errno> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(name.into()), interest.flags())?)
    }

    /// Waits for something else of this socket from now on.
    ///
    /// # Errors
    /// What the kernel said: `ENOENT` if it is not there.
    pub fn change(&self, socket: impl AsFd, name: u32, interest: Interest) -> Result<(), Errno> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(name.into()), interest.flags())?)
    }

    /// Sleeps until a socket is ready, the monotonic clock reads `at_ns`, or `longest_ms` have passed, whichever is first, and puts the names
    /// of the sockets that are ready into `ready`, which is emptied before. A signal ends it early.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn wait(&mut self, at_ns: Option<u64>, longest_ms: u32, ready: &mut Vec<u32>) -> Result<(), Errno> {
        ready.clear();
        let set_ns = at_ns.unwrap_or(NEVER_NS);
        // Setting it also takes back that it fired before.
        if set_ns != self.set_ns {
            self.alarm.set(set_ns)?;
            self.set_ns = set_ns;
        }
        let longest_ms = i64::from(longest_ms);
        let longest = Timespec { tv_sec: longest_ms / 1000, tv_nsec: longest_ms % 1000 * 1_000_000 };
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut room, Some(&longest)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let names = events.iter().map(|event| event.data.u64()).filter(|name| *name != ALARM);
        ready.extend(names.filter_map(|name| u32::try_from(name).ok()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::clock;

    #[test]
    fn a_socket_ends_the_wait_and_so_does_the_time() {
        let mut readiness = Readiness::new().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        readiness.add(&ours, 7, Interest::Read).unwrap();
        let mut ready = vec![1];
        let due_ns = clock::monotonic_ns() + 3_000_000;
        while clock::monotonic_ns() < due_ns {
            readiness.wait(Some(due_ns), 10_000, &mut ready).unwrap();
            assert_eq!(ready, []);
        }
        // The time that has passed does not end the next wait at once: it is another time, or none.
        let begun_ns = clock::monotonic_ns();
        readiness.wait(None, 5, &mut ready).unwrap();
        assert!(clock::monotonic_ns() - begun_ns >= 4_000_000);
        theirs.write_all(b"x").unwrap();
        readiness.wait(None, 10_000, &mut ready).unwrap();
        assert_eq!(ready, [7]);
        // It stays ready until it is read; and a socket with room is ready when room is asked for.
        readiness.change(&ours, 8, Interest::ReadAndWrite).unwrap();
        readiness.wait(None, 10_000, &mut ready).unwrap();
        assert_eq!(ready, [8]);
        drop(ours);
        // A program that another test is just starting has it open too until it runs.
        let tries = (0..4000).take_while(|_| {
            readiness.wait(None, 0, &mut ready).unwrap();
            !ready.is_empty()
        });
        assert!(tries.map(|_| clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000)).count() < 4000);
        assert!(readiness.change(&theirs, 1, Interest::Read).is_err(), "it was never added");
    }

    #[test]
    fn a_time_that_has_passed_is_no_wait() {
        let mut readiness = Readiness::new().unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            let begun_ns = clock::monotonic_ns();
            readiness.wait(Some(begun_ns - 1000), 10_000, &mut ready).unwrap();
            assert!(clock::monotonic_ns() - begun_ns < 5_000_000_000);
        }
    }
}
