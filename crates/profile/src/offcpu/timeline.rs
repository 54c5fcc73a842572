//! `Timeline`: the off-CPU intervals of the busiest threads, with a lane for each thread.
//! If a page cannot hold all intervals, neighbours are merged, and the timeline counts the intervals that it leaves out.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::place::Places;
use super::table::on_cpu_ns;
use super::{Edges, OffCpuInterval, Reason};
use crate::fold::thread_name;
use crate::names::Names;
use crate::recording::{Recording, Span, Turn};
use crate::stack::StackId;
use crate::ticks::Tick;
use crate::tree::clean;

/// The maximum number of lanes. Threads with most CPU time are kept.
const LANES_MAX: usize = 120;
/// The maximum number of pieces. More pieces make a page slow to open, so neighbouring short intervals are merged above this number.
const PIECES_MAX: usize = 250_000;
/// The maximum number of stacks.
const STACKS_MAX: usize = 20_000;
/// The maximum number of functions of a stack, innermost first.
const FUNCTIONS_MAX: usize = 14;
/// The maximum number of ticks. The slowest ticks are kept.
const TICKS_MAX: usize = 100_000;

/// Off-CPU intervals over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The time of the recording.
    pub span: Span,
    /// The threads, most CPU time first.
    pub lanes: Vec<Lane>,
    /// The number of threads without a lane.
    pub lanes_left_out: usize,
    /// The number of intervals of the threads with a lane.
    pub intervals: usize,
    /// The number of intervals that are merged with neighbours.
    pub merged: usize,
    /// Merged intervals lie within parts of this length. 0 if no intervals are merged.
    pub merged_within_ns: u64,
    /// The stacks of the pieces, each once.
    pub stacks: Vec<Place>,
    /// How many stacks are left out.
    pub stacks_left_out: usize,
    /// Names of threads that took a CPU or woke a thread.
    pub threads: BTreeMap<u32, String>,
    /// The ticks of the tick thread, if known.
    pub ticks: Option<Ticks>,
}

/// The off-CPU intervals of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// The process of the thread.
    pub pid: u32,
    /// The number of the thread (tid).
    pub tid: u32,
    /// The name of the thread.
    pub name: String,
    /// The thread's time on a CPU.
    pub on_cpu_ns: u64,
    /// The time between the thread's first and last known switch. Within this time, the thread had a CPU whenever no piece covers it.
    pub known: Span,
    /// The off-CPU intervals, sorted by start.
    pub pieces: Vec<Piece>,
}

/// An interval, or several merged neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start and end. For a merged piece, from the start of the first interval to the end of the last.
    pub span: Span,
    /// The reason. For a merged piece, the reason with the most time.
    pub reason: Reason,
    /// The number of intervals in this piece.
    pub count: u32,
    /// The time off CPU. In a merged piece, this is less than the span.
    pub off_ns: u64,
    /// Whether both ends are known.
    pub edges: Edges,
    /// The CPU that the thread left.
    pub cpu: u32,
    /// The index of the stack in [`Timeline::stacks`], if known.
    pub place: Option<u32>,
    /// The thread that took the CPU, if known.
    pub taken_by: Option<u32>,
    /// The thread that woke the waiting thread, if known.
    pub woken_by: Option<u32>,
    /// The time from wake-up to running, if known.
    pub woken_ns: Option<u64>,
}

/// Where a thread waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The program's function that called the wait.
    pub own: Option<String>,
    /// The innermost functions, the innermost first.
    pub functions: Vec<String>,
}

/// The ticks of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ticks {
    /// The thread.
    pub tid: u32,
    /// The ticks, sorted by time.
    pub ticks: Vec<Tick>,
    /// The number of ticks that are left out.
    pub left_out: usize,
}

impl Timeline {
    /// The timeline of the wanted processes' threads, with the ticks of one thread.
    pub fn from_recording(
        recording: &Recording,
        names: &Names,
        intervals: &[OffCpuInterval],
        is_wanted: impl Fn(u32) -> bool,
        ticks: Option<(u32, &[Tick])>,
    ) -> Timeline {
        let own = |interval: &&OffCpuInterval| is_wanted(interval.pid);
        let (mut lanes, lanes_left_out) = lanes(recording, intervals.iter().filter(own), &is_wanted, ticks);
        let mut maker = Maker::new(recording, names);
        let at: HashMap<u32, usize> = lanes.iter().enumerate().map(|(at, lane)| (lane.tid, at)).collect();
        for interval in intervals.iter().filter(own) {
            if let Some(lane) = at.get(&interval.tid).and_then(|at| lanes.get_mut(*at)) {
                lane.pieces.push(maker.piece(interval));
            }
        }
        let count = lanes.iter().map(|lane| lane.pieces.len()).sum();
        let merged_within_ns = merge(&mut lanes, recording.span, PIECES_MAX);
        let merged = lanes.iter().flat_map(|lane| &lane.pieces).filter(|piece| piece.count > 1);
        let merged = merged.map(|piece| piece.count as usize).sum();
        Timeline {
            span: recording.span,
            lanes,
            lanes_left_out,
            intervals: count,
            merged,
            merged_within_ns,
            stacks: maker.stacks,
            stacks_left_out: maker.left_out.len(),
            threads: maker.threads,
            ticks: ticks.map(|(tid, ticks)| ticks_of(tid, ticks)),
        }
    }
}

fn ticks_of(tid: u32, ticks: &[Tick]) -> Ticks {
    let mut kept: Vec<Tick> = ticks.to_vec();
    if kept.len() > TICKS_MAX {
        kept.sort_by_key(|tick| std::cmp::Reverse(tick.span.length_ns()));
        kept.truncate(TICKS_MAX);
        kept.sort_by_key(|tick| tick.span.start_ns);
    }
    Ticks { tid, left_out: ticks.len() - kept.len(), ticks: kept }
}

/// The busiest threads, and the number of threads without a lane. The tick thread is always included.
fn lanes<'s>(
    recording: &Recording,
    intervals: impl Iterator<Item = &'s OffCpuInterval>,
    is_wanted: impl Fn(u32) -> bool,
    ticks: Option<(u32, &[Tick])>,
) -> (Vec<Lane>, usize) {
    let on_cpu = on_cpu_ns(recording);
    let mut pids: BTreeMap<u32, u32> = on_cpu
        .iter()
        .filter(|(tid, (pid, _))| **tid != 0 && is_wanted(*pid))
        .map(|(tid, (pid, _))| (*tid, *pid))
        .collect();
    pids.extend(intervals.map(|interval| (interval.tid, interval.pid)));
    let busy = |tid: &u32| on_cpu.get(tid).map_or(0, |(_, on_cpu_ns)| *on_cpu_ns);
    let ticking = ticks.map(|(tid, _)| tid);
    let mut tids: Vec<u32> = pids.keys().copied().collect();
    tids.sort_by_key(|tid| (Some(*tid) != ticking, std::cmp::Reverse(busy(tid)), *tid));
    let left_out = tids.len().saturating_sub(LANES_MAX);
    tids.truncate(LANES_MAX);
    tids.sort_by_key(|tid| (std::cmp::Reverse(busy(tid)), *tid));
    let known = known(recording);
    let lane = |tid: u32| Lane {
        pid: pids.get(&tid).copied().unwrap_or_default(),
        tid,
        name: thread_name(recording, tid),
        on_cpu_ns: busy(&tid),
        known: known.get(&tid).copied().unwrap_or_default(),
        pieces: Vec::new(),
    };
    (tids.into_iter().map(lane).collect(), left_out)
}

/// Each thread's first and last switch.
fn known(recording: &Recording) -> HashMap<u32, Span> {
    let begun: HashSet<u32> =
        recording.lives.iter().filter(|life| life.made_by.is_some()).map(|life| life.tid).collect();
    let mut known: HashMap<u32, (Span, Turn)> = HashMap::new();
    for switch in &recording.switches {
        let start_ns = if begun.contains(&switch.tid) { switch.at_ns } else { recording.span.start_ns };
        let (span, turn) = known.entry(switch.tid).or_insert((Span { start_ns, end_ns: start_ns }, switch.turn));
        (span.end_ns, *turn) = (switch.at_ns, switch.turn);
    }
    let ends: HashSet<u32> =
        recording.lives.iter().filter(|life| life.made_by.is_none()).map(|life| life.tid).collect();
    known
        .into_iter()
        .map(|(tid, (span, turn))| {
            let is_running = turn == Turn::In && !ends.contains(&tid);
            (tid, Span { end_ns: if is_running { recording.span.end_ns } else { span.end_ns }, ..span })
        })
        .collect()
}

struct Maker<'a> {
    recording: &'a Recording,
    names: &'a Names,
    places: Places<'a>,
    numbers: HashMap<StackId, u32>,
    stacks: Vec<Place>,
    left_out: HashSet<StackId>,
    threads: BTreeMap<u32, String>,
}

impl<'a> Maker<'a> {
    fn new(recording: &'a Recording, names: &'a Names) -> Maker<'a> {
        Maker {
            recording,
            names,
            places: Places::new(recording, names),
            numbers: HashMap::new(),
            stacks: Vec::new(),
            left_out: HashSet::new(),
            threads: BTreeMap::new(),
        }
    }

    fn piece(&mut self, interval: &OffCpuInterval) -> Piece {
        let taken_by = interval.taken_by.map(|(_, tid)| tid);
        let woken_by = interval.woken_by.map(|(tid, _)| tid);
        for tid in taken_by.into_iter().chain(woken_by) {
            self.threads.entry(tid).or_insert_with(|| thread_name(self.recording, tid));
        }
        Piece {
            span: interval.span,
            reason: interval.reason,
            count: 1,
            off_ns: interval.span.length_ns(),
            edges: interval.edges,
            cpu: interval.cpu,
            place: interval.stack.and_then(|stack| self.place(stack)),
            taken_by,
            woken_by,
            woken_ns: interval.woken_at_ns.map(|at_ns| interval.span.end_ns.saturating_sub(at_ns)),
        }
    }

    fn place(&mut self, stack: StackId) -> Option<u32> {
        if let Some(known) = self.numbers.get(&stack) {
            return Some(*known);
        }
        if self.stacks.len() >= STACKS_MAX {
            self.left_out.insert(stack);
            return None;
        }
        let frames = self.recording.stacks.innermost_first(stack).map(|frame| self.names.get(frame));
        let functions = frames.flat_map(|named| {
            let functions = named.functions.iter().rev().map(|function| function.name.as_str());
            functions.chain(named.functions.is_empty().then_some(named.in_place.as_str()))
        });
        let functions = functions.take(FUNCTIONS_MAX).map(clean).collect();
        let number = self.stacks.len() as u32;
        self.stacks.push(Place { own: self.places.at(stack).map(clean), functions });
        self.numbers.insert(stack, number);
        Some(number)
    }
}

/// Merges neighbours until there are at most `pieces_max` pieces, if possible.
/// Returns the length of the parts within which pieces were merged, or 0 if no pieces were merged.
fn merge(lanes: &mut [Lane], span: Span, pieces_max: usize) -> u64 {
    let count = |part_ns: u64| -> usize { lanes.iter().map(|lane| groups(&lane.pieces, span, part_ns).count()).sum() };
    if lanes.iter().map(|lane| lane.pieces.len()).sum::<usize>() <= pieces_max {
        return 0;
    }
    let mut part_ns = (span.length_ns() >> 22).max(1);
    while count(part_ns) > pieces_max && part_ns < span.length_ns() {
        part_ns = part_ns.saturating_mul(2);
    }
    for lane in lanes {
        lane.pieces = groups(&lane.pieces, span, part_ns).map(merged).collect();
    }
    part_ns
}

/// Groups neighbouring pieces that lie within the same part of the time. A piece that spans several parts is a group on its own.
fn groups(pieces: &[Piece], span: Span, part_ns: u64) -> impl Iterator<Item = &[Piece]> {
    let part = move |at_ns: u64| at_ns.saturating_sub(span.start_ns) / part_ns.max(1);
    pieces.chunk_by(move |one, other| {
        let of = part(one.span.start_ns);
        [one.span.end_ns, other.span.start_ns, other.span.end_ns].into_iter().all(|at_ns| part(at_ns) == of)
    })
}

fn merged(group: &[Piece]) -> Piece {
    let mut sums: BTreeMap<Reason, u64> = BTreeMap::new();
    for piece in group {
        *sums.entry(piece.reason).or_default() += piece.off_ns.max(1);
    }
    // Groups are never empty, but the compiler needs a fallback value.
    let most = sums.into_iter().max_by_key(|(_, sum)| *sum).map_or(Reason::Unknown, |(reason, _)| reason);
    let longest = group.iter().filter(|piece| piece.reason == most).max_by_key(|piece| piece.off_ns);
    let ends = group.iter().map(|piece| piece.span.end_ns).max().unwrap_or_default();
    let whole = Piece {
        span: Span { start_ns: group.first().map_or(0, |piece| piece.span.start_ns), end_ns: ends },
        reason: most,
        count: group.iter().map(|piece| piece.count).fold(0, u32::saturating_add),
        off_ns: group.iter().map(|piece| piece.off_ns).fold(0, u64::saturating_add),
        edges: Edges::Seen,
        cpu: 0,
        place: None,
        taken_by: None,
        woken_by: None,
        woken_ns: None,
    };
    match longest {
        Some(longest) if group.len() > 1 => {
            Piece { edges: longest.edges, cpu: longest.cpu, place: longest.place, ..whole }
        }
        Some(longest) => *longest,
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(start_ns: u64, length_ns: u64, reason: Reason) -> Piece {
        Piece {
            span: Span { start_ns, end_ns: start_ns + length_ns },
            reason,
            count: 1,
            off_ns: length_ns,
            edges: Edges::Seen,
            cpu: 0,
            place: None,
            taken_by: None,
            woken_by: None,
            woken_ns: None,
        }
    }

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let one = (0_u64..1000, 0_u64..5000, prop::sample::select(&Reason::ALL[..]));
        prop::collection::vec(one, 0..400).prop_map(|parts| {
            let mut at_ns = 1_000;
            let mut pieces = Vec::new();
            for (gap, length, reason) in parts {
                pieces.push(piece(at_ns + gap, length, reason));
                at_ns += gap + length;
            }
            pieces
        })
    }

    proptest! {
        #[test]
        fn merging_loses_no_interval_and_no_time_and_hides_nothing_that_is_long(pieces in pieces(), most in 1_usize..300) {
            let end_ns = pieces.last().map_or(2_000, |piece| piece.span.end_ns + 1);
            let span = Span { start_ns: 1_000, end_ns };
            let mut lanes = [Lane { pieces: pieces.clone(), ..Lane::default() }];
            let part_ns = merge(&mut lanes, span, most);
            let got = &lanes[0].pieces;
            prop_assert!(got.len() <= most.max(1));
            prop_assert_eq!(part_ns == 0, pieces.len() <= most);
            prop_assert_eq!(got.iter().map(|piece| piece.count as usize).sum::<usize>(), pieces.len());
            let off = |pieces: &[Piece]| pieces.iter().map(|piece| piece.off_ns).sum::<u64>();
            prop_assert_eq!(off(got), off(&pieces));
            prop_assert!(got.windows(2).all(|pair| pair[0].span.end_ns <= pair[1].span.start_ns));
            for piece in got {
                prop_assert!(piece.count == 1 || piece.span.length_ns() < part_ns, "{piece:?} {part_ns}");
            }
            for long in pieces.iter().filter(|piece| piece.off_ns >= part_ns) {
                prop_assert!(got.contains(long), "a long one stands by itself");
            }
        }
    }

    #[test]
    fn merged_pieces_have_the_reason_with_most_time() {
        let mut lanes = [Lane {
            pieces: vec![
                piece(10, 2, Reason::Preempted),
                piece(13, 3, Reason::Futex),
                piece(17, 3, Reason::Futex),
                piece(21, 40, Reason::Sleep),
            ],
            ..Lane::default()
        }];
        let part_ns = merge(&mut lanes, Span { start_ns: 0, end_ns: 64 }, 2);
        assert_eq!(part_ns, 32);
        let got: Vec<_> = lanes[0].pieces.iter().map(|piece| (piece.reason, piece.count, piece.off_ns)).collect();
        assert_eq!(got, [(Reason::Futex, 3, 8), (Reason::Sleep, 1, 40)]);
    }
}
