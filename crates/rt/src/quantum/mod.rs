//! `Quantum`: whether the CPU that ticks run on is taken away by the clock, and how; and `Aligner`, which puts the ticks where that costs
//! least. A tick that begins where the CPU has just come back is done in a third of the time of one that begins where it goes.
//!
//! | step | where |
//! |---|---|
//! | short sleeps in idle time: which of them ended late | `watch` |
//! | period, share and phase of what was late, on a thread of its own | `finder`, `evenkeel_stats::periodicity` |
//! | where a tick may be: points in time that drift with the hypervisor's clock | `grid` |
//! | ticks at some of these places, and which were done soonest | `trial` |
//! | what to do when; no clock and no system call, so that hours are tested in a moment | `aligner` |
//! | who took the CPU: the kernel's mark on a preempted thread, or its count of waiting | `own` |
//! | all of it in a [`TickClock`](crate::TickClock) | `keeper` |
//!
//! What is written down is not guessed: under a limit of its control group nothing is looked for, and the places to try are those of
//! the limit's own period.

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

/// Whether the clock may move its ticks in time, to where they are done soonest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Where it was measured that they are done sooner there. It is looked for where the period is 4 ms or more: for five seconds at the
    /// start, and again when ticks are late or long.
    #[default]
    Measured,
    /// Never: they stay where they were first due.
    Never,
}

/// How the CPU is taken away from the thread that ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Quantum {
    /// Not known: it was not looked for, or not for long enough yet.
    #[default]
    Unknown,
    /// It is ours.
    None,
    /// At set times, as a hypervisor does that gives each virtual CPU a slot.
    FixedSlot(Slot),
    /// When a budget has run out, until it is filled again: a limit of the thread's control group.
    TokenBucket {
        /// CPU time in each period, in nanoseconds.
        quota_ns: u64,
        /// From one refill to the next, in nanoseconds.
        period_ns: u64,
    },
    /// At no times that could be told.
    Irregular,
}

impl fmt::Display for Quantum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantum::Unknown => f.write_str("not known yet"),
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

/// Slots of a fixed place in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// From one beginning of our share to the next, in nanoseconds.
    pub period_ns: f64,
    /// How much of the period is ours, from 0 to 1.
    pub share: f64,
    /// A moment at which our share begins, on the monotonic clock in nanoseconds: a late one of those that were seen.
    pub phase_ns: u64,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
}

impl Quantum {
    /// The period in nanoseconds at which the CPU comes and goes, where there is one: what a period of ticks is best a multiple of.
    pub fn period_ns(&self) -> Option<u64> {
        match self {
            Quantum::FixedSlot(slot) => Some(slot.period_ns.round() as u64),
            Quantum::TokenBucket { period_ns, .. } => Some(*period_ns),
            Quantum::Unknown | Quantum::None | Quantum::Irregular => None,
        }
    }

    /// How much of the CPU is ours, from 0 to 1; none where it is not known.
    pub fn share(&self) -> Option<f64> {
        match self {
            Quantum::None => Some(1.0),
            Quantum::FixedSlot(slot) => Some(slot.share),
            Quantum::TokenBucket { quota_ns, period_ns } => Some((*quota_ns as f64 / *period_ns as f64).min(1.0)),
            Quantum::Unknown | Quantum::Irregular => None,
        }
    }
}

/// What the clock does about it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// Nothing: it may not, there is nothing to align to, or nothing that was tried was better.
    #[default]
    Free,
    /// It wakes in idle time to see what is late.
    Looking,
    /// It has ticks at several places, to see where they are done soonest.
    Trying,
    /// Ticks are held where they were done soonest.
    Held,
    /// There are slots, and no place among them: the period of the ticks is neither a multiple of theirs nor a half or third of one.
    NoMultiple,
}

/// How the alignment went so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aligned {
    /// How the CPU is taken away.
    pub quantum: Quantum,
    /// What is done about it.
    pub alignment: Alignment,
    /// How often ticks were put elsewhere by more than a twentieth of the quantum's period.
    pub moves: u64,
    /// How often the clock woke in idle time to look; a wake costs some 5 us of CPU time.
    pub probes: u64,
    /// Gaps that were seen, by who took the CPU.
    pub gaps: GapsSeen,
}

/// Gaps that were seen, by who took the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapsSeen {
    /// Nobody inside the guest: a hypervisor, or an interrupt.
    pub foreign: u64,
    /// Another thread, or a limit of a control group.
    pub preempted: u64,
    /// Not known.
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
