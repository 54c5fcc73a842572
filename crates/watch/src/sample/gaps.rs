//! Missing time of CPUs in a sample, from the sampling meter of `evenkeel measure gaps`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counts of the meter since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapsSample {
    /// The counts of each CPU.
    pub cpus: BTreeMap<usize, CpuGapsSample>,
    /// The number of pauses of the whole machine.
    pub pauses: u64,
    /// The minimum total time of these pauses, in nanoseconds.
    pub paused_ns: u64,
    /// The pauses since the previous sample.
    pub new_pauses: Vec<PauseSample>,
    /// The longest gaps of single CPUs since the previous sample.
    pub new_gaps: Vec<GapSample>,
}

/// The missing time of a CPU. A window of a tenth of a millisecond stands for the time around it, so these times are estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuGapsSample {
    /// The time that the windows represent, in nanoseconds.
    pub covered_ns: u64,
    /// The part of that time in which other threads had the CPU, in nanoseconds.
    pub by_threads_ns: u64,
    /// The part of that time in which no thread had the CPU, in nanoseconds: the CPU was away, or served interrupts.
    pub by_nobody_ns: u64,
}

/// A pause of the whole machine. Times are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseSample {
    /// The first moment at which the machine was certainly paused.
    pub from_ns: u64,
    /// When the machine ran again.
    pub to_ns: u64,
    /// When a CPU is last known to have run before the pause. The pause began after this time.
    pub not_before_ns: u64,
}

/// A gap of one CPU: a time in which the CPU was away. Times are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapSample {
    /// The number of the CPU.
    pub cpu: usize,
    /// When a thread should have run on the CPU.
    pub from_ns: u64,
    /// When the thread ran.
    pub to_ns: u64,
}
