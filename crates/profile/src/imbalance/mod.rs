//! `Imbalance`: which CPU was full while others idled, and with which threads and functions.
//! The machine's average hides a full CPU, and so does a flame graph of all CPUs.

mod busy;
mod filled;
mod judge;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use evenkeel_measure::meters::imbalance::{FULL, IDLE};
use serde::Serialize;

use crate::names::Names;
use crate::recording::{Recording, Unit};
use busy::{Parts, Who};
pub use filled::{Filled, Path, Place};

/// The maximum number of parts into which the time is divided. More would not fit in a line of text.
const PARTS_MAX: u64 = 60;
/// The minimum length of a part: with switches, which are exact, and with samples. A part needs some tens of samples.
const PART_OF_SWITCHES_NS: u64 = 50_000_000;
const PART_OF_SAMPLES_NS: u64 = 1_000_000_000;
/// The maximum number of threads listed for a CPU.
const THREADS_MAX: usize = 5;
/// The error of a share, in standard errors. Nineteen of twenty measurements are at most this far from the truth.
const ERRORS: f64 = 2.0;

/// The data from which busy shares are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Switches. Shares are exact.
    Switches,
    /// Samples of a clock. Shares have the error [`Cpu::error_share`].
    Samples,
    /// Samples of a counter, which stands still while a CPU idles. Shares are relative to the work of the busiest CPU.
    Counter,
}

/// How the load was distributed over the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// No CPU was full.
    Even,
    /// At least one CPU was full while another was idle, so work waited that could have run.
    Uneven,
    /// Some CPUs were full and none was idle: the machine is too small.
    Full,
    /// No CPU was full, but one thread always ran, moving from CPU to CPU.
    OneThread,
    /// The recording does not show how the load was distributed.
    Unknown,
}

/// The reason why the busiest CPU is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// One thread does most of the work. It runs on one CPU at a time, so no setting of the machine helps.
    OneThread,
    /// Interrupts, mostly softirqs: the machine does not distribute the work of its network.
    Interrupts,
    /// Several threads whose affinity allows only full CPUs.
    Pinned,
    /// Several threads whose affinity also allows other CPUs.
    Together,
    /// Several threads with unknown affinity.
    Several,
}

/// A caveat of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ImbalanceCaveat {
    /// Only some processes were recorded.
    SomeOnly,
    /// The recording is too short.
    Short,
    /// Records were lost.
    Lost,
    /// A busy share is so close to a limit that its error matters.
    Close,
    /// The sampling clock is an interrupt, so code that runs with interrupts off has no samples. Its time is counted for the code after it.
    InterruptsUnseen,
    /// Kernel functions have no names, so interrupts and system calls look alike.
    KernelUnnamed,
    /// The recording has no stacks.
    NoStacks,
    /// Some online CPUs have no records: they were idle, or they were not recorded.
    SilentCpus,
}

/// A thread that ran on a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// The process of the thread.
    pub pid: u32,
    /// The number of the thread (tid).
    pub tid: u32,
    /// The name of the thread, if known.
    pub name: Option<String>,
    /// The thread's share of this CPU's time, from 0 to 1. None if the recording shows only work, not time.
    pub share: Option<f64>,
    /// The thread's share of this CPU's work, from 0 to 1.
    pub work_share: f64,
    /// All CPUs on which the thread ran.
    pub seen_on_cpus: Vec<u32>,
    /// The CPUs on which the thread may run, if known.
    pub may_run_on_cpus: Option<Vec<u32>>,
}

/// The use of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: u32,
    /// The share of the time in which the CPU was not idle, from 0 to 1.
    pub busy_share: f64,
    /// The error of `busy_share`: two standard errors. None if the share is exact.
    pub error_share: Option<f64>,
    /// The busy share in each part of the time.
    pub parts: Vec<f64>,
    /// The share of the time in which records are missing.
    pub unknown_share: f64,
    /// The average number of preempted threads that waited for this CPU. None without switches.
    pub waiting: Option<f64>,
    /// Context switches a second. None without switches.
    pub switches_per_s: Option<f64>,
    /// The threads that ran most on this CPU, busiest first.
    pub threads: Vec<Thread>,
    /// The number of threads that ran on this CPU.
    pub thread_count: usize,
}

/// How the load was distributed over the machine's CPUs, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Imbalance {
    /// The length of the recording, in nanoseconds.
    pub length_ns: u64,
    /// The length of one part of the time, in nanoseconds.
    pub part_ns: u64,
    /// The data from which busy shares are computed.
    pub source: Source,
    /// How the load was distributed over the CPUs.
    pub shape: Shape,
    /// The reason why the busiest CPU is busy, if known.
    pub cause: Option<Cause>,
    /// The thread that is the cause, or that moves from CPU to CPU, if there is one.
    pub thread: Option<Thread>,
    /// The number of the busiest CPU.
    pub busiest: Option<u32>,
    /// The number of the least busy CPU.
    pub idlest: Option<u32>,
    /// The number of parts in which one CPU was full and another idle.
    pub uneven_parts: usize,
    /// Each CPU, sorted by number.
    pub cpus: Vec<Cpu>,
    /// The code that the busiest CPU ran.
    pub filled: Option<Filled>,
    /// The code that the least busy CPU ran.
    pub idlest_filled: Option<Filled>,
    /// Caveats of the result.
    pub caveats: Vec<ImbalanceCaveat>,
}

/// Judges a recording. `may_run_on` returns a thread's affinity, if known.
pub fn imbalance(recording: &Recording, names: &Names, may_run_on: &dyn Fn(u32) -> Option<Vec<u32>>) -> Imbalance {
    let (parts, source, seen) = seen(recording);
    let by_thread = all_cpus(&seen);
    let scale = Scale::new(source, &parts, &seen);
    let mut cpus: Vec<Cpu> = seen.iter().map(|(number, seen)| scale.cpu(*number, seen)).collect();
    cpus.extend(silent(recording, &seen, parts.count));
    cpus.sort_by_key(|cpu| cpu.cpu);
    for cpu in &mut cpus {
        let Some(seen) = seen.get(&cpu.cpu) else { continue };
        let mut threads: Vec<(Who, u64)> = seen.by_thread.iter().map(|(who, time)| (*who, *time)).collect();
        threads.sort_by_key(|(who, time)| (std::cmp::Reverse(*time), *who));
        let busiest_threads = threads.into_iter().take(THREADS_MAX).map(|(who, time)| {
            let on = by_thread.get(&who).map(|all| all.cpus.iter().copied().collect()).unwrap_or_default();
            let name = recording.threads.get(&who.1).and_then(|thread| thread.name.clone());
            let (share, work_share) = (scale.share(time), time as f64 / seen.busy.max(1) as f64);
            Thread {
                pid: who.0,
                tid: who.1,
                name,
                share,
                work_share,
                seen_on_cpus: on,
                may_run_on_cpus: may_run_on(who.1),
            }
        });
        cpu.threads = busiest_threads.collect();
    }
    let busiest = cpus.iter().max_by(|one, other| one.busy_share.total_cmp(&other.busy_share)).map(|cpu| cpu.cpu);
    let idlest = cpus.iter().min_by(|one, other| one.busy_share.total_cmp(&other.busy_share)).map(|cpu| cpu.cpu);
    let idlest = idlest.filter(|cpu| Some(*cpu) != busiest);
    let mut answer = Imbalance {
        length_ns: parts.span.length_ns(),
        part_ns: parts.part_ns,
        source,
        shape: Shape::Unknown,
        cause: None,
        thread: None,
        busiest,
        idlest,
        uneven_parts: 0,
        filled: busiest.and_then(|cpu| filled::find_filled(recording, names, cpu)),
        idlest_filled: idlest.and_then(|cpu| filled::find_filled(recording, names, cpu)),
        cpus,
        caveats: Vec::new(),
    };
    answer.judge(recording, longest(recording, &by_thread, &scale, may_run_on));
    answer
}

/// The thread with most time on all CPUs together.
fn longest(
    recording: &Recording,
    by_thread: &HashMap<Who, Everywhere>,
    scale: &Scale<'_>,
    may_run_on: &dyn Fn(u32) -> Option<Vec<u32>>,
) -> Option<Thread> {
    let (who, all) = by_thread.iter().max_by_key(|(who, all)| (all.time, std::cmp::Reverse(**who)))?;
    let total = by_thread.values().fold(0_u64, |sum, all| sum.saturating_add(all.time));
    Some(Thread {
        pid: who.0,
        tid: who.1,
        name: recording.threads.get(&who.1).and_then(|thread| thread.name.clone()),
        share: scale.share(all.time),
        work_share: all.time as f64 / total.max(1) as f64,
        seen_on_cpus: all.cpus.iter().copied().collect(),
        may_run_on_cpus: may_run_on(who.1),
    })
}

/// The use of each CPU, from the most exact data in the recording.
fn seen(recording: &Recording) -> (Parts, Source, BTreeMap<u32, busy::Cpu>) {
    let parts = Parts::divide(recording.span, PARTS_MAX, PART_OF_SWITCHES_NS);
    let from_switches = busy::from_switches(recording, &parts);
    if !from_switches.is_empty() {
        let mut seen: BTreeMap<u32, busy::Cpu> = from_switches.into_iter().collect();
        // A thread that never leaves its CPU causes no switches.
        let (samples, unit) = busy::from_samples(recording, &parts);
        if unit == Unit::Nanoseconds {
            for (cpu, sampled) in samples {
                seen.entry(cpu).or_insert(sampled);
            }
        }
        return (parts, Source::Switches, seen);
    }
    let parts = Parts::divide(recording.span, PARTS_MAX, PART_OF_SAMPLES_NS);
    let (samples, unit) = busy::from_samples(recording, &parts);
    let source = if unit == Unit::Nanoseconds { Source::Samples } else { Source::Counter };
    (parts, source, samples.into_iter().collect())
}

/// A thread with the thread's time on all CPUs together.
#[derive(Debug, Default)]
struct Everywhere {
    time: u64,
    cpus: BTreeSet<u32>,
}

fn all_cpus(seen: &BTreeMap<u32, busy::Cpu>) -> HashMap<Who, Everywhere> {
    let mut all: HashMap<Who, Everywhere> = HashMap::new();
    for (number, cpu) in seen {
        for (who, time) in &cpu.by_thread {
            let everywhere = all.entry(*who).or_default();
            everywhere.time = everywhere.time.saturating_add(*time);
            everywhere.cpus.insert(*number);
        }
    }
    all
}

/// The totals by which weights are divided.
struct Scale<'a> {
    source: Source,
    parts: &'a Parts,
    /// The total of a CPU: the length of the recording, or with a counter the work of the busiest CPU.
    /// `whole_part` is the total for one part.
    whole: u64,
    whole_part: u64,
}

impl<'a> Scale<'a> {
    fn new(source: Source, parts: &'a Parts, seen: &BTreeMap<u32, busy::Cpu>) -> Scale<'a> {
        if source == Source::Counter {
            let most = seen.values().map(|cpu| cpu.busy).max().unwrap_or(0);
            let most_of_part = seen.values().flat_map(|cpu| cpu.parts.iter().copied()).max().unwrap_or(0);
            return Scale { source, parts, whole: most, whole_part: most_of_part };
        }
        Scale { source, parts, whole: parts.span.length_ns(), whole_part: 0 }
    }

    /// The share of the time. None if the recording shows only work, not time.
    fn share(&self, time: u64) -> Option<f64> {
        (self.source != Source::Counter).then(|| part_of(time, self.whole))
    }

    fn cpu(&self, cpu: u32, seen: &busy::Cpu) -> Cpu {
        let part = |(part, time): (usize, &u64)| {
            part_of(*time, if self.source == Source::Counter { self.whole_part } else { self.parts.length_ns(part) })
        };
        let busy_share = part_of(seen.busy, self.whole);
        let seconds = self.parts.span.length_ns() as f64 / 1e9;
        let is_exact = seen.samples.is_none();
        Cpu {
            cpu,
            busy_share,
            error_share: seen.samples.map(|samples| error(busy_share, samples, seen.count)),
            parts: seen.parts.iter().enumerate().map(part).collect(),
            unknown_share: part_of(seen.unknown_ns, self.whole),
            waiting: is_exact.then(|| seen.waited_ns as f64 / self.whole.max(1) as f64),
            switches_per_s: is_exact.then(|| seen.count as f64 / 2.0 / seconds.max(1e-9)),
            threads: Vec::new(),
            thread_count: seen.by_thread.len(),
        }
    }
}

fn part_of(time: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (time as f64 / whole as f64).min(1.0) }
}

/// Two standard errors of a share of `all` samples.
fn error(share: f64, samples: u64, all: u64) -> f64 {
    if samples == 0 {
        // If none of n samples is busy, the upper bound is about 3/n.
        return (3.0 / all.max(1) as f64).min(1.0);
    }
    ERRORS * share * ((1.0 - share).max(0.0) / samples as f64).sqrt()
}

/// Online CPUs without records.
fn silent(recording: &Recording, seen: &BTreeMap<u32, busy::Cpu>, parts: usize) -> Vec<Cpu> {
    let online = recording.machine.cpus.unwrap_or(0).min(busy::CPUS_MAX);
    let missing = (0..online).filter(|cpu| !seen.contains_key(cpu) && !seen.is_empty());
    let silent = missing.map(|cpu| Cpu {
        cpu,
        busy_share: 0.0,
        error_share: None,
        parts: vec![0.0; parts],
        unknown_share: 1.0,
        waiting: None,
        switches_per_s: None,
        threads: Vec::new(),
        thread_count: 0,
    });
    silent.collect()
}

#[cfg(test)]
mod tests;
