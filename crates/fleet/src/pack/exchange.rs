//! Improves a placement by small steps: a session moves, or two sessions change places, as long as that makes the placement better.

use super::greedy::{Choice, Placed, best_place};
use super::state::State;

/// With at most this many sessions, the search tries a better place for every session.
/// With more sessions, it tries only sessions on the busiest CPUs.
const ALL_MAX: usize = 256;

/// Improves the placement until no step helps, or `work` steps were tried.
pub(super) fn improve(state: &mut State<'_>, placed: &mut Vec<Placed>, mut work: u32) {
    while work > 0
        && (insert(state, placed, &mut work)
            || relieve(state, placed, &mut work, false)
            || (placed.len() <= ALL_MAX && relieve(state, placed, &mut work, true)))
    {}
}

/// Places a session that was left out, if necessary after it moved another session away. True if it placed a session.
fn insert(state: &mut State<'_>, placed: &mut Vec<Placed>, work: &mut u32) -> bool {
    if state.left_out == 0 {
        return false;
    }
    let problem = state.problem;
    let mut counts = vec![0; problem.kinds.len()];
    placed.iter().for_each(|one| counts[one.kind] += 1);
    // The smallest kinds first: they need the least room.
    for kind in (0..problem.kinds.len()).rev().filter(|kind| counts[*kind] < problem.kinds[*kind].count) {
        if let Some(slots) = best_place(state, kind, Choice::Fullest) {
            state.put(&slots, kind);
            placed.push(Placed { kind, slots });
            return true;
        }
        for at in 0..placed.len() {
            if *work == 0 {
                return false;
            }
            *work -= 1;
            let moved = placed[at].clone();
            state.take(&moved.slots, moved.kind);
            let found = best_place(state, kind, Choice::Fullest).and_then(|slots| {
                state.put(&slots, kind);
                let elsewhere = best_place(state, moved.kind, Choice::Fullest);
                if elsewhere.is_none() {
                    state.take(&slots, kind);
                }
                Some((slots, elsewhere?))
            });
            if let Some((slots, elsewhere)) = found {
                state.put(&elsewhere, moved.kind);
                placed[at].slots = elsewhere;
                placed.push(Placed { kind, slots });
                return true;
            }
            state.take_back(&moved);
        }
    }
    false
}

/// Moves a session away from the CPU with the highest load, from a core with heavy pairs, or from a cache that is too full.
/// With `is_any`, moves any session. True if that made the placement better.
fn relieve(state: &mut State<'_>, placed: &mut [Placed], work: &mut u32, is_any: bool) -> bool {
    let problem = state.problem;
    let load = state.load();
    let is_critical = |state: &State<'_>, slot: usize| {
        let room = &problem.slots[slot];
        state.cpus[slot].load == load
            || state.heavy[room.core] > 1
            || state.cache_used[room.cache] > problem.caches[room.cache]
    };
    for at in 0..placed.len() {
        if !is_any && !placed[at].slots.iter().any(|slot| is_critical(state, *slot)) {
            continue;
        }
        if step(state, placed, at, work) {
            return true;
        }
        if *work == 0 {
            return false;
        }
    }
    false
}

/// Makes one step that gives this session a better place: a move to another CPU, or else an exchange with a session of another kind.
fn step(state: &mut State<'_>, placed: &mut [Placed], at: usize, work: &mut u32) -> bool {
    *work = work.saturating_sub(1);
    let (score, one) = (state.score(), placed[at].clone());
    state.take(&one.slots, one.kind);
    if let Some(slots) = best_place(state, one.kind, Choice::Emptiest) {
        state.put(&slots, one.kind);
        if state.score() < score {
            placed[at].slots = slots;
            return true;
        }
        state.take(&slots, one.kind);
    }
    let mut tried: Vec<(usize, u128)> = Vec::new();
    for other in 0..placed.len() {
        let kind = placed[other].kind;
        if *work == 0 {
            break;
        }
        if other == at
            || kind == one.kind
            || placed[other].slots.len() != one.slots.len()
            || placed[other].slots == one.slots
        {
            continue;
        }
        let way =
            (kind, placed[other].slots.iter().fold(0, |hash: u128, slot| hash.wrapping_add(state.hash_of(*slot))));
        if tried.contains(&way) {
            continue;
        }
        tried.push(way);
        *work -= 1;
        let slots = placed[other].slots.clone();
        state.take(&slots, kind);
        if state.can_put(&slots, one.kind) {
            state.put(&slots, one.kind);
            if state.can_put(&one.slots, kind) {
                state.put(&one.slots, kind);
                if state.score() < score {
                    placed[at].slots = slots;
                    placed[other].slots = one.slots;
                    return true;
                }
                state.take(&one.slots, kind);
            }
            state.take(&slots, one.kind);
        }
        state.put(&slots, kind);
    }
    state.put(&one.slots, one.kind);
    false
}

impl State<'_> {
    /// Whether the whole session fits on these CPUs.
    fn can_put(&self, slots: &[usize], kind: usize) -> bool {
        let Some(first) = slots.first() else { return false };
        self.has_room(self.problem.slots[*first].node, kind) && slots.iter().all(|slot| self.fits(*slot, kind))
    }

    fn take_back(&mut self, one: &Placed) {
        self.put(&one.slots, one.kind);
    }
}
