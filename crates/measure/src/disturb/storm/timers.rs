//! Timer interrupts on chosen CPUs: a thread on each that sleeps to the next beat, so that the kernel has to program the timer and take
//! its interrupt each time. Real-time where that is allowed, so that a busy CPU is interrupted too.

use std::num::NonZeroU64;

use evenkeel_sys::sched::{self, Policy};
use evenkeel_sys::{CpuSet, clock, thread};
use serde::Serialize;

use super::{Beats, moved, refuse_rate};
use crate::disturb::counts;
use crate::disturb::worker_group::{Class, End, Post, WorkerGroup, check_cpus, is_off};
use crate::error::MeterError;
use crate::{Lost, Samples, Unit};

/// A timer that is set 50,000 times a second leaves a CPU little else.
pub const RATE_PER_S_MAX: u64 = 50_000;

/// Below most servers' own real-time threads, if they have any.
const PRIORITY: u8 = 10;

/// The kernel's row of local timer interrupts.
const ROWS: &[&str] = &["LOC"];
const TABLE: &str = "/proc/interrupts";

/// How to disturb.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The CPUs that are interrupted.
    #[serde(serialize_with = "crate::disturb::as_list")]
    pub cpus: CpuSet,
    /// How often each is, a second.
    pub rate_per_s: u64,
}

/// What was really done.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each CPU.
    pub cpus: Vec<Cpu>,
}

/// What was done to one CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Timers that went off.
    pub timers: u64,
    /// How long it worked, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time that it had, in nanoseconds.
    pub taken_ns: u64,
    /// The class of the thread: an ordinary one has to wait for its turn on a busy CPU.
    pub policy: &'static str,
    /// How much later than it was due each was seen, and how many were left out because the one before had not been.
    pub late: Samples,
    /// Timer interrupts of this CPU in that time as the kernel counts them, those of others among them; none where it does not tell.
    pub interrupts: Option<u64>,
    /// Whether the CPU went offline in the middle, which ends it.
    pub went_offline: bool,
}

/// At work. It ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    cpus: Vec<usize>,
    before: Vec<Option<u64>>,
    workers: WorkerGroup<Cpu>,
}

/// Begins, to end by itself when the monotonic clock reads `until_ns`.
///
/// # Errors
/// If a CPU is not there or not ours, or the rate is out of bounds.
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
    /// Ends it, and tells what was done.
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
    // An ordinary thread's timers are put together otherwise; where this is refused they are late, which is told.
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
    late.lost = Lost::of(beats.missed, "the previous one had not fired yet");
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let taken_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    Cpu { cpu, timers, elapsed_ns, taken_ns, policy, late, interrupts: None, went_offline }
}
