//! Missing time of CPUs, as a sample holds it: from the sampling meter of `evenkeel measure gaps`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counts of the meter since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapsSample {
    /// Each CPU.
    pub cpus: BTreeMap<usize, CpuGapsSample>,
    /// Pauses of the whole machine.
    pub pauses: u64,
    /// Their minimum total time, in nanoseconds.
    pub paused_ns: u64,
    /// The pauses since the sample before.
    pub new_pauses: Vec<PauseSample>,
    /// The longest stretches in which one CPU was away, since the sample before.
    pub new_gaps: Vec<GapSample>,
}

/// The missing time of a CPU. A window of a tenth of a millisecond stands for the time around it, so these are estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuGapsSample {
    /// The time that its windows stand for, in nanoseconds.
    pub covered_ns: u64,
    /// The part that other threads had.
    pub by_threads_ns: u64,
    /// The missing part in which no thread had the CPU: the CPU was away, or was in interrupts.
    pub by_nobody_ns: u64,
}

/// A pause of the whole machine, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseSample {
    /// The first moment at which the machine was certainly paused.
    pub from_ns: u64,
    /// When the machine continued.
    pub to_ns: u64,
    /// When a CPU was last known to run before it. The pause began no earlier.
    pub not_before_ns: u64,
}

/// A stretch in which one CPU was away, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapSample {
    /// The CPU.
    pub cpu: usize,
    /// When a thread was due to run on it.
    pub from_ns: u64,
    /// When it ran.
    pub to_ns: u64,
}
