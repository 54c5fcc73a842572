//! `Switches`: who was given a CPU and when, from the kernel's own records of context switches (perf_event_open(2)). They need no
//! tracer, and are whole where the scheduler's tracepoint is not. Reading them takes no system call.

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use crate::errno::Errno;

/// The ring: 4,096 records, some seconds of a busy CPU's. A power of two pages of any size that there is.
const RING_BYTES: usize = 1 << 17;

/// Where `struct perf_event_mmap_page` has the writer's and the reader's place.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

const TYPE_SOFTWARE: u32 = 1;
const SOFTWARE_DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;
const OPEN_CLOEXEC: libc::c_ulong = 8;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
/// A thread's name with the zero behind it (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 16;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
const MISC_SWITCH_OUT: u16 = 1 << 13;

/// `struct perf_event_attr` as of its fifth version, the first that has a clock.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// A thread was given the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// The thread's number; 0 is the idle one.
    pub tid: u32,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A thread was given the CPU.
    In(Switch),
    /// A thread has a new name.
    Named {
        /// The thread's number.
        tid: u32,
        /// Its name, filled up with zeros.
        name: [u8; NAME_BYTES],
    },
    /// So many records were lost, because nobody read in time.
    Lost(u64),
    /// Another one.
    Other,
}

/// The first record in `bytes` and its length; none if they don't hold a whole one.
pub fn first_record(bytes: &[u8]) -> Option<(Record, usize)> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let kind = u32_at(0)?;
    let misc = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let length = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    if length < 8 || length > bytes.len() {
        return None;
    }
    let record = match kind {
        // The other thread's process and number, then the sample's: process and number of this one, and the time.
        RECORD_SWITCH_CPU_WIDE if length >= 32 && misc & MISC_SWITCH_OUT == 0 => {
            Record::In(Switch { at_ns: u64_at(24)?, tid: u32_at(20)? })
        }
        RECORD_COMM if length > 16 => {
            let mut name = [0; NAME_BYTES];
            let said = &bytes[16..length.min(16 + NAME_BYTES)];
            let end = said.iter().position(|byte| *byte == 0).unwrap_or(said.len());
            name[..end].copy_from_slice(&said[..end]);
            Record::Named { tid: u32_at(12)?, name }
        }
        RECORD_LOST if length >= 24 => Record::Lost(u64_at(16)?),
        _ => Record::Other,
    };
    Some((record, length))
}

/// The switches of one CPU. To be read by one thread.
#[derive(Debug)]
pub struct Switches {
    map: NonNull<u8>,
    /// The ring begins behind the first page.
    page_bytes: usize,
    _event: OwnedFd,
    bytes: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and is reached through `&mut self` only; it may move to another thread.
unsafe impl Send for Switches {}

impl Switches {
    /// Records the switches of `cpu` from now on.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON (or kernel.perf_event_paranoid at 0 or less), `ENODEV` if the CPU is offline, `ENOSYS`
    /// where the kernel has no such events.
    pub fn of_cpu(cpu: usize) -> Result<Switches, Errno> {
        let attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: SOFTWARE_DUMMY,
            sample_type: SAMPLE_TID | SAMPLE_TIME,
            flags: FLAG_COMM | FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID | FLAG_CONTEXT_SWITCH,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let cpu = i32::try_from(cpu).map_err(|_| Errno::INVAL)?;
        // SAFETY: the kernel reads `size` bytes of the struct, its whole length, and keeps no pointer.
        let fd = unsafe {
            let attributes: *const Attributes = &attributes;
            libc::syscall(libc::SYS_perf_event_open, attributes, -1, cpu, -1, OPEN_CLOEXEC)
        };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(Errno::from(&std::io::Error::last_os_error()));
        }
        // SAFETY: the kernel gave us this descriptor just now, and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        let page_bytes = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; it is unmapped when this value is dropped.
        let map = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), RING_BYTES + page_bytes, protection, MapFlags::SHARED, &event, 0)?
        };
        let map = NonNull::new(map.cast::<u8>()).ok_or(Errno::INVAL)?;
        Ok(Switches { map, page_bytes, _event: event, bytes: Vec::with_capacity(RING_BYTES) })
    }

    fn place(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both places are 8-byte aligned fields of the first page of the mapping, which lives as long as this value; the kernel
        // writes them as whole words.
        unsafe { self.map.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// How full the ring is, from 0 to 1. It costs two readings of memory.
    pub fn fullness(&self) -> f64 {
        let (tail, head) = (self.place(TAIL_AT).load(Ordering::Relaxed), self.place(HEAD_AT).load(Ordering::Relaxed));
        head.wrapping_sub(tail) as f64 / RING_BYTES as f64
    }

    /// Hands over each record since the last call.
    pub fn drain(&mut self, mut on_record: impl FnMut(Record)) {
        let tail = self.place(TAIL_AT).load(Ordering::Relaxed);
        // Pairs with the kernel's barrier before it moves the head: what lies before the head is written.
        let head = self.place(HEAD_AT).load(Ordering::Acquire);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(RING_BYTES);
        let start = (tail % RING_BYTES as u64) as usize;
        let first = length.min(RING_BYTES - start);
        self.bytes.clear();
        // SAFETY: both stretches lie in the ring behind the first page, and the kernel does not write between tail and head.
        unsafe {
            let ring = self.map.add(self.page_bytes);
            self.bytes.extend_from_slice(std::slice::from_raw_parts(ring.add(start).as_ptr(), first));
            self.bytes.extend_from_slice(std::slice::from_raw_parts(ring.as_ptr(), length - first));
        }
        // What was copied may be written over.
        self.place(TAIL_AT).store(head, Ordering::Release);
        let mut rest = self.bytes.as_slice();
        while let Some((record, length)) = first_record(rest) {
            on_record(record);
            rest = &rest[length..];
        }
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), RING_BYTES + self.page_bytes) };
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
    fn records_are_told_apart() {
        let [low, high] = if cfg!(target_endian = "little") { [7, 0] } else { [0, 7] };
        let given = record(RECORD_SWITCH_CPU_WIDE, 0, &[1, 2, 30, 31, low, high]);
        assert_eq!(first_record(&given), Some((Record::In(Switch { at_ns: 7, tid: 31 }), 32)));
        let taken = record(RECORD_SWITCH_CPU_WIDE, MISC_SWITCH_OUT, &[1, 2, 30, 31, low, high]);
        assert_eq!(first_record(&taken), Some((Record::Other, 32)));
        assert_eq!(first_record(&record(RECORD_LOST, 0, &[0, 0, low, high])), Some((Record::Lost(7), 24)));
        let named = record(RECORD_COMM, 0, &[1, 2, u32::from_ne_bytes(*b"cc1\0"), 9, 9]);
        let name = *b"cc1\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(first_record(&named), Some((Record::Named { tid: 2, name }, 28)));
        assert_eq!(first_record(&record(RECORD_SWITCH_CPU_WIDE, 0, &[1])), Some((Record::Other, 12)), "too short");
        assert_eq!(first_record(&given[..20]), None);
        assert_eq!(first_record(&[0; 8]), None, "a record of no length would never end");
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
                    println!("skipped: this user may not see who runs on a CPU ({errno})");
                    return;
                }
            };
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            for _ in 0..3 {
                let before_ns = crate::clock::monotonic_ns();
                crate::clock::sleep_until_ns(before_ns + 1_000_000);
                let after_ns = crate::clock::monotonic_ns();
                let mut is_seen = false;
                switches.drain(|record| {
                    is_seen |= matches!(record, Record::In(Switch { at_ns, tid: seen }) if seen == tid && at_ns > before_ns && at_ns < after_ns);
                });
                assert!(is_seen);
            }
        });
        ours.join().unwrap();
    }
}
