//! `Tracepoints`: when chosen kernel tracepoints are hit on one CPU, and their first data word (perf_event_open(2)).
//! The recording enables no tracer and writes no file. So other processes do not notice it, and it ends with the process.
//!
//! An event needs the tracepoint's number, which tracefs provides.
//! If tracefs is not mounted, we create a mount that is not attached to the file tree (fsmount(2)).
//! No other process can see this mount, and it disappears with its descriptor.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::errno::Errno;
use crate::perf_event::{self, Attributes, Event, PerfRing};

/// The usual mount point of tracefs. tracefs also exists below debugfs, but a lookup there would mount it visibly for all processes.
const MOUNTED_AT: &str = "/sys/kernel/tracing";

/// A tracepoint and its number in the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// The tracepoint's name with its group, such as `irq/softirq_entry`.
    pub name: &'static str,
    id: u16,
}

/// The numbers of these tracepoints, each named like `irq/softirq_entry`. Tracepoints that this kernel lacks are left out.
///
/// # Errors
/// `EACCES` or `EPERM` if this user may not see tracepoints; `ENOENT` or `ENODEV` if the kernel has no tracepoints.
pub fn find(names: &[&'static str]) -> Result<Vec<Tracepoint>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, MOUNTED_AT, flags, Mode::empty()).map_err(Errno::from);
    match top.and_then(|top| ids_in(&top, names)) {
        Err(Errno::NOENT) => own_mount().and_then(|top| ids_in(&top, names)),
        said => said,
    }
}

/// At most `bytes_max` bytes of a file in tracefs, such as `events/sched/sched_waking/format`.
///
/// # Errors
/// `EACCES` or `EPERM` if this user may not read the file; `ENOENT` if the file does not exist.
pub fn described(path: &str, bytes_max: u64) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let read = |top: OwnedFd| {
        let file = openat(top, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file).take(bytes_max).read_to_end(&mut bytes).map_err(|error| Errno::from(&error))?;
        Ok(bytes)
    };
    match openat(CWD, MOUNTED_AT, flags, Mode::empty()).map_err(Errno::from).and_then(read) {
        Err(Errno::NOENT) => own_mount().and_then(read),
        said => said,
    }
}

fn own_mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn ids_in(top: &OwnedFd, names: &[&'static str]) -> Result<Vec<Tracepoint>, Errno> {
    let mut found = Vec::new();
    let mut refused = Errno::NOENT;
    for name in names {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match openat(top, format!("events/{name}/id"), flags, Mode::empty()) {
            Ok(file) => {
                let mut text = String::new();
                File::from(file).take(32).read_to_string(&mut text).map_err(|error| Errno::from(&error))?;
                // Records have 16 bits for the number.
                let id = text.trim().parse().map_err(|_| Errno::INVAL)?;
                found.push(Tracepoint { name, id });
            }
            Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => refused = errno.into(),
        }
    }
    if found.is_empty() { Err(refused) } else { Ok(found) }
}

/// Keeps tracepoints ready: the first use of each takes the kernel some 30 ms, and later uses cost nothing more.
/// `Ready` records nothing, and ends when this value is dropped.
#[derive(Debug)]
pub struct Ready {
    _events: Vec<Event>,
}

impl Ready {
    /// Prepares `points` by an event on `cpu`, which must be online.
    ///
    /// # Errors
    /// The same errors as [`Tracepoints::of_cpu`].
    pub fn new(points: &[Tracepoint], cpu: usize) -> Result<Ready, Errno> {
        let open = |point: &Tracepoint| Event::on_cpu(&Attributes::tracepoint(u64::from(point.id)).off(), cpu);
        Ok(Ready { _events: points.iter().map(open).collect::<Result<_, _>>()? })
    }
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A tracepoint was hit.
    At {
        /// When the tracepoint was hit, on the monotonic clock.
        at_ns: u64,
        /// The tracepoint's number.
        id: u16,
        /// The first four bytes of the tracepoint's data.
        word: u32,
    },
    /// The kernel lost this many records, because they were not read in time.
    Lost(u64),
    /// A record of another kind.
    Other,
}

/// The first record in `bytes` and its length. `None` if `bytes` has no complete record.
pub fn first_hit(bytes: &[u8]) -> Option<(Hit, usize)> {
    let raw = perf_event::first_raw(bytes)?;
    let hit = match raw.kind {
        // A record has the header, the time, the size of the tracepoint's data, and the data.
        // The data begin with the number in 16 bits, then six common bytes, then the tracepoint's own fields.
        perf_event::RECORD_SAMPLE if raw.bytes.len() >= 32 && raw.u32_at(16)? >= 12 => {
            let id = u16::from_ne_bytes(raw.bytes.get(20..22)?.try_into().ok()?);
            Hit::At { at_ns: raw.u64_at(8)?, id, word: raw.u32_at(28)? }
        }
        perf_event::RECORD_LOST if raw.bytes.len() >= 24 => Hit::Lost(raw.u64_at(16)?),
        _ => Hit::Other,
    };
    Some((hit, raw.bytes.len()))
}

/// The tracepoints of one CPU, recorded into one ring in order of time. Only one thread may read it.
#[derive(Debug)]
pub struct Tracepoints {
    ring: PerfRing,
    /// The other events, which write into the first event's ring.
    _others: Vec<Event>,
}

impl Tracepoints {
    /// Records the hits of `points` on `cpu` from now on.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON; `EMFILE` if the process may not open a file for each tracepoint; `EINVAL` if `points` is empty.
    pub fn of_cpu(cpu: usize, points: &[Tracepoint]) -> Result<Tracepoints, Errno> {
        let (first, others) = points.split_first().ok_or(Errno::INVAL)?;
        let open = |point: &Tracepoint| Event::on_cpu(&Attributes::tracepoint(u64::from(point.id)), cpu);
        let ring = PerfRing::new(open(first)?)?;
        let into_ring = |point: &Tracepoint| {
            let event = open(point)?;
            event.record_into(&ring)?;
            Ok(event)
        };
        let others = others.iter().map(into_ring).collect::<Result<Vec<_>, Errno>>()?;
        Ok(Tracepoints { ring, _others: others })
    }

    /// How full the ring is, from 0 to 1. The call reads memory twice.
    pub fn fullness(&self) -> f64 {
        self.ring.fullness()
    }

    /// Passes on each record since the last call.
    pub fn drain(&mut self, mut on_hit: impl FnMut(Hit)) {
        let mut rest = self.ring.take();
        while let Some((hit, length)) = first_hit(rest) {
            on_hit(hit);
            rest = &rest[length..];
        }
    }
}

impl Tracepoint {
    /// The tracepoint's number, as in [`Hit::At`].
    pub fn id(&self) -> u16 {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hits_are_distinguished() {
        let mut bytes =
            [9_u32.to_ne_bytes().to_vec(), 0_u16.to_ne_bytes().to_vec(), 40_u16.to_ne_bytes().to_vec()].concat();
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend(20_u32.to_ne_bytes());
        bytes.extend([223_u16.to_ne_bytes(), [9, 9], [9, 9], [9, 9]].concat());
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend([0; 8]);
        assert_eq!(first_hit(&bytes), Some((Hit::At { at_ns: 77, id: 223, word: 3 }, 40)));
        assert_eq!(first_hit(&bytes[..39]), None);
        bytes[16..20].copy_from_slice(&8_u32.to_ne_bytes());
        assert_eq!(first_hit(&bytes), Some((Hit::Other, 40)), "too few bytes of its own");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = bytes.as_slice();
            while let Some((_, length)) = first_hit(rest) {
                rest = &rest[length..];
            }
        }
    }

    #[test]
    fn our_own_timer_is_seen() {
        let cpu = crate::thread::affinity().unwrap().first().unwrap();
        let body = move || {
            crate::thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            let before = mounts();
            let names = ["irq_vectors/local_timer_entry", "irq/irq_handler_entry", "none/such"];
            let made = find(&names).and_then(|points| {
                assert!(!points.is_empty() && points.len() < 3, "{points:?}");
                let _ready = Ready::new(&points, cpu)?;
                Tracepoints::of_cpu(cpu, &points)
            });
            if let Ok(top) = own_mount() {
                assert_eq!(ids_in(&top, &names), find(&names), "both ways of reading give the same numbers");
            }
            assert_eq!(mounts(), before, "our mount is not visible");
            let mut points = match made {
                Ok(points) => points,
                Err(errno) => {
                    evenkeel_testkit::skipped(format_args!("this user may not see tracepoints ({errno})"));
                    return;
                }
            };
            // If the machine stalls before the thread falls asleep, the thread has nothing to wait for and sets no timer.
            let mut seen = 0;
            for _ in 0..20 {
                let before_ns = crate::clock::monotonic_ns();
                crate::clock::sleep_until_ns(before_ns + 2_000_000);
                let after_ns = crate::clock::monotonic_ns();
                points.drain(|hit| {
                    seen += u32::from(matches!(hit, Hit::At { at_ns, .. } if at_ns > before_ns && at_ns < after_ns));
                });
                if seen > 0 {
                    break;
                }
            }
            assert!(seen > 0, "the timer that woke us was not seen");
        };
        std::thread::spawn(body).join().unwrap();
    }
}
