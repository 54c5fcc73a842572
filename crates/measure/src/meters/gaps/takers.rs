//! Who ran while our thread did not: the kernel's switch records of the CPU, laid over a gap.

use std::collections::BTreeMap;

use evenkeel_sys::perf_switch::{Record, Switches};
use evenkeel_sys::sched::{self, Policy};
use evenkeel_sys::{Errno, thread};

use super::cause::Taker;
use super::turns::{Turn, Turns};

/// How many threads' names are remembered.
const NAMES_MAX: usize = 4096;
/// Names that are looked up at one look: each is a file to open.
const LOOKUPS_MAX: u32 = 16;

/// A thread that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    /// Its number.
    pub(super) tid: u32,
    /// Its name, if it could still be asked.
    pub(super) name: Option<String>,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    /// How it is scheduled; none if nobody asked yet.
    taker: Option<Taker>,
}

/// The switch records of one CPU and the names of those who appear in them.
#[derive(Debug)]
pub(super) struct Takers {
    records: Switches,
    turns: Turns,
    names: BTreeMap<u32, Known>,
    own: u32,
    lookups: u32,
    /// Records that nobody read in time.
    pub lost: u64,
}

impl Takers {
    /// On `cpu`; to be made by the thread that is measured with.
    ///
    /// # Errors
    /// What the kernel said: most often that this user may not see it.
    pub(super) fn on(cpu: usize) -> Result<Takers, Errno> {
        let records = Switches::of_cpu(cpu)?;
        Ok(Takers { records, turns: Turns::default(), names: BTreeMap::new(), own: thread::id(), lookups: 0, lost: 0 })
    }

    /// Takes in what was recorded since the last look.
    pub(super) fn look(&mut self) {
        let (turns, lost) = (&mut self.turns, &mut self.lost);
        let names = &mut self.names;
        self.records.drain(|record| match record {
            Record::In(switch) => *lost += u64::from(!turns.begins(switch)),
            Record::Out(switch) => turns.ends(switch),
            Record::Lost(count) => *lost += count,
            // How it is scheduled is not told along with it: it is asked when it matters.
            Record::Named { tid, name } if names.len() < NAMES_MAX => {
                let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
                names.insert(tid, Known { name, taker: None });
            }
            Record::Named { .. } | Record::Other => {}
        });
        self.lookups = LOOKUPS_MAX;
    }

    /// Takes in what was recorded, if the ring would soon be full.
    pub(super) fn look_if_pressed(&mut self) {
        if self.records.fullness() > 0.5 {
            self.look();
        }
    }

    /// Who had the CPU for most of a stretch: how that thread is scheduled, and its name where it is to be had.
    pub(super) fn of(&mut self, start_ns: u64, end_ns: u64) -> (Taker, Option<Who>) {
        match self.turns.longest_in(self.own, start_ns, end_ns) {
            None => (Taker::Unknown, None),
            Some(0) => (Taker::Nobody, None),
            Some(tid) => {
                let (who, taker) = self.named(tid);
                (taker, Some(who))
            }
        }
    }

    /// When another thread first had the CPU in a stretch.
    pub(super) fn first_other(&self, start_ns: u64, end_ns: u64) -> Option<u64> {
        self.turns.of_others(self.own, start_ns, end_ns).first().map(|turn| turn.from_ns)
    }

    /// The turns of others in a gap, each thread's by itself, with its name.
    pub(super) fn apart(&mut self, start_ns: u64, end_ns: u64) -> Vec<(Turn, Option<Who>)> {
        let turns = self.turns.of_others(self.own, start_ns, end_ns);
        turns.into_iter().map(|turn| (turn, (turn.tid != 0).then(|| self.named(turn.tid).0))).collect()
    }

    /// The stretch of a gap in which others had the CPU: its turn alone where one had nearly all of it.
    pub(super) fn away(&self, start_ns: u64, end_ns: u64) -> Option<(u64, u64)> {
        self.turns.away(self.own, start_ns, end_ns)
    }

    /// Forgets what was before.
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
            // Batch is an ordinary one too (3 of sched(7)).
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
