//! `ThreadSwitches`: when a thread of any process got a CPU, and when and why the thread gave it up.
//! The source is the kernel's own records of context switches (perf_event_open(2)).
//! The thread is not affected: it is neither stopped nor traced, and its program needs no symbols.

use crate::errno::Errno;
use crate::perf_event::{self, Attributes, Event, PerfRing, Sampled};
use crate::perf_probe::{Probe, ProbeKind};

const SOFTWARE_DUMMY: u64 = 9;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
/// A bit of a switch record: the thread that gave up the CPU was still ready to run (since Linux 4.17).
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// The size of a record plus a note of lost records. A ring with less space than this may already have lost records.
const RECORD_ROOM_BYTES: f64 = 80.0;

/// What happened to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The thread got a CPU.
    In,
    /// The thread went to sleep.
    Slept,
    /// The thread lost the CPU while it still had work.
    Preempted,
}

/// A thread got the CPU, or gave it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSwitch {
    /// When the switch happened, on the monotonic clock.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The kind of switch.
    pub turn: Turn,
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRecord {
    /// A switch.
    Switch(ThreadSwitch),
    /// The thread entered the probed function at this time on the monotonic clock.
    Entered(u64),
    /// The kernel lost this many records, because they were not read in time.
    Lost(u64),
    /// A record of another kind.
    Other,
}

/// The first record in `bytes` and its length. `None` if `bytes` has no complete record.
pub fn first_thread_record(bytes: &[u8]) -> Option<(ThreadRecord, usize)> {
    let raw = perf_event::first_raw(bytes)?;
    let record = match raw.kind {
        // The record has no fields of its own. The sample fields follow: process and thread, the time, the CPU.
        RECORD_SWITCH if raw.bytes.len() >= 32 => {
            let turn = match (raw.misc & MISC_SWITCH_OUT, raw.misc & MISC_SWITCH_OUT_PREEMPT) {
                (0, _) => Turn::In,
                (_, 0) => Turn::Slept,
                _ => Turn::Preempted,
            };
            ThreadRecord::Switch(ThreadSwitch { at_ns: raw.u64_at(16)?, cpu: raw.u32_at(24)?, turn })
        }
        // A sample has the same fields. In this module only the probe takes samples.
        perf_event::RECORD_SAMPLE if raw.bytes.len() >= 32 => ThreadRecord::Entered(raw.u64_at(16)?),
        perf_event::RECORD_LOST if raw.bytes.len() >= 24 => ThreadRecord::Lost(raw.u64_at(16)?),
        _ => ThreadRecord::Other,
    };
    Some((record, raw.bytes.len()))
}

/// The switches of one thread. Only one thread may read them.
#[derive(Debug)]
pub struct ThreadSwitches {
    ring: PerfRing,
    /// The event for entries of the probed function, which writes into the same ring.
    entries: Option<Event>,
    room_bytes: f64,
}

impl ThreadSwitches {
    /// Records the switches of thread `tid` from now on, with space for `records` switches between two reads.
    ///
    /// # Errors
    /// `ESRCH` if the thread does not exist; `ENOSYS` or `ENOENT` if the kernel has no such events.
    /// `EACCES` or `EPERM` if the thread is another user's and this user has no CAP_PERFMON, or if kernel.perf_event_paranoid is 3 or more.
    pub fn of_thread(tid: u32, records: usize) -> Result<ThreadSwitches, Errno> {
        let attributes = Attributes::software(SOFTWARE_DUMMY, FLAG_CONTEXT_SWITCH).of_threads();
        let bytes = records.clamp(1, 1 << 20) * 32;
        let ring = PerfRing::sized(Event::on_thread(&attributes, tid)?, bytes)?;
        Ok(ThreadSwitches { ring, entries: None, room_bytes: bytes as f64 })
    }

    /// Also records when the thread enters the function at `probe`. Each entry costs the thread some microseconds.
    ///
    /// # Errors
    /// `EACCES` without CAP_PERFMON; `ENOENT` if the kernel has no such events, or the file does not exist.
    /// `EINVAL`, `EIO` or `ENOTSUPP` if the kernel cannot probe this place; `ESRCH` if the thread has ended.
    pub fn with_entries(mut self, tid: u32, probe: &Probe) -> Result<ThreadSwitches, Errno> {
        let (kind, config) = probe.numbers(ProbeKind::of_kernel()?);
        let attributes = Attributes::sampled(&Sampled {
            kind,
            config,
            rate: 1,
            sample_type: perf_event::SAMPLE_OF_THREADS,
            read_format: 0,
            flags: 0,
            user_registers: 0,
            user_stack_bytes: 0,
            more: probe.address(),
        });
        // The kernel copies the path while it opens the event, and `probe` is alive until then.
        let event = Event::on_thread(&attributes, tid)?;
        event.record_into(&self.ring)?;
        self.entries = Some(event);
        Ok(self)
    }

    /// How full the ring is, from 0 to 1. The call reads memory twice.
    pub fn fullness(&self) -> f64 {
        self.ring.fullness()
    }

    /// Whether no further record fits. The kernel reports lost records only with the next record that fits.
    pub fn is_full(&self) -> bool {
        (1.0 - self.fullness()) * self.room_bytes < RECORD_ROOM_BYTES
    }

    /// Whether the thread has ended.
    pub fn is_over(&self) -> bool {
        self.ring.is_over()
    }

    /// Pauses recording until [`resume`](ThreadSwitches::resume). In that time the thread has no overhead.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pause(&self) -> Result<(), Errno> {
        self.entries.as_ref().map_or(Ok(()), Event::pause)?;
        self.ring.pause()
    }

    /// Resumes recording.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn resume(&self) -> Result<(), Errno> {
        self.entries.as_ref().map_or(Ok(()), Event::resume)?;
        self.ring.resume()
    }

    /// Passes on each record since the last call.
    pub fn drain(&mut self, mut on_record: impl FnMut(ThreadRecord)) {
        let mut rest = self.ring.take();
        while let Some((record, length)) = first_thread_record(rest) {
            on_record(record);
            rest = &rest[length..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let length = u16::try_from(8 + words.len() * 8).unwrap();
        let mut bytes =
            [kind.to_ne_bytes().to_vec(), misc.to_ne_bytes().to_vec(), length.to_ne_bytes().to_vec()].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_are_distinguished() {
        let table = [
            (0, Turn::In),
            (MISC_SWITCH_OUT, Turn::Slept),
            (MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT, Turn::Preempted),
        ];
        for (misc, turn) in table {
            let bytes = record(RECORD_SWITCH, misc, &[1 | 2 << 32, 77, 3]);
            let cpu = if cfg!(target_endian = "little") { 3 } else { 0 };
            let switch = ThreadSwitch { at_ns: 77, cpu, turn };
            assert_eq!(first_thread_record(&bytes), Some((ThreadRecord::Switch(switch), 32)));
            assert_eq!(first_thread_record(&bytes[..31]), None, "half a record");
        }
        let entered = record(perf_event::RECORD_SAMPLE, 0, &[1 | 2 << 32, 78, 3]);
        assert_eq!(first_thread_record(&entered), Some((ThreadRecord::Entered(78), 32)));
        let lost = record(perf_event::RECORD_LOST, 0, &[0, 7]);
        assert_eq!(first_thread_record(&lost), Some((ThreadRecord::Lost(7), 24)));
        assert_eq!(first_thread_record(&record(RECORD_SWITCH, 0, &[1])), Some((ThreadRecord::Other, 16)), "too short");
        assert_eq!(first_thread_record(&[0; 8]), None, "a record of length 0 would cause an endless loop");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0_u8..20, length in 0_u8..60) {
            if let [first, rest @ ..] = bytes.as_mut_slice() && rest.len() > 6 {
                // Most random headers have an unknown type, or announce more bytes than there are.
                (*first, rest[0], rest[1], rest[2], rest[5], rest[6]) = (kind, 0, 0, 0, length, 0);
            }
            let mut rest = bytes.as_slice();
            while let Some((_, length)) = first_thread_record(rest) {
                rest = &rest[length..];
            }
        }
    }

    #[test]
    fn another_threads_sleep_is_recorded_with_its_end() {
        let (say, hear) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            say.send(crate::thread::id()).unwrap();
            wait.recv().unwrap();
            let before_ns = crate::clock::monotonic_ns();
            // Try several times, because the thread may lose its CPU just before a try ends.
            for _ in 0..5 {
                crate::clock::sleep_until_ns(crate::clock::monotonic_ns() + 2_000_000);
            }
            (before_ns, crate::clock::monotonic_ns())
        });
        let mut switches = match ThreadSwitches::of_thread(hear.recv().unwrap(), 64) {
            Ok(switches) => switches,
            Err(errno) => {
                assert!(errno.is_denial() || errno == Errno::NOSYS || errno == Errno::NOENT, "{errno}");
                evenkeel_testkit::skipped(format_args!("this user may not see a thread's switches ({errno})"));
                go.send(()).unwrap();
                sleeper.join().unwrap();
                return;
            }
        };
        go.send(()).unwrap();
        let (before_ns, after_ns) = sleeper.join().unwrap();
        let mut seen = Vec::new();
        switches.drain(|record| seen.push(record));
        let times = |wanted: Turn| {
            let of = |record: &ThreadRecord| match record {
                ThreadRecord::Switch(switch) if switch.turn == wanted => Some(switch.at_ns),
                _ => None,
            };
            seen.iter().filter_map(of).filter(|at_ns| (before_ns..after_ns).contains(at_ns)).collect::<Vec<_>>()
        };
        let (slept, woke) = (times(Turn::Slept), times(Turn::In));
        assert!(slept.iter().any(|out_ns| woke.iter().any(|in_ns| in_ns - out_ns.min(in_ns) > 1_000_000)), "{seen:?}");
        // The kernel reports the end after it has removed the thread.
        let tries = (0..4000)
            .take_while(|_| !switches.is_over())
            .map(|_| std::thread::sleep(std::time::Duration::from_millis(5)));
        assert!(tries.count() < 4000, "it has ended");
        assert_eq!(ThreadSwitches::of_thread(0, 64).unwrap_err(), Errno::INVAL);
        assert_eq!(ThreadSwitches::of_thread(u32::MAX, 64).unwrap_err(), Errno::INVAL);
    }
}
