//! The part of perf_event_open(2) that a recorder needs: events of whole CPUs, threads and control groups.
//! Several events write into one ring per CPU, in order of time. Here the records are only bytes; other code parses them.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::errno::Errno;
use crate::perf_event::{Attributes, Event, PerfRing, Sampled};
use crate::perf_probe::Probe;

/// A flag of `read_format`: how many records of the event were lost (since Linux 6.0).
const READ_LOST: u64 = 1 << 4;

/// The flags of a [`Spec`], with the kernel's numbers.
pub mod flag {
    #![expect(
        missing_docs,
        reason = "they are the kernel's own names in `struct perf_event_attr`; perf_event_open(2) describes each"
    )]

    pub const DISABLED: u64 = 1;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQUENCY: u64 = 1 << 10;
    pub const TASK: u64 = 1 << 13;
    pub const MMAP_DATA: u64 = 1 << 17;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    pub const BUILD_ID: u64 = 1 << 34;
}

/// What an event counts, and what its records contain. `sample_id_all` and the monotonic clock are always set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// The event within its type.
    pub config: u64,
    /// Samples per second with [`flag::FREQUENCY`], otherwise events per sample.
    pub rate: u64,
    /// The fields of a sample (`PERF_SAMPLE_*`).
    pub sample_type: u64,
    /// The flags: see [`flag`].
    pub flags: u64,
    /// The user-mode registers to copy (`PERF_REG_*`), one bit each.
    pub user_registers: u64,
    /// How many bytes of the user's stack to copy. A multiple of 8.
    pub user_stack_bytes: u32,
}

impl Spec {
    /// The description in the kernel's form: `struct perf_event_attr` of the fifth version.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.attributes(0, [0; 2]).to_bytes()
    }

    fn attributes(&self, read_format: u64, more: [u64; 2]) -> Attributes {
        let Spec { kind, config, rate, sample_type, flags, user_registers, user_stack_bytes } = *self;
        Attributes::sampled(&Sampled {
            kind,
            config,
            rate,
            sample_type,
            read_format,
            flags,
            user_registers,
            user_stack_bytes,
            more,
        })
    }
}

/// A control group, held open.
#[derive(Debug)]
pub struct Group(OwnedFd);

impl Group {
    /// Opens the group at `path`.
    ///
    /// # Errors
    /// The kernel's error for the group's folder.
    pub fn open(path: &Path) -> Result<Group, Errno> {
        Ok(Group(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }
}

/// The threads that an event covers.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// All threads.
    Everybody,
    /// One thread. With [`flag::INHERIT`], also threads that it creates later. Zero is the calling thread.
    Thread(u32),
    /// The threads of this group and of its descendants.
    Group(&'a Group),
}

/// An open event of one CPU.
#[derive(Debug)]
pub struct SampledEvent {
    event: Event,
    says_lost: bool,
}

impl SampledEvent {
    /// Opens the event. It records from now on, unless `spec` has [`flag::DISABLED`].
    ///
    /// # Errors
    /// `EACCES` or `EPERM` if this user may not open the event; `ESRCH` if the thread does not exist; `ENODEV` if the CPU is offline.
    /// `ENOENT` or `EOPNOTSUPP` if the event does not exist; `EINVAL` for a flag that this kernel does not know.
    /// `EMFILE` if the process may not open more files; `EBADF` if the group does not belong to the kernel's `perf_event` controller.
    pub fn open(spec: &Spec, whose: Whose<'_>, cpu: usize) -> Result<SampledEvent, Errno> {
        SampledEvent::with(spec, [0; 2], whose, cpu)
    }

    /// Opens an event for a probe in a program's code. It records each execution of the instruction.
    /// `spec` has the type and the config from [`Probe::numbers`].
    ///
    /// # Errors
    /// The same as for [`open`](SampledEvent::open). Also `ENOENT` if the file does not exist, and `EINVAL` if the kernel cannot probe this place.
    /// `EIO` or `ENOTSUPP` if the kernel cannot step over the instruction.
    pub fn probe(spec: &Spec, probe: &Probe, whose: Whose<'_>, cpu: usize) -> Result<SampledEvent, Errno> {
        // The kernel copies the path while it opens the event, and `probe` is alive until then.
        SampledEvent::with(spec, probe.address(), whose, cpu)
    }

    fn with(spec: &Spec, more: [u64; 2], whose: Whose<'_>, cpu: usize) -> Result<SampledEvent, Errno> {
        let with = |read_format: u64| {
            let attributes = spec.attributes(read_format, more);
            match whose {
                Whose::Everybody => Event::on_cpu(&attributes, cpu),
                Whose::Thread(tid) => Event::on_thread_on_cpu(&attributes, tid, cpu),
                Whose::Group(group) => Event::on_group_on_cpu(&attributes, &group.0, cpu),
            }
        };
        match with(READ_LOST) {
            Ok(event) => Ok(SampledEvent { event, says_lost: true }),
            // Kernels before 6.0 do not count lost records.
            Err(Errno::INVAL) => Ok(SampledEvent { event: with(0)?, says_lost: false }),
            Err(errno) => Err(errno),
        }
    }

    /// The event's id. Each record of the event contains it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn id(&self) -> Result<u64, Errno> {
        self.event.id()
    }

    /// How many records of this event were lost since the start. `None` if the kernel does not report this.
    pub fn lost(&self) -> Option<u64> {
        // The kernel writes the counter's value first, then the number of lost records.
        self.says_lost.then(|| self.event.values::<2>()).flatten().map(|[_, lost]| lost)
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn resume(&self) -> Result<(), Errno> {
        self.event.resume()
    }

    /// Stops recording.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pause(&self) -> Result<(), Errno> {
        self.event.pause()
    }

    /// Makes the event write its records into `ring`, which must have the same CPU.
    ///
    /// # Errors
    /// `EINVAL` if the ring has another CPU.
    pub fn record_into(&self, ring: &SampledRing) -> Result<(), Errno> {
        self.event.record_into(&ring.ring)
    }
}

/// The ring of one CPU. Only one thread may read it.
#[derive(Debug)]
pub struct SampledRing {
    ring: PerfRing,
    says_lost: bool,
}

impl SampledRing {
    /// A ring for `event`, and for other events that write into it. `bytes` is rounded up to a power of two, at least 128 KiB.
    ///
    /// # Errors
    /// `EPERM` if this user may not lock that much memory (kernel.perf_event_mlock_kb); `ENOMEM` if there is not enough memory.
    pub fn new(event: SampledEvent, bytes: usize) -> Result<SampledRing, Errno> {
        Ok(SampledRing { ring: PerfRing::sized(event.event, bytes)?, says_lost: event.says_lost })
    }

    /// How many records of the ring's own event were lost: see [`SampledEvent::lost`].
    pub fn lost(&self) -> Option<u64> {
        self.says_lost.then(|| self.ring.event().values::<2>()).flatten().map(|[_, lost]| lost)
    }

    /// The id of the ring's own event.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn id(&self) -> Result<u64, Errno> {
        self.ring.event().id()
    }

    /// How full the ring is, from 0 to 1. The call reads memory twice.
    pub fn fullness(&self) -> f64 {
        self.ring.fullness()
    }

    /// Stops recording of the ring's own event.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pause(&self) -> Result<(), Errno> {
        self.ring.pause()
    }

    /// Returns all complete records since the last call.
    pub fn take(&mut self) -> &[u8] {
        self.ring.take()
    }
}

/// Raises this process's soft limit on open files to the hard limit, and returns how many files it may open.
pub fn files_allowed() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, it stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sleeps until one of the rings is half full, or `longest_ms` have passed. Ignores rings whose CPU or thread is gone.
pub fn wait_for_half<'a>(rings: impl Iterator<Item = &'a SampledRing>, longest_ms: u32) {
    let until_ns = crate::clock::monotonic_ns() + u64::from(longest_ms) * 1_000_000;
    let mut asked: Vec<PollFd<'_>> =
        rings.map(|ring| PollFd::new(ring.ring.event().descriptor(), PollFlags::IN)).collect();
    loop {
        let left_ns = until_ns.saturating_sub(crate::clock::monotonic_ns());
        if left_ns == 0 {
            return;
        }
        if asked.is_empty() {
            crate::clock::sleep_until_ns(until_ns);
            return;
        }
        let left = rustix::time::Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        };
        match rustix::event::poll(&mut asked, Some(&left)) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if asked.iter().any(|asked| asked.revents().contains(PollFlags::IN)) {
            return;
        }
        // A ring whose thread is gone is always ready, so with such a ring the wait would never sleep.
        asked.retain(|asked| asked.revents().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_their_announced_length() {
        let spec = Spec { kind: 1, config: 9, rate: 99, sample_type: 7, flags: flag::FREQUENCY, ..Spec::default() };
        let bytes = spec.to_bytes();
        assert_eq!(bytes.len(), 112);
        assert_eq!(bytes[4..8], 112_u32.to_ne_bytes());
        assert_eq!(bytes[16..24], 99_u64.to_ne_bytes());
        let clock_at = 92;
        assert_eq!(bytes[clock_at..clock_at + 4], 1_i32.to_ne_bytes(), "the monotonic clock");
    }

    #[test]
    fn our_own_thread_is_sampled_and_its_ring_says_so() {
        let cpu = crate::thread::affinity().unwrap().first().unwrap();
        let body = move || {
            crate::thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            // Takes a sample each millisecond of the task clock, in user mode only. The kernel allows this for any thread that the user may inspect.
            let flags = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HYPERVISOR;
            let spec =
                Spec { kind: 1, config: 1, rate: 1_000_000, sample_type: 1 << 1 | 1 << 2, flags, ..Spec::default() };
            let event = match SampledEvent::open(&spec, Whose::Thread(0), cpu) {
                Ok(event) => event,
                Err(errno) => {
                    assert!(errno.is_denial() || errno == Errno::NOSYS || errno == Errno::NOENT, "{errno}");
                    evenkeel_testkit::skipped(format_args!("this user may not sample a thread ({errno})"));
                    return;
                }
            };
            assert!(event.id().unwrap() > 0);
            assert!(event.lost().is_none_or(|lost| lost == 0));
            let mut ring = SampledRing::new(event, 1).unwrap();
            let mut bytes = 0;
            // If the whole machine stalls, the stall counts as the thread's time, but the kernel takes no samples.
            for _ in 0..20 {
                let until_ns = crate::clock::thread_cpu_ns() + 20_000_000;
                // Reading the clock is work in the kernel, which is not sampled.
                while crate::clock::thread_cpu_ns() < until_ns {
                    (0..10_000).for_each(|_| std::hint::spin_loop());
                }
                let is_empty = ring.fullness() <= 0.0;
                let taken = ring.take().len();
                assert!(taken == 0 || !is_empty);
                bytes += taken;
                if bytes >= 24 * 3 {
                    break;
                }
            }
            ring.pause().unwrap();
            assert!(bytes >= 24 * 3, "work was sampled");
            wait_for_half([&ring].into_iter(), 1);
        };
        std::thread::spawn(body).join().unwrap();
    }
}
