//! `TickThread`: the kernel settings of a thread that keeps time, in one call. Most of them need no privileges.
//! The report names the settings that the kernel refused. The thread runs without those settings.

use std::fmt;
use std::num::NonZeroU64;

use crate::guard::ClassChange;
use evenkeel_sys::dma_latency::DmaLatency;
use evenkeel_sys::{CpuSet, Errno, sched, thread};

/// Kernel settings of a thread. The default settings help on every machine and need no privileges.
#[derive(Clone, Debug)]
pub struct ThreadConfig {
    /// Runs the thread on these CPUs only.
    pub cpus: Option<CpuSet>,
    /// The scheduler's time slice, in nanoseconds; 100 us by default. Needs Linux 6.12.
    /// With a shorter slice, the thread runs sooner after a sleep if a busy thread shares its CPU.
    pub slice_ns: Option<u64>,
    /// How late the kernel may end a sleep, in nanoseconds. The kernel's default for ordinary threads is 50 us.
    pub timer_slack_ns: Option<NonZeroU64>,
    /// Real-time (`SCHED_FIFO`) with this priority, 1 to 99: no ordinary thread runs before the tick. Needs CAP_SYS_NICE.
    pub fifo: Option<u8>,
    /// Keeps all CPUs out of idle states that take longer than this to leave, in microseconds, until the [`TickThread`] is dropped.
    /// This setting costs power, and sometimes clock speed. It needs write access to /dev/cpu_dma_latency.
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

impl ThreadConfig {
    /// Changes no setting of the thread.
    pub const fn unchanged() -> ThreadConfig {
        ThreadConfig { cpus: None, slice_ns: None, timer_slack_ns: None, fifo: None, dma_latency_us: None }
    }
}

/// Whether a setting is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyStatus {
    /// Not requested.
    NotRequested,
    /// The setting is active. If the kernel allows it, the setting was read back.
    Active,
    /// The kernel refused the setting, with this error.
    Refused(Errno),
    /// The setting was active and is suspended: the tick used nearly all of its CPU, and the rest of the machine would have starved.
    Suspended,
    /// The kernel accepted the setting, but it has no effect: the kernel is too old, or a later call undid the setting.
    NoEffect,
}

impl ApplyStatus {
    /// Why the setting is not active although it was requested. `None` if it is active, was not requested, or is suspended.
    pub(crate) fn why_missing(self) -> Option<String> {
        match self {
            ApplyStatus::Refused(errno) => Some(errno.to_string()),
            ApplyStatus::NoEffect => Some("although the kernel accepted the call".to_owned()),
            ApplyStatus::NotRequested | ApplyStatus::Active | ApplyStatus::Suspended => None,
        }
    }
}

impl fmt::Display for ApplyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyStatus::NotRequested => f.write_str("not requested"),
            ApplyStatus::Active => f.write_str("active"),
            ApplyStatus::Refused(errno) => write!(f, "refused: {errno}"),
            ApplyStatus::Suspended => f.write_str("suspended, because the tick used nearly all of its CPU"),
            ApplyStatus::NoEffect => f.write_str("without effect"),
        }
    }
}

/// Which settings of [`ThreadConfig`] are active. `Display` writes one line.
///
/// ```
/// use evenkeel_rt::{ThreadConfig, ThreadReport, TickThread};
///
/// let thread = TickThread::set_up(&ThreadConfig { fifo: Some(10), ..ThreadConfig::unchanged() });
/// let report: ThreadReport = thread.report();
/// println!("{report}");
/// for advice in report.advice() {
///     eprintln!("{advice}");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// The status of [`ThreadConfig::cpus`].
    pub cpus: ApplyStatus,
    /// The status of [`ThreadConfig::slice_ns`]. For a real-time thread, the slice is not requested.
    pub slice: ApplyStatus,
    /// The status of [`ThreadConfig::timer_slack_ns`].
    pub timer_slack: ApplyStatus,
    /// The status of [`ThreadConfig::fifo`].
    pub fifo: ApplyStatus,
    /// The status of [`ThreadConfig::dma_latency_us`].
    pub dma_latency: ApplyStatus,
}

impl ThreadReport {
    /// A line for each setting that was requested and is not active, with what to do. Empty if all requested settings are active.
    pub fn advice(&self) -> Vec<String> {
        let settings = [
            (
                self.cpus,
                "the thread is not pinned to its CPUs",
                "name CPUs that are online and in the cpuset of this control group",
            ),
            (self.slice, "the thread has the scheduler's default slice", "it needs Linux 6.12, and 0.1 to 100 ms"),
            (
                self.timer_slack,
                "sleeps of the thread may end 50 us late",
                "run the server with the kernel's default timer slack",
            ),
            (
                self.fifo,
                "the thread is not real-time",
                "give CAP_SYS_NICE or raise RLIMIT_RTPRIO (LimitRTPRIO=99 in a systemd unit)",
            ),
            (
                self.dma_latency,
                "CPUs may enter deep idle states",
                "give the server's user write access to /dev/cpu_dma_latency",
            ),
        ];
        let missing =
            settings.into_iter().filter_map(|(status, what, remedy)| Some((what, status.why_missing()?, remedy)));
        missing.map(|(what, why, remedy)| format!("{what}, {why}: {remedy}")).collect()
    }
}

impl fmt::Display for ThreadReport {
    /// Writes one line with all settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ThreadReport { cpus, slice, timer_slack, fifo, dma_latency } = self;
        write!(f, "CPUs {cpus}; slice {slice}; timer slack {timer_slack}; SCHED_FIFO {fifo}; DMA latency {dma_latency}")
    }
}

/// A thread whose settings are applied. Dropping this value ends [`ThreadConfig::dma_latency_us`]; the other settings stay.
///
/// ```
/// use evenkeel_rt::{ApplyStatus, ThreadConfig, TickThread};
///
/// let cpus = [0].into_iter().collect();
/// let thread = TickThread::set_up(&ThreadConfig { cpus: Some(cpus), ..ThreadConfig::default() });
/// let report = thread.report();
/// println!("{report}");
/// report.advice().iter().for_each(|line| eprintln!("{line}"));
/// assert_ne!(report.timer_slack, ApplyStatus::NotRequested);
/// ```
#[derive(Debug)]
pub struct TickThread {
    report: ThreadReport,
    slice_ns: Option<u64>,
    fifo: Option<u8>,
    _latency: Option<DmaLatency>,
}

impl TickThread {
    /// Applies the settings to the calling thread.
    pub fn set_up(config: &ThreadConfig) -> TickThread {
        let cpus = apply(config.cpus.as_ref(), |cpus| {
            thread::set_affinity(cpus)?;
            Ok(thread::affinity()? == *cpus)
        });
        let timer_slack = apply(config.timer_slack_ns, |ns| {
            thread::set_timer_slack_ns(Some(ns))?;
            Ok(thread::timer_slack_ns()? == ns.get())
        });
        let fifo = apply(config.fifo, |priority| {
            sched::set_fifo(priority)?;
            Ok(sched::policy()? == sched::Policy::Fifo)
        });
        // A thread has a slice or a real-time priority, not both.
        let slice = apply(config.slice_ns.filter(|_| fifo != ApplyStatus::Active), |ns| {
            sched::set_ordinary(Some(ns))?;
            Ok(sched::slice_ns()? == Some(ns))
        });
        let mut latency = None;
        let dma_latency = apply(config.dma_latency_us, |us| {
            let mut held = DmaLatency::hold_us(us)?;
            let in_force = held.in_force_us()? <= us;
            latency = Some(held);
            Ok(in_force)
        });
        TickThread {
            report: ThreadReport { cpus, slice, timer_slack, fifo, dma_latency },
            slice_ns: config.slice_ns,
            fifo: config.fifo,
            _latency: latency,
        }
    }

    /// Whether the thread is real-time, and so needs a guard.
    pub(crate) fn is_real_time(&self) -> bool {
        self.report.fifo == ApplyStatus::Active
    }

    /// Makes the calling thread ordinary, or real-time again. If the kernel refuses, the report says so.
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

    /// Which settings of [`ThreadConfig`] are active. `Display` writes one line.
    pub fn report(&self) -> ThreadReport {
        self.report
    }
}

/// Applies a requested setting. `set` returns whether the setting is active.
pub(crate) fn apply<T>(requested: Option<T>, set: impl FnOnce(T) -> Result<bool, Errno>) -> ApplyStatus {
    match requested.map(set) {
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
    fn a_report_names_what_is_missing_and_what_to_do() {
        let fine = ThreadReport {
            cpus: ApplyStatus::Active,
            slice: ApplyStatus::NoEffect,
            timer_slack: ApplyStatus::NotRequested,
            fifo: ApplyStatus::Refused(Errno::PERM),
            dma_latency: ApplyStatus::Suspended,
        };
        assert_eq!(
            fine.to_string(),
            "CPUs active; slice without effect; timer slack not requested; SCHED_FIFO refused: operation not permitted (EPERM); DMA latency \
             suspended, because the tick used nearly all of its CPU"
        );
        assert_eq!(
            fine.advice(),
            [
                "the thread has the scheduler's default slice, although the kernel accepted the call: it needs Linux 6.12, and 0.1 to \
                 100 ms",
                "the thread is not real-time, operation not permitted (EPERM): give CAP_SYS_NICE or raise RLIMIT_RTPRIO \
                 (LimitRTPRIO=99 in a systemd unit)"
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_setting_has_a_status() {
        let report = |config: ThreadConfig| std::thread::spawn(move || TickThread::set_up(&config).report()).join();
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
