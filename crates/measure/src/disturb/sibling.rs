//! `sibling`: imitates a neighbour on the other hyperthread of a core.
//! The disturber's thread walks through more memory than the caches hold, and keeps the scalar and vector floating-point units busy.

use evenkeel_hostfs::Root;
use evenkeel_sys::{CpuSet, clock};
use serde::Serialize;

use super::memory::headroom;
use super::worker_group::{Class, End, Post, WorkerGroup, check_cpus, is_off};
use crate::error::MeterError;

/// The size of a cache line in bytes.
const LINE_BYTES: usize = 64;
const WORDS: usize = LINE_BYTES / size_of::<u32>();

/// The number of cache lines to touch between two clock readings. This takes about 50 us.
const LINES_A_LOOK: usize = 4096;

/// The settings of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The CPUs. Each CPU gets one thread.
    #[serde(serialize_with = "super::as_list")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// The working set of each thread, in bytes: larger than the cache to evict.
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
    /// The number of lines of 64 bytes that were read and written.
    pub lines: u64,
    /// How often the thread walked through the whole working set.
    pub passes: f64,
    /// How long the disturbing thread ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time that the disturbing thread got, in nanoseconds.
    pub taken_ns: u64,
    /// CPU time of the disturbing thread, divided by its run time.
    pub share_taken: f64,
    /// Whether the CPU went offline during the run, which ended the run.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    workers: WorkerGroup<Cpu>,
}

/// The other hyperthreads of the core to which `cpu` belongs.
///
/// # Errors
/// Fails if the core has no other hyperthreads, or this machine does not report them.
pub fn siblings_of(cpu: usize) -> Result<CpuSet, MeterError> {
    let tried = format!("find the sibling of CPU {cpu}");
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let text = Root::live().text(&path);
    let text = text.map_err(|refusal| MeterError::not_possible(&tried, refusal.to_string()))?;
    let all = CpuSet::parse_list(&text).unwrap_or_default();
    let others: CpuSet = all.iter().filter(|other| *other != cpu).collect();
    if others.is_empty() {
        let why = "its core has no other thread here; choose CPUs with --cpus";
        return Err(MeterError::not_possible(tried, why));
    }
    Ok(others)
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
    let workers =
        WorkerGroup::start("sibling", &posts, &End::new(until_ns), move |at, end| thrash(cpus[at], words, end))?;
    Ok(Running { workers })
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        Report { cpus: self.workers.stop() }
    }
}

/// How many words each thread walks through.
pub(super) fn refuse_size(each_bytes: u64, threads: usize, free_bytes: Option<u64>) -> Result<usize, MeterError> {
    let tried = format!("take {each_bytes} bytes for each of {threads} threads");
    let all_bytes = each_bytes.saturating_mul(threads as u64);
    if each_bytes < 4096 {
        return Err(MeterError::wrong_use(tried, "expected at least 4096"));
    }
    match free_bytes {
        Some(free) if all_bytes > free / 2 => {
            let why = format!("{free} are free, of which half may be taken");
            Err(MeterError::not_possible(tried, why))
        }
        None => Err(MeterError::not_possible(tried, "the kernel does not report how much memory is free")),
        Some(_) => Ok(usize::try_from(each_bytes).unwrap_or(usize::MAX) / size_of::<u32>()),
    }
}

fn thrash(cpu: usize, words: usize, end: &End) -> Cpu {
    let mut memory = vec![1_u32; words];
    let (start_ns, cpu_before_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let (mut lines, mut at, mut scalar, mut vector) = (0_u64, 0_usize, 0.5_f32, [0.5_f32; 8]);
    let mut went_offline = false;
    while !end.is_now() && !went_offline {
        for _ in 0..LINES_A_LOOK {
            memory[at] = memory[at].wrapping_add(1);
            at += WORDS;
            if at >= words {
                at = 0;
            }
            scalar = scalar * 0.999 + 0.001;
            for lane in &mut vector {
                *lane = *lane * 0.999 + scalar;
            }
        }
        lines += LINES_A_LOOK as u64;
        std::hint::black_box((&memory, scalar, vector));
        went_offline = is_off(cpu);
    }
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let taken_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    let passes = lines as f64 / words.div_ceil(WORDS) as f64;
    let share_taken = taken_ns as f64 / elapsed_ns.max(1) as f64;
    Cpu { cpu, lines, passes, elapsed_ns, taken_ns, share_taken, went_offline }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_half_of_what_is_free_is_taken() {
        let table = [
            (8192, 2, Some(32768), "2048 words"),
            (8192, 3, Some(32768), "take 8192 bytes for each of 3 threads: 32768 are free, of which half may be taken"),
            (64, 1, Some(32768), "take 64 bytes for each of 1 threads: expected at least 4096"),
            (
                u64::MAX,
                9,
                Some(1),
                "take 18446744073709551615 bytes for each of 9 threads: 1 are free, of which half may be taken",
            ),
            (
                8192,
                1,
                None,
                "take 8192 bytes for each of 1 threads: the kernel does not report how much memory is free",
            ),
        ];
        for (each, threads, free, expected) in table {
            let taken = refuse_size(each, threads, free);
            assert_eq!(taken.map_or_else(|error| error.to_string(), |words| format!("{words} words")), expected);
        }
    }
}
