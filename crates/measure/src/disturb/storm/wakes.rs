//! Interrupts between processors: a thread sleeps on the CPU to interrupt, and a thread on another CPU wakes it at each beat.
//! A wake across CPUs needs an interrupt, unless the sleeper's CPU is idle and polls.

use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use evenkeel_sys::{CpuSet, clock};
use serde::Serialize;

use super::{Beats, moved, refuse_rate};
use crate::disturb::counts;
use crate::disturb::worker_group::{Class, End, Post, WorkerGroup, all_cpus, check_cpus, is_off};
use crate::error::MeterError;

/// The highest rate. Each wake takes some microseconds on two CPUs.
pub const RATE_PER_S_MAX: u64 = 50_000;

const PRIORITY: u8 = 10;

/// The kernel's rows of interrupts between processors: reschedule, and function call, which wakes a thread too.
const ROWS: &[&str] = &["RES", "CAL"];
const TABLE: &str = "/proc/interrupts";

/// The maximum sleep of a sleeper. After that it checks whether its waker has ended.
const SLEEP: Duration = Duration::from_millis(100);

/// The settings of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The CPUs to interrupt.
    #[serde(serialize_with = "crate::disturb::as_list")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// The rate for each CPU, per second.
    pub rate_per_s: u64,
}

/// The report of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The interruptions of each CPU.
    pub cpus: Vec<Cpu>,
}

/// The interruptions of one CPU.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: usize,
    /// The CPU from which the wakes came.
    pub from_cpu: usize,
    /// Wakes that were sent.
    pub sent: u64,
    /// The number of beats that were skipped because the previous beat was late.
    pub missed: u64,
    /// How often the sleeper woke. This is lower than `sent` if a wake arrived before the sleeper slept again.
    pub woken: u64,
    /// How long the waker ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the sleeper, in nanoseconds.
    pub taken_ns: u64,
    /// Interrupts from other CPUs during the run, by the kernel's count, including those of other programs.
    /// None if the kernel does not report the count.
    pub interrupts: Option<u64>,
    /// Whether the CPU went offline during the run, which ended the run.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    pairs: Vec<(usize, usize)>,
    before: Vec<Option<u64>>,
    workers: WorkerGroup<Half>,
}

/// The work of one thread of a pair.
#[derive(Clone, Copy, Debug)]
enum Half {
    Sleeper { woken: u64, taken_ns: u64, went_offline: bool },
    Waker { sent: u64, missed: u64, elapsed_ns: u64 },
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if a CPU does not exist or is not allowed, no other CPU can wake it, or the rate is out of bounds.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    refuse_rate(settings.rate_per_s, RATE_PER_S_MAX)?;
    check_cpus(&settings.cpus)?;
    let pairs = pairs(&settings.cpus, &all_cpus()?)?;
    let targets: Vec<usize> = pairs.iter().map(|(target, _)| *target).collect();
    let before = counts::now(TABLE, ROWS, &targets);
    let post = |cpu: usize, class| Post { cpus: [cpu].into_iter().collect(), class };
    let posts: Vec<Post> = pairs
        .iter()
        .flat_map(|(target, from)| {
            [post(*target, Class::FifoIfAllowed { priority: PRIORITY }), post(*from, Class::Ordinary { nice: 0 })]
        })
        .collect();
    let sleepers: Arc<Vec<OnceLock<Thread>>> = Arc::new(pairs.iter().map(|_| OnceLock::new()).collect());
    let rate_per_s = settings.rate_per_s;
    let workers = WorkerGroup::start("wakes", &posts, &End::new(until_ns), move |at, end| {
        let sleeper = &sleepers[at / 2];
        if at % 2 == 0 { sleep(targets[at / 2], sleeper, end) } else { wake(sleeper, rate_per_s, end) }
    })?;
    Ok(Running { pairs, before, workers })
}

/// Each CPU with its waker, which is the next allowed CPU.
fn pairs(cpus: &CpuSet, ours: &CpuSet) -> Result<Vec<(usize, usize)>, MeterError> {
    let with_other = |cpu: usize| {
        let other = ours.iter().find(|other| *other > cpu).or_else(|| ours.iter().find(|other| *other != cpu));
        other.map(|other| (cpu, other)).ok_or_else(|| {
            MeterError::not_possible(format!("wake CPU {cpu} from another"), "this process may not run on another CPU")
        })
    };
    cpus.iter().map(with_other).collect()
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        let halves = self.workers.stop();
        let targets: Vec<usize> = self.pairs.iter().map(|(target, _)| *target).collect();
        let after = counts::now(TABLE, ROWS, &targets);
        let rows = self.pairs.into_iter().zip(halves.chunks_exact(2)).zip(self.before.into_iter().zip(after));
        let cpus = rows.filter_map(|(((cpu, from_cpu), halves), (before, after))| match *halves {
            [Half::Sleeper { woken, taken_ns, went_offline }, Half::Waker { sent, missed, elapsed_ns }] => {
                let interrupts = moved(before, after);
                Some(Cpu { cpu, from_cpu, sent, missed, woken, elapsed_ns, taken_ns, interrupts, went_offline })
            }
            _ => None,
        });
        Report { cpus: cpus.collect() }
    }
}

fn sleep(cpu: usize, own: &OnceLock<Thread>, end: &End) -> Half {
    own.get_or_init(std::thread::current);
    let cpu_before_ns = clock::thread_cpu_ns();
    let (mut woken, mut went_offline) = (0, false);
    while !end.is_now() && !went_offline {
        std::thread::park_timeout(SLEEP);
        woken += 1;
        went_offline = is_off(cpu);
    }
    Half::Sleeper { woken, taken_ns: clock::thread_cpu_ns().saturating_sub(cpu_before_ns), went_offline }
}

fn wake(sleeper: &OnceLock<Thread>, rate_per_s: u64, end: &End) -> Half {
    let start_ns = clock::monotonic_ns();
    let (mut beats, mut sent) = (Beats::new(start_ns + 1, rate_per_s), 0);
    while beats.wait(end).is_some() {
        if let Some(sleeper) = sleeper.get() {
            sleeper.unpark();
            sent += 1;
        }
    }
    if let Some(sleeper) = sleeper.get() {
        sleeper.unpark();
    }
    Half::Waker { sent, missed: beats.missed, elapsed_ns: clock::monotonic_ns() - start_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_woken_from_another() {
        let set = |list: &str| CpuSet::parse_list(list).unwrap();
        assert_eq!(pairs(&set("0-2"), &set("0-2")).unwrap(), [(0, 1), (1, 2), (2, 0)]);
        assert_eq!(pairs(&set("5"), &set("1,5")).unwrap(), [(5, 1)]);
        let alone = pairs(&set("0"), &set("0")).unwrap_err();
        assert_eq!(alone.to_string(), "wake CPU 0 from another: this process may not run on another CPU");
    }
}
