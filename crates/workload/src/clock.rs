//! `Clock`: the time of a trial. On a real machine, this is the machine's clock.
//! With the `simulated` workload, time passes only while a window is simulated.
//! So a trial of an hour takes milliseconds and gives the same result on a busy machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_sys::clock;

/// The source of a trial's time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's monotonic clock.
    #[default]
    Machine,
    /// The clock of this simulated machine.
    Simulated(SimulatedMachine),
}

impl Clock {
    /// The time since a fixed moment.
    pub fn now(&self) -> Duration {
        match self {
            Clock::Machine => Duration::from_nanos(clock::monotonic_ns()),
            Clock::Simulated(machine) => machine.now(),
        }
    }

    /// The time since `earlier`, a result of [`now`](Clock::now).
    pub fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

/// A simulated machine: its clock, the number of simulated windows, and the conditions of the last window.
/// Clones share this state, so a restarted workload continues where the last workload ended.
#[derive(Clone, Debug, Default)]
pub struct SimulatedMachine(Arc<Inner>);

/// The simulated disturbance of a window. None means that a kind of disturbance is absent.
#[derive(Clone, Debug, Default)]
pub struct Disturbance {
    /// The longest delay of a waking thread.
    pub longest_gap_us: Option<f64>,
    /// The share of all CPU time that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// The share of the CPUs that all processes used.
    pub busy_share: Option<f64>,
    /// The share of the time in which a task waited for a CPU.
    pub cpu_pressure_share: Option<f64>,
    /// A text that describes another trial.
    pub other_trial: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    now_ns: AtomicU64,
    windows: AtomicU64,
    window: Mutex<Disturbance>,
}

impl SimulatedMachine {
    /// The number of simulated CPUs.
    pub const CPUS: u32 = 2;

    /// The time since the simulation began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now_ns.load(Ordering::Relaxed))
    }

    /// Advances the time.
    pub fn advance(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.now_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Begins a window without disturbance. Returns its number, counted from 1.
    pub fn begin_window(&self) -> u64 {
        *self.disturbance() = Disturbance::default();
        self.0.windows.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a disturbance to the current window. Fields that are None keep their value.
    pub fn disturb(&self, more: Disturbance) {
        let mut window = self.disturbance();
        *window = Disturbance {
            longest_gap_us: more.longest_gap_us.or(window.longest_gap_us),
            steal_share: more.steal_share.or(window.steal_share),
            busy_share: more.busy_share.or(window.busy_share),
            cpu_pressure_share: more.cpu_pressure_share.or(window.cpu_pressure_share),
            other_trial: more.other_trial.or_else(|| window.other_trial.take()),
        };
    }

    /// The disturbance of the last simulated window.
    pub fn disturbed(&self) -> Disturbance {
        self.disturbance().clone()
    }

    fn disturbance(&self) -> MutexGuard<'_, Disturbance> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
