//! `Cpus`: who had which CPU when, where whole CPUs were watched. It says when a CPU was idle though a thread could have run, and where
//! records are missing.

use std::collections::BTreeMap;

use super::interval::GONE;
use super::pair::Pair;
use crate::recording::{Recording, Span, Switch, Turn};

/// A thread that could have run, with its CPU idle for such a share of the time, was kept from it. One that another CPU has fetched may
/// wait there for a moment while its own is idle.
const IDLE_SHARE: f64 = 0.25;
/// What is shorter may be that moment: the scheduler puts it right at its next tick.
const KEPT_LEAST_NS: u64 = 4_000_000;
/// After the work that throttles a group, a interval that is shorter may as well be another thread's turn.
const THROTTLED_LEAST_NS: u64 = 500_000;
/// Turns of a CPU that are added up to see who had it longest.
const TURNS_MAX: usize = 4096;

/// A thread was given the CPU.
#[derive(Clone, Copy, Debug)]
struct Given {
    at_ns: u64,
    pid: u32,
    tid: u32,
    /// How long the CPU was idle before, since the recording began.
    idle_ns: u64,
}

impl Given {
    fn after(before: Option<&Given>, at_ns: u64, (pid, tid): (u32, u32)) -> Given {
        let idle_ns = before
            .map_or(0, |before| before.idle_ns + if before.tid == 0 { at_ns.saturating_sub(before.at_ns) } else { 0 });
        Given { at_ns, pid, tid, idle_ns }
    }
}

/// Who had which CPU.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    by_cpu: BTreeMap<u32, Vec<Given>>,
    /// Stretches in which records of some CPU are missing, in the order of their beginnings, none within another.
    holes: Vec<Span>,
}

impl Cpus {
    pub(super) fn of(recording: &Recording) -> Cpus {
        let mut cpus = Cpus::default();
        let mut last: BTreeMap<u32, &Switch> = BTreeMap::new();
        // Where only some threads were watched, nobody tells who else had the CPU.
        for switch in recording.switches.iter().filter(|switch| switch.other.is_some()) {
            let before = last.insert(switch.cpu, switch);
            if before.is_some_and(|before| !follows(before, switch)) {
                cpus.holes.push(Span { start_ns: before.map_or(0, |before| before.at_ns), end_ns: switch.at_ns });
            }
            let given = cpus.by_cpu.entry(switch.cpu).or_default();
            match (switch.turn, switch.other) {
                (Turn::In, _) => {
                    let next = Given::after(given.last(), switch.at_ns, (switch.pid, switch.tid));
                    given.push(next);
                }
                // On some guests the idle thread of some CPUs has no records of its own.
                (_, Some((_, 0))) => {
                    let idle = Given::after(given.last(), switch.at_ns, (0, 0));
                    given.push(idle);
                }
                _ => {}
            }
        }
        cpus.holes.sort_by_key(|hole| hole.start_ns);
        cpus.holes = joined(&cpus.holes);
        cpus
    }

    /// Whether records are missing of a part of it.
    pub(super) fn has_hole_in(&self, span: Span) -> bool {
        let first = self.holes.partition_point(|hole| hole.end_ns <= span.start_ns);
        self.holes.get(first).is_some_and(|hole| hole.start_ns < span.end_ns)
    }

    /// Who had the CPU longest of a interval, but the idle one; none if that was not told.
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

    /// Whether a thread that could have run was kept from it by its group's limit. `after_work`: its stack was that of the work by which
    /// the kernel throttles a group.
    pub(super) fn was_throttled(&self, pair: &Pair, after_work: bool) -> bool {
        let length_ns = pair.span.length_ns();
        // A CPU that has somebody who may run does not go idle.
        let went_idle = pair.next.is_some_and(|(_, tid)| tid == 0);
        if after_work {
            return went_idle || length_ns >= THROTTLED_LEAST_NS;
        }
        let is_idle = |cpu: u32| self.idle_ns(cpu, pair.span) as f64 >= length_ns as f64 * IDLE_SHARE;
        let were_idle = is_idle(pair.cpu) && pair.cpu_after.is_none_or(is_idle);
        length_ns >= KEPT_LEAST_NS && were_idle
    }

    /// Whether a thread had a CPU through a whole stretch.
    pub(super) fn had_all_along(&self, cpu: u32, tid: u32, span: Span) -> bool {
        let Some(given) = self.by_cpu.get(&cpu) else { return false };
        let after = given.partition_point(|given| given.at_ns <= span.end_ns);
        let last = after.checked_sub(1).and_then(|at| given.get(at));
        last.is_some_and(|last| last.tid == tid && last.at_ns <= span.start_ns)
    }

    /// How long a CPU was idle.
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

/// Whether nothing is missing between two records of one CPU: who is given it is who was said to come next, and gives it away himself.
fn follows(before: &Switch, switch: &Switch) -> bool {
    match (before.turn, switch.turn) {
        (Turn::In, Turn::In) => false,
        (Turn::In, _) => before.tid == switch.tid || switch.tid == GONE,
        (_, Turn::In) => {
            let is = |other: Option<(u32, u32)>, tid: u32| other.is_none_or(|(_, other)| other == tid);
            is(before.other, switch.tid) || is(before.other, 0) && is(switch.other, 0)
        }
        _ => false,
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
