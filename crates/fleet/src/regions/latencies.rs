//! The latency of each player to each region, and the latency that each player has with a set of regions.

use rustc_hash::FxHashMap;

use super::cover::{Cell, bits};

/// A latency that was not measured. It counts as out of reach.
pub(super) const UNMEASURED: u32 = u32::MAX;

/// Latencies in microseconds, with one row for each player, or for several players at one place.
#[derive(Debug)]
pub(super) struct Latencies {
    /// The number of columns.
    pub(super) regions: usize,
    /// The latencies, row by row.
    pub(super) values: Vec<u32>,
    /// The weight of each row, in millionths of a player; never 0.
    pub(super) weights: Vec<u64>,
    /// The group of each row, as a number.
    pub(super) groups: Vec<u32>,
    /// The sum of the weights.
    pub(super) total: u64,
}

impl Latencies {
    pub(super) fn new(regions: usize) -> Latencies {
        Latencies { regions, values: Vec::new(), weights: Vec::new(), groups: Vec::new(), total: 0 }
    }

    pub(super) fn reserve(&mut self, rows: usize) {
        self.values.reserve_exact(rows * self.regions);
        self.weights.reserve_exact(rows);
        self.groups.reserve_exact(rows);
    }

    pub(super) fn push(&mut self, row: &[u32], weight: u64, group: u32) {
        self.values.extend_from_slice(row);
        self.weights.push(weight);
        self.groups.push(group);
        self.total += weight;
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.values.chunks_exact(self.regions.max(1))
    }

    /// Every `stride`th row.
    pub(super) fn sample(&self, stride: usize) -> Latencies {
        let mut sample = Latencies::new(self.regions);
        for (at, row) in self.rows().enumerate().step_by(stride.max(1)) {
            sample.push(row, self.weights[at], self.groups[at]);
        }
        sample
    }

    /// The minimum weight that is at least this many thousandths of all players.
    pub(super) fn share(&self, thousandths: u32) -> u64 {
        let needed = u128::from(self.total) * u128::from(thousandths);
        // The result is at most the total, so it fits into the type.
        u64::try_from(needed.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Players, grouped by the regions that reach them within `limit_us`. Players that no region reaches are left out.
    pub(super) fn cells(&self, limit_us: u32) -> Vec<Cell> {
        let mut by_mask: FxHashMap<u64, u64> = FxHashMap::default();
        for (row, weight) in self.rows().zip(&self.weights) {
            let reach = |mask, (at, latency): (usize, &u32)| mask | u64::from(*latency <= limit_us) << at;
            let mask = row.iter().enumerate().fold(0, reach);
            if mask != 0 {
                *by_mask.entry(mask).or_default() += weight;
            }
        }
        let mut cells: Vec<Cell> = by_mask.into_iter().map(|(mask, weight)| Cell::new(mask, weight)).collect();
        // A hash map has no fixed order, so sort the cells.
        cells.sort_unstable_by_key(|cell| cell.mask);
        cells
    }

    /// The region of a set that is nearest to the player of a row, with the latency.
    pub(super) fn nearest(row: &[u32], set: u64) -> (usize, u32) {
        bits(set).map(|at| (at, row[at])).min_by_key(|(at, latency)| (*latency, *at)).unwrap_or((0, UNMEASURED))
    }

    /// The latency of each row to the nearest region of a set, with its weight; sorted.
    pub(super) fn served(&self, set: u64) -> Vec<(u32, u64)> {
        let nearest = |row| Latencies::nearest(row, set).1;
        let mut served: Vec<(u32, u64)> = self.rows().map(nearest).zip(self.weights.iter().copied()).collect();
        served.sort_unstable();
        served
    }

    /// The smallest latency within which a set serves at least the weight `need`. [`UNMEASURED`] if the set does not reach that weight.
    pub(super) fn within(&self, set: u64, need: u64) -> u32 {
        quantile(&self.served(set), need)
    }
}

/// The smallest of the sorted latencies such that players of at least the weight `need` have this latency or less.
pub(super) fn quantile(sorted: &[(u32, u64)], need: u64) -> u32 {
    let mut sum = 0;
    for (latency, weight) in sorted {
        sum += weight;
        if sum >= need {
            return *latency;
        }
    }
    UNMEASURED
}

/// The latency in milliseconds. `None` if it was not measured.
pub(super) fn milliseconds(us: u32) -> Option<f64> {
    (us != UNMEASURED).then(|| f64::from(us) / 1000.0)
}

/// A limit in microseconds, always below [`UNMEASURED`].
pub(super) fn microseconds(ms: f64) -> u32 {
    // A cast from a float to an integer saturates.
    ((ms * 1000.0).round() as u32).min(UNMEASURED - 1)
}
