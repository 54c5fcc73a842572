//! `Cpus`: which thread had which CPU at which time, if whole CPUs were recorded.
//! `Cpus` shows when a CPU was idle while a thread was ready, and when records are missing.

use std::collections::BTreeMap;

use super::pair::Pair;
use super::recorded::Recorded;
use crate::recording::{Recording, Span, Switch, Turn};

/// If a ready thread's CPU was idle for at least this share of the wait, the thread was throttled.
/// If the share is smaller, the thread may have waited until another CPU took it.
const IDLE_SHARE: f64 = 0.25;
/// A shorter wait next to an idle CPU is normal, because the scheduler moves threads only at its next tick.
const KEPT_LEAST_NS: u64 = 4_000_000;
/// If the stack shows the kernel's throttling work, a shorter interval may still be an ordinary preemption.
const THROTTLED_LEAST_NS: u64 = 500_000;
/// The maximum number of time slices that are summed to find who had a CPU longest.
const TURNS_MAX: usize = 4096;

/// A moment at which a thread got a CPU.
#[derive(Clone, Copy, Debug)]
struct Given {
    at_ns: u64,
    pid: u32,
    tid: u32,
    /// The idle time of the CPU since the start of the recording.
    idle_ns: u64,
}

impl Given {
    /// `from` is the thread that had the CPU until now, if recorded.
    /// If `from` is not the last known thread, other threads had the CPU in between.
    fn after(before: Option<&Given>, at_ns: u64, (pid, tid): (u32, u32), from: Option<(u32, u32)>) -> Given {
        let was_idle = |before: &Given| before.tid == 0 && from.is_none_or(|(_, tid)| tid == 0);
        let idle_ns = before
            .map_or(0, |before| before.idle_ns + if was_idle(before) { at_ns.saturating_sub(before.at_ns) } else { 0 });
        Given { at_ns, pid, tid, idle_ns }
    }
}

/// Which thread had each CPU, over time.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    by_cpu: BTreeMap<u32, Vec<Given>>,
    /// Times in which records are missing, sorted by start. No time lies inside another.
    holes: Vec<Span>,
}

impl Cpus {
    pub(super) fn from_recording(recording: &Recording) -> Cpus {
        let mut cpus = Cpus::default();
        let mut last: BTreeMap<u32, &Switch> = BTreeMap::new();
        let recorded = Recorded::from_recording(recording);
        // If only some threads were recorded, it is unknown which other threads used a CPU.
        for switch in recording.switches.iter().filter(|switch| switch.other.is_some()) {
            let before = last.insert(switch.cpu, switch);
            if before.is_some_and(|before| !recorded.follows(before, switch)) {
                cpus.holes.push(Span { start_ns: before.map_or(0, |before| before.at_ns), end_ns: switch.at_ns });
            }
            let given = cpus.by_cpu.entry(switch.cpu).or_default();
            match (switch.turn, switch.other) {
                (Turn::In, from) => {
                    let next = Given::after(given.last(), switch.at_ns, (switch.pid, switch.tid), from);
                    given.push(next);
                }
                // Threads that are left out have no records of their own.
                // On some guests, the idle threads of some CPUs have no records either.
                (_, Some(next)) if next.1 == 0 || !recorded.has(next.1, switch.cpu, switch.at_ns) => {
                    let next = Given::after(given.last(), switch.at_ns, next, None);
                    given.push(next);
                }
                _ => {}
            }
        }
        cpus.holes.sort_by_key(|hole| hole.start_ns);
        cpus.holes = joined(&cpus.holes);
        cpus
    }

    /// Whether records are missing in any part of this time.
    pub(super) fn has_hole_in(&self, span: Span) -> bool {
        let first = self.holes.partition_point(|hole| hole.end_ns <= span.start_ns);
        self.holes.get(first).is_some_and(|hole| hole.start_ns < span.end_ns)
    }

    /// The thread that had the CPU longest during this interval, except the idle thread. None if unknown.
    pub(super) fn longest(&self, pair: &Pair) -> Option<(u32, u32)> {
        let given = self.by_cpu.get(&pair.cpu)?;
        let first = given.partition_point(|given| given.at_ns < pair.span.start_ns);
        let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for at in (first..given.len()).take(TURNS_MAX) {
            let one = given[at];
            if one.at_ns >= pair.span.end_ns {
                break;
            }
            let end_ns = given.get(at + 1).map_or(pair.span.end_ns, |next| next.at_ns.min(pair.span.end_ns));
            if one.tid != 0 && one.tid != pair.tid {
                *sums.entry((one.pid, one.tid)).or_default() += end_ns - one.at_ns;
            }
        }
        sums.into_iter().max_by_key(|(_, sum_ns)| *sum_ns).map(|(who, _)| who)
    }

    /// Whether a CPU limit kept a ready thread of a control group from running.
    /// `after_work` says that the thread's stack shows the kernel's throttling work.
    pub(super) fn was_throttled(&self, pair: &Pair, after_work: bool) -> bool {
        let length_ns = pair.span.length_ns();
        // A CPU does not go idle while it has a runnable thread.
        let went_idle = pair.next.is_some_and(|(_, tid)| tid == 0);
        if after_work {
            return went_idle || length_ns >= THROTTLED_LEAST_NS;
        }
        let is_idle = |cpu: u32| self.idle_ns(cpu, pair.span) as f64 >= length_ns as f64 * IDLE_SHARE;
        let were_idle = is_idle(pair.cpu) && pair.cpu_after.is_none_or(is_idle);
        length_ns >= KEPT_LEAST_NS && were_idle
    }

    /// Whether a thread had a CPU for the whole time span.
    pub(super) fn had_all_along(&self, cpu: u32, tid: u32, span: Span) -> bool {
        let Some(given) = self.by_cpu.get(&cpu) else { return false };
        let after = given.partition_point(|given| given.at_ns <= span.end_ns);
        let last = after.checked_sub(1).and_then(|at| given.get(at));
        last.is_some_and(|last| last.tid == tid && last.at_ns <= span.start_ns)
    }

    /// How long a CPU was idle during this time span.
    fn idle_ns(&self, cpu: u32, span: Span) -> u64 {
        self.idle_until(cpu, span.end_ns).saturating_sub(self.idle_until(cpu, span.start_ns))
    }

    fn idle_until(&self, cpu: u32, at_ns: u64) -> u64 {
        let Some(given) = self.by_cpu.get(&cpu) else { return 0 };
        let after = given.partition_point(|given| given.at_ns <= at_ns);
        let Some(last) = after.checked_sub(1).and_then(|at| given.get(at)) else { return 0 };
        last.idle_ns + if last.tid == 0 { at_ns - last.at_ns } else { 0 }
    }
}

fn joined(spans: &[Span]) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start_ns <= last.end_ns => last.end_ns = last.end_ns.max(span.end_ns),
            _ => joined.push(*span),
        }
    }
    joined
}
