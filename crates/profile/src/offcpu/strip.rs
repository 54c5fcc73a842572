//! `Strip`: a thread's time as a line of letters. Each letter is the main state in a part of the recording.

use std::collections::BTreeMap;

use serde::Serialize;

use super::interval::{OffCpuInterval, Reason};
use crate::recording::{Recording, Span, Turn};

/// The number of letters of a strip.
const COLUMNS: usize = 64;

/// One letter for each part of the recording: see [`Strip::legend`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Strip(pub String);

/// A thread's state: on a CPU, or off for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Did {
    Ran,
    Not(Reason),
}

impl Did {
    fn letter(self) -> char {
        match self {
            Did::Ran => '#',
            Did::Not(Reason::Futex) => 'f',
            Did::Not(Reason::Poll) => 'p',
            Did::Not(Reason::Sleep) => '.',
            Did::Not(Reason::Socket) => 's',
            Did::Not(Reason::Disk) => 'd',
            Did::Not(Reason::PageFault) => 'F',
            Did::Not(Reason::KernelLock) => 'k',
            Did::Not(Reason::Preempted) => 'P',
            Did::Not(Reason::Yielded) => 'y',
            Did::Not(Reason::Throttled) => 'T',
            Did::Not(Reason::Stopped) => 'w',
            Did::Not(Reason::Steal) => 'S',
            Did::Not(Reason::Ended) => 'e',
            Did::Not(Reason::Other) => 'o',
            Did::Not(Reason::Unknown) => '?',
        }
    }
}

impl Strip {
    /// Each letter and its meaning.
    pub fn legend() -> impl Iterator<Item = (char, &'static str)> {
        let not = Reason::ALL.into_iter().map(|reason| (Did::Not(reason).letter(), reason.words()));
        std::iter::once((Did::Ran.letter(), "ran")).chain(not)
    }
}

/// The strips of some threads.
pub(super) struct Strips<'a> {
    span: Span,
    by_thread: BTreeMap<u32, Vec<(Span, Did)>>,
    recording: &'a Recording,
}

impl<'a> Strips<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        tids: impl Iterator<Item = u32>,
        intervals: &[OffCpuInterval],
    ) -> Strips<'a> {
        let by_thread = tids.map(|tid| (tid, Vec::new())).collect();
        let mut strips = Strips { span: recording.span, by_thread, recording };
        for interval in intervals {
            if let Some(own) = strips.by_thread.get_mut(&interval.tid) {
                own.push((interval.span, Did::Not(interval.reason)));
            }
        }
        strips.ran();
        strips
    }

    fn ran(&mut self) {
        let mut since: BTreeMap<u32, u64> = BTreeMap::new();
        for switch in &self.recording.switches {
            let Some(own) = self.by_thread.get_mut(&switch.tid) else { continue };
            if switch.turn == Turn::In {
                since.insert(switch.tid, switch.at_ns);
            } else if let Some(start_ns) = since.remove(&switch.tid) {
                own.push((Span { start_ns, end_ns: switch.at_ns }, Did::Ran));
            }
        }
        for (tid, start_ns) in since {
            let span = Span { start_ns, end_ns: self.span.end_ns };
            self.by_thread.entry(tid).or_default().push((span, Did::Ran));
        }
    }

    pub(super) fn at(&self, tid: u32) -> Option<Strip> {
        let own = self.by_thread.get(&tid)?;
        let length_ns = self.span.length_ns().max(1);
        let mut sums: Vec<BTreeMap<Did, u64>> = vec![BTreeMap::new(); COLUMNS];
        let edge_ns =
            |column: usize| self.span.start_ns + (length_ns as u128 * column as u128 / COLUMNS as u128) as u64;
        let column_of = |at_ns: u64| {
            let since = u128::from(at_ns.saturating_sub(self.span.start_ns));
            ((since * COLUMNS as u128 / u128::from(length_ns)) as usize).min(COLUMNS - 1)
        };
        for (span, did) in own {
            let (first, last) = (column_of(span.start_ns), column_of(span.end_ns));
            for (column, sums) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
                let start_ns = span.start_ns.max(edge_ns(column));
                let end_ns = span.end_ns.min(edge_ns(column + 1));
                *sums.entry(*did).or_default() += end_ns.saturating_sub(start_ns);
            }
        }
        let letter = |sums: &BTreeMap<Did, u64>| {
            let most = sums.iter().filter(|(_, sum)| **sum > 0).max_by_key(|(_, sum)| **sum);
            most.map_or(' ', |(did, _)| did.letter())
        };
        Some(Strip(sums.iter().map(letter).collect()))
    }
}
