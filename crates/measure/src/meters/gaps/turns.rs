//! Finds which threads ran during a gap. This is pure arithmetic over the kernel's switch records.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_sys::perf_switch::Switch;

/// The maximum number of turns to hold between two reads.
const TURNS_MAX: usize = 1 << 16;
/// A gap in which more threads than this ran is reported as a single gap. The threads woke one another, so no single thread is the cause.
const LISTED_MAX: usize = 8;

/// A turn: a period in which one thread had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The thread's number. The number 0 is the idle thread.
    pub tid: u32,
    /// When the thread got the CPU, on the monotonic clock.
    pub from_ns: u64,
    /// When the thread gave up the CPU, on the monotonic clock. `u64::MAX` while the thread still has it.
    pub until_ns: u64,
}

impl Turn {
    fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// The turns of one CPU, in order of time.
#[derive(Debug, Default)]
pub(super) struct Turns {
    list: VecDeque<Turn>,
}

impl Turns {
    /// Records that a thread got the CPU. False if there is no room for the record.
    pub(super) fn begins(&mut self, switch: Switch) -> bool {
        // A separate record marks the end. If that record was lost, the turn has ended by now.
        if let Some(last) = self.list.back_mut() {
            last.until_ns = last.until_ns.min(switch.at_ns);
        }
        let has_room = self.list.len() < TURNS_MAX;
        if has_room {
            self.list.push_back(Turn { tid: switch.tid, from_ns: switch.at_ns, until_ns: u64::MAX });
        }
        has_room
    }

    /// Records that a thread gave up the CPU.
    pub(super) fn ends(&mut self, switch: Switch) {
        if let Some(last) = self.list.back_mut().filter(|last| last.tid == switch.tid && last.until_ns == u64::MAX) {
            last.until_ns = switch.at_ns.max(last.from_ns);
        }
    }

    /// Drops older turns, except for the newest turn, which shows the thread that runs now.
    pub(super) fn forget(&mut self) {
        let newest = self.list.pop_back();
        self.list.clear();
        self.list.extend(newest);
    }

    /// The thread other than `own` that had most of a stretch. None if no turn overlaps it.
    pub(super) fn longest_in(&self, own: u32, start_ns: u64, end_ns: u64) -> Option<u32> {
        // The last thread that got the CPU before the stretch has it at the start of the stretch.
        let from = self.list.partition_point(|turn| turn.from_ns < start_ns).saturating_sub(1);
        let mut shares: BTreeMap<u32, u64> = BTreeMap::new();
        for turn in self.list.iter().skip(from).take_while(|turn| turn.from_ns < end_ns) {
            let share_ns = turn.until_ns.min(end_ns).saturating_sub(turn.from_ns.max(start_ns));
            if turn.tid != own && share_ns > 0 {
                *shares.entry(turn.tid).or_default() += share_ns;
            }
        }
        shares.into_iter().max_by_key(|(_, share_ns)| *share_ns).map(|(tid, _)| tid)
    }

    /// The turns of other threads in a gap of `own`, one turn per thread.
    /// A short turn in the middle of another thread's turn,
    /// such as that of a kernel migration thread, does not split the longer turn.
    /// Very many turns are merged into one.
    pub(super) fn of_others(&self, own: u32, start_ns: u64, end_ns: u64) -> Vec<Turn> {
        let from = self.list.partition_point(|turn| turn.from_ns < start_ns);
        let within = self.list.iter().skip(from).take_while(|turn| turn.from_ns < end_ns);
        let mut apart: Vec<Turn> = Vec::new();
        for turn in within.filter(|turn| turn.tid != own) {
            apart.push(Turn { until_ns: turn.until_ns.min(end_ns), ..*turn });
            join_last(&mut apart);
        }
        if apart.len() <= LISTED_MAX {
            return apart;
        }
        let whole = |tid| Turn { tid, from_ns: apart[0].from_ns, until_ns: apart[apart.len() - 1].until_ns };
        self.longest_in(own, start_ns, end_ns).map(whole).into_iter().collect()
    }

    /// The part of a gap in which other threads had the CPU.
    /// If one thread had nine tenths of that time, the result is only that thread's turn.
    pub(super) fn away(&self, own: u32, start_ns: u64, end_ns: u64) -> Option<(u64, u64)> {
        let apart = self.of_others(own, start_ns, end_ns);
        let (first, last) = (apart.first()?, apart.last()?);
        let longest = apart.iter().max_by_key(|turn| turn.length_ns())?;
        let whole_ns = last.until_ns.saturating_sub(first.from_ns);
        let has_most = longest.length_ns() * 10 >= whole_ns * 9;
        Some(if has_most { (longest.from_ns, longest.until_ns) } else { (first.from_ns, last.until_ns) })
    }
}

/// Merges the last turn with earlier turns of the same thread that it continues.
fn join_last(apart: &mut Vec<Turn>) {
    while let [.., before, last] = apart.as_slice() {
        let (before, last) = (*before, *last);
        let goes_on_from = if before.tid == last.tid {
            1
        } else {
            match apart.as_slice() {
                [.., first, _, _]
                    if first.tid == last.tid && before.length_ns() * 10 <= first.length_ns() + last.length_ns() =>
                {
                    2
                }
                _ => return,
            }
        };
        apart.truncate(apart.len() - goes_on_from);
        if let Some(first) = apart.last_mut() {
            first.until_ns = last.until_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each turn: its start, its thread, and its end if a record shows it.
    type List = &'static [(u64, u32, Option<u64>)];

    fn turns(list: &[(u64, u32, Option<u64>)]) -> Turns {
        let mut turns = Turns::default();
        for (at_ns, tid, end_ns) in list {
            assert!(turns.begins(Switch { at_ns: *at_ns, tid: *tid }));
            if let Some(at_ns) = *end_ns {
                turns.ends(Switch { at_ns, tid: *tid });
            }
        }
        turns
    }

    #[test]
    fn the_one_that_had_most_of_it_is_named() {
        let table: [(List, Option<u32>); 7] = [
            (&[], None),
            (&[(0, 1, None)], None),
            (&[(0, 1, None), (110, 7, None), (190, 1, None)], Some(7)),
            (&[(0, 1, None), (110, 7, None), (120, 8, None), (190, 1, None)], Some(8)),
            (&[(0, 1, None), (110, 0, None), (190, 1, None)], Some(0)),
            (&[(0, 1, None), (200, 7, None), (300, 1, None)], None),
            (&[(50, 7, None)], Some(7)),
        ];
        for (list, taker) in table {
            assert_eq!(turns(list).longest_in(1, 100, 200), taker, "{list:?}");
        }
    }

    #[test]
    fn each_threads_turn_is_reported_separately() {
        type Row = (&'static str, List, &'static [(u32, u64, u64)]);
        let table: [Row; 8] = [
            ("nobody", &[(0, 1, Some(105))], &[]),
            ("one, whose end was lost", &[(0, 1, None), (110, 7, None), (190, 1, None)], &[(7, 110, 190)]),
            ("one, less the switch", &[(0, 1, Some(108)), (110, 7, Some(188)), (190, 1, None)], &[(7, 110, 188)]),
            (
                "one right after the other",
                &[(0, 1, Some(108)), (110, 7, Some(186)), (188, 8, Some(191)), (193, 1, None)],
                &[(7, 110, 186), (8, 188, 191)],
            ),
            (
                "a moment of another in the middle",
                &[(0, 1, None), (110, 7, None), (120, 8, None), (121, 7, Some(188)), (190, 1, None)],
                &[(7, 110, 188)],
            ),
            (
                "two in turns",
                &[(110, 7, None), (140, 8, None), (150, 7, None), (180, 1, None)],
                &[(7, 110, 140), (8, 140, 150), (7, 150, 180)],
            ),
            (
                "twice, and ours so shortly between that it saw nothing",
                &[(110, 7, Some(120)), (122, 1, Some(123)), (125, 7, Some(180))],
                &[(7, 110, 180)],
            ),
            ("it still has it", &[(0, 1, None), (110, 7, None)], &[(7, 110, 200)]),
        ];
        for (what, list, expected) in table {
            let expected: Vec<Turn> = expected
                .iter()
                .map(|(tid, from_ns, until_ns)| Turn { tid: *tid, from_ns: *from_ns, until_ns: *until_ns })
                .collect();
            assert_eq!(turns(list).of_others(1, 100, 200), expected, "{what}");
        }
    }

    #[test]
    fn a_crowd_is_one() {
        let list: Vec<_> = (0..40).map(|at| (110 + u64::from(at) * 2, 7 + at % 3, None)).collect();
        assert_eq!(turns(&list).of_others(1, 100, 200), [Turn { tid: 7, from_ns: 110, until_ns: 200 }]);
        assert_eq!(turns(&list).away(1, 100, 200), Some((110, 200)));
    }

    #[test]
    fn a_thread_with_nearly_all_of_a_stretch_gets_only_its_turn() {
        let table: [(List, Option<(u64, u64)>); 4] = [
            (&[(0, 1, None)], None),
            (&[(0, 1, None), (110, 7, None), (188, 8, None), (190, 1, None)], Some((110, 188))),
            (&[(0, 1, None), (110, 7, None), (150, 8, None), (190, 1, None)], Some((110, 190))),
            (&[(0, 1, None), (110, 7, None), (130, 21, None), (131, 7, None), (190, 1, None)], Some((110, 190))),
        ];
        for (list, stretch) in table {
            assert_eq!(turns(list).away(1, 100, 200), stretch, "{list:?}");
        }
    }

    proptest! {
        #[test]
        fn turns_are_in_order_and_within(list in prop::collection::vec((0_u64..400, 0_u32..4, any::<bool>()), 0..60)) {
            let mut turns = Turns::default();
            let mut list = list;
            list.sort_unstable();
            for (at_ns, tid, is_end) in list {
                let switch = Switch { at_ns, tid };
                if is_end { turns.ends(switch) } else { prop_assert!(turns.begins(switch)) }
            }
            let found = turns.of_others(1, 100, 300);
            prop_assert!(found.len() <= LISTED_MAX);
            for turn in &found {
                prop_assert!(turn.tid != 1 && turn.from_ns >= 100 && turn.until_ns <= 300 && turn.from_ns <= turn.until_ns);
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].until_ns <= pair[1].from_ns));
        }
    }
}
