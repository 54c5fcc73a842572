//! `Recorded`: which threads have switch records, and when.
//! A recording may leave out the threads of other processes.
//! Some kernels also write no records for some of their own threads.

use std::collections::HashMap;

use super::interval::GONE;
use crate::recording::{Recording, Span, Switch, Turn};

/// The threads that have switch records.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// The times of the first and the last record, by thread. Idle threads are distinguished by CPU.
    spans: HashMap<(u32, u32), Span>,
    /// The times at which each thread number ended, in order.
    ends_ns: HashMap<u32, Vec<u64>>,
}

impl Recorded {
    pub(super) fn from_recording(recording: &Recording) -> Recorded {
        let mut recorded = Recorded::default();
        for Switch { at_ns, cpu, tid, .. } in recording.switches.iter().copied() {
            let first = Span { start_ns: at_ns, end_ns: at_ns };
            recorded.spans.entry(key(tid, cpu)).or_insert(first).end_ns = at_ns;
        }
        for life in recording.lives.iter().filter(|life| life.made_by.is_none()) {
            recorded.ends_ns.entry(life.tid).or_default().push(life.at_ns);
        }
        recorded
    }

    /// Whether the recording has switch records of this thread around this time. Each CPU has its own idle thread.
    pub(super) fn has(&self, tid: u32, cpu: u32, at_ns: u64) -> bool {
        self.spans.get(&key(tid, cpu)).is_some_and(|span| span.start_ns <= at_ns && at_ns <= span.end_ns)
    }

    /// Whether no record is missing between two switch records of one CPU.
    /// The second record must be the switch-out of the thread that the first record announced.
    /// Threads without records may have run in between.
    pub(super) fn follows(&self, before: &Switch, switch: &Switch) -> bool {
        match (before.turn, switch.turn) {
            (Turn::In, Turn::In) => self.has_ended_between(before, switch),
            (Turn::In, _) => before.tid == switch.tid || switch.tid == GONE,
            (_, Turn::In) => {
                let is = |other: Option<(u32, u32)>, tid: u32| other.is_none_or(|(_, other)| other == tid);
                let is_left_out = |one: &Switch| one.other.is_some_and(|(_, tid)| !self.has(tid, one.cpu, one.at_ns));
                is(before.other, switch.tid)
                    || is(before.other, 0) && is(switch.other, 0)
                    || is_left_out(before) && is_left_out(switch)
            }
            _ => false,
        }
    }

    /// Whether the thread that got the CPU ended on it.
    /// The last record of an ended thread has no thread number, so recordings of some threads lack that record.
    fn has_ended_between(&self, before: &Switch, switch: &Switch) -> bool {
        let has_ended = self.ends_ns.get(&before.tid).is_some_and(|ends_ns| {
            let next = ends_ns.partition_point(|end_ns| *end_ns < before.at_ns);
            ends_ns.get(next).is_some_and(|end_ns| *end_ns <= switch.at_ns)
        });
        let is_known = |tid: u32| tid != before.tid && self.has(tid, switch.cpu, switch.at_ns);
        has_ended && !self.spans.contains_key(&key(GONE, 0)) && switch.other.is_some_and(|(_, tid)| !is_known(tid))
    }
}

fn key(tid: u32, cpu: u32) -> (u32, u32) {
    (tid, if tid == 0 { cpu } else { 0 })
}
