//! What was seen between two readings, as rates. Shares are of the time that passed, from 0 to 1.

use serde::Serialize;

use super::group::MemoryLimit;
use super::measured::Measured;
use super::timeline::Stretch;
use crate::{Lost, Samples, Unit};

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// From the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Readings, the first and the last included.
    pub readings: u64,
    /// What it was from the first reading to the last.
    #[serde(flatten)]
    pub rates: Rates,
    /// How it went from reading to reading.
    pub spread: Vec<Spread>,
    /// What the readings cost.
    pub cost: Cost,
    /// Rates of single pairs of readings that could not be told.
    pub lost: Lost,
}

/// What was seen between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The whole machine.
    pub system: System,
    /// The control group that was asked for; else the process's, else ours.
    pub group: Group,
    /// The process that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Measured<ProcessRates>>,
}

/// How one rate went.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// What it is, the unit last.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// Pairs of readings that it is made of.
    pub count: u64,
    /// The lowest.
    pub min: f64,
    /// A tenth were no higher.
    pub p10: f64,
    /// Half were no higher.
    pub p50: f64,
    /// Nine in ten were no higher.
    pub p90: f64,
    /// The highest.
    pub max: f64,
    /// How many of the pairs of readings had a rate of 0.
    pub zeros: u64,
    /// The others, rounded up to whole numbers of the unit. `lost` are pairs of readings between which it could not be told.
    pub samples: Samples,
    /// How it went, from the first reading on.
    pub timeline: Vec<Stretch>,
}

/// What measuring costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time of one reading, in nanoseconds.
    pub cpu_ns_per_reading: u64,
    /// The same as a share of one CPU.
    pub cpu_share: f64,
}

/// The whole machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct System {
    /// The unit in which the kernel tells the times of CPUs: less than that does not show.
    pub cpu_time_unit_ms: u32,
    /// All CPUs that were online at both readings.
    pub all: Measured<Shares>,
    /// Each CPU.
    pub cpus: Vec<CpuShares>,
    /// Switches from one thread to another, on all CPUs.
    pub context_switches_per_s: Measured<f64>,
    /// Interrupts of all kinds.
    pub interrupts_per_s: Measured<f64>,
    /// Second halves of interrupts.
    pub softirqs_per_s: Measured<f64>,
    /// Processes and threads made.
    pub forks_per_s: Measured<f64>,
    /// Page faults that no disk had to serve.
    pub minor_faults_per_s: Measured<f64>,
    /// Page faults that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Pages brought in from swap.
    pub swap_ins_per_s: Measured<f64>,
    /// Pages put out to swap.
    pub swap_outs_per_s: Measured<f64>,
    /// Times that a thread which asked for memory had to free some first.
    pub direct_reclaims_per_s: Measured<f64>,
    /// Pages that came back soon after they had been put out: the memory is smaller than what is worked with.
    pub refaults_per_s: Measured<f64>,
    /// Processes that were killed for want of memory.
    pub oom_kills: Measured<u64>,
    /// What had to wait for what.
    pub pressure: Vec<Pressure>,
    /// At the last reading.
    pub memory: Memory,
}

/// Memory of the machine, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// All.
    pub total_bytes: Measured<u64>,
    /// What can be had without swapping, as the kernel guesses.
    pub available_bytes: Measured<u64>,
    /// Room for swapping.
    pub swap_bytes: Measured<u64>,
    /// What of it is used.
    pub swap_used_bytes: Measured<u64>,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuShares {
    /// Its number.
    pub cpu: usize,
    /// What it spent its time with.
    pub shares: Measured<Shares>,
}

/// What CPUs spent their time with. All but `iowait` and `counted` make 1 together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// In user space.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// In interrupts.
    pub irq: f64,
    /// In the second half of interrupts.
    pub softirq: f64,
    /// Ready to run while the hypervisor ran something else, as far as it tells.
    pub steal: f64,
    /// With nothing to run.
    pub idle: f64,
    /// The part of `idle` in which something waited for a disk.
    pub iowait: Measured<f64>,
    /// What of the time that passed was counted at all. Far under 1: a CPU was offline, or the machine stood still and nobody counted it.
    pub counted: f64,
}

/// What had to wait for a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pressure {
    /// cpu, memory or io.
    pub resource: &'static str,
    /// For which share of the time at least one thread waited.
    pub some: Measured<f64>,
    /// For which share all did that had something to do.
    pub full: Measured<f64>,
}

/// A limit of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// So much in each period, in microseconds.
    pub quota_us: u64,
    /// In microseconds.
    pub period_us: u64,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The group and those around it, the innermost first: the limits of all of them hold it.
    pub levels: Measured<Vec<Level>>,
    /// What had to wait for what in it.
    pub pressure: Vec<Pressure>,
    /// Memory that it uses, at the last reading.
    pub used_bytes: Measured<u64>,
    /// The tightest limit on it; null is no limit.
    pub limit: Measured<Option<MemoryLimit>>,
    /// Page faults in it that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Pages that came back soon after they had been put out.
    pub refaults_per_s: Measured<f64>,
}

/// The CPU time of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Its directory.
    pub directory: String,
    /// Its limit; null is none.
    pub quota: Measured<Option<Quota>>,
    /// Periods of the limit in which it ran.
    pub periods: Measured<u64>,
    /// Those in which it used its time up and stood still.
    pub throttled_periods: Measured<u64>,
    /// For how long it stood still, summed over CPUs, in nanoseconds.
    pub throttled_ns: Measured<u64>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessRates {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// From its first reading to its last, in nanoseconds.
    pub elapsed_ns: u64,
    /// What became of it, where it did not outlast the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// CPU time as a share of one CPU.
    pub cpu: Measured<f64>,
    /// Page faults that no disk had to serve.
    pub minor_faults_per_s: Measured<f64>,
    /// Page faults that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// How many of those there were: of these one is enough for a player to notice.
    pub major_faults: Measured<u64>,
    /// How often its threads gave their CPU up.
    pub voluntary_switches_per_s: Measured<f64>,
    /// How often their CPU was taken from them.
    pub involuntary_switches_per_s: Measured<f64>,
    /// For how long they were ready and did not run: of each second, summed over threads.
    pub run_delay: Measured<f64>,
    /// Those of its threads that waited longest, up to 16.
    pub threads: Vec<ThreadRates>,
    /// What it has in memory.
    pub memory: ProcessMemory,
    /// Threads that ended meanwhile, or were too many.
    pub lost: Lost,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadRates {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time as a share of one CPU.
    pub cpu: f64,
    /// For how long it was ready and did not run, of each second.
    pub run_delay: f64,
    /// How often it gave its CPU up.
    pub voluntary_switches_per_s: f64,
    /// How often its CPU was taken from it.
    pub involuntary_switches_per_s: f64,
}

/// The memory of a process at the last reading, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessMemory {
    /// In memory, shared pages in full.
    pub rss_bytes: Measured<u64>,
    /// In memory, shared pages by its share of them.
    pub pss_bytes: Measured<u64>,
    /// In swap.
    pub swap_bytes: Measured<u64>,
    /// By how much that grew; negative where it shrank.
    pub swap_grown_bytes: Measured<i64>,
    /// What of it was referenced: since the measurement began, or since anybody last cleared the marks.
    pub referenced_bytes: Measured<u64>,
    /// Since when.
    pub referenced_since: &'static str,
    /// What it may have: the tightest limit of its group, or all memory.
    pub limit_bytes: Measured<u64>,
    /// Who says so.
    pub limit_by: String,
    /// `rss_bytes` and `swap_bytes` together as a share of that: what it would take to have all of it in memory.
    pub share_of_limit: Measured<f64>,
}
