//! What a recorder needs of perf_event_open(2): events of whole CPUs, of threads and of control groups, several of which write into one
//! ring a CPU, in the order of time. What their records say is read elsewhere: here they are bytes.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::errno::Errno;
use crate::perf_event::{Attributes, Event, PerfRing, Sampled};
use crate::perf_probe::Probe;

/// `read_format`: how many records of the event were lost (since Linux 6.0).
const READ_LOST: u64 = 1 << 4;

/// `flags` of [`Spec`], as the kernel numbers them.
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

/// What an event counts, and what its records hold. `sample_id_all` and the monotonic clock come by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// Which of its kind.
    pub config: u64,
    /// Samples a second with [`flag::FREQUENCY`], else events from one sample to the next.
    pub rate: u64,
    /// The fields of a sample (`PERF_SAMPLE_*`).
    pub sample_type: u64,
    /// See [`flag`].
    pub flags: u64,
    /// Which registers of user mode are copied (`PERF_REG_*`), one bit each.
    pub user_registers: u64,
    /// How much of the user's stack is copied, in bytes; a multiple of 8.
    pub user_stack_bytes: u32,
}

impl Spec {
    /// As the kernel gets it: `struct perf_event_attr` of the fifth version.
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
    /// The group at `path`.
    ///
    /// # Errors
    /// What the kernel says to opening it.
    pub fn open(path: &Path) -> Result<Group, Errno> {
        Ok(Group(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }
}

/// Whose events.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// Of all.
    Everybody,
    /// Of one thread; with [`flag::INHERIT`] of those that it makes later too. Zero is the thread that asks.
    Thread(u32),
    /// Of the threads in this group and in those below it.
    Group(&'a Group),
}

/// An event of one CPU, open.
#[derive(Debug)]
pub struct SampledEvent {
    event: Event,
    says_lost: bool,
}

impl SampledEvent {
    /// Opens it. It records from now on, unless it is [`flag::DISABLED`].
    ///
    /// # Errors
    /// `EACCES` or `EPERM` if this user may not; `ESRCH` if there is no such thread (any more); `ENODEV` if the CPU is offline;
    /// `ENOENT`, `EOPNOTSUPP` where there is no such event; `EINVAL` for a flag that this kernel does not know; `EMFILE` if the process may
    /// not have more files; `EBADF` for what is no control group of the kernel's `perf_event` controller.
    pub fn open(spec: &Spec, whose: Whose<'_>, cpu: usize) -> Result<SampledEvent, Errno> {
        SampledEvent::with(spec, [0; 2], whose, cpu)
    }

    /// The same of a place in a program's code: it records each time that the place is run. `spec` is of the kind and the config that
    /// [`Probe::numbers`] gives.
    ///
    /// # Errors
    /// As [`open`](SampledEvent::open); `ENOENT` if the file is not there, `EINVAL` if nothing can be probed there, `EIO`, `ENOTSUPP` if the
    /// instruction there is none that the kernel can step over.
    pub fn probe(spec: &Spec, probe: &Probe, whose: Whose<'_>, cpu: usize) -> Result<SampledEvent, Errno> {
        // The kernel copies the path while it opens the event; `probe` is alive until then.
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
            // Kernels before 6.0 know no such thing.
            Err(Errno::INVAL) => Ok(SampledEvent { event: with(0)?, says_lost: false }),
            Err(errno) => Err(errno),
        }
    }

    /// Its number, which its records carry.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn id(&self) -> Result<u64, Errno> {
        self.event.id()
    }

    /// How many of its records found no room, from the beginning on; nothing where the kernel does not say.
    pub fn lost(&self) -> Option<u64> {
        // The counter's value, then this.
        self.says_lost.then(|| self.event.values::<2>()).flatten().map(|[_, lost]| lost)
    }

    /// Records from now on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn resume(&self) -> Result<(), Errno> {
        self.event.resume()
    }

    /// Records nothing more.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pause(&self) -> Result<(), Errno> {
        self.event.pause()
    }

    /// Has its records written into `ring`, which is of the same CPU.
    ///
    /// # Errors
    /// `EINVAL` if it is not of the same CPU.
    pub fn record_into(&self, ring: &SampledRing) -> Result<(), Errno> {
        self.event.record_into(&ring.ring)
    }
}

/// The ring of one CPU. To be read by one thread.
#[derive(Debug)]
pub struct SampledRing {
    ring: PerfRing,
    says_lost: bool,
}

impl SampledRing {
    /// A ring that `event` writes into, and others that are told to. `bytes` is rounded up to a power of two, 128 KiB at the least.
    ///
    /// # Errors
    /// `EPERM` if this user may not have so much locked memory (kernel.perf_event_mlock_kb), `ENOMEM`.
    pub fn of(event: SampledEvent, bytes: usize) -> Result<SampledRing, Errno> {
        Ok(SampledRing { ring: PerfRing::sized(event.event, bytes)?, says_lost: event.says_lost })
    }

    /// How many records of its own event found no room: see [`SampledEvent::lost`].
    pub fn lost(&self) -> Option<u64> {
        self.says_lost.then(|| self.ring.event().values::<2>()).flatten().map(|[_, lost]| lost)
    }

    /// The number of its own event.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn id(&self) -> Result<u64, Errno> {
        self.ring.event().id()
    }

    /// How full it is, from 0 to 1. It costs two readings of memory.
    pub fn fullness(&self) -> f64 {
        self.ring.fullness()
    }

    /// Its own event records nothing more.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pause(&self) -> Result<(), Errno> {
        self.ring.pause()
    }

    /// All whole records since the last call.
    pub fn take(&mut self) -> &[u8] {
        self.ring.take()
    }
}

/// How many files this process may have open, after its own limit was raised to the most that it may raise it to.
pub fn files_allowed() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // What is not raised is as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sleeps until one of the rings is half full, or for so long. Those whose CPU or thread is gone are not waited for.
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
        // One that hangs up is ready for ever: to wait for it would be not to sleep.
        asked.retain(|asked| asked.revents().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_gets_has_the_length_that_it_says() {
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
            // Each millisecond of the task clock, of user mode alone: whoever may look at a thread may have that.
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
            let mut ring = SampledRing::of(event, 1).unwrap();
            let mut bytes = 0;
            // Time in which the whole machine stood still counts as the thread's, and nothing is sampled in it.
            for _ in 0..20 {
                let until_ns = crate::clock::thread_cpu_ns() + 20_000_000;
                // To ask for the time is the kernel's work, which is not sampled.
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
