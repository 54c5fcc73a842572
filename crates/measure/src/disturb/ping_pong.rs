//! `PingPong`: two threads on one CPU that wake each other alternately and count the rounds.
//! Each wake is a switch from one thread to the other, even if further threads run on the CPU.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{Switches, parse_switches};
use evenkeel_sys::{CpuSet, Errno, clock, thread};

use crate::error::MeterError;

/// The number of round trips between two clock readings.
const TURNS_A_LOOK: u64 = 16;
/// After this time without an answer, the partner counts as gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Two threads that wake each other.
#[derive(Clone, Copy, Debug)]
pub struct PingPong {
    /// The CPU of both threads.
    pub cpu: usize,
    /// When the threads end, on the monotonic clock.
    pub until_ns: u64,
}

/// The counts of both threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// The number of round trips, with two wakes each.
    pub rounds: u64,
    /// The time from the first to the last round trip, in nanoseconds.
    pub elapsed_ns: u64,
    /// Voluntary switches of both threads, by the kernel's counts. It is 0 if the kernel does not count them.
    pub voluntary_switches: u64,
    /// Involuntary switches: the partner or another thread preempted one of the two threads.
    pub involuntary_switches: u64,
}

impl PingPong {
    /// Plays until the time is over. The caller is one of the two threads.
    ///
    /// # Errors
    /// Fails if a thread may not run on the CPU, or no socket pair can be opened.
    pub fn play(&self) -> Result<Played, MeterError> {
        let refused =
            |error: std::io::Error| MeterError::refused("make two threads wake each other", Errno::from(&error));
        let (mut ours, theirs) = UnixStream::pair().map_err(refused)?;
        ours.set_read_timeout(Some(ANSWER_WITHIN)).map_err(refused)?;
        let set: CpuSet = [self.cpu].into_iter().collect();
        let answer = {
            let set = set.clone();
            move || {
                answer(theirs, &set);
                switches()
            }
        };
        let partner = std::thread::Builder::new().name("evenkeel-pong".into()).spawn(answer).map_err(refused)?;
        let (before, ours_before) = (thread::affinity(), switches());
        let cpu = self.cpu;
        let played = thread::set_affinity(&set)
            .map_err(|errno| MeterError::refused(format!("run on CPU {cpu}"), errno))
            .and_then(|()| self.serve(&mut ours).map_err(refused));
        if let Ok(before) = before {
            let _ = thread::set_affinity(&before);
        }
        // The partner then reads the end of the stream and ends.
        drop(ours);
        let theirs = partner.join().unwrap_or_default();
        let ours = switches();
        played.map(|played| Played {
            voluntary_switches: ours.voluntary - ours_before.voluntary + theirs.voluntary,
            involuntary_switches: ours.involuntary - ours_before.involuntary + theirs.involuntary,
            ..played
        })
    }

    fn serve(&self, stream: &mut UnixStream) -> std::io::Result<Played> {
        let (start_ns, mut rounds, mut byte) = (clock::monotonic_ns(), 0, [0]);
        while !u64::is_multiple_of(rounds, TURNS_A_LOOK) || clock::monotonic_ns() < self.until_ns {
            stream.write_all(&byte)?;
            stream.read_exact(&mut byte)?;
            rounds += 1;
        }
        let elapsed_ns = clock::monotonic_ns() - start_ns;
        Ok(Played { rounds, elapsed_ns, voluntary_switches: 0, involuntary_switches: 0 })
    }
}

/// The voluntary and involuntary switches of the calling thread.
fn switches() -> Switches {
    let text = Root::live().text("/proc/thread-self/status").unwrap_or_default();
    parse_switches(&text).unwrap_or_default()
}

/// Echoes everything until the stream ends.
fn answer(mut stream: UnixStream, set: &CpuSet) {
    // On another CPU the thread would still answer, but it would not measure what the caller asked for.
    // The closed stream reports the failure.
    if thread::set_affinity(set).is_err() {
        return;
    }
    let mut byte = [0];
    while stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_in_time_and_leaves_the_caller_where_it_was() {
        let before = thread::affinity().unwrap();
        let cpu = before.iter().last().unwrap();
        let mut until_ns = 0;
        // Both threads must first reach this CPU. On a busy machine that may use up the whole time, so try again.
        let played = (1..=5).map(|nth| {
            until_ns = clock::monotonic_ns() + nth * 20_000_000;
            let played = PingPong { cpu, until_ns }.play().unwrap();
            assert!(clock::monotonic_ns() >= until_ns, "{played:?}");
            assert_eq!(thread::affinity().unwrap(), before);
            played.rounds
        });
        assert!(played.into_iter().any(|rounds| rounds > 0));
        assert!(PingPong { cpu: 1023, until_ns }.play().is_err());
    }
}
