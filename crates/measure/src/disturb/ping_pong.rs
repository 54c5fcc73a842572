//! `PingPong`: two threads on one CPU that wake each other in turns, and count the turns. Each turn is a switch from one thread to the
//! other, whoever else runs there.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evenkeel_hostfs::Root;
use evenkeel_sys::{CpuSet, Errno, clock, thread};

use crate::error::MeterError;
use crate::meters::rates::parse_fields;

/// How often the clock is looked at.
const TURNS_A_LOOK: u64 = 16;
/// A partner that has not answered for so long never will.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Two threads that wake each other.
#[derive(Clone, Copy, Debug)]
pub struct PingPong {
    /// Where both run.
    pub cpu: usize,
    /// When they end, on the monotonic clock.
    pub until_ns: u64,
}

/// What they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// Rounds there and back: two wake-ups each.
    pub rounds: u64,
    /// From the first to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// How often both gave their CPU up, by the kernel's own count of each; 0 where it does not count.
    pub voluntary_switches: u64,
    /// How often it was taken from them, by the other as it woke or by anybody.
    pub involuntary_switches: u64,
}

impl PingPong {
    /// Plays until the time is over. The caller is one of the two.
    ///
    /// # Errors
    /// If a thread may not run there, or there are no sockets to be had.
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
        // Its partner reads the end of the stream, and ends.
        drop(ours);
        let theirs = partner.join().unwrap_or_default();
        let ours = switches();
        played.map(|played| Played {
            voluntary_switches: ours.0 - ours_before.0 + theirs.0,
            involuntary_switches: ours.1 - ours_before.1 + theirs.1,
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

/// How often the calling thread gave its CPU up, and how often it was taken from it.
fn switches() -> (u64, u64) {
    let text = Root::live().text("/proc/thread-self/status").unwrap_or_default();
    let fields = parse_fields(&text).unwrap_or_default();
    let field = |name: &str| fields.get(name).copied().unwrap_or(0);
    (field("voluntary_ctxt_switches"), field("nonvoluntary_ctxt_switches"))
}

/// Sends back what comes until nothing does.
fn answer(mut stream: UnixStream, set: &CpuSet) {
    // On another CPU it would still answer, but the caller's wish could not be met: the stream ends, which tells it.
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
        // Both have to come to that CPU first, which may take as long on a busy machine.
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
