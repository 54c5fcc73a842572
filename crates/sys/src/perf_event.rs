//! The common part of all perf_event_open(2) events that record into memory.
//! This module opens an event on a CPU, and has the ring into which the kernel writes its records.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::errno::Errno;

/// The default ring: 4,096 records of 32 bytes, or some seconds of a busy CPU's switches. It is a power of two pages for any page size.
const RING_BYTES: usize = 1 << 17;

/// The offsets of the writer's and the reader's position in `struct perf_event_mmap_page`.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_RAW: u64 = 1 << 10;
const FLAG_DISABLED: u64 = 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const OPEN_CLOEXEC: libc::c_ulong = 8;
/// `PERF_FLAG_PID_CGROUP`: the descriptor names a control group.
const OPEN_GROUP: libc::c_ulong = 4;
/// `PERF_EVENT_IOC_ID`: `_IOR('$', 7, __u64 *)`.
const ID: libc::Ioctl = 0x8008_2407_u32 as libc::Ioctl;
/// `PERF_EVENT_IOC_SET_OUTPUT`: `_IO('$', 5)`.
const SET_OUTPUT: libc::Ioctl = 0x2405;
/// `PERF_EVENT_IOC_DISABLE`: `_IO('$', 1)`.
const DISABLE: libc::Ioctl = 0x2401;
/// `PERF_EVENT_IOC_ENABLE`: `_IO('$', 0)`.
const ENABLE: libc::Ioctl = 0x2400;

/// `PERF_EVENT_IOC_SET_FILTER`: `_IOW('$', 6, char *)`.
const SET_FILTER: libc::Ioctl = 0x4008_2406;

/// The sample fields of every record of a thread's event.
pub(crate) const SAMPLE_OF_THREADS: u64 = SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU;

/// The kernel lost this many records, because they were not read in time.
pub(crate) const RECORD_LOST: u32 = 2;
/// A sample, such as a tracepoint's.
pub(crate) const RECORD_SAMPLE: u32 = 9;

/// `struct perf_event_attr` of its fifth version, which is the first version with a clock.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Attributes {
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

impl Attributes {
    /// A kernel software event, with the thread and the time in each record.
    pub(crate) fn software(config: u64, flags: u64) -> Attributes {
        Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config,
            sample_type: SAMPLE_TID | SAMPLE_TIME,
            flags: flags | FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        }
    }

    /// Returns these attributes with the CPU in each record, and without counting kernel time.
    /// The kernel allows the result for any thread that the user may inspect.
    pub(crate) fn of_threads(self) -> Attributes {
        Attributes {
            sample_type: self.sample_type | SAMPLE_CPU,
            flags: self.flags | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HYPERVISOR,
            ..self
        }
    }

    /// Returns these attributes with recording off.
    pub(crate) fn off(self) -> Attributes {
        Attributes { flags: self.flags | FLAG_DISABLED, ..self }
    }

    /// Records each hit of the tracepoint with this number, as a sample with the time and the tracepoint's data.
    pub(crate) fn tracepoint(id: u64) -> Attributes {
        Attributes {
            kind: TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: id,
            sample_period: 1,
            sample_type: SAMPLE_TIME | SAMPLE_RAW,
            flags: FLAG_USE_CLOCKID,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        }
    }
}

/// The arguments of [`Attributes::sampled`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// Samples per second, or events per sample, depending on the flags.
    pub(crate) rate: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) user_registers: u64,
    pub(crate) user_stack_bytes: u32,
    /// Additional configuration that some kinds of events need.
    pub(crate) more: [u64; 2],
}

impl Attributes {
    /// A sampled event on the monotonic clock, with the thread and the time in each record.
    pub(crate) fn sampled(of: &Sampled) -> Attributes {
        Attributes {
            kind: of.kind,
            size: size_of::<Attributes>() as u32,
            config: of.config,
            sample_period: of.rate,
            sample_type: of.sample_type,
            read_format: of.read_format,
            flags: of.flags | FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID,
            sample_regs_user: of.user_registers,
            sample_stack_user: of.user_stack_bytes,
            config1: of.more[0],
            config2: of.more[1],
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        }
    }

    /// The bytes of the attributes, as in the system call and in a `perf.data` file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Attributes { kind, size, config, sample_period, sample_type, read_format, flags, .. } = self;
        let mut bytes = [kind.to_ne_bytes(), size.to_ne_bytes()].concat();
        let words = [config, sample_period, sample_type, read_format, flags];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend([self.wakeup_events, self.bp_type].iter().flat_map(|half| half.to_ne_bytes()));
        let words = [self.config1, self.config2, self.branch_sample_type, self.sample_regs_user];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(self.sample_stack_user.to_ne_bytes());
        bytes.extend(self.clockid.to_ne_bytes());
        bytes.extend(self.sample_regs_intr.to_ne_bytes());
        bytes.extend(self.aux_watermark.to_ne_bytes());
        bytes.extend([self.sample_max_stack, self.reserved].iter().flat_map(|quarter| quarter.to_ne_bytes()));
        bytes
    }
}

/// An open event.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    /// Opens an event of all threads on `cpu`. It records from now on.
    pub(crate) fn on_cpu(attributes: &Attributes, cpu: usize) -> Result<Event, Errno> {
        Event::open(attributes, -1, i32::try_from(cpu).map_err(|_| Errno::INVAL)?, 0)
    }

    /// Opens an event of one thread on any CPU. It records from now on.
    pub(crate) fn on_thread(attributes: &Attributes, tid: u32) -> Result<Event, Errno> {
        // Zero would mean the calling thread, so refuse zero.
        let tid = i32::try_from(tid).ok().filter(|tid| *tid > 0).ok_or(Errno::INVAL)?;
        Event::open(attributes, tid, -1, 0)
    }

    /// Opens an event of one thread while the thread is on `cpu`. It records from now on. Zero is the calling thread.
    pub(crate) fn on_thread_on_cpu(attributes: &Attributes, tid: u32, cpu: usize) -> Result<Event, Errno> {
        let tid = i32::try_from(tid).map_err(|_| Errno::INVAL)?;
        Event::open(attributes, tid, i32::try_from(cpu).map_err(|_| Errno::INVAL)?, 0)
    }

    /// Opens an event of all threads of a control group while they are on `cpu`. It records from now on.
    pub(crate) fn on_group_on_cpu(attributes: &Attributes, group: &OwnedFd, cpu: usize) -> Result<Event, Errno> {
        let cpu = i32::try_from(cpu).map_err(|_| Errno::INVAL)?;
        Event::open(attributes, group.as_raw_fd(), cpu, OPEN_GROUP)
    }

    fn open(attributes: &Attributes, whom: i32, cpu: i32, more: libc::c_ulong) -> Result<Event, Errno> {
        // SAFETY: the kernel reads `size` bytes, which is the whole struct, and keeps no pointer.
        let fd = unsafe {
            let attributes: *const Attributes = attributes;
            libc::syscall(libc::SYS_perf_event_open, attributes, whom, cpu, -1, OPEN_CLOEXEC | more)
        };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(Errno::from(&std::io::Error::last_os_error()));
        }
        // SAFETY: the kernel just gave us this descriptor, and no other code has it.
        Ok(Event(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the event write its records into the ring of `other`, which must have the same CPU and clock.
    pub(crate) fn record_into(&self, other: &PerfRing) -> Result<(), Errno> {
        self.request(SET_OUTPUT, other.event.0.as_raw_fd())
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Whether the event's thread has ended.
    fn is_over(&self) -> bool {
        let mut asked = [PollFd::new(&self.0, PollFlags::empty())];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut asked, Some(&now)).is_ok() && asked[0].revents().contains(PollFlags::HUP)
    }

    /// Starts or continues recording.
    pub(crate) fn resume(&self) -> Result<(), Errno> {
        self.request(ENABLE, 0)
    }

    /// Pauses recording until [`resume`](Event::resume).
    pub(crate) fn pause(&self) -> Result<(), Errno> {
        self.request(DISABLE, 0)
    }

    /// Records only hits of the event's tracepoint for which `condition` holds, such as `pid == 7`.
    pub(crate) fn filter(&self, condition: &str) -> Result<(), Errno> {
        let condition = std::ffi::CString::new(condition).map_err(|_| Errno::INVAL)?;
        // SAFETY: the kernel copies the text, which ends with a zero and is alive during the call. The descriptor is open.
        let said = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_FILTER, condition.as_ptr()) };
        if said < 0 { Err(Errno::from(&std::io::Error::last_os_error())) } else { Ok(()) }
    }

    /// The event's id. Each record of the event contains it.
    pub(crate) fn id(&self) -> Result<u64, Errno> {
        let mut id = 0_u64;
        // SAFETY: the kernel writes eight bytes to `id`, which is alive and ours. The descriptor is open.
        let said = unsafe { libc::ioctl(self.0.as_raw_fd(), ID, &raw mut id) };
        if said < 0 { Err(Errno::from(&std::io::Error::last_os_error())) } else { Ok(id) }
    }

    /// The event's counter values in words of eight bytes: see `read_format` in perf_event_open(2). `None` if they cannot be read.
    pub(crate) fn values<const N: usize>(&self) -> Option<[u64; N]> {
        let mut bytes = [0_u8; 64];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let words = bytes.get(..length)?.as_chunks::<8>().0;
        let mut values = [0; N];
        for (value, word) in values.iter_mut().zip(words.get(..N)?) {
            *value = u64::from_ne_bytes(*word);
        }
        Some(values)
    }

    fn request(&self, what: libc::Ioctl, argument: i32) -> Result<(), Errno> {
        // SAFETY: the requests of this file take their argument by value and touch no memory of this process. The descriptor is open.
        let said = unsafe { libc::ioctl(self.0.as_raw_fd(), what, argument) };
        if said < 0 { Err(Errno::from(&std::io::Error::last_os_error())) } else { Ok(()) }
    }
}

/// The ring of an event. Only one thread may read it.
#[derive(Debug)]
pub(crate) struct PerfRing {
    map: NonNull<u8>,
    /// The size of a page. The ring begins after the first page.
    page_bytes: usize,
    ring_bytes: usize,
    event: Event,
    bytes: Vec<u8>,
}

// SAFETY: only this value has the mapping, and only `&mut self` reaches the mapping. This value may move to another thread.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Makes a ring of the default size for this event.
    pub(crate) fn new(event: Event) -> Result<PerfRing, Errno> {
        PerfRing::sized(event, RING_BYTES)
    }

    /// Makes a ring of this many bytes for this event, rounded up to a power of two of pages.
    pub(crate) fn sized(event: Event, ring_bytes: usize) -> Result<PerfRing, Errno> {
        PerfRing::small(event, ring_bytes.max(RING_BYTES))
    }

    /// Makes a ring like [`sized`](PerfRing::sized), but it may be smaller than the default.
    pub(crate) fn small(event: Event, ring_bytes: usize) -> Result<PerfRing, Errno> {
        let ring_bytes = ring_bytes.max(rustix::param::page_size()).next_power_of_two();
        let page_bytes = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address. Dropping this value removes the mapping.
        let map = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), ring_bytes + page_bytes, protection, MapFlags::SHARED, &event.0, 0)?
        };
        let map = NonNull::new(map.cast::<u8>()).ok_or(Errno::INVAL)?;
        Ok(PerfRing { map, page_bytes, ring_bytes, event, bytes: Vec::with_capacity(ring_bytes) })
    }

    fn place(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both places are 8-byte aligned fields of the first page of the mapping, which lives as long as this value.
        // The kernel writes these fields as whole words.
        unsafe { self.map.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// How full the ring is, from 0 to 1. The call reads memory twice.
    pub(crate) fn fullness(&self) -> f64 {
        let (tail, head) = (self.place(TAIL_AT).load(Ordering::Relaxed), self.place(HEAD_AT).load(Ordering::Relaxed));
        head.wrapping_sub(tail) as f64 / self.ring_bytes as f64
    }

    /// Whether the event's thread has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.event.is_over()
    }

    /// Pauses recording until [`resume`](PerfRing::resume).
    pub(crate) fn pause(&self) -> Result<(), Errno> {
        self.event.pause()
    }

    /// Resumes recording.
    pub(crate) fn resume(&self) -> Result<(), Errno> {
        self.event.resume()
    }

    /// The event of the ring.
    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    /// Returns all complete records since the last call, and makes room for new records.
    pub(crate) fn take(&mut self) -> &[u8] {
        let tail = self.place(TAIL_AT).load(Ordering::Relaxed);
        // This load pairs with the kernel's barrier before it moves the head, so everything before the head is written.
        let head = self.place(HEAD_AT).load(Ordering::Acquire);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.ring_bytes);
        let start = (tail % self.ring_bytes as u64) as usize;
        let first = length.min(self.ring_bytes - start);
        self.bytes.clear();
        // SAFETY: both parts lie in the ring behind the first page. The kernel does not write between tail and head.
        unsafe {
            let ring = self.map.add(self.page_bytes);
            self.bytes.extend_from_slice(std::slice::from_raw_parts(ring.add(start).as_ptr(), first));
            self.bytes.extend_from_slice(std::slice::from_raw_parts(ring.as_ptr(), length - first));
        }
        // The kernel may now overwrite the copied data.
        self.place(TAIL_AT).store(head, Ordering::Release);
        &self.bytes
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it exists any more.
        let _ = unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), self.ring_bytes + self.page_bytes) };
    }
}

/// A record in the ring, including its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) bytes: &'a [u8],
}

impl Raw<'_> {
    pub(crate) fn u32_at(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }

    pub(crate) fn u64_at(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes.get(at..at + 8)?.try_into().ok()?))
    }
}

/// The first record in `bytes`. `None` if `bytes` has no complete record.
pub(crate) fn first_raw(bytes: &[u8]) -> Option<Raw<'_>> {
    let kind = u32::from_ne_bytes(bytes.get(0..4)?.try_into().ok()?);
    let misc = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let length = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    // A record of length 0 would cause an endless loop.
    (length >= 8).then(|| bytes.get(..length).map(|bytes| Raw { kind, misc, bytes }))?
}
