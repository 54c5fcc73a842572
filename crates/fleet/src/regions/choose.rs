//! Finds the best set of regions by a search over the latency. Each step tests whether a set reaches enough players within one latency.

use super::cover::{Found, Wanted, bits, search};
use super::latencies::{Latencies, UNMEASURED};

/// The work limit of all searches for one answer, which take some seconds. Each visit of a region of a cell counts.
const WORK: u64 = 300_000_000;
/// One search gives up after the work limit divided by this.
const WORK_PART: u64 = 6;
/// A search that only bounds the answer takes at most the work of one search divided by this.
const BOUND_PART: u64 = 4;
/// If a search gave up, the answer and its bound are only found to within the latency divided by this.
const HARD_PART: u32 = 200;
/// The maximum number of exchanges that lower the mean latency, and of trials for each.
const EXCHANGES_MAX: u32 = 12;
const EXCHANGES_TRIED: usize = 8;
/// A first answer from a sample is used if there are more than twice this number of rows.
const SAMPLE_ROWS: usize = 20_000;

/// The regions that a set may have, and the percentile to minimise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Regions that every set must have.
    pub(super) keep: u64,
    /// All regions.
    pub(super) all: u64,
    /// The percentile of all players, in thousandths: 950 for p95.
    pub(super) thousandths: u32,
}

/// A set of regions, with its proven bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The regions of the set, one bit for each.
    pub(super) set: u64,
    /// The latency at the percentile of the players, in microseconds.
    pub(super) percentile_us: u32,
    /// No set with as many regions has a lower latency at the percentile than this.
    pub(super) bound_us: u32,
    /// Whether it is proven that no smaller set is within the limit. True if the user gave no limit.
    pub(super) is_count_proven: bool,
}

/// The set of at most `count` regions with the lowest percentile. `None` if no set reaches enough players.
pub(super) fn best(latencies: &Latencies, choice: &Choice, count: u32) -> Option<Chosen> {
    let stride = latencies.weights.len() / SAMPLE_ROWS;
    let first = match stride {
        0 | 1 => None,
        _ => refine(&latencies.sample(stride), choice, count, None, WORK / WORK_PART).map(|chosen| chosen.set),
    };
    let chosen = refine(latencies, choice, count, first, WORK)?;
    let set = filled(latencies, choice, count, chosen.set);
    Some(Chosen { set: nearer(latencies, choice, set, chosen.percentile_us), ..chosen })
}

/// The smallest set whose percentile is within `limit_us`. Among sets of that size, the one with the lowest percentile.
/// None if even all regions together exceed the limit.
pub(super) fn fewest(latencies: &Latencies, choice: &Choice, limit_us: u32) -> Option<Chosen> {
    let need = latencies.share(choice.thousandths);
    let cells = latencies.cells(limit_us);
    let mut is_proven = true;
    for count in choice.keep.count_ones().max(1)..=choice.all.count_ones() {
        let work = WORK / WORK_PART;
        let wanted = Wanted { keep: choice.keep, allowed: choice.all, count, need, is_any: true, work };
        match search(&cells, &wanted).0 {
            Found::Nothing => {}
            Found::Exhausted => is_proven = false,
            Found::Set(set) => {
                let chosen = refine(latencies, choice, count, Some(set), WORK)?;
                let set = nearer(latencies, choice, chosen.set, chosen.percentile_us);
                return Some(Chosen { set, is_count_proven: is_proven, ..chosen });
            }
        }
    }
    None
}

/// Searches for the lowest latency at the percentile.
/// That latency is between the one of all regions together and the one of a first set.
fn refine(latencies: &Latencies, choice: &Choice, count: u32, first: Option<u64>, work: u64) -> Option<Chosen> {
    let need = latencies.share(choice.thousandths);
    let least = latencies.within(choice.all, need);
    if least == UNMEASURED {
        return None;
    }
    let (mut set, mut high) = (0, UNMEASURED);
    if let Some(first) = first {
        (set, high) = (first, latencies.within(first, need));
    }
    if high == UNMEASURED {
        let longest = latencies.values.iter().copied().filter(|latency| *latency != UNMEASURED).max()?;
        // One more than the longest latency, because the search must also test the longest latency.
        (set, high) = (0, longest + 1);
    }
    let mut steps = Steps { latencies, choice, count, need, part: work / WORK_PART, left: work };
    // It is proven that no set is below `proven`. The search found no set below `low`.
    let (mut proven, mut low) = (least, least);
    // The first set is usually the best set already. A step just below its latency then proves this.
    let (mut is_near, mut is_hard) = (set != 0, false);
    while low < high && !(is_hard && high - low <= high / HARD_PART) {
        let limit = if is_near { high - 1 } else { low + (high - low) / 2 };
        match steps.step(limit) {
            Found::Set(better) => (set, high) = (better, latencies.within(better, need)),
            Found::Nothing => (proven, low) = (limit + 1, limit + 1),
            Found::Exhausted => (is_hard, low) = (true, if is_near { low } else { limit + 1 }),
        }
        is_near = false;
    }
    if set == 0 {
        return None;
    }
    let bound_us = if is_hard { steps.bound(proven, high) } else { proven };
    let set = widest(latencies, choice, count, set, (need, high));
    Some(Chosen { set, percentile_us: high, bound_us, is_count_proven: true })
}

/// The searches for one number of regions, and their remaining work.
struct Steps<'a> {
    latencies: &'a Latencies,
    choice: &'a Choice,
    count: u32,
    need: u64,
    /// The maximum work of one search.
    part: u64,
    /// The work that is left for all further searches.
    left: u64,
}

impl Steps<'_> {
    /// Whether a set reaches enough players within `limit_us`.
    fn step(&mut self, limit_us: u32) -> Found {
        self.search(limit_us, self.part.min(self.left))
    }

    fn search(&mut self, limit_us: u32, work: u64) -> Found {
        if work == 0 {
            return Found::Exhausted;
        }
        let cells = self.latencies.cells(limit_us);
        let Choice { keep, all, .. } = *self.choice;
        let wanted = Wanted { keep, allowed: all, count: self.count, need: self.need, is_any: true, work };
        let (found, spent) = search(&cells, &wanted);
        self.left = self.left.saturating_sub(spent);
        found
    }

    /// The largest latency below `high` for which a short search proves that no set reaches enough players.
    /// If the limit is far too low, the first bound already excludes all sets.
    fn bound(&mut self, mut proven: u32, high: u32) -> u32 {
        let mut above = high;
        while above - proven > high / HARD_PART {
            let limit = proven + (above - proven) / 2;
            match self.search(limit, self.part / BOUND_PART) {
                Found::Nothing => proven = limit + 1,
                Found::Set(_) | Found::Exhausted => above = limit,
            }
        }
        proven
    }
}

/// Among the sets that reach enough players within this limit, one that leaves the fewest players above it.
fn widest(latencies: &Latencies, choice: &Choice, count: u32, set: u64, (need, limit_us): (u64, u32)) -> u64 {
    let cells = latencies.cells(limit_us);
    let reached: u64 = cells.iter().filter(|cell| cell.mask & set != 0).map(|cell| cell.weight).sum();
    let wanted = Wanted {
        keep: choice.keep,
        allowed: choice.all,
        count,
        need: need.max(reached + 1),
        is_any: false,
        work: WORK / WORK_PART,
    };
    match search(&cells, &wanted).0 {
        Found::Set(set) => set,
        Found::Nothing | Found::Exhausted => set,
    }
}

/// Adds regions to the set, up to `count`: each time the one that lowers the mean latency most.
/// The latency at the percentile stays, because it is already the lowest possible.
fn filled(latencies: &Latencies, choice: &Choice, count: u32, mut set: u64) -> u64 {
    while set.count_ones() < count {
        let mut saved = [0_u128; 64];
        for (row, weight) in latencies.rows().zip(&latencies.weights) {
            let now = Latencies::nearest(row, set).1;
            for at in bits(choice.all & !set) {
                saved[at] += u128::from(now.saturating_sub(row[at])) * u128::from(*weight);
            }
        }
        let most = bits(choice.all & !set).max_by_key(|at| (saved[*at], 64 - at));
        match most.filter(|at| saved[*at] > 0) {
            Some(region) => set |= 1 << region,
            None => break,
        }
    }
    set
}

/// Exchanges regions of the set while that lowers the mean latency and leaves no more players above the percentile.
/// Many sets may have the same percentile. Among these, the mean latency of all players decides.
fn nearer(latencies: &Latencies, choice: &Choice, mut set: u64, percentile_us: u32) -> u64 {
    let reached = |set: u64| -> u64 {
        let is_within = |row: &[u32]| Latencies::nearest(row, set).1 <= percentile_us;
        latencies.rows().zip(&latencies.weights).filter(|(row, _)| is_within(row)).map(|(_, weight)| weight).sum()
    };
    let mut least = reached(set);
    for _ in 0..EXCHANGES_MAX {
        let mut exchanges = exchanges(latencies, choice, set);
        exchanges.sort_unstable();
        let better = exchanges.into_iter().take(EXCHANGES_TRIED).find_map(|(_, out, into)| {
            let other = set & !(1 << out) | 1 << into;
            let reached = reached(other);
            (reached >= least).then_some((other, reached))
        });
        match better {
            Some((other, reached)) => (set, least) = (other, reached),
            None => break,
        }
    }
    set
}

/// The exchanges of one region that lower the sum of all latencies: the change (negative), the removed region, and the added one.
fn exchanges(latencies: &Latencies, choice: &Choice, set: u64) -> Vec<(i128, usize, usize)> {
    let others = choice.all & !set;
    // `saved`: how much latency each region saves if it is added and none is removed.
    // `costs`: what the removal of a region costs if another region replaces it.
    let (mut saved, mut costs) = ([0_i128; 64], vec![[0_i128; 64]; 64]);
    for (row, weight) in latencies.rows().zip(&latencies.weights) {
        let weight = i128::from(*weight);
        let (first, now) = Latencies::nearest(row, set);
        let (_, second) = Latencies::nearest(row, set & !(1 << first));
        for into in bits(others) {
            let latency = row[into];
            saved[into] += i128::from(now.saturating_sub(latency)) * weight;
            // Players of the removed region use the added region, or their second nearest region if that region is nearer.
            costs[first][into] += i128::from(second.min(latency.max(now)) - now) * weight;
        }
    }
    let leaving = bits(set & !choice.keep);
    let all = leaving.flat_map(|out| bits(others).map(move |into| (out, into)));
    all.map(|(out, into)| (costs[out][into] - saved[into], out, into)).filter(|(change, ..)| *change < 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of numbers whose sequence is the same everywhere.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    fn instance(numbers: &mut Numbers) -> (Latencies, Choice, u32) {
        let regions = 1 + numbers.below(9) as usize;
        let mut latencies = Latencies::new(regions);
        // With few different values, there are many ties.
        let values = [4, 30, 100_000][numbers.below(3) as usize];
        for _ in 0..1 + numbers.below(40) {
            let row: Vec<u32> = (0..regions)
                .map(|_| if numbers.below(12) == 0 { UNMEASURED } else { numbers.below(values) as u32 })
                .collect();
            latencies.push(&row, 1 + numbers.below(5) * 300_000, 0);
        }
        let all = (1 << regions) - 1;
        let keep = if numbers.below(4) == 0 { 1 << numbers.below(regions as u64) } else { 0 };
        let thousandths = [500, 900, 950, 1000][numbers.below(4) as usize];
        (latencies, Choice { keep, all, thousandths }, 1 + numbers.below(4) as u32)
    }

    /// The lowest percentile of all sets of at most `count` regions.
    fn tried_all(latencies: &Latencies, choice: &Choice, count: u32) -> u32 {
        let is_allowed = |set: &u64| set & choice.keep == choice.keep && set.count_ones() <= count;
        let need = latencies.share(choice.thousandths);
        (1..=choice.all).filter(is_allowed).map(|set| latencies.within(set, need)).min().unwrap_or(UNMEASURED)
    }

    #[test]
    fn a_thousand_answers_are_those_of_trying_all_sets() {
        let mut numbers = Numbers(1);
        let (mut found, mut limited) = (0, 0);
        for at in 0..1000 {
            let (latencies, choice, count) = instance(&mut numbers);
            let expected = tried_all(&latencies, &choice, count);
            let need = latencies.share(choice.thousandths);
            match best(&latencies, &choice, count) {
                None => assert_eq!(expected, UNMEASURED, "{at}"),
                Some(chosen) => {
                    found += 1;
                    assert_eq!((chosen.percentile_us, chosen.bound_us), (expected, expected), "{at}: {chosen:?}");
                    assert_eq!(latencies.within(chosen.set, need), expected, "{at}: {chosen:?}");
                    assert!(
                        chosen.set & choice.keep == choice.keep && chosen.set.count_ones() <= count,
                        "{at}: {chosen:?}"
                    );
                }
            }
            if expected == UNMEASURED {
                continue;
            }
            let least = (1..=choice.all.count_ones()).find(|count| tried_all(&latencies, &choice, *count) <= expected);
            let chosen = fewest(&latencies, &choice, expected).unwrap();
            limited += 1;
            assert_eq!(Some(chosen.set.count_ones()), least, "{at}: {chosen:?}");
            assert_eq!(latencies.within(chosen.set, need), tried_all(&latencies, &choice, least.unwrap()), "{at}");
            assert!(chosen.is_count_proven, "{at}");
            if let Some(below) = tried_all(&latencies, &choice, 64).checked_sub(1) {
                assert_eq!(fewest(&latencies, &choice, below), None, "{at}");
            }
        }
        assert!(found > 800 && limited == found, "{found} {limited}");
    }

    /// Three players decide the percentile. Several regions are within it for the fourth player, who gets the nearest.
    #[test]
    fn of_sets_with_one_percentile_the_mean_decides() {
        let mut latencies = Latencies::new(4);
        for row in [[10, 500, 500, 500], [10, 500, 500, 500], [90, 500, 500, 500], [500, 80, 5, 85]] {
            latencies.push(&row, 1_000_000, 0);
        }
        let choice = Choice { keep: 0, all: 15, thousandths: 1000 };
        let chosen = best(&latencies, &choice, 2).unwrap();
        assert_eq!((chosen.set, chosen.percentile_us), (0b101, 90));
        let chosen = fewest(&latencies, &choice, 100).unwrap();
        assert_eq!((chosen.set, chosen.percentile_us), (0b101, 90));
        let kept = Choice { keep: 0b1000, ..choice };
        assert_eq!(best(&latencies, &kept, 2).unwrap().set, 0b1001);
    }

    /// There are more players than a sample has.
    #[test]
    fn the_answer_from_a_sample_is_corrected() {
        let mut numbers = Numbers(7);
        let mut latencies = Latencies::new(6);
        for _ in 0..SAMPLE_ROWS * 2 + 500 {
            let row: Vec<u32> = (0..6).map(|_| numbers.below(100) as u32).collect();
            latencies.push(&row, 1, 0);
        }
        let choice = Choice { keep: 0, all: 63, thousandths: 950 };
        let chosen = best(&latencies, &choice, 3).unwrap();
        assert_eq!(chosen.percentile_us, tried_all(&latencies, &choice, 3));
        assert_eq!(chosen.bound_us, chosen.percentile_us);
    }
}
