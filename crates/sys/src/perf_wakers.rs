//! `Wakers`: which threads wake one thread of any process.
//! The source is the kernel's tracepoint of wake-ups with a filter for that thread (perf_event_open(2)).
//! So a wake-up of any other thread costs only a comparison. The thread itself is not affected.

use crate::cpuset::CpuSet;
use crate::errno::Errno;
use crate::perf_event::{self, Attributes, Event, PerfRing};
use crate::tracepoint;

const POINT: &str = "sched/sched_waking";
/// The size of each CPU's ring: some 500 wake-ups between two reads.
const RING_BYTES: usize = 1 << 15;
/// The maximum number of CPUs. With more CPUs the rings take too much memory, and too many files.
const CPUS_MAX: usize = 32;
/// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ`: an interrupt woke the thread, such as a timer's.
const IN_INTERRUPT: u8 = 0x18;

/// A wake-up of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// When the thread was woken, on the monotonic clock.
    pub at_ns: u64,
    /// The thread that woke it, by the kernel's number. `None` if an interrupt or an idle CPU woke the thread.
    pub by: Option<u32>,
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakerRecord {
    /// A wake-up.
    Woken(Woken),
    /// The kernel lost this many records, because they were not read in time.
    Lost(u64),
    /// A record of another kind.
    Other,
}

/// The first record in `bytes` and its length. `None` if `bytes` has no complete record.
pub fn first_waker_record(bytes: &[u8]) -> Option<(WakerRecord, usize)> {
    let raw = perf_event::first_raw(bytes)?;
    let record = match raw.kind {
        // A sample has the time, the size of the tracepoint's data, and the data.
        // The data begin with the tracepoint's number, the flags and the thread that was running.
        perf_event::RECORD_SAMPLE if raw.bytes.len() >= 28 && raw.u32_at(16)? >= 8 => {
            let by = Some(raw.u32_at(24)?).filter(|by| *by != 0 && raw.bytes[22] & IN_INTERRUPT == 0);
            WakerRecord::Woken(Woken { at_ns: raw.u64_at(8)?, by })
        }
        perf_event::RECORD_LOST if raw.bytes.len() >= 24 => WakerRecord::Lost(raw.u64_at(16)?),
        _ => WakerRecord::Other,
    };
    Some((record, raw.bytes.len()))
}

/// Records the wake-ups of one thread, on all CPUs. Only one thread may read them.
#[derive(Debug)]
pub struct Wakers {
    rings: Vec<PerfRing>,
}

impl Wakers {
    /// Records the wake-ups of thread `tid` from now on. `tid` is a number of the first PID namespace: in another namespace, nothing is recorded.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON; `ENOENT` if the kernel has no such tracepoint; `ERANGE` if the machine has too many CPUs.
    pub fn of_thread(tid: u32) -> Result<Wakers, Errno> {
        let points = tracepoint::find(&[POINT])?;
        let attributes = Attributes::tracepoint(u64::from(points.first().ok_or(Errno::NOENT)?.id())).off();
        let text = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(|error| Errno::from(&error))?;
        let cpus = CpuSet::parse_list(text.trim()).ok_or(Errno::INVAL)?;
        if cpus.len() > CPUS_MAX {
            return Err(Errno::RANGE);
        }
        let open = |cpu| {
            let ring = PerfRing::small(Event::on_cpu(&attributes, cpu)?, RING_BYTES)?;
            // Set the filter before recording starts. Otherwise the ring would also hold wake-ups of other threads.
            ring.event().filter(&format!("pid == {tid}"))?;
            ring.resume()?;
            Ok(ring)
        };
        Ok(Wakers { rings: cpus.iter().map(open).collect::<Result<_, Errno>>()? })
    }

    /// Passes on each record since the last call. The records of one CPU are in order of time.
    pub fn drain(&mut self, mut on_record: impl FnMut(WakerRecord)) {
        for ring in &mut self.rings {
            let mut rest = ring.take();
            while let Some((record, length)) = first_waker_record(rest) {
                on_record(record);
                rest = &rest[length..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn record(flags: u8, by: u32) -> Vec<u8> {
        let mut bytes =
            [9_u32.to_ne_bytes().to_vec(), 0_u16.to_ne_bytes().to_vec(), 64_u16.to_ne_bytes().to_vec()].concat();
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend(36_u32.to_ne_bytes());
        bytes.extend([119, 1, flags, 0]);
        bytes.extend(by.to_ne_bytes());
        bytes.resize(64, 0);
        bytes
    }

    #[test]
    fn threads_and_interrupts_are_distinguished() {
        for (flags, by, expected) in [(0, 5, Some(5)), (1, 5, Some(5)), (8, 5, None), (16, 5, None), (0, 0, None)] {
            let woken = WakerRecord::Woken(Woken { at_ns: 77, by: expected });
            assert_eq!(first_waker_record(&record(flags, by)), Some((woken, 64)), "{flags} {by}");
        }
        assert_eq!(first_waker_record(&record(0, 5)[..63]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = bytes.as_slice();
            while let Some((_, length)) = first_waker_record(rest) {
                rest = &rest[length..];
            }
        }
    }

    #[test]
    fn a_thread_and_a_timer_are_seen_as_wakers() {
        let (say, hear) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let sleeper = std::thread::spawn(move || {
            say.send(crate::thread::id()).unwrap();
            let _ = wait.recv();
            // One sleep does not suffice: on a busy machine its time may pass before the thread gets there, and then no timer wakes the thread.
            while !asked.load(Ordering::Relaxed) {
                crate::clock::sleep_until_ns(crate::clock::monotonic_ns() + 1_000_000);
            }
        });
        let tid = hear.recv().unwrap();
        let made = Wakers::of_thread(tid);
        // Wait until the thread sleeps.
        let stat = || std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
        while !stat().contains("\nState:\tS") {
            std::thread::yield_now();
        }
        drop(go);
        let seen = made.map(|mut wakers| seen_until(&mut wakers, &[Some(crate::thread::id()), None]));
        ends.store(true, Ordering::Relaxed);
        sleeper.join().unwrap();
        match seen {
            Ok((true, _)) => {}
            Ok((false, seen)) => panic!("{seen:?}"),
            Err(errno) => {
                evenkeel_testkit::skipped(format_args!("this user may not see who wakes a thread ({errno})"));
            }
        }
    }

    /// Reads until each of `wanted` has woken the thread. Returns whether that happened, and the records.
    /// The time limit only catches a hang.
    fn seen_until(wakers: &mut Wakers, wanted: &[Option<u32>]) -> (bool, Vec<WakerRecord>) {
        let mut seen = Vec::new();
        let end_ns = crate::clock::monotonic_ns() + 60_000_000_000;
        loop {
            wakers.drain(|record| seen.push(record));
            let woke =
                |by: &Option<u32>| seen.iter().any(|one| matches!(one, WakerRecord::Woken(woken) if woken.by == *by));
            if wanted.iter().all(woke) {
                return (true, seen);
            }
            if crate::clock::monotonic_ns() > end_ns {
                return (false, seen);
            }
            std::thread::yield_now();
        }
    }
}
