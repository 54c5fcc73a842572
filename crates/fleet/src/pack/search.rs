//! Finds the best placement by branch and bound. It tries each session in turn on every CPU that makes a difference, or leaves it out.

use rustc_hash::FxHashSet;

use super::bounds::{self, Waiting};
use super::exchange;
use super::greedy::{self, Choice, Order, Placed};
use super::problem::Problem;
use super::state::{Score, State, mix};

/// The maximum number of sessions for a search.
pub(super) const EXACT_SESSIONS_MAX: u32 = 64;
/// The maximum number of threads for a search. The search recurses once for each thread.
const EXACT_THREADS_MAX: u32 = 512;
/// The maximum number of remembered states, of 16 bytes each.
const REMEMBERED_MAX: usize = 1 << 20;
/// The maximum number of exchanges on a first placement.
const EXCHANGES: u32 = 20_000;

/// A placement, with its proven bounds.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) placed: Vec<Placed>,
    pub(super) score: Score,
    /// A proven bound: no placement is better than this on the first three levels of the score.
    pub(super) bound: (u32, u64, u32),
    /// Whether it is proven that no placement which is equal on the first three levels has a better score.
    pub(super) are_ties_proven: bool,
    /// States that the search visited.
    pub(super) visited: u32,
}

/// Finds the best placement, or a good one with a bound. It visits at most `work` states.
pub(super) fn solve(problem: &Problem, work: u32) -> Found {
    let (placed, score) = first(problem);
    let empty = State::new(problem);
    let waiting = Waiting { counts: problem.kinds.iter().map(|kind| kind.count).collect() };
    let mut found = Found { placed, score, bound: bounds::root(&empty, &waiting), are_ties_proven: false, visited: 0 };
    let threads: u32 = problem.kinds.iter().map(|kind| kind.count.saturating_mul(kind.need.width)).sum();
    if waiting.total() > EXACT_SESSIONS_MAX || threads > EXACT_THREADS_MAX {
        return found;
    }
    for has_ties in [false, true] {
        if !has_ties && found.bound == found.score.first_levels() {
            continue;
        }
        let mut search = Search {
            state: State::new(problem),
            waiting: waiting.clone(),
            stack: Vec::new(),
            best: (found.score, found.placed.clone()),
            given_up: 0,
            left: work.saturating_sub(found.visited),
            remembered: FxHashSet::default(),
            has_ties,
            path: Vec::new(),
        };
        let is_whole = search.session(0, false);
        found.visited = work - search.left;
        (found.score, found.placed) = search.best;
        if !is_whole {
            break;
        }
        found.bound = found.score.first_levels();
        found.are_ties_proven = has_ties;
    }
    found
}

/// The best of several simple placements, after exchanges have improved each of them.
fn first(problem: &Problem) -> (Vec<Placed>, Score) {
    let mut best: Option<(Vec<Placed>, Score)> = None;
    for (order, choice) in [
        (Order::Largest, Choice::Emptiest),
        (Order::Largest, Choice::Fullest),
        (Order::Smallest, Choice::Fullest),
        (Order::LeastMemory, Choice::Fullest),
    ] {
        let (mut state, mut placed) = greedy::place(problem, order, choice);
        exchange::improve(&mut state, &mut placed, EXCHANGES);
        let score = state.score();
        if best.as_ref().is_none_or(|(_, least)| score < *least) {
            best = Some((placed, score));
        }
        // If everything fits, the other orders do not help.
        if score.left_out == 0 {
            break;
        }
    }
    best.unwrap_or_else(|| (Vec::new(), State::new(problem).score()))
}

struct Search<'a> {
    state: State<'a>,
    waiting: Waiting,
    stack: Vec<Placed>,
    best: (Score, Vec<Placed>),
    /// Sessions that this branch leaves out.
    given_up: u32,
    left: u32,
    remembered: FxHashSet<u128>,
    has_ties: bool,
    /// The CPUs of the session that is being placed.
    path: Vec<usize>,
}

impl Search<'_> {
    /// Places the waiting sessions, from `kind` on. False if the budget of states ran out first.
    /// If one session of the kind was left out (`has_given_up`), all others of it are left out too, because they are equal.
    fn session(&mut self, kind: usize, has_given_up: bool) -> bool {
        let Some(count) = self.waiting.counts.get(kind).copied() else {
            self.keep();
            return true;
        };
        if count == 0 {
            return self.session(kind + 1, false);
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        if bounds::is_hopeless(&self.state, &self.waiting, self.given_up, &self.best.0, self.has_ties)
            || self.is_remembered(kind, u128::from(has_given_up) | 2)
        {
            return true;
        }
        if !has_given_up && self.state.has_quota(kind) {
            self.waiting.counts[kind] -= 1;
            let is_whole = self.thread(kind, 0);
            self.waiting.counts[kind] += 1;
            if !is_whole {
                return false;
            }
        }
        self.waiting.counts[kind] -= 1;
        self.given_up += 1;
        let is_whole = self.session(kind, true);
        self.given_up -= 1;
        self.waiting.counts[kind] += 1;
        is_whole
    }

    /// Places one thread of a session, and continues. False if the budget of states ran out first.
    fn thread(&mut self, kind: usize, nth: u32) -> bool {
        let problem = self.state.problem;
        if nth == problem.kinds[kind].need.width {
            return self.next_session(kind);
        }
        if nth > 0 {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            if self.is_remembered(kind, u128::from(nth) << 8) {
                return true;
            }
        }
        let node = self.path.first().map(|slot| problem.slots[*slot].node);
        let mut ways: Vec<usize> = (0..problem.slots.len())
            .filter(|slot| match node {
                Some(node) => problem.slots[*slot].node == node,
                None => self.state.has_room(problem.slots[*slot].node, kind),
            })
            .filter(|slot| self.state.fits(*slot, kind))
            .collect();
        ways.sort_by_key(|slot| greedy::key(&self.state, *slot, kind, Choice::Emptiest));
        let mut seen: Vec<u128> = Vec::new();
        for slot in ways {
            let hash = self.state.hash_of(slot);
            if seen.contains(&hash) {
                continue;
            }
            seen.push(hash);
            self.state.put_thread(slot, kind, nth);
            self.path.push(slot);
            let is_whole = self.thread(kind, nth + 1);
            self.path.pop();
            self.state.take_thread(slot, kind, nth);
            if !is_whole {
                return false;
            }
        }
        true
    }

    /// Called when all threads of a session are placed. Continues with the next session.
    fn next_session(&mut self, kind: usize) -> bool {
        let path = std::mem::take(&mut self.path);
        if path.len() > 1 {
            self.state.mark(&path, false);
        }
        self.stack.push(Placed { kind, slots: path });
        let is_whole = self.session(kind, false);
        if let Some(placed) = self.stack.pop() {
            self.path = placed.slots;
        }
        if self.path.len() > 1 {
            self.state.mark(&self.path, true);
        }
        is_whole
    }

    /// Whether an equal state was searched before.
    /// It had the same completions, and the best placement at that time was no better than now, so a second search would find nothing new.
    fn is_remembered(&mut self, kind: usize, step: u128) -> bool {
        let waiting = u128::from(self.waiting.counts[kind]);
        let place = mix((kind as u128) << 96 | waiting << 64 | step << 16);
        let past = mix(u128::from(self.given_up) << 32 | u128::from(self.state.spread));
        let key = mix(self.state.hash() ^ place).wrapping_add(past);
        if self.remembered.len() < REMEMBERED_MAX {
            !self.remembered.insert(key)
        } else {
            self.remembered.contains(&key)
        }
    }

    fn keep(&mut self) {
        let score = self.state.score();
        let is_better = match self.has_ties {
            true => score < self.best.0,
            false => score.first_levels() < self.best.0.first_levels(),
        };
        if is_better {
            self.best = (score, self.stack.clone());
        }
    }
}
