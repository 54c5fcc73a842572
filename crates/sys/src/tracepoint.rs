//! `Tracepoints`: when chosen tracepoints of the kernel are hit on one CPU, and with which first word (perf_event_open(2)). No tracer is
//! switched on and no file is written: nobody else sees that we look, and it ends with the process.
//!
//! An event takes the tracepoint's number, which tracefs tells. Where that is not mounted, a mount of our own is made that is nowhere in
//! the tree of files (fsmount(2)): no other process can see it, and it goes with its descriptor.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::errno::Errno;
use crate::perf_event::{self, Attributes, Event, PerfRing};

/// Where tracefs is, if somebody mounted it. Below debugfs there is one too, which to look at would mount it for all to see.
const MOUNTED_AT: &str = "/sys/kernel/tracing";

/// A tracepoint and its number in the kernel that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its name with its group, such as `irq/softirq_entry`.
    pub name: &'static str,
    id: u16,
}

/// The numbers of these tracepoints, each named as `irq/softirq_entry`; one that this kernel does not have is left out.
///
/// # Errors
/// `EACCES` or `EPERM` if this user may see none; `ENOENT` or `ENODEV` if the kernel has none.
pub fn find(names: &[&'static str]) -> Result<Vec<Tracepoint>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, MOUNTED_AT, flags, Mode::empty()).map_err(Errno::from);
    match top.and_then(|top| ids_in(&top, names)) {
        Err(Errno::NOENT) => own_mount().and_then(|top| ids_in(&top, names)),
        said => said,
    }
}

/// What the kernel says in a file of tracefs, such as `events/sched/sched_waking/format`; no more than `bytes_max` of it.
///
/// # Errors
/// `EACCES` or `EPERM` if this user may not; `ENOENT` if there is none.
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
                // The records have 16 bits for it.
                let id = text.trim().parse().map_err(|_| Errno::INVAL)?;
                found.push(Tracepoint { name, id });
            }
            Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => refused = errno.into(),
        }
    }
    if found.is_empty() { Err(refused) } else { Ok(found) }
}

/// Tracepoints that are kept ready, so that to look at one costs nothing more: the first look at each takes the kernel some 30 ms.
/// Nothing is recorded by it. It ends when this is dropped.
#[derive(Debug)]
pub struct Ready {
    _events: Vec<Event>,
}

impl Ready {
    /// Has the kernel get `points` ready, by way of an event on `cpu`, one that is online.
    ///
    /// # Errors
    /// As [`Tracepoints::of_cpu`].
    pub fn of(points: &[Tracepoint], cpu: usize) -> Result<Ready, Errno> {
        let open = |point: &Tracepoint| Event::on_cpu(&Attributes::tracepoint(u64::from(point.id)).off(), cpu);
        Ok(Ready { _events: points.iter().map(open).collect::<Result<_, _>>()? })
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A tracepoint was hit.
    At {
        /// When, on the monotonic clock.
        at_ns: u64,
        /// Which: its number.
        id: u16,
        /// The first four bytes of its own.
        word: u32,
    },
    /// So many were lost, because nobody read in time.
    Lost(u64),
    /// Another record.
    Other,
}

/// The first record in `bytes` and its length; none if they don't hold a whole one.
pub fn first_hit(bytes: &[u8]) -> Option<(Hit, usize)> {
    let raw = perf_event::first_raw(bytes)?;
    let hit = match raw.kind {
        // The head, the time, how many bytes the tracepoint has, and those: its number in 16 bits, six bytes of what all have, its own.
        perf_event::RECORD_SAMPLE if raw.bytes.len() >= 32 && raw.u32_at(16)? >= 12 => {
            let id = u16::from_ne_bytes(raw.bytes.get(20..22)?.try_into().ok()?);
            Hit::At { at_ns: raw.u64_at(8)?, id, word: raw.u32_at(28)? }
        }
        perf_event::RECORD_LOST if raw.bytes.len() >= 24 => Hit::Lost(raw.u64_at(16)?),
        _ => Hit::Other,
    };
    Some((hit, raw.bytes.len()))
}

/// Tracepoints of one CPU, recorded into one ring in the order of time. To be read by one thread.
#[derive(Debug)]
pub struct Tracepoints {
    ring: PerfRing,
    /// Those that write into the ring of the first.
    _others: Vec<Event>,
}

impl Tracepoints {
    /// Records the hits of `points` on `cpu` from now on.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON, `EMFILE` if the process may not have a file for each, `EINVAL` if there are none.
    pub fn of_cpu(cpu: usize, points: &[Tracepoint]) -> Result<Tracepoints, Errno> {
        let (first, others) = points.split_first().ok_or(Errno::INVAL)?;
        let open = |point: &Tracepoint| Event::on_cpu(&Attributes::tracepoint(u64::from(point.id)), cpu);
        let ring = PerfRing::of(open(first)?)?;
        let into_ring = |point: &Tracepoint| {
            let event = open(point)?;
            event.record_into(&ring)?;
            Ok(event)
        };
        let others = others.iter().map(into_ring).collect::<Result<Vec<_>, Errno>>()?;
        Ok(Tracepoints { ring, _others: others })
    }

    /// How full the ring is, from 0 to 1. It costs two readings of memory.
    pub fn fullness(&self) -> f64 {
        self.ring.fullness()
    }

    /// Hands over each record since the last call.
    pub fn drain(&mut self, mut on_hit: impl FnMut(Hit)) {
        let mut rest = self.ring.take();
        while let Some((hit, length)) = first_hit(rest) {
            on_hit(hit);
            rest = &rest[length..];
        }
    }
}

impl Tracepoint {
    /// Its number, as in [`Hit::At`].
    pub fn id(&self) -> u16 {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hits_are_told_apart() {
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
                let _ready = Ready::of(&points, cpu)?;
                Tracepoints::of_cpu(cpu, &points)
            });
            if let Ok(top) = own_mount() {
                assert_eq!(ids_in(&top, &names), find(&names), "they are the same wherever they are read");
            }
            assert_eq!(mounts(), before, "no mount of ours is to be seen");
            let mut points = match made {
                Ok(points) => points,
                Err(errno) => {
                    evenkeel_testkit::skipped(format_args!("this user may not see tracepoints ({errno})"));
                    return;
                }
            };
            // A machine that stands still before it falls asleep leaves nothing to wait for: no timer is set then.
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
