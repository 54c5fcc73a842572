//! The report: rates between two readings. Shares are of the time that passed, from 0 to 1.

use serde::Serialize;

use super::group::MemoryLimit;
use super::measured::Measured;
use super::timeline::Stretch;
use crate::{Lost, Samples, Unit};

/// The report of the rates meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The time from the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// The number of readings, including the first and the last.
    pub readings: u64,
    /// The rates from the first reading to the last.
    #[serde(flatten)]
    pub rates: Rates,
    /// How each rate changed from reading to reading.
    pub spread: Vec<Spread>,
    /// The cost of the readings.
    pub cost: Cost,
    /// Rates between neighbouring readings that were unknown.
    pub lost: Lost,
}

/// The rates between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// The whole machine.
    pub system: System,
    /// The requested control group. Without a request, this is the group of the requested process.
    /// Without a process, this is evenkeel's own group.
    pub group: Group,
    /// The requested process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Measured<ProcessRates>>,
}

/// How one rate changed over time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The rate's name, with the unit last.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The number of pairs of readings.
    pub count: u64,
    /// The lowest rate.
    pub min: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The highest rate.
    pub max: f64,
    /// The number of pairs of readings with a rate of 0.
    pub zeros: u64,
    /// The rates that are not 0, rounded up to whole units. `lost` counts pairs of readings with an unknown rate.
    pub samples: Samples,
    /// The rate's timeline since the first reading.
    pub timeline: Vec<Stretch>,
}

/// The cost of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// CPU time of one reading, in nanoseconds.
    pub cpu_ns_per_reading: u64,
    /// CPU time of the readings as a share of one CPU.
    pub cpu_share: f64,
}

/// The whole machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct System {
    /// The unit of the kernel's CPU times. Shorter times do not show.
    pub cpu_time_unit_ms: u32,
    /// All CPUs that were online at both readings.
    pub all: Measured<Shares>,
    /// How the time of each CPU was spent.
    pub cpus: Vec<CpuShares>,
    /// Switches between threads, on all CPUs.
    pub context_switches_per_s: Measured<f64>,
    /// Interrupts of all kinds.
    pub interrupts_per_s: Measured<f64>,
    /// Softirqs.
    pub softirqs_per_s: Measured<f64>,
    /// Created processes and threads.
    pub forks_per_s: Measured<f64>,
    /// Page faults without disk access.
    pub minor_faults_per_s: Measured<f64>,
    /// Page faults that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Pages read from swap.
    pub swap_ins_per_s: Measured<f64>,
    /// Pages written to swap.
    pub swap_outs_per_s: Measured<f64>,
    /// How often a thread had to free memory before it could allocate (direct reclaim).
    pub direct_reclaims_per_s: Measured<f64>,
    /// Refaults: pages that returned soon after their eviction. They show that the memory is smaller than the working set.
    pub refaults_per_s: Measured<f64>,
    /// The number of processes that the OOM killer killed.
    pub oom_kills: Measured<u64>,
    /// Pressure by resource.
    pub pressure: Vec<Pressure>,
    /// Memory at the last reading.
    pub memory: Memory,
}

/// Memory of the machine, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// The total memory of the machine.
    pub total_bytes: Measured<u64>,
    /// Memory that is available without swapping, by the kernel's estimate.
    pub available_bytes: Measured<u64>,
    /// The size of swap.
    pub swap_bytes: Measured<u64>,
    /// The used part of swap.
    pub swap_used_bytes: Measured<u64>,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuShares {
    /// The CPU's number.
    pub cpu: usize,
    /// How the CPU's time was spent.
    pub shares: Measured<Shares>,
}

/// How CPU time was spent. All shares except `iowait` and `counted` add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// The share of time in user space.
    pub user: f64,
    /// The share of time in the kernel, without interrupts.
    pub system: f64,
    /// The share of time in interrupts.
    pub irq: f64,
    /// The share of time in softirqs.
    pub softirq: f64,
    /// The share of time that the hypervisor reports as steal.
    pub steal: f64,
    /// The share of time in which the CPU was idle.
    pub idle: f64,
    /// The part of `idle` in which a thread waited for a disk.
    pub iowait: Measured<f64>,
    /// The counted share of the time that passed. If the share is far below 1, a CPU was offline or the machine was paused.
    pub counted: f64,
}

/// The pressure on a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// The resource: cpu, memory or io.
    pub resource: &'static str,
    /// The share of the time in which at least one thread waited.
    pub some: Measured<f64>,
    /// The share of the time in which all non-idle threads waited.
    pub full: Measured<f64>,
}

/// A limit of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// CPU time per period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds.
    pub period_us: u64,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The group and its ancestors, with the innermost first. The limits of all these groups apply to the group.
    pub levels: Measured<Vec<Level>>,
    /// The pressure in the group, by resource.
    pub pressure: Vec<Pressure>,
    /// The memory that the group uses, at the last reading, in bytes.
    pub used_bytes: Measured<u64>,
    /// The tightest memory limit that applies to the group. null means no limit.
    pub limit: Measured<Option<MemoryLimit>>,
    /// Page faults in the group that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Refaults: pages that returned soon after their eviction.
    pub refaults_per_s: Measured<f64>,
}

/// The CPU time of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// The group's directory.
    pub directory: String,
    /// The group's limit on CPU time. null means no limit.
    pub quota: Measured<Option<Quota>>,
    /// Periods of the limit in which the group ran.
    pub periods: Measured<u64>,
    /// Periods in which the group used up its time and was throttled.
    pub throttled_periods: Measured<u64>,
    /// How long the group was throttled, summed over CPUs, in nanoseconds.
    pub throttled_ns: Measured<u64>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRates {
    /// The process's number.
    pub pid: u32,
    /// The process's name.
    pub name: String,
    /// The time from the first reading of the process to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// How the process ended. None if it ran until the end of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// CPU time as a share of one CPU.
    pub cpu: Measured<f64>,
    /// Page faults without disk access.
    pub minor_faults_per_s: Measured<f64>,
    /// Page faults that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// The number of major page faults. A player may notice a single one.
    pub major_faults: Measured<u64>,
    /// Voluntary switches of the process's threads.
    pub voluntary_switches_per_s: Measured<f64>,
    /// Involuntary switches of the process's threads.
    pub involuntary_switches_per_s: Measured<f64>,
    /// Seconds per second in which threads of the process were ready but did not run. This is a sum over the threads.
    pub run_delay: Measured<f64>,
    /// The threads that waited longest, up to 16.
    pub threads: Vec<ThreadRates>,
    /// The memory of the process.
    pub memory: ProcessMemory,
    /// Threads that ended in the meantime, or that were not read because of the limit.
    pub lost: Lost,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRates {
    /// The thread's number.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// CPU time as a share of one CPU.
    pub cpu: f64,
    /// Seconds per second in which the thread was ready but did not run.
    pub run_delay: f64,
    /// The thread's voluntary switches.
    pub voluntary_switches_per_s: f64,
    /// The thread's involuntary switches.
    pub involuntary_switches_per_s: f64,
}

/// The memory of a process at the last reading, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessMemory {
    /// Resident memory, with shared pages counted in full.
    pub rss_bytes: Measured<u64>,
    /// Resident memory, with shared pages divided among their users.
    pub pss_bytes: Measured<u64>,
    /// Memory in swap.
    pub swap_bytes: Measured<u64>,
    /// How much the swapped memory grew, in bytes. Negative if it shrank.
    pub swap_grown_bytes: Measured<i64>,
    /// The memory that the process referenced since the measurement began, or since the marks were last cleared.
    pub referenced_bytes: Measured<u64>,
    /// The moment from which `referenced_bytes` counts, in words.
    pub referenced_since: &'static str,
    /// The memory that the process may use, in bytes: the tightest limit of its control group, or all memory of the machine.
    pub limit_bytes: Measured<u64>,
    /// Where `limit_bytes` comes from.
    pub limit_by: String,
    /// `rss_bytes` plus `swap_bytes`, divided by `limit_bytes`. The process needs this share of the limit to be in memory completely.
    pub share_of_limit: Measured<f64>,
}
