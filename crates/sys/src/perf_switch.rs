//! `Switches`: which thread got a CPU and when, from the kernel's own records of context switches (perf_event_open(2)).
//! The records need no tracer. Reading them takes no system call.

use crate::errno::Errno;
use crate::perf_event::{self, Attributes, Event, PerfRing};

const SOFTWARE_DUMMY: u64 = 9;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;

const RECORD_COMM: u32 = 3;
/// The size of a thread's name with the final zero (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 16;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
const MISC_SWITCH_OUT: u16 = 1 << 13;

/// A thread got the CPU, or gave it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When the switch happened, on the monotonic clock.
    pub at_ns: u64,
    /// The thread's number; 0 is the idle thread.
    pub tid: u32,
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A thread got the CPU.
    In(Switch),
    /// A thread gave up the CPU. The kernel writes this record before the switch. After the switch it writes the start of the next thread.
    Out(Switch),
    /// A thread has a new name.
    Named {
        /// The thread's number.
        tid: u32,
        /// The thread's name, padded with zeros.
        name: [u8; NAME_BYTES],
    },
    /// The kernel lost this many records, because they were not read in time.
    Lost(u64),
    /// A record of another kind.
    Other,
}

/// The first record in `bytes` and its length. `None` if `bytes` has no complete record.
pub fn first_record(bytes: &[u8]) -> Option<(Record, usize)> {
    let raw = perf_event::first_raw(bytes)?;
    let record = match raw.kind {
        // The record has the process and number of the other thread.
        // The sample fields follow: the process and number of this thread, and the time.
        RECORD_SWITCH_CPU_WIDE if raw.bytes.len() >= 32 => {
            let switch = Switch { at_ns: raw.u64_at(24)?, tid: raw.u32_at(20)? };
            if raw.misc & MISC_SWITCH_OUT == 0 { Record::In(switch) } else { Record::Out(switch) }
        }
        RECORD_COMM if raw.bytes.len() > 16 => {
            let mut name = [0; NAME_BYTES];
            let said = &raw.bytes[16..raw.bytes.len().min(16 + NAME_BYTES)];
            let end = said.iter().position(|byte| *byte == 0).unwrap_or(said.len());
            name[..end].copy_from_slice(&said[..end]);
            Record::Named { tid: raw.u32_at(12)?, name }
        }
        perf_event::RECORD_LOST if raw.bytes.len() >= 24 => Record::Lost(raw.u64_at(16)?),
        _ => Record::Other,
    };
    Some((record, raw.bytes.len()))
}

/// The switches of one CPU. Only one thread may read them.
#[derive(Debug)]
pub struct Switches {
    ring: PerfRing,
}

impl Switches {
    /// Records the switches of `cpu` from now on.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON, unless kernel.perf_event_paranoid is 0 or less.
    /// `ENODEV` if the CPU is offline; `ENOSYS` if the kernel has no such events.
    pub fn of_cpu(cpu: usize) -> Result<Switches, Errno> {
        let attributes = Attributes::software(SOFTWARE_DUMMY, FLAG_COMM | FLAG_CONTEXT_SWITCH);
        Ok(Switches { ring: PerfRing::new(Event::on_cpu(&attributes, cpu)?)? })
    }

    /// How full the ring is, from 0 to 1. The call reads memory twice.
    pub fn fullness(&self) -> f64 {
        self.ring.fullness()
    }

    /// Passes on each record since the last call.
    pub fn drain(&mut self, mut on_record: impl FnMut(Record)) {
        let mut rest = self.ring.take();
        while let Some((record, length)) = first_record(rest) {
            on_record(record);
            rest = &rest[length..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, words: &[u32]) -> Vec<u8> {
        let length = u16::try_from(8 + words.len() * 4).unwrap();
        let mut bytes =
            [kind.to_ne_bytes().to_vec(), misc.to_ne_bytes().to_vec(), length.to_ne_bytes().to_vec()].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_are_distinguished() {
        let [low, high] = if cfg!(target_endian = "little") { [7, 0] } else { [0, 7] };
        let given = record(RECORD_SWITCH_CPU_WIDE, 0, &[1, 2, 30, 31, low, high]);
        assert_eq!(first_record(&given), Some((Record::In(Switch { at_ns: 7, tid: 31 }), 32)));
        let taken = record(RECORD_SWITCH_CPU_WIDE, MISC_SWITCH_OUT, &[1, 2, 30, 31, low, high]);
        assert_eq!(first_record(&taken), Some((Record::Out(Switch { at_ns: 7, tid: 31 }), 32)));
        assert_eq!(first_record(&record(perf_event::RECORD_LOST, 0, &[0, 0, low, high])), Some((Record::Lost(7), 24)));
        let named = record(RECORD_COMM, 0, &[1, 2, u32::from_ne_bytes(*b"cc1\0"), 9, 9]);
        let name = *b"cc1\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(first_record(&named), Some((Record::Named { tid: 2, name }, 28)));
        assert_eq!(first_record(&record(RECORD_SWITCH_CPU_WIDE, 0, &[1])), Some((Record::Other, 12)), "too short");
        assert_eq!(first_record(&given[..20]), None);
        assert_eq!(first_record(&[0; 8]), None, "a record of length 0 would cause an endless loop");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = bytes.as_slice();
            while let Some((_, length)) = first_record(rest) {
                rest = &rest[length..];
            }
        }
    }

    #[test]
    fn a_sleeping_thread_is_seen_to_come_back() {
        let cpu = crate::thread::affinity().unwrap().first().unwrap();
        let ours = std::thread::spawn(move || {
            crate::thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            let mut switches = match Switches::of_cpu(cpu) {
                Ok(switches) => switches,
                Err(errno) => {
                    assert!(errno.is_denial() || errno == Errno::NOSYS || errno == Errno::NOENT, "{errno}");
                    evenkeel_testkit::skipped(format_args!("this user may not see who runs on a CPU ({errno})"));
                    return;
                }
            };
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            // One record may be missing: the time may end before the kernel records a thread that loses the CPU.
            let mut seen_in_all = 0;
            let mut tried = 0;
            for _ in 0..20 {
                tried += 1;
                let before_ns = crate::clock::monotonic_ns();
                crate::clock::sleep_until_ns(before_ns + 1_000_000);
                let after_ns = crate::clock::monotonic_ns();
                let mut is_seen = false;
                switches.drain(|record| {
                    is_seen |= matches!(record, Record::In(Switch { at_ns, tid: seen }) if seen == tid && at_ns > before_ns && at_ns < after_ns);
                });
                seen_in_all += u32::from(is_seen);
                if seen_in_all >= 3 && seen_in_all * 2 >= tried {
                    break;
                }
            }
            assert!(seen_in_all >= 3 && seen_in_all * 2 >= tried, "{seen_in_all} of {tried}");
        });
        ours.join().unwrap();
    }
}
