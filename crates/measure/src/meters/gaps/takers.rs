//! Finds who ran while our thread did not. It compares a gap with the kernel's switch records of the CPU.

use std::collections::BTreeMap;

use evenkeel_sys::perf_switch::{Record, Switches};
use evenkeel_sys::sched::{self, Policy};
use evenkeel_sys::{Errno, thread};

use super::cause::Taker;
use super::turns::{Turn, Turns};

/// The maximum number of thread names to remember.
const NAMES_MAX: usize = 4096;
/// The maximum number of names to look up at once. Each look-up opens a file.
const LOOKUPS_MAX: u32 = 16;

/// A thread that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    /// The thread's number.
    pub(super) tid: u32,
    /// The thread's name. None if it could no longer be read.
    pub(super) name: Option<String>,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    /// The thread's scheduling class. None if it has not been read yet.
    taker: Option<Taker>,
}

/// The switch records of one CPU, and the names of the threads in them.
#[derive(Debug)]
pub(super) struct Takers {
    records: Switches,
    turns: Turns,
    names: BTreeMap<u32, Known>,
    own: u32,
    lookups: u32,
    /// Records that were overwritten before they were read.
    pub lost: u64,
}

impl Takers {
    /// Starts recording on `cpu`. The measuring thread must call this.
    ///
    /// # Errors
    /// Returns the kernel's error. Usually this user may not read switch records.
    pub(super) fn on(cpu: usize) -> Result<Takers, Errno> {
        let records = Switches::of_cpu(cpu)?;
        Ok(Takers { records, turns: Turns::default(), names: BTreeMap::new(), own: thread::id(), lookups: 0, lost: 0 })
    }

    /// Reads the records since the last call.
    pub(super) fn look(&mut self) {
        let (turns, lost) = (&mut self.turns, &mut self.lost);
        let names = &mut self.names;
        self.records.drain(|record| match record {
            Record::In(switch) => *lost += u64::from(!turns.begins(switch)),
            Record::Out(switch) => turns.ends(switch),
            Record::Lost(count) => *lost += count,
            // The record does not contain the scheduling class. The class is read only when it is needed.
            Record::Named { tid, name } if names.len() < NAMES_MAX => {
                let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
                names.insert(tid, Known { name, taker: None });
            }
            Record::Named { .. } | Record::Other => {}
        });
        self.lookups = LOOKUPS_MAX;
    }

    /// Reads the records if the ring will soon be full.
    pub(super) fn look_if_pressed(&mut self) {
        if self.records.fullness() > 0.5 {
            self.look();
        }
    }

    /// Who had the CPU for most of a stretch: the class of that thread, and its name if available.
    pub(super) fn during(&mut self, start_ns: u64, end_ns: u64) -> (Taker, Option<Who>) {
        match self.turns.longest_in(self.own, start_ns, end_ns) {
            None => (Taker::Unknown, None),
            Some(0) => (Taker::Nobody, None),
            Some(tid) => {
                let (who, taker) = self.named(tid);
                (taker, Some(who))
            }
        }
    }

    /// When another thread first had the CPU in a stretch. None if no other thread had it.
    pub(super) fn first_other(&self, start_ns: u64, end_ns: u64) -> Option<u64> {
        self.turns.of_others(self.own, start_ns, end_ns).first().map(|turn| turn.from_ns)
    }

    /// The turns of other threads within a gap, one turn per thread, with the threads' names.
    pub(super) fn apart(&mut self, start_ns: u64, end_ns: u64) -> Vec<(Turn, Option<Who>)> {
        let turns = self.turns.of_others(self.own, start_ns, end_ns);
        turns.into_iter().map(|turn| (turn, (turn.tid != 0).then(|| self.named(turn.tid).0))).collect()
    }

    /// The part of a gap in which other threads had the CPU.
    /// If one thread had nearly all of that time, the result is only that thread's turn.
    pub(super) fn away(&self, start_ns: u64, end_ns: u64) -> Option<(u64, u64)> {
        self.turns.away(self.own, start_ns, end_ns)
    }

    /// Drops older records.
    pub(super) fn forget(&mut self) {
        self.turns.forget();
    }

    fn named(&mut self, tid: u32) -> (Who, Taker) {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let may_look = self.lookups > 0;
        let known = self.names.get(&tid).cloned();
        let taker = known.as_ref().and_then(|known| known.taker);
        if let (Some(known), Some(taker)) = (&known, taker) {
            return (Who { tid, name: Some(known.name.clone()) }, taker);
        }
        if !may_look {
            return (Who { tid, name: known.map(|known| known.name) }, Taker::Unknown);
        }
        self.lookups -= 1;
        let taker = match sched::policy_of(tid) {
            // SCHED_BATCH is an ordinary class too (3 in sched(7)).
            Ok(Policy::Other | Policy::Idle | Policy::Unnamed(3)) => Taker::Ordinary,
            Ok(Policy::Fifo | Policy::Unnamed(_)) => Taker::RealTime,
            Err(_) => Taker::Unknown,
        };
        let name = known.map(|known| known.name).or_else(|| thread::name_of(tid));
        if let Some(name) = &name {
            self.names.insert(tid, Known { name: name.clone(), taker: Some(taker) });
        }
        (Who { tid, name }, taker)
    }
}
