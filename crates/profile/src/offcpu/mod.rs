//! Finds off-CPU intervals and their reasons.
//! The kernel's switch records give start and end, and the thread's stack at the switch gives the reason.

mod cpus;
mod faults;
mod folded;
mod interval;
mod pair;
mod pairs;
mod place;
mod reason;
mod recorded;
mod steal;
mod strip;
pub mod table;
#[cfg(test)]
mod tests;
pub mod timeline;
mod wakes;

use std::collections::HashMap;

pub use faults::{Faults, faults};
pub use folded::{folded, woken};
pub(crate) use interval::events_named;
pub use interval::{Edges, OffCpuInterval, Reason};
pub use wakes::Trust;

use crate::names::Names;
use crate::recording::{Recording, Turn};
use crate::stack::StackId;
use cpus::Cpus;
use pair::Pair;
use reason::StackReason;

/// The maximum distance between a switch and the sample that belongs to it.
const SAME_MOMENT_NS: u64 = 1_000_000;

/// The intervals of all threads except the idle threads, sorted by start.
pub fn intervals(recording: &Recording, names: &Names) -> Vec<OffCpuInterval> {
    let cpus = Cpus::from_recording(recording);
    let samples = Samples::from_recording(recording);
    let wakes = wakes::Wakes::from_recording(recording);
    let mut seen: HashMap<StackId, StackReason> = HashMap::new();
    let mut intervals: Vec<OffCpuInterval> = pairs::find_pairs(recording, &cpus)
        .into_iter()
        .map(|pair| {
            let stack = samples.at(&pair);
            let seen = stack.map(|stack| *seen.entry(stack).or_insert_with(|| reason::seen(recording, names, stack)));
            let wake = wakes.of_interval(pair.tid, pair.span);
            let reason = why(&pair, seen, &cpus);
            OffCpuInterval {
                pid: pair.pid,
                tid: pair.tid,
                cpu: pair.cpu,
                span: pair.span,
                edges: pair.edges,
                reason,
                stack,
                taken_by: if reason.is_forced() { cpus.longest(&pair) } else { None }.or(pair.next),
                woken_by: wake.map(|wake| (wake.by, Some(wake.stack))),
                woken_at_ns: wake.map(|wake| wake.at_ns),
            }
        })
        .collect();
    intervals.extend(steal::intervals(recording, &cpus));
    intervals.sort_by_key(|interval| (interval.span.start_ns, interval.tid));
    intervals
}

/// How complete the wake-ups of a recording are.
pub fn trust(recording: &Recording, intervals: &[OffCpuInterval]) -> Trust {
    wakes::trust(recording, intervals)
}

fn why(pair: &Pair, seen: Option<StackReason>, cpus: &Cpus) -> Reason {
    if pair.has_ended {
        return Reason::Ended;
    }
    let Some(turn) = pair.turn else { return Reason::Unknown };
    match (turn, seen.unwrap_or(StackReason::Nothing)) {
        (_, StackReason::Ended) => Reason::Ended,
        (_, StackReason::Waits(reason)) if turn != Turn::Preempted || reason != Reason::Other => reason,
        (Turn::Preempted, StackReason::Yielded) => Reason::Yielded,
        (Turn::Preempted, seen) if cpus.was_throttled(pair, seen == StackReason::ThrottleWork) => Reason::Throttled,
        (Turn::Preempted, _) => Reason::Preempted,
        _ => Reason::Unknown,
    }
}

/// The stacks of context switches, by thread and time.
struct Samples(HashMap<u32, Vec<(u64, StackId)>>);

impl Samples {
    fn from_recording(recording: &Recording) -> Samples {
        let wanted = events_named(recording, &["context-switches", "cs", "sched:sched_switch"]);
        let mut by_thread: HashMap<u32, Vec<(u64, StackId)>> = HashMap::new();
        for sample in recording.samples.iter().filter(|sample| wanted.contains(&sample.event)) {
            by_thread.entry(sample.tid).or_default().push((sample.at_ns, sample.stack));
        }
        Samples(by_thread)
    }

    /// The stack of the sample that is nearest to the switch-out. The kernel takes the sample just before it writes the switch record.
    fn at(&self, pair: &Pair) -> Option<StackId> {
        pair.turn?;
        let of_thread = self.0.get(&pair.tid)?;
        let out_ns = pair.span.start_ns;
        let after = of_thread.partition_point(|(at_ns, _)| *at_ns <= out_ns);
        let before = after.checked_sub(1).and_then(|at| of_thread.get(at));
        let near = before.into_iter().chain(of_thread.get(after));
        let since_ns = pair.given_at_ns.unwrap_or(0);
        near.filter(|(at_ns, _)| *at_ns >= since_ns && (*at_ns < pair.span.end_ns || *at_ns <= out_ns))
            .map(|(at_ns, stack)| (at_ns.abs_diff(out_ns), *stack))
            .filter(|(off_ns, _)| *off_ns <= SAME_MOMENT_NS)
            .min_by_key(|(off_ns, _)| *off_ns)
            .map(|(_, stack)| stack)
    }
}
