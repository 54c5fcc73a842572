//! The report: rates between two readings. Shares are of the time that passed, from 0 to 1.

use serde::Serialize;

use super::group::MemoryLimit;
use super::measured::Measured;
use super::timeline::Stretch;
use crate::{Lost, Samples, Unit};

/// The report.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// From the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// The number of readings, including the first and the last.
    pub readings: u64,
    /// The rates from the first reading to the last.
    #[serde(flatten)]
    pub rates: Rates,
    /// The course from reading to reading.
    pub spread: Vec<Spread>,
    /// The cost of the readings.
    pub cost: Cost,
    /// Rates between single pairs of readings that were unknown.
    pub lost: Lost,
}

/// The rates between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// The whole machine.
    pub system: System,
    /// The requested control group, else the process's, else evenkeel's own.
    pub group: Group,
    /// The requested process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Measured<ProcessRates>>,
}

/// The course of one rate.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Its name with the unit last.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The number of pairs of readings.
    pub count: u64,
    /// The lowest.
    pub min: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The highest.
    pub max: f64,
    /// The number of pairs of readings with a rate of 0.
    pub zeros: u64,
    /// The other pairs, rounded up to whole units. `lost` counts pairs of readings with an unknown rate.
    pub samples: Samples,
    /// Its timeline since the first reading.
    pub timeline: Vec<Stretch>,
}

/// The cost of measuring.
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
    /// Each CPU.
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
    /// Refaults: pages that returned soon after their eviction. The memory is smaller than the working set.
    pub refaults_per_s: Measured<f64>,
    /// Processes that the OOM killer ended.
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
    /// All.
    pub total_bytes: Measured<u64>,
    /// Available without swapping, by the kernel's estimate.
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
    /// Its number.
    pub cpu: usize,
    /// How its time was spent.
    pub shares: Measured<Shares>,
}

/// How CPU time was spent. All shares except `iowait` and `counted` add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// In user space.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// In interrupts.
    pub irq: f64,
    /// In softirqs.
    pub softirq: f64,
    /// Stolen by the hypervisor, as far as it reports.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
    /// The part of `idle` in which a thread waited for a disk.
    pub iowait: Measured<f64>,
    /// The counted share of the time that passed. Far below 1, a CPU was offline or the machine was paused.
    pub counted: f64,
}

/// The pressure on a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// cpu, memory or io.
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
    /// The group and its ancestors, the innermost first. The limits of all apply to it.
    pub levels: Measured<Vec<Level>>,
    /// The pressure in it, by resource.
    pub pressure: Vec<Pressure>,
    /// The memory that it uses, at the last reading.
    pub used_bytes: Measured<u64>,
    /// The tightest limit that applies to it. null means no limit.
    pub limit: Measured<Option<MemoryLimit>>,
    /// Page faults in it that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Refaults: pages that returned soon after their eviction.
    pub refaults_per_s: Measured<f64>,
}

/// The CPU time of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// Its directory.
    pub directory: String,
    /// Its limit. null means no limit.
    pub quota: Measured<Option<Quota>>,
    /// Periods of the limit in which it ran.
    pub periods: Measured<u64>,
    /// Periods in which it used up its time and was throttled.
    pub throttled_periods: Measured<u64>,
    /// How long it was throttled, summed over CPUs, in nanoseconds.
    pub throttled_ns: Measured<u64>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRates {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// From its first reading to its last, in nanoseconds.
    pub elapsed_ns: u64,
    /// What happened to it, if it ended during the measurement.
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
    /// Voluntary switches of its threads.
    pub voluntary_switches_per_s: Measured<f64>,
    /// Involuntary switches of its threads.
    pub involuntary_switches_per_s: Measured<f64>,
    /// How long its threads were ready but did not run, per second, summed over threads.
    pub run_delay: Measured<f64>,
    /// The threads that waited longest, up to 16.
    pub threads: Vec<ThreadRates>,
    /// Its memory.
    pub memory: ProcessMemory,
    /// Threads that ended meanwhile, or were not read because of the limit.
    pub lost: Lost,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRates {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time as a share of one CPU.
    pub cpu: f64,
    /// How long it was ready but did not run, per second.
    pub run_delay: f64,
    /// Its voluntary switches.
    pub voluntary_switches_per_s: f64,
    /// Its involuntary switches.
    pub involuntary_switches_per_s: f64,
}

/// The memory of a process at the last reading, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessMemory {
    /// Resident, with shared pages counted in full.
    pub rss_bytes: Measured<u64>,
    /// Resident, with shared pages divided among their users.
    pub pss_bytes: Measured<u64>,
    /// In swap.
    pub swap_bytes: Measured<u64>,
    /// How much the swapped memory grew, in bytes. Negative if it shrank.
    pub swap_grown_bytes: Measured<i64>,
    /// The referenced memory: since the measurement began, or since the marks were last cleared.
    pub referenced_bytes: Measured<u64>,
    /// Since when references count.
    pub referenced_since: &'static str,
    /// The memory that it may use: the tightest limit of its group, or all memory.
    pub limit_bytes: Measured<u64>,
    /// The source of that limit.
    pub limit_by: String,
    /// `rss_bytes` plus `swap_bytes`, divided by `limit_bytes`: the share that the process would need to be in memory completely.
    pub share_of_limit: Measured<f64>,
}
