//! `Spell`: a stretch of time in which a thread had no CPU, and why. The kernel's records of switches say from when to when; where the
//! thread was at that moment says the reason.

mod cpus;
mod faults;
mod folded;
mod pairs;
mod place;
mod reason;
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
pub use wakes::Trust;

use crate::names::Names;
use crate::recording::{Event, EventId, Recording, Span, Turn};
use crate::stack::StackId;
use cpus::Cpus;
use pairs::Pair;
use reason::Seen;

/// A switch and the sample of it are one moment of the kernel's: what lies further from it is of another one.
const SAME_MOMENT_NS: u64 = 1_000_000;

/// Why a thread had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It waited for a lock or a condition (futex).
    Futex,
    /// It waited for one of several files or sockets (poll, epoll, select, io_uring).
    Poll,
    /// It slept for a time that it chose.
    Sleep,
    /// It waited for a socket or a pipe.
    Socket,
    /// It waited for a disk or another device.
    Disk,
    /// It waited for memory that was not there: a page fault.
    PageFault,
    /// It waited for a lock of the kernel's own.
    KernelLock,
    /// Another thread took the CPU.
    Preempted,
    /// It gave the CPU to whoever wants it (sched_yield), and had more to do.
    Yielded,
    /// Its control group had used up its CPU time.
    Throttled,
    /// It waited for its child or for a signal, or was stopped.
    Stopped,
    /// It had the CPU by the kernel's records, and the machine did not run: another guest of the host did.
    Steal,
    /// It has ended.
    Ended,
    /// It waited in the kernel for something that is none of these: its stack tells.
    Other,
    /// Nobody knows: the recording does not tell where it was.
    #[default]
    Unknown,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 15] = [
        Reason::Futex,
        Reason::Poll,
        Reason::Sleep,
        Reason::Socket,
        Reason::Disk,
        Reason::PageFault,
        Reason::KernelLock,
        Reason::Preempted,
        Reason::Yielded,
        Reason::Throttled,
        Reason::Stopped,
        Reason::Steal,
        Reason::Ended,
        Reason::Other,
        Reason::Unknown,
    ];

    /// One or two words for it, as tables and graphs show it.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Futex => "futex",
            Reason::Poll => "poll",
            Reason::Sleep => "sleep",
            Reason::Socket => "socket or pipe",
            Reason::Disk => "disk",
            Reason::PageFault => "page fault",
            Reason::KernelLock => "kernel lock",
            Reason::Preempted => "preempted",
            Reason::Yielded => "yielded",
            Reason::Throttled => "throttled",
            Reason::Stopped => "stopped",
            Reason::Steal => "steal",
            Reason::Ended => "ended",
            Reason::Other => "other",
            Reason::Unknown => "unknown",
        }
    }

    /// Whether it could have run on, and was kept from it.
    pub fn is_forced(self) -> bool {
        matches!(self, Reason::Preempted | Reason::Throttled | Reason::Steal)
    }
}

/// Whether both ends of a spell were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edges {
    /// Both: its length is known.
    #[default]
    Seen,
    /// It was without a CPU before the recording began, or before the sample that tells of it was due: it lasted at least so long.
    FromBefore,
    /// It was still without one when the recording ended: it lasted at least so long.
    ToAfter,
    /// Records were lost while it lasted: it may be several spells with some running between them.
    Torn,
}

/// A stretch of time in which a thread had no CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spell {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The CPU that it gave away; where that was not seen, the one that it was given.
    pub cpu: u32,
    /// From when to when.
    pub span: Span,
    /// Whether both ends were seen.
    pub edges: Edges,
    /// Why.
    pub reason: Reason,
    /// Where it was, if that was recorded.
    pub stack: Option<StackId>,
    /// The process and thread that took the CPU, if that was recorded; thread 0 is the idle one. Of one that could have run on it is who
    /// had the CPU longest of the spell.
    pub taken_by: Option<(u32, u32)>,
    /// The thread that woke it, and where that was, if it was recorded.
    pub woken_by: Option<(u32, Option<StackId>)>,
    /// When it was woken, if that was recorded: from then on it waited for a CPU.
    pub woken_at_ns: Option<u64>,
}

/// The spells of all threads, in the order of their beginnings. An idle CPU's thread has none.
pub fn spells(recording: &Recording, names: &Names) -> Vec<Spell> {
    let cpus = Cpus::of(recording);
    let samples = Samples::of(recording);
    let wakes = wakes::Wakes::of(recording);
    let mut seen: HashMap<StackId, Seen> = HashMap::new();
    let mut spells: Vec<Spell> = pairs::of(recording, &cpus)
        .into_iter()
        .map(|pair| {
            let stack = samples.at(&pair);
            let seen = stack.map(|stack| *seen.entry(stack).or_insert_with(|| reason::seen(recording, names, stack)));
            let wake = wakes.of_spell(pair.tid, pair.span);
            let reason = why(&pair, seen, &cpus);
            Spell {
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
    spells.extend(steal::spells(recording, &cpus));
    spells.sort_by_key(|spell| (spell.span.start_ns, spell.tid));
    spells
}

/// How far the wake-ups in a recording can be trusted.
pub fn trust(recording: &Recording, spells: &[Spell]) -> Trust {
    wakes::trust(recording, spells)
}

fn why(pair: &Pair, seen: Option<Seen>, cpus: &Cpus) -> Reason {
    if pair.has_ended {
        return Reason::Ended;
    }
    let Some(turn) = pair.turn else { return Reason::Unknown };
    match (turn, seen.unwrap_or(Seen::Nothing)) {
        (_, Seen::Ended) => Reason::Ended,
        (_, Seen::Waits(reason)) if turn != Turn::Preempted || reason != Reason::Other => reason,
        (Turn::Preempted, Seen::Yielded) => Reason::Yielded,
        (Turn::Preempted, seen) if cpus.was_throttled(pair, seen == Seen::ThrottleWork) => Reason::Throttled,
        (Turn::Preempted, _) => Reason::Preempted,
        _ => Reason::Unknown,
    }
}

/// The numbers of the events with one of these names, whatever was asked of them besides (`context-switches/period=1/`, `…:u`).
pub(crate) fn events_named(recording: &Recording, names: &[&str]) -> Vec<EventId> {
    let is_one = |event: &Event| {
        names.iter().any(|name| {
            event.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        })
    };
    (0..).zip(&recording.events).filter(|(_, event)| is_one(event)).map(|(number, _)| number).collect()
}

/// The samples that say where threads were when they gave their CPU away, by thread and time.
struct Samples(HashMap<u32, Vec<(u64, StackId)>>);

impl Samples {
    fn of(recording: &Recording) -> Samples {
        let wanted = events_named(recording, &["context-switches", "cs", "sched:sched_switch"]);
        let mut by_thread: HashMap<u32, Vec<(u64, StackId)>> = HashMap::new();
        for sample in recording.samples.iter().filter(|sample| wanted.contains(&sample.event)) {
            by_thread.entry(sample.tid).or_default().push((sample.at_ns, sample.stack));
        }
        Samples(by_thread)
    }

    /// The nearest one: the kernel takes it just before it writes the record of the switch.
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
