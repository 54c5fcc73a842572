//! The fallback for other systems than Linux. It has the same names as the modules for Linux, as far as the runtime library uses them.
//! Clocks, sleeping and locks work, by the standard library.
//! Features that only Linux has are refused with `EOPNOTSUPP`, so that callers report them.

pub(crate) mod futex;
mod memory;
pub mod phase_registry;
pub mod udp;

pub(crate) use memory::usage;
pub use memory::{resident, shared_page};

/// Clocks, and a sleep to an absolute time.
pub mod clock {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant, SystemTime};

    /// The clock's reading at the first call. It is above 0 because callers subtract from readings.
    const FIRST_NS: u64 = 1 << 40;

    /// A clock that never goes back, in nanoseconds since an unspecified start.
    pub fn monotonic_ns() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let passed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX).saturating_add(FIRST_NS)
    }

    /// The wall clock, in nanoseconds since 1970 UTC; 0 before that.
    pub fn realtime_ns() -> u64 {
        let passed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Always 0: this system does not report the CPU time of a thread. Callers check [`IS_LINUX`](crate::IS_LINUX) first.
    pub fn thread_cpu_ns() -> u64 {
        0
    }

    /// An assumed length of one tick of the kernel's timer: 1 ms.
    pub fn kernel_tick_ns() -> u64 {
        1_000_000
    }

    /// Sleeps until the monotonic clock reads `deadline_ns`. Returns at once if that time has passed.
    pub fn sleep_until_ns(deadline_ns: u64) {
        loop {
            match deadline_ns.checked_sub(monotonic_ns()) {
                None | Some(0) => return,
                Some(left_ns) => std::thread::sleep(Duration::from_nanos(left_ns)),
            }
        }
    }
}

/// The settings of a thread.
pub mod thread {
    use std::cell::Cell;
    use std::num::NonZeroU64;
    use std::sync::atomic::{AtomicU32, Ordering};

    use crate::{CpuSet, Errno};

    /// This system does not report the CPUs of a thread.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn affinity() -> Result<CpuSet, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// This system does not report the CPUs of a process.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn process_affinity() -> Result<CpuSet, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// How many threads of the process can run at once.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the system does not report it.
    pub fn allowed_cpus() -> Result<usize, Errno> {
        std::thread::available_parallelism().map(usize::from).map_err(|_| Errno::OPNOTSUPP)
    }

    /// This system does not pin threads.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn set_affinity(_: &CpuSet) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// This system does not report which CPU a thread runs on.
    pub fn current_cpu() -> usize {
        0
    }

    /// A number of the calling thread, unique in the process: above 0 and below 2^31.
    pub fn id() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        thread_local! {
            static OWN: Cell<u32> = const { Cell::new(0) };
        }
        OWN.with(|own| {
            if own.get() == 0 {
                own.set(NEXT.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1));
            }
            own.get()
        })
    }

    /// This system does not set nice values.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn set_nice(_: i32) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Only Linux has timer slack.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn timer_slack_ns() -> Result<u64, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Only Linux has timer slack.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn set_timer_slack_ns(_: Option<NonZeroU64>) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }
}

/// Scheduling classes. A program cannot set them on this system.
pub mod sched {
    use crate::Errno;

    /// The scheduling classes of Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Policy {
        /// The ordinary one.
        Other,
        /// Real-time.
        Fifo,
    }

    /// Makes no thread real-time.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn set_fifo(_: u8) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Sets no slice.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn set_ordinary(_: Option<u64>) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// The class is not known.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn policy() -> Result<Policy, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// The slice is not known.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn slice_ns() -> Result<Option<u64>, Errno> {
        Err(Errno::OPNOTSUPP)
    }
}

/// Limits of control groups. Only Linux has control groups.
pub mod cpu_limit {
    /// A limit on CPU time. This system reports no limit.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CpuLimit {
        /// CPU time in each period, in nanoseconds.
        pub quota_ns: u64,
        /// From one refill to the next, in nanoseconds.
        pub period_ns: u64,
    }

    impl CpuLimit {
        /// The number of CPUs that the limit allows.
        pub fn cpus(&self) -> f64 {
            self.quota_ns as f64 / self.period_ns as f64
        }
    }

    /// How often limits throttled threads. This system does not report it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Throttled {
        /// The number of periods in which the threads used up their quota.
        pub times: Option<u64>,
        /// How long threads were throttled, in nanoseconds.
        pub ns: Option<u64>,
    }

    /// No limits.
    pub fn all() -> Vec<CpuLimit> {
        Vec::new()
    }

    /// No limit.
    pub fn tightest() -> Option<CpuLimit> {
        None
    }

    /// Counters of no limits.
    #[derive(Debug)]
    pub struct Counters(());

    impl Counters {
        /// Opens no counters.
        pub fn open<'a>(_: impl IntoIterator<Item = &'a CpuLimit>) -> Counters {
            Counters(())
        }

        /// True.
        pub fn is_empty(&self) -> bool {
            true
        }

        /// Nothing is known.
        pub fn read(&self) -> Throttled {
            Throttled::default()
        }
    }
}

/// How long a thread waited for a CPU. Only Linux counts this.
pub mod schedstat {
    use crate::Errno;

    /// The kernel's counts of a thread.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counted {
        /// The monotonic clock at the reading.
        pub wall_ns: u64,
        /// The time that the thread ran.
        pub cpu_ns: u64,
        /// The time that the thread waited for a CPU.
        pub run_delay_ns: u64,
        /// How often the thread got a CPU.
        pub turns: u64,
    }

    /// Counts of a thread. No value of this type exists on this system.
    #[derive(Debug)]
    pub enum RunDelay {}

    impl RunDelay {
        /// There is no such count.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn of_this_thread() -> Result<RunDelay, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// The counts.
        ///
        /// # Errors
        /// None.
        pub fn read(&self) -> Result<Counted, Errno> {
            match *self {}
        }

        /// The wait for a CPU.
        ///
        /// # Errors
        /// None.
        pub fn run_delay_ns(&self) -> Result<u64, Errno> {
            match *self {}
        }
    }
}

/// CPU pressure. Only Linux reports it.
pub mod stall {
    use crate::Errno;

    /// A count of stalls. No value of this type exists on this system.
    #[derive(Debug)]
    pub enum CpuStalls {}

    impl CpuStalls {
        /// There is no such count.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn of_the_system() -> Result<CpuStalls, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// There is no such count.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn of_this_group() -> Result<CpuStalls, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// The count.
        ///
        /// # Errors
        /// None.
        pub fn some_us(&self) -> Result<u64, Errno> {
            match *self {}
        }
    }
}

/// A limit on idle exit latency. Only Linux supports such a limit.
pub mod dma_latency {
    use crate::Errno;

    /// A limit. No value of this type exists on this system.
    #[derive(Debug)]
    pub enum DmaLatency {}

    impl DmaLatency {
        /// There is no such limit.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn hold_us(_: i32) -> Result<DmaLatency, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// The active limit.
        ///
        /// # Errors
        /// None.
        pub fn in_force_us(&mut self) -> Result<i32, Errno> {
            match *self {}
        }
    }
}

/// Markers for external observers. Only Linux has them.
pub mod mark {
    /// Does nothing.
    #[inline(always)]
    pub fn tick_begin(_: u64, _: u64) {}

    /// Does nothing.
    #[inline(always)]
    pub fn tick_done(_: u64, _: u64) {}
}

/// Restartable sequences. Only Linux has them.
pub mod rseq {
    use crate::Errno;

    /// Watches a thread. No value of this type exists on this system.
    #[derive(Debug)]
    pub enum Watcher {}

    impl Watcher {
        /// Always refused: only Linux has restartable sequences.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn of_this_thread() -> Result<Watcher, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// Makes [`intact`](Watcher::intact) notice preemptions from now on.
        pub fn arm(&self) {
            match *self {}
        }

        /// Whether the thread kept its CPU.
        pub fn intact(&self) -> bool {
            match *self {}
        }

        /// Tests the watcher.
        ///
        /// # Errors
        /// None.
        pub fn self_test(&self) -> Result<(), Errno> {
            match *self {}
        }
    }
}
