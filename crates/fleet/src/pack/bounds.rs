//! Bounds that no completion of a placement can beat: sessions placed, heavy pairs, highest load.
//!
//! Placing loads on CPUs is a bin packing problem.
//! The bounds use dual feasible functions: they give each load a weight, such that loads that fit on one CPU never weigh more than the CPU.
//! The load itself is one such weight.
//! Another function counts loads above half a CPU as one, because a CPU has no room for two of them.

use super::problem::Problem;
use super::state::{OnCpu, Score, State};

/// The number of weight functions besides the load itself. They round loads down to halves, thirds, quarters and fifths of a CPU.
const FUNCTIONS: u64 = 4;

/// Sessions of each kind that are not placed yet.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) counts: Vec<u32>,
}

impl Waiting {
    pub(super) fn total(&self) -> u32 {
        self.counts.iter().sum()
    }
}

/// The weight of a load. The unit makes the whole capacity weigh `capacity * max(k, 1)`.
/// Loads that fit together never weigh more than that.
fn weight(load: u64, capacity: u64, k: u64) -> u64 {
    match k {
        0 => load,
        _ if ((k + 1) * load).is_multiple_of(capacity) => load * k,
        _ => (k + 1) * load / capacity * capacity,
    }
}

/// The maximum number of the waiting sessions that can still be placed.
pub(super) fn placeable(state: &State<'_>, waiting: &Waiting) -> u32 {
    let problem = state.problem;
    let capacity = problem.slots.iter().map(|slot| u64::from(slot.limit)).max().unwrap_or(0);
    let mut most = waiting.total();
    if capacity == 0 {
        return 0;
    }
    for k in 0..=FUNCTIONS {
        let room = room(state, capacity, k);
        most = most.min(count_within(problem, waiting, room, |kind| session_weight(problem, kind, capacity, k)));
    }
    let threads = threads_within(state, waiting, capacity);
    most = most.min(count_within(problem, waiting, threads, |kind| u64::from(problem.kinds[kind].need.width)));
    let memory = state.memory.iter().sum::<u64>().min(problem.memory_limit.saturating_sub(state.total_memory));
    most = most.min(count_within(problem, waiting, memory, |kind| problem.kinds[kind].need.memory_kib));
    let quota = problem.quota.saturating_sub(state.total_load);
    most.min(count_within(problem, waiting, quota, |kind| problem.kinds[kind].need.total_load()))
}

/// The free weight of all CPUs, if the load of no CPU may be above `capacity`.
fn room(state: &State<'_>, capacity: u64, k: u64) -> u64 {
    let of = |on: &OnCpu| {
        // If the CPU's limit is lower than `capacity`, the difference counts as a load.
        let load = u64::from(on.load) + capacity.saturating_sub(u64::from(on.limit));
        (capacity * k.max(1)).saturating_sub(weight(load.min(capacity), capacity, k))
    };
    state.cpus.iter().map(of).sum()
}

fn session_weight(problem: &Problem, kind: usize, capacity: u64, k: u64) -> u64 {
    let load = u64::from(problem.packed_loads[kind]).min(capacity);
    u64::from(problem.kinds[kind].need.width) * weight(load, capacity, k)
}

/// The maximum number of sessions that fit into `room`: it counts the lightest ones first.
fn count_within(problem: &Problem, waiting: &Waiting, mut room: u64, weight: impl Fn(usize) -> u64) -> u32 {
    let mut order: Vec<(u64, u32)> = (0..problem.kinds.len())
        .map(|kind| (weight(kind), waiting.counts[kind]))
        .filter(|(_, count)| *count > 0)
        .collect();
    order.sort_unstable();
    let mut most = 0;
    for (weight, count) in order {
        let fit = room.checked_div(weight).map_or(count, |fit| u32::try_from(fit).unwrap_or(u32::MAX).min(count));
        most += fit;
        room -= weight * u64::from(fit);
        if fit < count {
            break;
        }
    }
    most
}

/// The total weight of the `count` lightest sessions.
fn least(problem: &Problem, waiting: &Waiting, mut count: u32, weight: impl Fn(usize) -> u64) -> u64 {
    let mut order: Vec<(u64, u32)> =
        (0..problem.kinds.len()).map(|kind| (weight(kind), waiting.counts[kind])).collect();
    order.sort_unstable();
    let mut sum = 0;
    for (weight, of) in order {
        let taken = of.min(count);
        sum += weight * u64::from(taken);
        count -= taken;
    }
    sum
}

/// The minimum number of heavy pairs when `count` of the waiting sessions are placed, with threads spread over cores as evenly as possible.
pub(super) fn heavy_pairs(state: &State<'_>, waiting: &Waiting, count: u32) -> u64 {
    let kinds = &state.problem.kinds;
    let threads = |kind: usize| if kinds[kind].need.is_heavy { u64::from(kinds[kind].need.width) } else { 0 };
    let left = least(state.problem, waiting, count, threads);
    state.heavy_pairs + pairs_added(state.heavy.iter().map(|heavy| u64::from(*heavy)), left)
}

/// The minimum number of pairs of threads on one CPU, core, cache and node.
/// Each level is counted by itself, with the threads spread as evenly as possible.
fn sharing(state: &State<'_>, waiting: &Waiting, count: u32) -> u64 {
    let left = least(state.problem, waiting, count, |kind| u64::from(state.problem.kinds[kind].need.width));
    let of = |threads: &[u32]| pairs_added(threads.iter().map(|threads| u64::from(*threads)), left);
    let on_cpus = pairs_added(state.cpus.iter().map(|on| on.kinds.len() as u64), left);
    state.sharing() + on_cpus + of(&state.core_threads) + of(&state.cache_threads) + of(&state.node_threads)
}

/// The minimum number of pairs when `left` more threads join places that already have these numbers of threads.
/// A thread in a place with n other threads makes n pairs.
fn pairs_added(places: impl Iterator<Item = u64>, mut left: u64) -> u64 {
    let mut places: Vec<u64> = places.collect();
    places.sort_unstable();
    let (mut pairs, mut lowest) = (0, 1);
    // Fills the places with the fewest threads up to the level of the next place, level by level.
    while left > 0 && !places.is_empty() {
        let level = places[0];
        while lowest < places.len() && places[lowest] == level {
            lowest += 1;
        }
        let added = left.min(lowest as u64);
        pairs += added * level;
        left -= added;
        places[..lowest].iter_mut().for_each(|place| *place += 1);
    }
    pairs
}

/// How many threads of the lightest kind fit, if the load of no CPU may be above `capacity`.
/// Only this bound counts the unused rest of each CPU.
fn threads_within(state: &State<'_>, waiting: &Waiting, capacity: u64) -> u64 {
    let kinds = 0..state.problem.kinds.len();
    let loads = kinds.filter(|kind| waiting.counts[*kind] > 0).map(|kind| u64::from(state.problem.packed_loads[kind]));
    let Some(lightest) = loads.min() else { return 0 };
    let room = |on: &OnCpu| capacity.min(u64::from(on.limit)).saturating_sub(u64::from(on.load));
    state.cpus.iter().map(|on| room(on) / lightest.min(capacity).max(1)).sum()
}

/// False if the bounds prove that no completion with `count` of the waiting sessions keeps every CPU at or below `load`.
pub(super) fn may_stay_at(state: &State<'_>, waiting: &Waiting, count: u32, load: u32) -> bool {
    let problem = state.problem;
    let most = problem.slots.iter().map(|slot| slot.limit).max().unwrap_or(0);
    let capacity = u64::from(load.min(most));
    if capacity == 0 {
        return count == 0 && state.load() == 0;
    }
    if state.load() > load {
        return false;
    }
    let light = (0..problem.kinds.len()).filter(|kind| problem.kinds[*kind].need.load <= load);
    if light.map(|kind| waiting.counts[kind]).sum::<u32>() < count {
        return false;
    }
    let threads = least(problem, waiting, count, |kind| u64::from(problem.kinds[kind].need.width));
    if threads > threads_within(state, waiting, capacity) {
        return false;
    }
    (0..=FUNCTIONS).all(|k| {
        least(problem, waiting, count, |kind| session_weight(problem, kind, capacity, k)) <= room(state, capacity, k)
    })
}

/// A lower bound for the first three levels of every completion: sessions left out, heavy pairs, highest load.
pub(super) fn root(state: &State<'_>, waiting: &Waiting) -> (u32, u64, u32) {
    let placed = placeable(state, waiting);
    let (mut low, mut high) = (0, u32::MAX / 2);
    while low < high {
        let middle = low + (high - low) / 2;
        if may_stay_at(state, waiting, placed, middle) { high = middle } else { low = middle + 1 }
    }
    (waiting.total() - placed, heavy_pairs(state, waiting, placed), low)
}

/// Whether no completion is better than `best`: on all levels of the score with `has_ties`, otherwise on the first three.
pub(super) fn is_hopeless(state: &State<'_>, waiting: &Waiting, given_up: u32, best: &Score, has_ties: bool) -> bool {
    let total = waiting.total();
    let left_out = given_up + total - placeable(state, waiting);
    if left_out != best.left_out {
        return left_out > best.left_out;
    }
    // Below this line, only completions that place as many sessions as the best completion matter.
    let count = total - (best.left_out - given_up);
    let pairs = heavy_pairs(state, waiting, count);
    if pairs != best.heavy_pairs {
        return pairs > best.heavy_pairs;
    }
    if state.load() > best.load || !may_stay_at(state, waiting, count, best.load) {
        return true;
    }
    if best.load > 0 && may_stay_at(state, waiting, count, best.load - 1) {
        return false;
    }
    !has_ties
        || (state.spread, state.cache_excess(), sharing(state, waiting, count))
            >= (best.spread, best.cache_excess, best.sharing)
}
