//! The shortest way over the map: A* over the cells, straight and diagonal.
//! All memory is allocated once, and a search never visits more cells than the map has.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::game::map::{CELLS, GameMap, Place};

/// Cost of a step to the side, and of a diagonal one: 10 times 1 and the root of 2.
const STRAIGHT: u32 = 10;
const DIAGONAL: u32 = 14;
const COUNT: usize = (CELLS * CELLS) as usize;
/// The queue holds each cell at most eight times, because a cell is entered from at most eight others.
const QUEUE: usize = COUNT * 8;

/// Finds ways. Use one per thread, and reuse it.
#[derive(Debug)]
pub struct Paths {
    /// For each cell: its cost from the start, and the number of the search that found it.
    known: Vec<(u32, u32)>,
    from: Vec<u16>,
    queue: BinaryHeap<Reverse<(u32, u32, u16)>>,
    search: u32,
}

impl Default for Paths {
    fn default() -> Self {
        Self { known: vec![(0, 0); COUNT], from: vec![0; COUNT], queue: BinaryHeap::with_capacity(QUEUE), search: 0 }
    }
}

impl Paths {
    /// Replaces `way` with the cells after `start` up to `goal`, and returns the way's cost: 10 per straight step, 14 per diagonal step,
    /// which may not cut a corner.
    /// None if there is no way.
    pub fn find(&mut self, map: &GameMap, start: Place, goal: Place, way: &mut Vec<Place>) -> Option<u32> {
        way.clear();
        if !map.is_open(start) || !map.is_open(goal) {
            return None;
        }
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.known.fill((0, 0));
            self.search = 1;
        }
        self.queue.clear();
        self.reach(start, start, 0, goal);
        while let Some(Reverse((_, _, at))) = self.queue.pop() {
            let place = place(at);
            let cost = self.known[usize::from(at)].1;
            if place == goal {
                self.walk_back(start, goal, way);
                return Some(cost);
            }
            for (next, step) in steps(map, place) {
                self.reach(next, place, cost + step, goal);
            }
        }
        None
    }

    /// A cell can be reached for `cost` from its neighbour.
    fn reach(&mut self, at: Place, from: Place, cost: u32, goal: Place) {
        let index = usize::from(number(at));
        let (search, known) = self.known[index];
        if search == self.search && known <= cost {
            return;
        }
        self.known[index] = (self.search, cost);
        self.from[index] = number(from);
        let to_go = at_least(at, goal);
        if self.queue.len() < QUEUE {
            self.queue.push(Reverse((cost + to_go, to_go, number(at))));
        }
    }

    fn walk_back(&self, start: Place, goal: Place, way: &mut Vec<Place>) {
        let mut at = goal;
        for _ in 0..COUNT {
            if at == start {
                break;
            }
            way.push(at);
            at = place(self.from[usize::from(number(at))]);
        }
        way.reverse();
    }
}

/// The cost if all cells were open. It never exceeds the true cost, and never falls by more than the cost of a step.
fn at_least(from: Place, to: Place) -> u32 {
    let (dx, dy) = (from.0.abs_diff(to.0), from.1.abs_diff(to.1));
    STRAIGHT * dx.max(dy) + (DIAGONAL - STRAIGHT) * dx.min(dy)
}

/// The cells that one step from here can reach, with the cost of each.
fn steps(map: &GameMap, (x, y): Place) -> impl Iterator<Item = (Place, u32)> {
    let ways = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)];
    ways.into_iter().filter_map(move |(dx, dy)| {
        let to = (x + dx, y + dy);
        let corner_free = map.is_open((x + dx, y)) && map.is_open((x, y + dy));
        let cost = if dx != 0 && dy != 0 { DIAGONAL } else { STRAIGHT };
        (map.is_open(to) && (cost == STRAIGHT || corner_free)).then_some((to, cost))
    })
}

fn number((x, y): Place) -> u16 {
    (y * CELLS + x) as u16
}

fn place(number: u16) -> Place {
    (i32::from(number) % CELLS, i32::from(number) / CELLS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The cost of every cell from the start. Repeats until nothing gets cheaper.
    fn by_relaxing(map: &GameMap, start: Place) -> Vec<u32> {
        let mut cost = vec![u32::MAX; COUNT];
        cost[usize::from(number(start))] = 0;
        let mut changed = true;
        while changed {
            changed = false;
            for at in 0..COUNT as u16 {
                let own = cost[usize::from(at)];
                if own == u32::MAX {
                    continue;
                }
                for (next, step) in steps(map, place(at)) {
                    let other = &mut cost[usize::from(number(next))];
                    if own + step < *other {
                        *other = own + step;
                        changed = true;
                    }
                }
            }
        }
        cost
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_way_is_valid_and_none_is_shorter(seed in 0u64..100, pick: u32, goals in prop::collection::vec((0..CELLS, 0..CELLS), 12)) {
            let map = GameMap::new(seed);
            let start = map.open_place(pick);
            let truth = by_relaxing(&map, start);
            let (mut paths, mut way) = (Paths::default(), Vec::new());
            for goal in goals {
                let cost = truth[usize::from(number(goal))];
                let found = paths.find(&map, start, goal, &mut way);
                prop_assert_eq!(found, (cost != u32::MAX).then_some(cost), "{:?}", goal);
                let (mut at, mut paid) = (start, 0);
                for next in &way {
                    let step = steps(&map, at).find(|(to, _)| to == next);
                    prop_assert!(step.is_some(), "{:?} to {:?}", at, next);
                    paid += step.unwrap().1;
                    at = *next;
                }
                if found.is_some() {
                    prop_assert_eq!((at, paid), (goal, cost));
                }
            }
        }
    }

    #[test]
    fn there_is_no_way_into_a_wall_and_a_short_one_to_where_one_is() {
        let map = GameMap::new(1);
        let (mut paths, mut way) = (Paths::default(), Vec::new());
        let start = map.open_place(0);
        assert_eq!(paths.find(&map, start, (0, 0), &mut way), None);
        assert_eq!(paths.find(&map, start, (-5, 900), &mut way), None);
        assert_eq!((paths.find(&map, start, start, &mut way), way.len()), (Some(0), 0));
    }
}
