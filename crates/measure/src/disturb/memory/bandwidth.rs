//! Streaming threads: each thread copies from one half of its working set to the other, again and again.

use evenkeel_hostfs::Root;
use evenkeel_sys::{CpuSet, clock};
use serde::Serialize;

use super::headroom;
use crate::disturb::sibling::refuse_size;
use crate::disturb::worker_group::{Class, End, Post, WorkerGroup, check_cpus, is_off};
use crate::error::MeterError;

/// Bytes to copy between two clock readings. This takes about 50 us.
const BLOCK_BYTES: usize = 256 * 1024;

/// The settings of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The CPUs. Each CPU gets one thread.
    #[serde(serialize_with = "crate::disturb::as_list")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// The working set of each thread, in bytes.
    /// With a set that fits into the caches, the threads would load the caches instead of the memory.
    pub working_set_bytes: u64,
}

/// The report of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The work on each CPU.
    pub cpus: Vec<Cpu>,
}

/// The work on one CPU.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: usize,
    /// The number of copied bytes. Each byte was read once and written once.
    pub copied_bytes: u64,
    /// Copied bytes per second of run time.
    pub copied_bytes_per_s: f64,
    /// How long the disturbing thread ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time that the disturbing thread got, in nanoseconds.
    pub taken_ns: u64,
    /// Whether the CPU went offline during the run, which ended the run.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    workers: WorkerGroup<Cpu>,
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if a CPU does not exist or is not allowed, or the working sets exceed half of the free memory.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    check_cpus(&settings.cpus)?;
    let words = refuse_size(settings.working_set_bytes, settings.cpus.len(), headroom(&Root::live()))?;
    let cpus: Vec<usize> = settings.cpus.iter().collect();
    let class = Class::Ordinary { nice: 0 };
    let posts: Vec<Post> = cpus.iter().map(|cpu| Post { cpus: [*cpu].into_iter().collect(), class }).collect();
    let half_bytes = words * size_of::<u32>() / 2;
    let workers =
        WorkerGroup::start("bandwidth", &posts, &End::new(until_ns), move |at, end| stream(cpus[at], half_bytes, end))?;
    Ok(Running { workers })
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        Report { cpus: self.workers.stop() }
    }
}

fn stream(cpu: usize, half_bytes: usize, end: &End) -> Cpu {
    let mut memory = vec![1_u8; half_bytes * 2];
    let (from, to) = memory.split_at_mut(half_bytes);
    let (start_ns, cpu_before_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let (mut copied_bytes, mut at, mut went_offline) = (0_u64, 0_usize, false);
    while !end.is_now() && !went_offline {
        let upto = (at + BLOCK_BYTES).min(half_bytes);
        to[at..upto].copy_from_slice(&from[at..upto]);
        std::hint::black_box(&to[at..upto]);
        copied_bytes += (upto - at) as u64;
        at = if upto == half_bytes { 0 } else { upto };
        went_offline = is_off(cpu);
    }
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let taken_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    let copied_bytes_per_s = copied_bytes as f64 * 1e9 / elapsed_ns.max(1) as f64;
    Cpu { cpu, copied_bytes, copied_bytes_per_s, elapsed_ns, taken_ns, went_offline }
}
