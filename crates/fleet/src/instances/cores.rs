//! Whether whole sessions fit on the cores of an instance type.
//!
//! Cores are equal, except for one that the system or the second threads use in part.
//! So the first attempt fills one core after the other with the largest sessions that still fit.
//! This attempt takes the same time for any number of sessions.
//! If it finds no placement, a search over all fillings of a core decides, provided that there are few fillings.

use rustc_hash::FxHashSet;

use crate::cpu_load::{self, CpuLoad};
use crate::system::system_cpus;

/// The maximum number of fillings of a core that a search tries.
const WORK: u32 = 20_000;
/// The maximum number of cores for a search. The search recurses once for each core.
const SEARCHED_CORES_MAX: u64 = 128;

/// The cores for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cores {
    /// Cores that sessions may use up to the bound.
    whole: u64,
    /// The bound, in millionths of a core.
    load_max: u32,
    /// The capacity of the partly used core, in millionths.
    part: u32,
}

/// Equal sessions on cores.
#[derive(Clone, Copy, Debug)]
struct Threads {
    load: u32,
    /// The number of threads that are still to be placed.
    left: u64,
    /// The maximum number of threads of this kind on one core: one thread of each session.
    per_core: u64,
}

impl Cores {
    /// The cores of a type. The second thread of a core counts for `second_thread_share` of one.
    pub(super) fn new(vcpus: f64, threads: f64, second_thread_share: f64, load_max: f64) -> Cores {
        let worth = (1.0 + second_thread_share * (threads - 1.0)) / threads;
        // Add a little, so that rounding does not turn a sum such as three thirds into less than a core.
        let cores = (vcpus - system_cpus(vcpus as usize)) * worth + 1e-9;
        Cores {
            whole: cores.max(0.0) as u64,
            load_max: cpu_load::usable(load_max),
            part: cpu_load::usable(cores.max(0.0).fract() * load_max),
        }
    }

    /// The capacity in complete cores; the partly used core counts in part.
    pub(super) fn number(&self) -> f64 {
        self.whole as f64 + f64::from(self.part) / f64::from(self.load_max.max(1))
    }

    pub(super) fn load(&self, cpus: f64) -> CpuLoad {
        CpuLoad::new(cpus, self.load_max)
    }

    /// Whether these numbers of sessions of each kind fit. If false, a placement may still exist: see [`Cores::hold_by_search`].
    pub(super) fn hold(&self, sessions: &[(CpuLoad, u64)]) -> bool {
        let Some((whole, threads)) = self.shared(sessions) else { return false };
        [true, false].iter().any(|is_part_first| {
            let mut threads = threads.clone();
            if *is_part_first {
                fill(&mut threads, self.part, 1);
            }
            fill(&mut threads, self.load_max, whole);
            if !is_part_first {
                fill(&mut threads, self.part, 1);
            }
            threads.iter().all(|kind| kind.left == 0)
        })
    }

    /// Like [`Cores::hold`], but exact, by a search. `None` if that would take too long.
    pub(super) fn hold_by_search(&self, sessions: &[(CpuLoad, u64)]) -> Option<bool> {
        let Some((whole, threads)) = self.shared(sessions) else { return Some(false) };
        if whole > SEARCHED_CORES_MAX {
            return None;
        }
        let mut search = Search { load_max: self.load_max, left: WORK, seen: FxHashSet::default() };
        let rest: Vec<u64> = threads.iter().map(|kind| kind.left).collect();
        let found = search.core(&threads, rest, self.part, whole);
        (found || search.left > 0).then_some(found)
    }

    /// The cores that remain when each large session has its own core, and the threads of the other sessions, the largest first.
    /// `None` if there are too few cores.
    fn shared(&self, sessions: &[(CpuLoad, u64)]) -> Option<(u64, Vec<Threads>)> {
        let alone: u64 = sessions.iter().filter(|(load, _)| load.is_exclusive).map(|(_, count)| count).sum();
        let mut others: Vec<_> = sessions.iter().filter(|(load, count)| !load.is_exclusive && *count > 0).collect();
        others.sort_by_key(|(load, _)| std::cmp::Reverse((load.width > 1, load.load)));
        let threads = |(load, count): &&(CpuLoad, u64)| Threads {
            load: load.load,
            left: count * u64::from(load.width),
            per_core: *count,
        };
        Some((self.whole.checked_sub(alone)?, others.iter().map(threads).collect()))
    }
}

/// Fills `cores` of this size, one after the other, each with as many of the largest threads as fit.
fn fill(threads: &mut [Threads], size: u32, cores: u64) {
    for _ in 0..cores {
        let mut room = size;
        for kind in threads.iter_mut() {
            let count = kind.left.min(kind.per_core).min(u64::from(room / kind.load));
            kind.left -= count;
            room -= kind.load * count as u32;
        }
    }
}

/// Places threads core by core, and tries each filling to which no thread can be added.
struct Search {
    load_max: u32,
    left: u32,
    /// States that are known to have no placement: the number of remaining cores, and the waiting threads of each kind.
    seen: FxHashSet<(u64, Vec<u64>)>,
}

impl Search {
    /// Whether the waiting threads fit on a core of this size and `others` complete cores.
    fn core(&mut self, threads: &[Threads], waiting: Vec<u64>, size: u32, others: u64) -> bool {
        if waiting.iter().all(|count| *count == 0) {
            return true;
        }
        let need: u64 = threads.iter().zip(&waiting).map(|(kind, count)| u64::from(kind.load) * count).sum();
        if need > u64::from(size) + u64::from(self.load_max) * others || self.left == 0 {
            return false;
        }
        // If a kind has more waiting threads than the remaining cores may take, there is no placement.
        let is_wide = |(kind, count): (&Threads, &u64)| *count > kind.per_core.saturating_mul(others + 1);
        if threads.iter().zip(&waiting).any(is_wide) || !self.seen.insert((others, waiting.clone())) {
            return false;
        }
        self.filling(threads, waiting.clone(), (0, size), (&waiting, others))
    }

    /// Chooses how many threads of each kind the core gets, from kind `at` on.
    fn filling(
        &mut self,
        threads: &[Threads],
        waiting: Vec<u64>,
        (at, room): (usize, u32),
        (before, others): (&[u64], u64),
    ) -> bool {
        let Some(kind) = threads.get(at) else {
            self.left = self.left.saturating_sub(1);
            let can_add = |(nth, kind): (usize, &Threads)| {
                kind.load <= room && waiting[nth] > 0 && before[nth] - waiting[nth] < kind.per_core
            };
            // Skip a filling to which a thread can be added, because the search tries the fuller filling too.
            let is_full = !threads.iter().enumerate().any(can_add);
            return match others.checked_sub(1) {
                _ if !is_full => false,
                Some(others) => self.core(threads, waiting, self.load_max, others),
                None => waiting.iter().all(|count| *count == 0),
            };
        };
        let most = waiting[at].min(kind.per_core).min(u64::from(room / kind.load));
        for count in (0..=most).rev() {
            if self.left == 0 {
                return false;
            }
            let mut rest = waiting.clone();
            rest[at] -= count;
            let room = room - kind.load * count as u32;
            if self.filling(threads, rest, (at + 1, room), (before, others)) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cores(whole: u64, part: u32, load_max: u32) -> Cores {
        Cores { whole, load_max, part }
    }

    /// Tries every core for every thread.
    fn tried_all(rooms: &mut [u32], load_max: u32, waiting: &[CpuLoad], used: &mut Vec<usize>) -> bool {
        let Some(one) = waiting.first() else { return true };
        if used.len() as u32 == one.width {
            return tried_all(rooms, load_max, &waiting[1..], &mut Vec::new());
        }
        for at in 0..rooms.len() {
            let takes = match one.is_exclusive {
                true if rooms[at] == load_max && at > 0 => load_max,
                false if one.load <= rooms[at] => one.load,
                _ => continue,
            };
            if used.last().is_some_and(|last| at <= *last) {
                continue;
            }
            rooms[at] -= takes;
            used.push(at);
            if tried_all(rooms, load_max, waiting, used) {
                return true;
            }
            used.pop();
            rooms[at] += takes;
        }
        false
    }

    #[test]
    fn kinds_share_cores() {
        let all = cores(1, 0, 700_000);
        let load = |cpus| all.load(cpus);
        assert!(all.hold(&[(load(0.12), 1), (load(0.5), 1)]) && !all.hold(&[(load(0.12), 1), (load(0.5), 2)]));
        // A session of 0.8 CPUs has a core to itself, and one of 1.2 CPUs has two.
        assert!(cores(3, 0, 700_000).hold(&[(load(0.8), 3)]) && !cores(2, 690_000, 700_000).hold(&[(load(0.8), 3)]));
        assert!(cores(2, 0, 700_000).hold(&[(load(1.2), 1), (load(0.1), 2)]));
        // The first attempt puts 0.4 and 0.2 on one core, and so misses the placement 0.4 + 0.3 and 0.3 + 0.2 + 0.2.
        let hard = [(load(0.4), 1), (load(0.3), 2), (load(0.2), 2)];
        assert!(cores(2, 0, 700_000).hold_by_search(&hard) == Some(true));
    }

    #[test]
    fn the_system_leaves_parts_of_cores() {
        let of = |vcpus, threads, second| Cores::new(vcpus, threads, second, 0.7);
        assert_eq!(of(4.0, 2.0, 0.0), cores(1, 350_000, 700_000));
        assert_eq!(of(4.0, 1.0, 0.0), cores(3, 0, 700_000));
        assert_eq!(of(1.0, 1.0, 0.0), cores(0, 350_000, 700_000));
        assert_eq!(of(8.0, 2.0, 0.5), cores(6, 0, 700_000));
        assert_eq!(of(4.0, 2.0, 0.0).number(), 1.5);
    }

    proptest! {
        #[test]
        fn the_answers_are_those_of_trying_everything(
            whole in 0..4_u64,
            part in 0..7_u32,
            sessions in prop::collection::vec((1..14_u32, 1..4_u64), 1..4),
        ) {
            let all = cores(whole, part * 100_000, 700_000);
            let loads: Vec<(CpuLoad, u64)> =
                sessions.iter().map(|(tenths, count)| (all.load(f64::from(*tenths) / 10.0), *count)).collect();
            let mut rooms = vec![part * 100_000];
            rooms.extend(vec![700_000; whole as usize]);
            let each: Vec<CpuLoad> = loads.iter().flat_map(|(load, count)| vec![*load; *count as usize]).collect();
            let expected = tried_all(&mut rooms, 700_000, &each, &mut Vec::new());
            prop_assert!(expected || !all.hold(&loads));
            prop_assert_eq!(all.hold_by_search(&loads), Some(expected));
        }
    }
}
