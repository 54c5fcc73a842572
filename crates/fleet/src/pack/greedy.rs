//! First placements: one session after the other, each on the CPUs that are best at that moment.

use super::problem::Problem;
use super::state::State;

/// A session on CPUs: its kind, and the indices of the CPUs in [`Problem::slots`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) kind: usize,
    pub(super) slots: Vec<usize>,
}

/// Which CPU is best for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The CPU with the lowest load: an even placement.
    Emptiest,
    /// The CPU with the highest load on which the thread fits, so that more sessions fit.
    Fullest,
}

/// Which sessions come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Largest,
    Smallest,
    LeastMemory,
}

/// Places as many sessions as it can.
pub(super) fn place<'a>(problem: &'a Problem, order: Order, choice: Choice) -> (State<'a>, Vec<Placed>) {
    let (mut state, mut placed) = (State::new(problem), Vec::new());
    let mut kinds: Vec<usize> = (0..problem.kinds.len()).collect();
    let size = |kind: &usize| (problem.kinds[*kind].need.total_load(), problem.kinds[*kind].need.memory_kib);
    match order {
        Order::Largest => {}
        Order::Smallest => kinds.sort_by_key(size),
        Order::LeastMemory => kinds.sort_by_key(|kind| (size(kind).1, size(kind).0)),
    }
    for kind in kinds {
        for _ in 0..problem.kinds[kind].count {
            let Some(slots) = best_place(&mut state, kind, choice) else { break };
            state.put(&slots, kind);
            placed.push(Placed { kind, slots });
        }
    }
    (state, placed)
}

/// The best CPUs for one more session. `None` if it does not fit.
pub(super) fn best_place(state: &mut State<'_>, kind: usize, choice: Choice) -> Option<Vec<usize>> {
    let problem = state.problem;
    let nodes: Vec<usize> = (0..problem.memory.len()).filter(|node| state.has_room(*node, kind)).collect();
    if problem.kinds[kind].need.width == 1 {
        let fitting = (0..problem.slots.len())
            .filter(|slot| nodes.contains(&problem.slots[*slot].node) && state.fits(*slot, kind));
        return fitting.min_by_key(|slot| key(state, *slot, kind, choice)).map(|slot| vec![slot]);
    }
    let mut best: Option<(_, Vec<usize>)> = None;
    for node in nodes {
        let of_node = |slot: &usize| problem.slots[*slot].node == node;
        let mut groups: Vec<Vec<usize>> = vec![(0..problem.slots.len()).filter(of_node).collect()];
        let mut caches: Vec<usize> = groups[0].iter().map(|slot| problem.slots[*slot].cache).collect();
        caches.dedup();
        groups.extend(
            caches
                .iter()
                .map(|cache| (0..problem.slots.len()).filter(|slot| problem.slots[*slot].cache == *cache).collect()),
        );
        for group in groups {
            let Some(slots) = threads(state, kind, &group, choice) else { continue };
            state.put(&slots, kind);
            let score = state.score();
            state.take(&slots, kind);
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, slots));
            }
        }
    }
    best.map(|(_, slots)| slots)
}

/// A CPU of the group for each thread of one session.
fn threads(state: &mut State<'_>, kind: usize, group: &[usize], choice: Choice) -> Option<Vec<usize>> {
    let width = state.problem.kinds[kind].need.width;
    let mut slots: Vec<usize> = Vec::new();
    for nth in 0..width {
        let fitting = group.iter().copied().filter(|slot| state.fits(*slot, kind));
        let Some(slot) = fitting.min_by_key(|slot| key(state, *slot, kind, choice)) else { break };
        state.put_thread(slot, kind, nth);
        slots.push(slot);
    }
    for nth in (0..slots.len()).rev() {
        state.take_thread(slots[nth], kind, nth as u32);
    }
    (slots.len() == width as usize).then_some(slots)
}

/// The preference of a CPU for a thread: the CPU with the smallest key comes first.
pub(super) fn key(state: &State<'_>, slot: usize, kind: usize, choice: Choice) -> [u64; 7] {
    let (room, need) = (&state.problem.slots[slot], &state.problem.kinds[kind].need);
    let pairs = if need.is_heavy { u64::from(state.heavy[room.core]) } else { 0 };
    let load = u64::from(state.cpus[slot].load);
    let used = state.cache_used[room.cache];
    let excess = (used + need.cache_kib).saturating_sub(state.problem.caches[room.cache]).min(need.cache_kib);
    let on_core = u64::from(state.core_threads[room.core]);
    let near = u64::from(state.cache_threads[room.cache] + state.node_threads[room.node]);
    match choice {
        Choice::Emptiest => [pairs, load, excess, on_core, near, u64::from(state.heavy[room.core]), slot as u64],
        Choice::Fullest => [u64::MAX - load, excess, pairs, on_core, near, 0, slot as u64],
    }
}
