//! Computes which thread had which CPU, and when. Switches give exact times, and samples give estimates.

use std::collections::HashMap;

use crate::recording::{Recording, Sample, Span, Switch, Turn, Unit};

/// A thread with its process.
pub(super) type Who = (u32, u32);
/// The idle thread's number.
const IDLE_TID: u32 = 0;
/// The kernel's number for a thread that has ended.
const ENDED_TID: u32 = u32::MAX;

/// The maximum number of CPUs. A higher CPU number comes from a damaged file, and a table for it would waste memory.
pub(super) const CPUS_MAX: u32 = evenkeel_sys::MAX_CPUS as u32;

/// The use of one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    /// The time in which the CPU was not idle, in nanoseconds. With samples, the total weight of all threads except the idle thread.
    pub(super) busy: u64,
    /// The busy time in each part of the recording.
    pub(super) parts: Vec<u64>,
    /// The busy time of each thread.
    pub(super) by_thread: HashMap<Who, u64>,
    /// The time in which the use of the CPU is unknown, because a record is missing.
    pub(super) unknown_ns: u64,
    /// How long preempted threads waited to get this CPU again.
    pub(super) waited_ns: u64,
    /// The number of switch records on this CPU. With samples, the number of samples, including samples of the idle thread.
    pub(super) count: u64,
    /// The number of samples of threads other than the idle thread. None if switches are used.
    pub(super) samples: Option<u64>,
}

/// The time of the recording, divided into parts of equal length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// The whole time.
    pub(super) span: Span,
    /// The length of one part.
    pub(super) part_ns: u64,
    /// The number of parts.
    pub(super) count: usize,
}

impl Parts {
    /// Divides the time into at most `most` parts, each at least `shortest_ns` long.
    pub(super) fn divide(span: Span, most: u64, shortest_ns: u64) -> Parts {
        let part_ns = span.length_ns().div_ceil(most.max(1)).max(shortest_ns).max(1);
        Parts { span, part_ns, count: usize::try_from(span.length_ns().div_ceil(part_ns)).unwrap_or(0) }
    }

    fn at(&self, at_ns: u64) -> usize {
        let part = at_ns.saturating_sub(self.span.start_ns) / self.part_ns;
        usize::try_from(part).unwrap_or(usize::MAX).min(self.count.saturating_sub(1))
    }

    /// The length of this part. The last part may be shorter than the others.
    pub(super) fn length_ns(&self, part: usize) -> u64 {
        let begin = (part as u64).saturating_mul(self.part_ns);
        self.span.length_ns().saturating_sub(begin).min(self.part_ns)
    }
}

impl Cpu {
    fn new(parts: &Parts) -> Cpu {
        Cpu { parts: vec![0; parts.count], ..Cpu::default() }
    }

    fn ran(&mut self, (pid, tid): Who, span: Span, parts: &Parts) {
        if tid == IDLE_TID {
            return;
        }
        self.busy = self.busy.saturating_add(span.length_ns());
        let sum = self.by_thread.entry((pid, tid)).or_default();
        *sum = sum.saturating_add(span.length_ns());
        for part in parts.at(span.start_ns)..=parts.at(span.end_ns) {
            let begin_ns = parts.span.start_ns.saturating_add((part as u64).saturating_mul(parts.part_ns));
            let end_ns = begin_ns.saturating_add(parts.part_ns).min(span.end_ns);
            if let Some(sum) = self.parts.get_mut(part) {
                *sum = sum.saturating_add(end_ns.saturating_sub(begin_ns.max(span.start_ns)));
            }
        }
    }
}

/// Which thread has a CPU, and since when.
#[derive(Clone, Copy, Debug)]
enum Holder {
    /// No record has shown the thread yet.
    Unknown,
    /// This thread, which may be the idle thread, since this time.
    Thread(Who, u64),
    /// A thread that is not recorded, or no thread.
    Other,
}

/// Computes the use of each CPU from switches. CPUs without switches are left out.
pub(super) fn from_switches(recording: &Recording, parts: &Parts) -> HashMap<u32, Cpu> {
    let mut cpus: HashMap<u32, (Cpu, Holder)> = HashMap::new();
    // For each preempted thread: since when it has waited, and for which CPU.
    let mut waiting: HashMap<u32, (u64, u32)> = HashMap::new();
    for switch in recording.switches.iter().filter(|switch| switch.cpu < CPUS_MAX) {
        let (cpu, holder) = cpus.entry(switch.cpu).or_insert_with(|| (Cpu::new(parts), Holder::Unknown));
        cpu.count += 1;
        *holder = after(cpu, *holder, switch, parts);
        match switch.turn {
            Turn::Preempted if switch.tid != IDLE_TID => {
                waiting.insert(switch.tid, (switch.at_ns, switch.cpu));
            }
            Turn::In => {
                if let Some((since_ns, lost_on)) = waiting.remove(&switch.tid)
                    && let Some((cpu, _)) = cpus.get_mut(&lost_on)
                {
                    cpu.waited_ns = cpu.waited_ns.saturating_add(switch.at_ns.saturating_sub(since_ns));
                }
            }
            _ => {}
        }
    }
    let end_ns = parts.span.end_ns;
    let finished = cpus.into_iter().map(|(number, (mut cpu, holder))| {
        if let Holder::Thread(who, since_ns) = holder {
            cpu.ran(who, Span { start_ns: since_ns, end_ns }, parts);
        }
        (number, cpu)
    });
    finished.collect()
}

/// Adds the time before a switch to the CPU. Returns the thread that has the CPU now.
fn after(cpu: &mut Cpu, holder: Holder, switch: &Switch, parts: &Parts) -> Holder {
    let (ours, at_ns) = ((switch.pid, switch.tid), switch.at_ns);
    let is_in = switch.turn == Turn::In;
    let before = if is_in { switch.other } else { Some(ours) };
    match (holder, before) {
        // The kernel writes a switch-out and a switch-in as a pair. The second record adds nothing.
        (Holder::Thread(who, since_ns), _) if is_in && who.1 == ours.1 => return Holder::Thread(who, since_ns),
        (Holder::Thread(who, since_ns), Some(before)) if before.1 == who.1 || before.1 == ENDED_TID => {
            cpu.ran(who, Span { start_ns: since_ns, end_ns: at_ns }, parts);
        }
        (Holder::Thread(_, since_ns), _) => {
            cpu.unknown_ns = cpu.unknown_ns.saturating_add(at_ns.saturating_sub(since_ns));
        }
        (Holder::Unknown, Some(before)) if before.1 != ENDED_TID => {
            cpu.ran(before, Span { start_ns: parts.span.start_ns, end_ns: at_ns }, parts);
        }
        (Holder::Unknown | Holder::Other, _) => {}
    }
    match (is_in, switch.other) {
        (true, _) => Holder::Thread(ours, at_ns),
        (false, Some(next)) => Holder::Thread(next, at_ns),
        (false, None) => Holder::Other,
    }
}

/// Computes the use of each CPU from samples of running code. Also returns the unit of their weights.
pub(super) fn from_samples(recording: &Recording, parts: &Parts) -> (HashMap<u32, Cpu>, Unit) {
    let mut cpus: HashMap<u32, Cpu> = HashMap::new();
    let unit = on_cpu_event(recording).map_or(Unit::Events, |(_, unit)| unit);
    for sample in on_cpu(recording) {
        let cpu = cpus.entry(sample.cpu).or_insert_with(|| Cpu::new(parts));
        cpu.count += 1;
        let samples = cpu.samples.get_or_insert(0);
        if sample.tid == IDLE_TID {
            continue;
        }
        *samples += 1;
        cpu.busy = cpu.busy.saturating_add(sample.weight);
        let sum = cpu.by_thread.entry((sample.pid, sample.tid)).or_default();
        *sum = sum.saturating_add(sample.weight);
        if let Some(sum) = cpu.parts.get_mut(parts.at(sample.at_ns)) {
            *sum = sum.saturating_add(sample.weight);
        }
    }
    (cpus, unit)
}

/// The event whose samples are used. A clock is preferred, because the weights of its samples are times.
fn on_cpu_event(recording: &Recording) -> Option<(u16, Unit)> {
    let events = recording.events.iter().enumerate().filter(|(_, event)| event.is_on_cpu());
    let best = events.min_by_key(|(_, event)| event.unit != Unit::Nanoseconds)?;
    Some((u16::try_from(best.0).ok()?, best.1.unit))
}

/// All samples of running code, of one event.
pub(super) fn on_cpu(recording: &Recording) -> impl Iterator<Item = &Sample> {
    let event = on_cpu_event(recording).map(|(event, _)| event);
    recording.samples.iter().filter(move |sample| Some(sample.event) == event && sample.cpu < CPUS_MAX)
}
