//! Timer interrupts on chosen CPUs.
//! One thread per CPU sleeps to the next beat, so that the kernel programs the timer and takes its interrupt each time.
//! The threads are real-time where the system allows this, so that a busy CPU is interrupted too.

use std::num::NonZeroU64;

use evenkeel_sys::sched::{self, Policy};
use evenkeel_sys::{CpuSet, clock, thread};
use serde::Serialize;

use super::{Beats, moved, refuse_rate};
use crate::disturb::counts;
use crate::disturb::worker_group::{Class, End, Post, WorkerGroup, check_cpus, is_off};
use crate::error::MeterError;
use crate::{Lost, Samples, Unit};

/// The maximum rate. A timer that fires 50,000 times a second leaves a CPU little time for anything else.
pub const RATE_PER_S_MAX: u64 = 50_000;

/// The real-time priority. It is below the priority of most servers' own real-time threads.
const PRIORITY: u8 = 10;

/// The kernel's row of local timer interrupts.
const ROWS: &[&str] = &["LOC"];
const TABLE: &str = "/proc/interrupts";

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
    /// Timers that fired.
    pub timers: u64,
    /// How long the disturbing thread ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time that the disturbing thread got, in nanoseconds.
    pub taken_ns: u64,
    /// The scheduling class of the thread. An ordinary thread must wait its turn on a busy CPU.
    pub policy: &'static str,
    /// How late the thread saw each timer. `lost` counts beats that were skipped because the previous beat was late.
    pub late: Samples,
    /// Timer interrupts of this CPU during the run, by the kernel's count, from all sources. None if the kernel does not report the count.
    pub interrupts: Option<u64>,
    /// Whether the CPU went offline during the run, which ended the run.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    cpus: Vec<usize>,
    before: Vec<Option<u64>>,
    workers: WorkerGroup<Cpu>,
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if a CPU does not exist or is not allowed, or the rate is out of bounds.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    refuse_rate(settings.rate_per_s, RATE_PER_S_MAX)?;
    check_cpus(&settings.cpus)?;
    let cpus: Vec<usize> = settings.cpus.iter().collect();
    let before = counts::now(TABLE, ROWS, &cpus);
    let class = Class::FifoIfAllowed { priority: PRIORITY };
    let posts: Vec<Post> = cpus.iter().map(|cpu| Post { cpus: [*cpu].into_iter().collect(), class }).collect();
    let (rate_per_s, theirs) = (settings.rate_per_s, cpus.clone());
    let workers =
        WorkerGroup::start("timers", &posts, &End::new(until_ns), move |at, end| tick(theirs[at], rate_per_s, end))?;
    Ok(Running { cpus, before, workers })
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        let mut cpus = self.workers.stop();
        let after = counts::now(TABLE, ROWS, &self.cpus);
        for ((cpu, before), after) in cpus.iter_mut().zip(self.before).zip(after) {
            cpu.interrupts = moved(before, after);
        }
        Report { cpus }
    }
}

fn tick(cpu: usize, rate_per_s: u64, end: &End) -> Cpu {
    // The kernel coalesces timers of ordinary threads by their slack.
    // If the kernel refuses 1 ns of slack, the timers fire late and the report shows this.
    let _ = thread::set_timer_slack_ns(NonZeroU64::new(1));
    let policy = if sched::policy() == Ok(Policy::Fifo) { "fifo" } else { "other" };
    let (start_ns, cpu_before_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let mut late = Samples::new("timer_late_ns", Unit::Ns, [("cpu", cpu.to_string()), ("policy", policy.to_owned())]);
    let (mut beats, mut timers, mut went_offline) = (Beats::new(start_ns + 1, rate_per_s), 0, false);
    while let Some(due_ns) = beats.wait(end) {
        went_offline = is_off(cpu);
        if went_offline {
            break;
        }
        timers += 1;
        late.record(clock::monotonic_ns().saturating_sub(due_ns));
    }
    late.lost = Lost::new(beats.missed, "the previous one had not fired yet");
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let taken_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    Cpu { cpu, timers, elapsed_ns, taken_ns, policy, late, interrupts: None, went_offline }
}
