//! Disturbances for live checks of ticks: a real-time thread that takes the CPU at fixed times, an ordinary neighbour, and a limit on CPU time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use evenkeel_sys::{CpuSet, clock, sched, thread};
use evenkeel_testkit::live;

pub(crate) const MS: f64 = 1e6;

pub(crate) fn cpu() -> usize {
    thread::affinity().unwrap().iter().last().unwrap()
}

pub(crate) fn pin(cpu: usize) {
    thread::set_affinity(&CpuSet::from_iter([cpu])).unwrap();
}

/// Whether this user may have real-time threads. If not, the check is not judged.
pub(crate) fn may_be_real_time() -> bool {
    let may = std::thread::spawn(|| sched::set_fifo(60)).join().unwrap();
    if let Err(errno) = may {
        live::not_judged(format_args!("this user may have no real-time threads: {errno}"));
    }
    may.is_ok()
}

/// A control group with 4 ms of CPU time in 10, until this value is dropped.
pub(crate) struct Limited(pub(crate) &'static Group);

impl Drop for Limited {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Creates a control group for [`Limited`]. If that is not possible, the check is not judged.
pub(crate) fn limited() -> Option<Limited> {
    match Group::make() {
        // The servers are threads, so their data must outlive the check's frame.
        Ok(group) => Some(Limited(Box::leak(Box::new(group)))),
        Err(error) => {
            live::not_judged(format_args!("no control group of the first version can be made here: {error}"));
            None
        }
    }
}

/// A thread that takes the CPU away.
pub(crate) struct Taker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    own: Arc<Own>,
}

/// How well a hog kept to its times, by its own record. If the machine stalled or was late, the slots differ from the requested slots.
/// With such slots, the check proves nothing about a clock that does not find them.
#[derive(Debug, Default)]
struct Own {
    turns: AtomicU64,
    off: AtomicU64,
}

/// A preemption that ended this late does not count as a requested one.
/// A CPU gap of this length needs a cause other than hogs and neighbours.
pub(crate) const OFF_NS: u64 = 400_000;
/// A preemption that began this late does not count either. Timers on some machines are slightly late, but that does not move the end.
const BEGAN_OFF_NS: u64 = 1_000_000;
/// The watcher wakes rarely and out of step with the ticks, so that the clock does not mistake the watcher for a hypervisor.
const WATCHED_EVERY_NS: u64 = 17_000_000;
/// A watcher that wakes this late saw a pause: no timer is that late by itself.
const PAUSE_NS: u64 = 3_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    pub(crate) period_ms: f64,
    pub(crate) share: f64,
    pub(crate) jitter: f64,
    pub(crate) drift_ppm: f64,
    /// The start of our share.
    pub(crate) start_ns: u64,
}

impl Taker {
    fn start(body: impl FnOnce(&AtomicBool, &Own) + Send + 'static) -> Taker {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let own = Arc::new(Own::default());
        let kept = Arc::clone(&own);
        Taker { stop, thread: Some(std::thread::spawn(move || body(&stopped, &kept))), own }
    }

    pub(crate) fn hog(cpu: usize, slots: Slots) -> Taker {
        Taker::start(move |stop, own| {
            pin(cpu);
            sched::set_fifo(60).unwrap();
            let period_ns = slots.period_ms * MS * (1.0 + slots.drift_ppm / 1e6);
            let busy_ns = slots.period_ms * MS * (1.0 - slots.share);
            let mut chance = 88_172_645_463_325_252_u64;
            let mut turn = 0.0;
            while !stop.load(Ordering::Relaxed) {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                let jitter = ((chance >> 11) as f64 / (1_u64 << 52) as f64 - 1.0) * slots.jitter * period_ns;
                let end_ns = slots.start_ns as f64 + turn * period_ns + jitter;
                clock::sleep_until_ns((end_ns - busy_ns) as u64);
                let late_ns = clock::monotonic_ns().saturating_sub((end_ns - busy_ns) as u64);
                let mut now_ns = 0;
                while now_ns < end_ns as u64 {
                    std::hint::spin_loop();
                    now_ns = clock::monotonic_ns();
                }
                own.turns.fetch_add(1, Ordering::Relaxed);
                let is_off = late_ns > BEGAN_OFF_NS || now_ns - end_ns as u64 > OFF_NS;
                own.off.fetch_add(u64::from(is_off), Ordering::Relaxed);
                turn += 1.0;
            }
        })
    }

    pub(crate) fn neighbour(cpu: usize) -> Taker {
        Taker::start(move |stop, _| {
            pin(cpu);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    }

    /// The share of the hog's preemptions that were not at the requested times.
    pub(crate) fn off_share(&self) -> f64 {
        self.own.off.load(Ordering::Relaxed) as f64 / (self.own.turns.load(Ordering::Relaxed) as f64).max(1.0)
    }

    /// A real-time thread that takes no CPU time. It wakes now and then, and counts how often it was late, whatever else runs on the CPU.
    /// An ordinary thread would be late next to a server too.
    pub(crate) fn watcher(cpu: usize) -> Taker {
        Taker::start(move |stop, own| {
            pin(cpu);
            sched::set_fifo(60).unwrap();
            while !stop.load(Ordering::Relaxed) {
                let due_ns = clock::monotonic_ns() + WATCHED_EVERY_NS;
                clock::sleep_until_ns(due_ns);
                let late_ns = clock::monotonic_ns().saturating_sub(due_ns);
                own.off.fetch_add(u64::from(late_ns > PAUSE_NS), Ordering::Relaxed);
            }
        })
    }

    /// How often the watcher was late since the last call. The whole CPU was stalled at those times.
    pub(crate) fn pauses(&self) -> u64 {
        self.own.off.swap(0, Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.end();
    }
}

/// A version 1 control group with 4 ms of CPU time in 10. A single thread can enter it.
#[derive(Debug)]
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    fn make() -> std::io::Result<Group> {
        let dir = PathBuf::from(format!("/sys/fs/cgroup/cpu/evenkeel-aligned-{}", std::process::id()));
        std::fs::create_dir(&dir)?;
        let group = Group(dir);
        std::fs::write(group.0.join("cpu.cfs_period_us"), "10000")?;
        std::fs::write(group.0.join("cpu.cfs_quota_us"), "4000")?;
        Ok(group)
    }
}

impl Group {
    /// Removes the group. A joined thread may still be leaving it.
    pub(crate) fn remove(&self) {
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        println!("{} could not be taken away", self.0.display());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}
