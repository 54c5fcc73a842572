//! `TickThread`: what a thread that keeps time should ask of the kernel, in one call. Most of it needs no right; what is refused is
//! told, and the thread runs on without it.

use std::num::NonZeroU64;

use crate::guard::ClassChange;
use evenkeel_sys::dma_latency::DmaLatency;
use evenkeel_sys::{CpuSet, Errno, sched, thread};

/// What to ask for. The default is what helps everywhere and needs no right.
#[derive(Clone, Debug)]
pub struct ThreadConfig {
    /// Run on these CPUs only.
    pub cpus: Option<CpuSet>,
    /// The scheduler gives the thread the CPU for so long at a time, in nanoseconds: the shorter, the sooner it gets it after a sleep
    /// beside a busy neighbour. Linux 6.12 and later; 100 us unless told.
    pub slice_ns: Option<u64>,
    /// How much later than asked for the kernel may end a sleep, in nanoseconds. Ordinary threads have 50 us.
    pub timer_slack_ns: Option<NonZeroU64>,
    /// Real-time (`SCHED_FIFO`) with this priority, 1 to 99: nothing ordinary runs before the tick. Needs CAP_SYS_NICE.
    pub fifo: Option<u8>,
    /// No CPU goes to sleep so deeply that waking takes longer than this, in microseconds, as long as the thread's set-up lives.
    /// Costs power, and sometimes clock speed. Needs a right to /dev/cpu_dma_latency.
    pub dma_latency_us: Option<i32>,
}

impl Default for ThreadConfig {
    fn default() -> ThreadConfig {
        ThreadConfig {
            cpus: None,
            slice_ns: Some(100_000),
            timer_slack_ns: NonZeroU64::new(1),
            fifo: None,
            dma_latency_us: None,
        }
    }
}

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyStatus {
    /// It was not wished.
    NotRequested,
    /// It is in force: read back where the kernel tells.
    Active,
    /// The kernel refused.
    Refused(Errno),
    /// It was in force, and is not for now: the tick took nearly all of its CPU, and the rest of the machine would have starved.
    Suspended,
    /// The kernel took it and does nothing with it: it is too old, or a later call undid it.
    NoEffect,
}

/// What became of each wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// [`ThreadConfig::cpus`].
    pub cpus: ApplyStatus,
    /// [`ThreadConfig::slice_ns`]; a real-time thread has none.
    pub slice: ApplyStatus,
    /// [`ThreadConfig::timer_slack_ns`].
    pub timer_slack: ApplyStatus,
    /// [`ThreadConfig::fifo`].
    pub fifo: ApplyStatus,
    /// [`ThreadConfig::dma_latency_us`].
    pub dma_latency: ApplyStatus,
}

/// A thread that was set up. Some of what it holds ends when this is dropped.
#[derive(Debug)]
pub struct TickThread {
    report: ThreadReport,
    slice_ns: Option<u64>,
    fifo: Option<u8>,
    _latency: Option<DmaLatency>,
}

impl TickThread {
    /// Sets the calling thread up.
    pub fn set_up(wishes: &ThreadConfig) -> TickThread {
        let cpus = asked(wishes.cpus.as_ref(), |cpus| {
            thread::set_affinity(cpus)?;
            Ok(thread::affinity()? == *cpus)
        });
        let timer_slack = asked(wishes.timer_slack_ns, |ns| {
            thread::set_timer_slack_ns(Some(ns))?;
            Ok(thread::timer_slack_ns()? == ns.get())
        });
        let fifo = asked(wishes.fifo, |priority| {
            sched::set_fifo(priority)?;
            Ok(sched::policy()? == sched::Policy::Fifo)
        });
        // A thread has a slice or a real-time priority, not both; the slice is what is left where real-time was refused.
        let slice = asked(wishes.slice_ns.filter(|_| fifo != ApplyStatus::Active), |ns| {
            sched::set_ordinary(Some(ns))?;
            Ok(sched::slice_ns()? == Some(ns))
        });
        let mut latency = None;
        let dma_latency = asked(wishes.dma_latency_us, |us| {
            let mut held = DmaLatency::hold_us(us)?;
            let in_force = held.in_force_us()? <= us;
            latency = Some(held);
            Ok(in_force)
        });
        TickThread {
            report: ThreadReport { cpus, slice, timer_slack, fifo, dma_latency },
            slice_ns: wishes.slice_ns,
            fifo: wishes.fifo,
            _latency: latency,
        }
    }

    /// Whether it is real-time, and so in need of a guard.
    pub(crate) fn is_real_time(&self) -> bool {
        self.report.fifo == ApplyStatus::Active
    }

    /// Makes the calling thread ordinary, or real-time again, as its guard says. A refusal is told in the report.
    pub(crate) fn turn(&mut self, turn: ClassChange) {
        match (turn, self.fifo) {
            (ClassChange::Ordinary, _) => {
                if sched::set_ordinary(self.slice_ns).is_ok() {
                    self.report.fifo = ApplyStatus::Suspended;
                }
            }
            (ClassChange::RealTime, Some(priority)) => {
                self.report.fifo = match sched::set_fifo(priority) {
                    Ok(()) => ApplyStatus::Active,
                    Err(errno) => ApplyStatus::Refused(errno),
                };
            }
            (ClassChange::RealTime, None) => {}
        }
    }

    /// What became of each wish.
    pub fn report(&self) -> ThreadReport {
        self.report
    }
}

/// Does what was wished for, and tells what became of it: `set` says whether it is in force.
pub(crate) fn asked<T>(wish: Option<T>, set: impl FnOnce(T) -> Result<bool, Errno>) -> ApplyStatus {
    match wish.map(set) {
        None => ApplyStatus::NotRequested,
        Some(Ok(true)) => ApplyStatus::Active,
        Some(Ok(false)) => ApplyStatus::NoEffect,
        Some(Err(errno)) => ApplyStatus::Refused(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_got_is_told() {
        let report = |wishes: ThreadConfig| std::thread::spawn(move || TickThread::set_up(&wishes).report()).join();
        let plain = report(ThreadConfig::default()).unwrap();
        assert_eq!(plain.timer_slack, ApplyStatus::Active);
        assert!(matches!(plain.slice, ApplyStatus::Active | ApplyStatus::NoEffect), "{plain:?}");
        assert_eq!(
            (plain.cpus, plain.fifo, plain.dma_latency),
            (ApplyStatus::NotRequested, ApplyStatus::NotRequested, ApplyStatus::NotRequested)
        );
        let nowhere = ThreadConfig { cpus: Some(CpuSet::default()), ..ThreadConfig::default() };
        assert_eq!(report(nowhere).unwrap().cpus, ApplyStatus::Refused(Errno::INVAL));
        let real_time = report(ThreadConfig { fifo: Some(1), ..ThreadConfig::default() }).unwrap();
        match real_time.fifo {
            ApplyStatus::Active => assert_eq!(real_time.slice, ApplyStatus::NotRequested),
            ApplyStatus::Refused(errno) => assert!(errno.is_denial() && real_time.slice != ApplyStatus::NotRequested),
            other => panic!("{other:?}"),
        }
    }
}
