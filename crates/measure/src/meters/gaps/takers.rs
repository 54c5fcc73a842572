//! Who ran while our thread did not: the kernel's switch records of the CPU, laid over a gap.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_sys::perf_switch::{Record, Switch, Switches};
use evenkeel_sys::sched::{self, Policy};
use evenkeel_sys::{Errno, thread};

use super::cause::Taker;

/// How many switches are kept between two looks.
const SWITCHES_MAX: usize = 1 << 16;
/// How many threads' names are remembered.
const NAMES_MAX: usize = 4096;
/// Names that are looked up at one look: each is a file to open.
const LOOKUPS_MAX: u32 = 16;

/// The thread that had most of a stretch of time, beside `own`; none if no record falls into it.
pub(super) fn longest_in(switches: &VecDeque<Switch>, own: u32, start_ns: u64, end_ns: u64) -> Option<u32> {
    // The one that was given the CPU last before the stretch has it at its start.
    let from = switches.partition_point(|switch| switch.at_ns < start_ns).saturating_sub(1);
    let mut shares: BTreeMap<u32, u64> = BTreeMap::new();
    let mut rest = switches.iter().skip(from).peekable();
    while let Some(switch) = rest.next().filter(|switch| switch.at_ns < end_ns) {
        let until_ns = rest.peek().map_or(end_ns, |next| next.at_ns.min(end_ns));
        let share_ns = until_ns.saturating_sub(switch.at_ns.max(start_ns));
        if switch.tid != own && share_ns > 0 {
            *shares.entry(switch.tid).or_default() += share_ns;
        }
    }
    shares.into_iter().max_by_key(|(_, share_ns)| *share_ns).map(|(tid, _)| tid)
}

fn stretch_away(switches: &VecDeque<Switch>, own: u32, start_ns: u64, end_ns: u64) -> Option<(u64, u64)> {
    let from = switches.partition_point(|switch| switch.at_ns < start_ns);
    let within: Vec<Switch> = switches.iter().skip(from).take_while(|switch| switch.at_ns < end_ns).copied().collect();
    let first_ns = within.iter().find(|switch| switch.tid != own)?.at_ns;
    let back = within.iter().rev().find(|switch| switch.tid == own && switch.at_ns > first_ns);
    let whole = (first_ns, back.map_or(end_ns, |switch| switch.at_ns));
    let ends_ns = within.iter().skip(1).map(|switch| switch.at_ns).chain([end_ns]);
    let turns = within.iter().zip(ends_ns).filter(|(switch, _)| switch.tid != own);
    let longest = turns.map(|(switch, turn_end_ns)| (switch.at_ns, turn_end_ns)).max_by_key(|(at, end)| end - at)?;
    Some(if (longest.1 - longest.0) * 10 >= (whole.1 - whole.0) * 9 { longest } else { whole })
}

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
    switches: VecDeque<Switch>,
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
        Ok(Takers {
            records,
            switches: VecDeque::with_capacity(4096),
            names: BTreeMap::new(),
            own: thread::id(),
            lookups: 0,
            lost: 0,
        })
    }

    /// Takes in what was recorded since the last look.
    pub(super) fn look(&mut self) {
        let (switches, lost) = (&mut self.switches, &mut self.lost);
        let names = &mut self.names;
        self.records.drain(|record| match record {
            Record::In(switch) if switches.len() < SWITCHES_MAX => switches.push_back(switch),
            Record::In(_) => *lost += 1,
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
        match longest_in(&self.switches, self.own, start_ns, end_ns) {
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
        stretch_away(&self.switches, self.own, start_ns, end_ns).map(|(from_ns, _)| from_ns)
    }

    /// The stretch of a gap in which others had the CPU, from the first switch to one of them to the switch back. Where one of them had
    /// nine tenths of it, its turn alone: what a kernel thread did right before or after it is not its length.
    pub(super) fn away(&self, start_ns: u64, end_ns: u64) -> Option<(u64, u64)> {
        stretch_away(&self.switches, self.own, start_ns, end_ns)
    }

    /// Forgets what was before; the newest is kept, since it says who runs now.
    pub(super) fn forget(&mut self) {
        let newest = self.switches.pop_back();
        self.switches.clear();
        self.switches.extend(newest);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// When, and to whom.
    type Turns = &'static [(u64, u32)];

    #[test]
    fn the_one_that_had_most_of_it_is_named() {
        let switches =
            |list: &[(u64, u32)]| list.iter().map(|(at_ns, tid)| Switch { at_ns: *at_ns, tid: *tid }).collect();
        let table: [(Turns, Option<u32>); 7] = [
            (&[], None),
            (&[(0, 1)], None),
            (&[(0, 1), (110, 7), (190, 1)], Some(7)),
            (&[(0, 1), (110, 7), (120, 8), (190, 1)], Some(8)),
            (&[(0, 1), (110, 0), (190, 1)], Some(0)),
            (&[(0, 1), (200, 7), (300, 1)], None),
            (&[(50, 7)], Some(7)),
        ];
        for (list, taker) in table {
            assert_eq!(longest_in(&switches(list), 1, 100, 200), taker, "{list:?}");
        }
    }

    #[test]
    fn a_turn_is_told_apart_from_what_came_right_after_it() {
        let switches =
            |list: &[(u64, u32)]| list.iter().map(|(at_ns, tid)| Switch { at_ns: *at_ns, tid: *tid }).collect();
        let table: [(Turns, Option<(u64, u64)>); 5] = [
            (&[(0, 1)], None),
            (&[(0, 1), (110, 7), (190, 1)], Some((110, 190))),
            (&[(0, 1), (110, 7), (188, 8), (190, 1)], Some((110, 188))),
            (&[(0, 1), (110, 7), (150, 8), (190, 1)], Some((110, 190))),
            (&[(0, 1), (110, 7)], Some((110, 200))),
        ];
        for (list, stretch) in table {
            assert_eq!(stretch_away(&switches(list), 1, 100, 200), stretch, "{list:?}");
        }
    }
}
