//! `Clock`: the time that a trial runs by. On a real machine it is the machine's; with the `simulated` workload it passes only while a
//! window is simulated, so a trial of an hour takes milliseconds and gives the same result at any load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_sys::clock;

/// Where a trial reads the time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's monotonic clock.
    #[default]
    Machine,
    /// The clock of a simulated machine.
    Simulated(SimulatedMachine),
}

impl Clock {
    /// The time since some fixed moment.
    pub fn now(&self) -> Duration {
        match self {
            Clock::Machine => Duration::from_nanos(clock::monotonic_ns()),
            Clock::Simulated(machine) => machine.now(),
        }
    }

    /// The time since an earlier [`now`](Clock::now).
    pub fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

/// A machine that exists only in numbers: its clock, how many windows it has simulated, and the conditions of the last one. Clones share
/// these, so a workload that is started again continues where the last one ended.
#[derive(Clone, Debug, Default)]
pub struct SimulatedMachine(Arc<Inner>);

/// What disturbed a simulated window.
#[derive(Clone, Debug, Default)]
pub struct Disturbance {
    /// The longest time by which a thread woke late.
    pub longest_gap_us: Option<f64>,
    /// The share of all CPU time that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// What all processes used of the CPUs.
    pub busy_share: Option<f64>,
    /// The share of the time that some task waited for a CPU.
    pub cpu_pressure_share: Option<f64>,
    /// Another trial, in words.
    pub beside: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    now_ns: AtomicU64,
    windows: AtomicU64,
    window: Mutex<Disturbance>,
}

impl SimulatedMachine {
    /// Its CPUs.
    pub const CPUS: u32 = 2;

    /// The time since it began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now_ns.load(Ordering::Relaxed))
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.now_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The number of the window that begins, counted from 1. It is undisturbed so far.
    pub fn begin_window(&self) -> u64 {
        *self.disturbance() = Disturbance::default();
        self.0.windows.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Disturbs the window that is simulated. What an earlier call said of it stays where this one says nothing.
    pub fn disturb(&self, more: Disturbance) {
        let mut window = self.disturbance();
        *window = Disturbance {
            longest_gap_us: more.longest_gap_us.or(window.longest_gap_us),
            steal_share: more.steal_share.or(window.steal_share),
            busy_share: more.busy_share.or(window.busy_share),
            cpu_pressure_share: more.cpu_pressure_share.or(window.cpu_pressure_share),
            beside: more.beside.or_else(|| window.beside.take()),
        };
    }

    /// What disturbed the window that was simulated last.
    pub fn disturbed(&self) -> Disturbance {
        self.disturbance().clone()
    }

    fn disturbance(&self) -> MutexGuard<'_, Disturbance> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
