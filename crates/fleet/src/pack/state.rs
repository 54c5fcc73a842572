//! The state of a placement, which grows by one thread at a time: what fits, and the score.
//! If two states differ only by an exchange of equal CPUs, cores, caches or nodes, they have the same hash.

use super::problem::Problem;

/// How good a placement is. Smaller is better. The first field that differs decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    /// Sessions that are not placed.
    pub(super) left_out: u32,
    /// Pairs of heavy threads on one core.
    pub(super) heavy_pairs: u64,
    /// The highest load of a CPU with sessions, in millionths.
    pub(super) load: u32,
    /// The caches that large sessions use beyond one for each session.
    pub(super) spread: u32,
    /// By how much the needs of the sessions exceed the sizes of their caches, in KiB.
    pub(super) cache_excess: u64,
    /// Pairs of threads on one CPU, on one core, at one cache and on one node: the sum of the four numbers.
    pub(super) sharing: u64,
}

impl Score {
    /// The first three levels of the score. The other fields only decide between equal placements.
    pub(super) fn first_levels(&self) -> (u32, u64, u32) {
        (self.left_out, self.heavy_pairs, self.load)
    }
}

/// The sessions on a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct OnCpu {
    pub(super) load: u32,
    /// The maximum load: the lowest limit of the CPU and of the sessions on it.
    pub(super) limit: u32,
    /// The kind of each thread.
    pub(super) kinds: Vec<usize>,
    /// Whether the session that is being placed has a thread here.
    pub(super) is_marked: bool,
    hash: u128,
}

/// A placement of some of the sessions.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    pub(super) problem: &'a Problem,
    pub(super) cpus: Vec<OnCpu>,
    /// Heavy threads, by core.
    pub(super) heavy: Vec<u32>,
    pub(super) memory: Vec<u64>,
    pub(super) cache_used: Vec<u64>,
    pub(super) core_threads: Vec<u32>,
    pub(super) cache_threads: Vec<u32>,
    pub(super) node_threads: Vec<u32>,
    cache_nodes: Vec<usize>,
    /// The load of the sessions, without interrupts.
    pub(super) total_load: u64,
    /// The memory of the sessions on all nodes, in KiB.
    pub(super) total_memory: u64,
    pub(super) heavy_pairs: u64,
    pub(super) spread: u32,
    pub(super) left_out: u32,
    core_sums: Vec<u128>,
    cache_sums: Vec<u128>,
    node_sums: Vec<u128>,
    sum: u128,
}

impl<'a> State<'a> {
    /// The state without any placed session.
    pub(super) fn new(problem: &'a Problem) -> State<'a> {
        let mut state = State {
            problem,
            cpus: problem
                .slots
                .iter()
                .map(|slot| OnCpu { load: slot.base, limit: slot.limit, ..OnCpu::default() })
                .collect(),
            heavy: vec![0; problem.cores],
            memory: problem.memory.clone(),
            cache_used: vec![0; problem.caches.len()],
            core_threads: vec![0; problem.cores],
            cache_threads: vec![0; problem.caches.len()],
            cache_nodes: vec![0; problem.caches.len()],
            node_threads: vec![0; problem.memory.len()],
            total_load: 0,
            total_memory: 0,
            heavy_pairs: 0,
            spread: 0,
            left_out: problem.kinds.iter().map(|kind| kind.count).sum(),
            core_sums: vec![0; problem.cores],
            cache_sums: vec![0; problem.caches.len()],
            node_sums: vec![0; problem.memory.len()],
            sum: 0,
        };
        for slot in &problem.slots {
            state.cache_nodes[slot.cache] = slot.node;
        }
        // Hash each slot once. Cores and caches without a slot add nothing.
        for slot in 0..state.cpus.len() {
            state.rehash(slot, |_| {});
        }
        state
    }

    /// Whether one thread of a session fits on a slot. [`State::has_room`] checks the memory and the quota for the session.
    pub(super) fn fits(&self, slot: usize, kind: usize) -> bool {
        let (room, on, need) = (&self.problem.slots[slot], &self.cpus[slot], &self.problem.kinds[kind].need);
        if on.is_marked || (need.width > 1 && room.is_isolated) {
            return false;
        }
        match need.is_exclusive {
            true => on.kinds.is_empty() && need.load <= room.limit_alone,
            false => on.load + need.load <= on.limit.min(need.limit),
        }
    }

    /// Whether the node and the control group have enough memory, and the quota enough CPU time, for one more session.
    pub(super) fn has_room(&self, node: usize, kind: usize) -> bool {
        self.memory[node] >= self.problem.kinds[kind].need.memory_kib
            && self.is_within_memory_limit(kind)
            && self.has_quota(kind)
    }

    pub(super) fn is_within_memory_limit(&self, kind: usize) -> bool {
        self.total_memory.saturating_add(self.problem.kinds[kind].need.memory_kib) <= self.problem.memory_limit
    }

    pub(super) fn has_quota(&self, kind: usize) -> bool {
        self.total_load + self.problem.kinds[kind].need.total_load() <= self.problem.quota
    }

    /// Adds one thread of a session. `nth` is the thread's number in the session, from zero.
    pub(super) fn put_thread(&mut self, slot: usize, kind: usize, nth: u32) {
        let need = self.problem.kinds[kind].need;
        let room = &self.problem.slots[slot];
        if nth == 0 {
            self.change_memory(room.node, |memory| memory - need.memory_kib);
            self.total_memory += need.memory_kib;
            self.left_out -= 1;
        } else if !self.is_touched(room.cache) {
            self.spread += 1;
        }
        if need.is_heavy {
            self.heavy_pairs += u64::from(self.heavy[room.core]);
            self.heavy[room.core] += 1;
        }
        self.total_load += u64::from(need.load);
        self.core_threads[room.core] += 1;
        self.cache_threads[room.cache] += 1;
        self.node_threads[room.node] += 1;
        self.change_cache(room.cache, |used| used + need.cache_kib);
        self.rehash(slot, |on| {
            on.load += need.load;
            on.limit = on.limit.min(need.limit);
            on.kinds.push(kind);
            on.is_marked = need.width > 1;
        });
    }

    /// Removes the thread of a session that [`State::put_thread`] added last.
    pub(super) fn take_thread(&mut self, slot: usize, kind: usize, nth: u32) {
        let problem = self.problem;
        let need = problem.kinds[kind].need;
        let room = &problem.slots[slot];
        self.rehash(slot, |on| {
            on.load -= need.load;
            if let Some(at) = on.kinds.iter().rposition(|other| *other == kind) {
                on.kinds.remove(at);
            }
            let limits = on.kinds.iter().map(|kind| problem.kinds[*kind].need.limit);
            on.limit = limits.fold(room.limit, u32::min);
            on.is_marked = false;
        });
        self.change_cache(room.cache, |used| used - need.cache_kib);
        self.node_threads[room.node] -= 1;
        self.core_threads[room.core] -= 1;
        self.cache_threads[room.cache] -= 1;
        self.total_load -= u64::from(need.load);
        if need.is_heavy {
            self.heavy[room.core] -= 1;
            self.heavy_pairs -= u64::from(self.heavy[room.core]);
        }
        if nth == 0 {
            self.change_memory(room.node, |memory| memory + need.memory_kib);
            self.total_memory -= need.memory_kib;
            self.left_out += 1;
        } else if !self.is_touched(room.cache) {
            self.spread -= 1;
        }
    }

    /// Whether the session that is being placed has a thread in this cache.
    fn is_touched(&self, cache: usize) -> bool {
        self.problem.slots.iter().zip(&self.cpus).any(|(slot, on)| on.is_marked && slot.cache == cache)
    }

    /// Marks or unmarks the CPUs of a session of several threads that is being placed.
    pub(super) fn mark(&mut self, slots: &[usize], is_marked: bool) {
        for slot in slots {
            self.rehash(*slot, |on| on.is_marked = is_marked);
        }
    }

    /// Adds a session.
    pub(super) fn put(&mut self, slots: &[usize], kind: usize) {
        for (nth, slot) in (0..).zip(slots) {
            self.put_thread(*slot, kind, nth);
        }
        if slots.len() > 1 {
            self.mark(slots, false);
        }
    }

    /// Takes a session away.
    pub(super) fn take(&mut self, slots: &[usize], kind: usize) {
        if slots.len() > 1 {
            self.mark(slots, true);
        }
        for nth in (0..slots.len()).rev() {
            self.take_thread(slots[nth], kind, nth as u32);
        }
    }

    pub(super) fn score(&self) -> Score {
        Score {
            left_out: self.left_out,
            heavy_pairs: self.heavy_pairs,
            load: self.load(),
            spread: self.spread,
            cache_excess: self.cache_excess(),
            sharing: self.sharing(),
        }
    }

    /// The highest load of a CPU with sessions.
    pub(super) fn load(&self) -> u32 {
        self.cpus.iter().filter(|on| !on.kinds.is_empty()).map(|on| on.load).max().unwrap_or(0)
    }

    pub(super) fn cache_excess(&self) -> u64 {
        self.cache_used.iter().zip(&self.problem.caches).map(|(used, size)| used.saturating_sub(*size)).sum()
    }

    pub(super) fn sharing(&self) -> u64 {
        let pairs = |threads: u64| threads * threads.saturating_sub(1) / 2;
        let all = |threads: &[u32]| threads.iter().map(|threads| pairs(u64::from(*threads))).sum::<u64>();
        let on_cpus: u64 = self.cpus.iter().map(|on| pairs(on.kinds.len() as u64)).sum();
        on_cpus + all(&self.core_threads) + all(&self.cache_threads) + all(&self.node_threads)
    }

    /// A hash of everything that decides which completions are possible. In this hash, equal CPUs are interchangeable.
    pub(super) fn hash(&self) -> u128 {
        self.sum
    }

    /// A hash of a CPU, and of its core, cache and node. If two CPUs have equal hashes, a thread on either leads to the same state.
    pub(super) fn hash_of(&self, slot: usize) -> u128 {
        let room = &self.problem.slots[slot];
        let upwards =
            [self.cpus[slot].hash, self.core_sums[room.core], self.cache_hash(room.cache), self.node_hash(room.node)];
        upwards.into_iter().fold(0, |hash, part| mix(hash ^ part))
    }

    fn cache_hash(&self, cache: usize) -> u128 {
        mix(self.cache_sums[cache]
            ^ mix(u128::from(self.cache_used[cache]) << 64 ^ u128::from(self.problem.caches[cache])))
    }

    fn node_hash(&self, node: usize) -> u128 {
        mix(self.node_sums[node] ^ mix(u128::from(self.memory[node]) << 8 | 1))
    }

    fn change_memory(&mut self, node: usize, change: impl FnOnce(u64) -> u64) {
        self.sum = self.sum.wrapping_sub(self.node_hash(node));
        self.memory[node] = change(self.memory[node]);
        self.sum = self.sum.wrapping_add(self.node_hash(node));
    }

    fn change_cache(&mut self, cache: usize, change: impl FnOnce(u64) -> u64) {
        let node = self.cache_nodes[cache];
        self.sum = self.sum.wrapping_sub(self.node_hash(node));
        self.node_sums[node] = self.node_sums[node].wrapping_sub(self.cache_hash(cache));
        self.cache_used[cache] = change(self.cache_used[cache]);
        self.node_sums[node] = self.node_sums[node].wrapping_add(self.cache_hash(cache));
        self.sum = self.sum.wrapping_add(self.node_hash(node));
    }

    /// Changes the sessions on a CPU. The hash of a parent is a sum over its children, so the order of the children does not matter.
    fn rehash(&mut self, slot: usize, change: impl FnOnce(&mut OnCpu)) {
        let room = &self.problem.slots[slot];
        let (core, cache, node) = (room.core, room.cache, room.node);
        self.sum = self.sum.wrapping_sub(self.node_hash(node));
        self.node_sums[node] = self.node_sums[node].wrapping_sub(self.cache_hash(cache));
        self.cache_sums[cache] = self.cache_sums[cache].wrapping_sub(mix(self.core_sums[core]));
        self.core_sums[core] = self.core_sums[core].wrapping_sub(self.cpus[slot].hash);
        let on = &mut self.cpus[slot];
        change(on);
        let heavy = on.kinds.iter().filter(|kind| self.problem.kinds[**kind].need.is_heavy).count() as u32;
        let small = u128::from(heavy) << 3
            | (on.kinds.len() as u128) << 16
            | u128::from(on.is_marked) << 1
            | u128::from(room.is_isolated);
        let numbers = u128::from(on.load) << 96 | u128::from(on.limit) << 64 | u128::from(room.limit_alone) << 32;
        on.hash = mix(numbers ^ small).wrapping_add(mix(u128::from(room.base) << 32 | u128::from(room.limit)));
        self.core_sums[core] = self.core_sums[core].wrapping_add(on.hash);
        self.cache_sums[cache] = self.cache_sums[cache].wrapping_add(mix(self.core_sums[core]));
        self.node_sums[node] = self.node_sums[node].wrapping_add(self.cache_hash(cache));
        self.sum = self.sum.wrapping_add(self.node_hash(node));
    }
}

/// Spreads every bit of the input over all bits of the hash. Among a billion states, two have the same hash with a chance of about 1e-21.
pub(super) fn mix(x: u128) -> u128 {
    let a = (x ^ (x >> 67))
        .wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        .wrapping_mul(0xda94_2042_e4dd_58b5_9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 61)).wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645);
    b ^ (b >> 65)
}
