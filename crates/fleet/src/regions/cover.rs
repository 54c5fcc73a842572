//! Finds the `count` regions that reach the most players: an exact branch and bound for the maximum coverage problem.
//!
//! Players with the same regions in reach form one cell, so a million players become a few thousand cells.
//! The bound is a Lagrangian bound.
//! For a factor θ between 0 and 1, a cell of weight w that is reached c times counts as w·min(1, c) ≤ w·(1 − θ) + w·θ·c.
//! The right side is a sum over regions. Its maximum is the sum of the `count` largest terms.
//! Each node of the search moves θ to lower the bound.

/// Players that the same regions reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// The regions that reach these players, one bit for each.
    pub(super) mask: u64,
    /// The number of players, in units of [`super::players::UNITS`].
    pub(super) weight: u64,
    /// The part of a cell's weight that each region in reach gets as credit.
    theta: f64,
}

impl Cell {
    pub(super) fn new(mask: u64, weight: u64) -> Cell {
        Cell { mask, weight, theta: 1.0 }
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A set that reaches at least as many players as needed, one bit for each region.
    /// The set reaches the maximum, unless `is_any` ended the search at the first set, or the work limit was reached.
    Set(u64),
    /// No set reaches as many players as needed.
    Nothing,
    /// The work limit was reached before the search found a set or excluded all sets.
    Exhausted,
}

/// The goal of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Regions that every set must have.
    pub(super) keep: u64,
    /// Regions that a set may have.
    pub(super) allowed: u64,
    /// The maximum number of regions of a set, including those of `keep`.
    pub(super) count: u32,
    /// The minimum weight that the set has to reach.
    pub(super) need: u64,
    /// Whether the search ends at the first set that reaches `need`.
    pub(super) is_any: bool,
    /// The maximum number of visits of a region of a cell. Then the search gives up.
    pub(super) work: u64,
}

/// The maximum number of steps of θ at the root, and at other nodes.
const STEPS: (u32, u32) = (150, 20);
/// The steps of θ at one node may take at most the remaining work divided by this.
const WORK_PART: u64 = 4;
/// If the bound does not improve for this many steps, the steps get smaller.
const PATIENCE: u32 = 4;

/// Finds a set of regions, and returns how much work it took.
pub(super) fn search(cells: &[Cell], wanted: &Wanted) -> (Found, u64) {
    let mut search = Search {
        need: wanted.need,
        is_any: wanted.is_any,
        best: None,
        work: wanted.work,
        work_left: wanted.work,
        is_exhausted: false,
        is_root: true,
        margin: 1.0 + 1e-9 * cells.iter().map(|cell| cell.weight as f64).sum::<f64>(),
    };
    let covered = cells.iter().filter(|cell| cell.mask & wanted.keep != 0).map(|cell| cell.weight).sum();
    let allowed = wanted.allowed & !wanted.keep;
    let left = wanted.count.saturating_sub(wanted.keep.count_ones());
    search.spend(cells.len() as u64);
    let cells = residual(cells, wanted.keep, allowed);
    search.node(cells, Node { chosen: wanted.keep, covered, allowed, left });
    let found = match search.best {
        Some((_, set)) => Found::Set(set),
        None if search.is_exhausted => Found::Exhausted,
        None => Found::Nothing,
    };
    (found, wanted.work - search.work_left)
}

struct Search {
    need: u64,
    is_any: bool,
    /// The best result so far: its weight and its set.
    best: Option<(u64, u64)>,
    work: u64,
    work_left: u64,
    is_exhausted: bool,
    is_root: bool,
    /// The maximum error of a bound by rounding.
    margin: f64,
}

#[derive(Clone, Copy)]
struct Node {
    chosen: u64,
    /// The weight that `chosen` reaches.
    covered: u64,
    allowed: u64,
    left: u32,
}

/// The weight that each region would add.
struct Gains {
    by_region: [u64; 64],
    /// For each region, the regions that reach all players that it reaches, and the region itself.
    covers: [u64; 64],
    total: u64,
    /// How many pairs of a cell and a region there are.
    visits: u64,
}

impl Search {
    fn is_done(&self) -> bool {
        self.is_exhausted || (self.is_any && self.best.is_some())
    }

    /// The minimum weight that improves the result.
    fn target(&self) -> u64 {
        self.best.map_or(self.need, |(weight, _)| self.need.max(weight + 1))
    }

    fn offer(&mut self, weight: u64, set: u64) {
        if weight >= self.target() {
            self.best = Some((weight, set));
        }
    }

    fn spend(&mut self, visits: u64) {
        self.work_left = self.work_left.saturating_sub(visits);
        self.is_exhausted |= self.work_left == 0;
    }

    fn node(&mut self, mut cells: Vec<Cell>, mut node: Node) {
        loop {
            let gains = gains(&cells, node.allowed);
            self.spend(gains.visits + 1);
            if self.is_done() {
                return;
            }
            node.allowed = undominated(&gains, node.allowed);
            if self.ends(&gains, &node) {
                return;
            }
            let steps = if std::mem::take(&mut self.is_root) { STEPS.0 } else { STEPS.1 };
            let Some(bound) = self.bound(&mut cells, &gains, &node, steps) else { return };
            let (forced, excluded) = self.fixed(&bound, &node);
            node.allowed &= !excluded;
            if forced != 0 {
                let covered = cells.iter().filter(|cell| cell.mask & forced != 0).map(|cell| cell.weight).sum::<u64>();
                node.chosen |= forced;
                node.covered += covered;
                node.allowed &= !forced;
                node.left -= forced.count_ones();
                cells = residual(&cells, forced, node.allowed);
                continue;
            }
            let Some(branch) = bits(bound.top & node.allowed).max_by_key(|region| gains.by_region[*region]) else {
                continue;
            };
            let bit = 1 << branch;
            let child = Node {
                chosen: node.chosen | bit,
                covered: node.covered + gains.by_region[branch],
                allowed: node.allowed & !bit,
                left: node.left - 1,
            };
            self.node(residual(&cells, bit, child.allowed), child);
            node.allowed &= !bit;
        }
    }

    /// Whether this node needs no branches: its best set was offered, or no set below it can be good enough.
    fn ends(&mut self, gains: &Gains, node: &Node) -> bool {
        if node.left == 0 || node.allowed == 0 {
            self.offer(node.covered, node.chosen);
            return true;
        }
        if node.allowed.count_ones() <= node.left {
            self.offer(node.covered + gains.total, node.chosen | node.allowed);
            return true;
        }
        if node.left == 1 {
            if let Some(region) = bits(node.allowed).max_by_key(|region| (gains.by_region[*region], 64 - region)) {
                self.offer(node.covered + gains.by_region[region], node.chosen | 1 << region);
            }
            return true;
        }
        let mut largest: Vec<u64> = bits(node.allowed).map(|region| gains.by_region[region]).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let sum: u64 = largest.iter().take(node.left as usize).sum();
        node.covered + sum.min(gains.total) < self.target()
    }

    /// The best Lagrangian bound after some steps. None if it shows that no set below this node is good enough.
    fn bound(&mut self, cells: &mut [Cell], gains: &Gains, node: &Node, steps: u32) -> Option<Bound> {
        let mut best: Option<Bound> = None;
        let (mut scale, mut waited) = (1.0, 0);
        let affordable = self.work / WORK_PART / gains.visits.max(1);
        let steps = u64::from(steps).min(affordable.max(2));
        for step in 0..steps {
            let bound = Bound::new(cells, node);
            self.spend(gains.visits);
            let target = self.target() as f64;
            if bound.value + self.margin < target {
                return None;
            }
            if step % 8 == 0 || step + 1 == steps {
                let reached =
                    cells.iter().filter(|cell| cell.mask & bound.top != 0).map(|cell| cell.weight).sum::<u64>();
                self.offer(node.covered + reached, node.chosen | bound.top);
                if self.is_done() {
                    return None;
                }
            }
            let (top, value) = (bound.top, bound.value);
            if best.as_ref().is_none_or(|best| value < best.value) {
                (best, waited) = (Some(bound), 0);
            } else {
                waited += 1;
            }
            if waited == PATIENCE {
                (scale, waited) = (scale * 0.5, 0);
            }
            let excess = |cell: &Cell| f64::from((cell.mask & top).count_ones()) - 1.0;
            let norm: f64 = cells.iter().map(|cell| cell.weight as f64 * excess(cell).powi(2)).sum();
            let length = scale * (value - target + 1.0).max(1.0) / norm;
            if norm == 0.0 || gains.total == 0 || length < 1e-7 {
                break;
            }
            for cell in cells.iter_mut() {
                cell.theta = (cell.theta - length * excess(cell)).clamp(0.0, 1.0);
            }
        }
        best
    }

    /// Two sets of regions: those that every good enough set below this node needs, and those that no such set can have.
    fn fixed(&self, bound: &Bound, node: &Node) -> (u64, u64) {
        let target = self.target() as f64;
        let is_too_low = |value: f64| value + self.margin < target;
        let (mut forced, mut excluded) = (0, 0);
        for region in bits(node.allowed) {
            let credit = bound.credits[region];
            if bound.top >> region & 1 == 0 {
                excluded |= u64::from(is_too_low(bound.value - bound.least_in + credit)) << region;
            } else {
                forced |= u64::from(is_too_low(bound.value - credit + bound.most_out)) << region;
            }
        }
        (forced, excluded)
    }
}

/// An upper bound on what a set below a node reaches.
struct Bound {
    value: f64,
    /// The regions with the largest credits, as many as may be chosen.
    top: u64,
    credits: [f64; 64],
    /// The smallest credit in `top`, and the largest credit outside of it.
    least_in: f64,
    most_out: f64,
}

impl Bound {
    fn new(cells: &[Cell], node: &Node) -> Bound {
        let (mut credits, mut kept) = ([0.0; 64], 0.0);
        for cell in cells {
            let mask = cell.mask & node.allowed;
            if mask == 0 {
                continue;
            }
            let (weight, credit) = (cell.weight as f64, cell.weight as f64 * cell.theta);
            kept += weight - credit;
            bits(mask).for_each(|region| credits[region] += credit);
        }
        let mut order: Vec<usize> = bits(node.allowed).collect();
        order.sort_by(|a, b| credits[*b].total_cmp(&credits[*a]).then(a.cmp(b)));
        let (inside, outside) = order.split_at(order.len().min(node.left as usize));
        Bound {
            value: node.covered as f64 + kept + inside.iter().map(|region| credits[*region]).sum::<f64>(),
            top: inside.iter().fold(0, |set, region| set | 1 << region),
            least_in: inside.last().map_or(0.0, |region| credits[*region]),
            most_out: outside.first().map_or(0.0, |region| credits[*region]),
            credits,
        }
    }
}

/// The regions of a set, in order.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let region = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(region)
    })
}

fn gains(cells: &[Cell], allowed: u64) -> Gains {
    let mut gains = Gains { by_region: [0; 64], covers: [u64::MAX; 64], total: 0, visits: 0 };
    for cell in cells {
        let mask = cell.mask & allowed;
        gains.total += if mask == 0 { 0 } else { cell.weight };
        gains.visits += 1 + u64::from(mask.count_ones());
        for region in bits(mask) {
            gains.by_region[region] += cell.weight;
            gains.covers[region] &= mask;
        }
    }
    gains
}

/// The regions that no other region dominates. A region dominates another region if it reaches all players of that region.
fn undominated(gains: &Gains, allowed: u64) -> u64 {
    let mut left = allowed;
    for region in bits(allowed) {
        let others = gains.covers[region] & left & !(1 << region);
        if gains.by_region[region] == 0 || others != 0 {
            left &= !(1 << region);
        }
    }
    left
}

/// The cells that `allowed` reaches and `taken` does not. Equal cells are merged.
fn residual(cells: &[Cell], taken: u64, allowed: u64) -> Vec<Cell> {
    let is_open = |cell: &&Cell| cell.mask & taken == 0 && cell.mask & allowed != 0;
    let narrowed = |cell: &Cell| Cell { mask: cell.mask & allowed, ..*cell };
    let mut open: Vec<Cell> = cells.iter().filter(is_open).map(narrowed).collect();
    open.sort_unstable_by_key(|cell| (cell.mask, cell.weight));
    open.dedup_by(|next, first| {
        let is_same = next.mask == first.mask;
        if is_same {
            let (a, b) = (first.weight as f64, next.weight as f64);
            first.theta = if a + b > 0.0 { (first.theta * a + next.theta * b) / (a + b) } else { 1.0 };
            first.weight += next.weight;
        }
        is_same
    });
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum that a set of at most `count` regions reaches.
    fn most(cells: &[Cell], count: u32, regions: u32) -> u64 {
        let reached = |set: u64| cells.iter().filter(|cell| cell.mask & set != 0).map(|cell| cell.weight).sum();
        (0_u64..1 << regions).filter(|set| set.count_ones() <= count).map(reached).max().unwrap_or(0)
    }

    #[test]
    fn the_set_that_reaches_the_most_is_found_and_more_is_excluded() {
        let mut state = 5_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for at in 0..200 {
            let (regions, count) = (2 + below(10) as u32, 1 + below(5) as u32);
            let cells: Vec<Cell> =
                (0..1 + below(60)).map(|_| Cell::new(1 + below((1 << regions) - 1), 1 + below(1000))).collect();
            let most = most(&cells, count, regions);
            let wanted =
                |need| Wanted { keep: 0, allowed: (1 << regions) - 1, count, need, is_any: false, work: u64::MAX };
            for need in [0, most / 2, most] {
                let Found::Set(set) = search(&cells, &wanted(need)).0 else { panic!("{at}: nothing reaches {need}") };
                let reached: u64 = cells.iter().filter(|cell| cell.mask & set != 0).map(|cell| cell.weight).sum();
                assert!(reached == most && set.count_ones() <= count, "{at}: {reached} of {most}");
            }
            assert_eq!(search(&cells, &wanted(most + 1)).0, Found::Nothing, "{at}");
            let without_work = Wanted { work: 1, ..wanted(most) };
            assert!(matches!(search(&cells, &without_work), (Found::Exhausted | Found::Set(_), 1)), "{at}");
        }
    }
}
