//! `Quantum`: whether and how the CPU is taken away at fixed times. `Aligner` shifts ticks to where that costs least.
//! A tick that begins as the CPU comes back can finish in a third of the time.
//!
//! | step | where |
//! |---|---|
//! | short sleeps in idle time, and which of them ended late | `watch` |
//! | period, share and phase of the gaps behind late sleeps, on a separate thread | `finder`, `evenkeel_stats::periodicity` |
//! | the possible phases of a tick: points in time that drift with the hypervisor's clock | `grid` |
//! | ticks at several of these phases, and where they finished soonest | `trial` |
//! | what to do when; this part has no clock and makes no system call, so a test simulates hours in a moment | `aligner` |
//! | who took the CPU: the kernel's mark on a preempted thread, or its count of waiting | `own` |
//! | all parts together, for a [`TickClock`](crate::TickClock) | `keeper` |
//!
//! Under a CPU limit of its control group, the clock does not search. It reads the limit, and tries phases of the limit's period.

mod aligner;
mod finder;
mod grid;
mod keeper;
mod own;
mod trial;
mod watch;

#[cfg(test)]
mod simulated;

use std::fmt;

pub(crate) use keeper::Keeper;

/// Whether the clock may shift ticks to where they finish soonest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// The clock shifts ticks if measurements show that ticks finish sooner at another phase.
    /// If the period is 4 to 200 ms, the clock searches for five seconds at the start, and again when ticks are late or long.
    #[default]
    Measured,
    /// The clock does not shift ticks. They keep their phase.
    Never,
}

/// How the CPU is taken away from the thread that ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Quantum {
    /// Not known: the clock has not searched for long enough.
    #[default]
    Unknown,
    /// The CPU is not taken away.
    None,
    /// The CPU is taken away at fixed times, by a hypervisor that runs each virtual CPU in slices.
    FixedSlot(Slot),
    /// The CPU is taken away when the quota of a CPU limit is used up, until the limit's next period.
    TokenBucket {
        /// The quota: CPU time in each period, in nanoseconds.
        quota_ns: u64,
        /// The period of the limit, in nanoseconds.
        period_ns: u64,
    },
    /// The CPU is taken away at irregular times.
    Irregular,
}

impl fmt::Display for Quantum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantum::Unknown => f.write_str("still looking for time slices"),
            Quantum::None => f.write_str("not taken away"),
            Quantum::FixedSlot(slot) => {
                write!(
                    f,
                    "a slice of {:.1} ms in every {:.1} ms",
                    slot.share * slot.period_ns / 1e6,
                    slot.period_ns / 1e6
                )
            }
            Quantum::TokenBucket { quota_ns, period_ns } => {
                write!(f, "a limit of {:.1} ms in every {:.1} ms", *quota_ns as f64 / 1e6, *period_ns as f64 / 1e6)
            }
            Quantum::Irregular => f.write_str("taken away at irregular times"),
        }
    }
}

/// Time slices of a CPU at fixed times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// From the start of one slice to the start of the next, in nanoseconds.
    pub period_ns: f64,
    /// The share of the period in which the CPU runs, from 0 to 1.
    pub share: f64,
    /// When a recent slice began, in nanoseconds of the monotonic clock.
    pub phase_ns: u64,
    /// The confidence that these slices exist, from 0 to 1.
    pub confidence: f64,
}

impl Quantum {
    /// The period of the slices or of the limit, in nanoseconds, if there is one. Tick periods should be multiples of it.
    pub fn period_ns(&self) -> Option<u64> {
        match self {
            Quantum::FixedSlot(slot) => Some(slot.period_ns.round() as u64),
            Quantum::TokenBucket { period_ns, .. } => Some(*period_ns),
            Quantum::Unknown | Quantum::None | Quantum::Irregular => None,
        }
    }

    /// The share of the time in which the CPU runs, from 0 to 1. `None` if it is not known.
    pub fn share(&self) -> Option<f64> {
        match self {
            Quantum::None => Some(1.0),
            Quantum::FixedSlot(slot) => Some(slot.share),
            Quantum::TokenBucket { quota_ns, period_ns } => Some((*quota_ns as f64 / *period_ns as f64).min(1.0)),
            Quantum::Unknown | Quantum::Irregular => None,
        }
    }
}

/// How the clock reacts to the quantum now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// The clock does not move ticks: alignment is off, there are no slices, or no phase was better.
    #[default]
    Free,
    /// The clock searches for gaps in idle time.
    Looking,
    /// The clock runs ticks at several phases, to find where they finish soonest.
    Trying,
    /// The clock keeps ticks at the best phase.
    Held,
    /// There are slices, but the tick period is neither a multiple of their period nor a half or third of a multiple.
    NoMultiple,
}

/// The quantum, and how the clock has reacted to it so far.
///
/// ```
/// use evenkeel_rt::{Aligned, GapsSeen, Quantum, Slot, TickLoop};
///
/// let mut ticks = TickLoop::builder().rate_hz(500).build()?;
/// drop(ticks.wait());
/// let Aligned { quantum, gaps: GapsSeen { foreign, .. }, .. } = ticks.aligned();
/// println!("{foreign} gaps from outside, period {:?} ns, share {:?}", quantum.period_ns(), quantum.share());
/// if let Quantum::FixedSlot(Slot { confidence, .. }) = quantum {
///     println!("a slice of the CPU, with a confidence of {confidence}");
/// }
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aligned {
    /// How the CPU is taken away.
    pub quantum: Quantum,
    /// How the clock reacts to the quantum now.
    pub alignment: Alignment,
    /// How often the clock shifted ticks by more than a twentieth of the quantum's period.
    pub moves: u64,
    /// How often the clock woke in idle time to search. Each wake-up costs some 5 us of CPU time.
    pub probes: u64,
    /// Observed gaps, by who took the CPU.
    pub gaps: GapsSeen,
}

/// Observed gaps, by who took the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapsSeen {
    /// Gaps in which a hypervisor or an interrupt took the CPU.
    pub foreign: u64,
    /// Gaps in which another thread ran, or a CPU limit applied.
    pub preempted: u64,
    /// Gaps of unknown cause.
    pub unknown: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_prints_its_times() {
        let slot = Slot { period_ns: 1e7, share: 0.4, phase_ns: 0, confidence: 0.9 };
        assert_eq!(Quantum::FixedSlot(slot).to_string(), "a slice of 4.0 ms in every 10.0 ms");
        let bucket = Quantum::TokenBucket { quota_ns: 20_000_000, period_ns: 100_000_000 };
        assert_eq!(bucket.to_string(), "a limit of 20.0 ms in every 100.0 ms");
    }
}
