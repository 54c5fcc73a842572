//! `Readiness`: sleeps until one of many sockets is ready, or until a precise time.
//! A load generator must send at exact times, so it cannot wait in milliseconds. poll(2) would examine every socket at each call.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;

use crate::errno::Errno;
use crate::timer_fd::Alarm;

/// The timer's name. Sockets have names of 32 bits, so no socket has this name.
const ALARM: u64 = u64::MAX;
/// The maximum number of sockets that one wait returns. The next wait returns the other ready sockets.
const EVENTS_MAX: usize = 64;
/// The time of a timer that practically never fires: in 146 years.
const NEVER_NS: u64 = u64::MAX / 4;

/// What to wait for on a socket, in addition to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read.
    Read,
    /// Data to read, or space to write.
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

/// Sockets to wait for together (epoll(7), level triggered), and one timer.
#[derive(Debug)]
pub struct Readiness {
    epoll: OwnedFd,
    alarm: Alarm,
    set_ns: u64,
}

impl Readiness {
    /// A set without sockets.
    ///
    /// # Errors
    /// `EMFILE` if the process may not open more files.
    pub fn new() -> Result<Readiness, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new()?;
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM), EventFlags::IN)?;
        Ok(Readiness { epoll, alarm, set_ns: NEVER_NS })
    }

    /// Adds a socket whose events have this `name`. Closing the socket removes it.
    ///
    /// # Errors
    /// The kernel's error: `EEXIST` if the socket was already added.
    pub fn add(&self, socket: impl AsFd, name: u32, interest: Interest) -> Result<(), Errno> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(name.into()), interest.flags())?)
    }

    /// Changes what to wait for on this socket.
    ///
    /// # Errors
    /// The kernel's error: `ENOENT` if the socket was not added.
    pub fn change(&self, socket: impl AsFd, name: u32, interest: Interest) -> Result<(), Errno> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(name.into()), interest.flags())?)
    }

    /// Sleeps until a socket is ready, the monotonic clock reaches `at_ns`, or `longest_ms` have passed, whichever is first.
    /// Clears `ready`, and puts the names of ready sockets into it. A signal ends the wait early.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self, at_ns: Option<u64>, longest_ms: u32, ready: &mut Vec<u32>) -> Result<(), Errno> {
        ready.clear();
        let set_ns = at_ns.unwrap_or(NEVER_NS);
        // Setting the timer also clears an earlier expiry.
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
            assert!(ready.is_empty(), "{ready:?}");
        }
        // The expired timer does not end the next wait at once, because that wait has another time, or no time.
        let begun_ns = clock::monotonic_ns();
        readiness.wait(None, 5, &mut ready).unwrap();
        assert!(clock::monotonic_ns() - begun_ns >= 4_000_000);
        theirs.write_all(b"x").unwrap();
        readiness.wait(None, 10_000, &mut ready).unwrap();
        assert_eq!(ready, [7]);
        // A socket stays ready until it is read. If the caller requests space to write, a socket with space is ready too.
        readiness.change(&ours, 8, Interest::ReadAndWrite).unwrap();
        readiness.wait(None, 10_000, &mut ready).unwrap();
        assert_eq!(ready, [8]);
        drop(ours);
        // Another test may just start a program that also has the socket open, until that program calls exec.
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
