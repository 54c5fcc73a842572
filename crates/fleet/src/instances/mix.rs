//! Sessions in the proportions of the table: how many of the first n sessions are of each kind, for every n.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::sessions::Session;

/// The maximum number of sessions to count.
const SESSIONS_MAX: u64 = u32::MAX as u64;

/// Kinds of sessions, each with its share of the mix.
#[derive(Debug)]
pub(super) struct Mix {
    pub(super) kinds: Vec<MixKind>,
    total: u64,
}

/// Equal sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixKind {
    pub(super) cpus: f64,
    pub(super) memory_mib: Option<f64>,
    pub(super) network_mbps: Option<f64>,
    pub(super) packets_per_s: Option<f64>,
    count: u64,
}

impl Mix {
    pub(super) fn new(sessions: &[Session]) -> Mix {
        let mut kinds: Vec<MixKind> = Vec::new();
        let mut places = rustc_hash::FxHashMap::default();
        for one in sessions {
            let needs = [Some(one.cpus), one.memory_mib, one.network_mbps, one.packets_per_s];
            let at = *places.entry(needs.map(|need| need.map(f64::to_bits))).or_insert_with(|| {
                kinds.push(MixKind {
                    cpus: one.cpus,
                    memory_mib: one.memory_mib,
                    network_mbps: one.network_mbps,
                    packets_per_s: one.packets_per_s,
                    count: 0,
                });
                kinds.len() - 1
            });
            kinds[at].count += u64::from(one.count);
        }
        let total = kinds.iter().map(|kind| kind.count).sum();
        Mix { kinds, total }
    }

    /// How many of each kind the first `n` sessions have: `n` times the kind's share, rounded to a whole number.
    /// With one more session, no kind gets fewer.
    /// The j-th of `count` equal sessions is at position (j - 1/2) / count of the mix.
    pub(super) fn first(&self, n: u64) -> Vec<u64> {
        let (rounds, rest) = (n / self.total, n % self.total);
        let counts = self.kinds.iter().map(|kind| kind.count);
        // First count the sessions that certainly come earlier.
        // The rest are counted one by one; these are at most one more than there are kinds.
        let slack = self.kinds.len() as f64 / 2.0 + 1.0;
        let certain = ((rest as f64 - slack) / self.total as f64).max(0.0);
        let mut first: Vec<u64> = counts.clone().map(|count| (count as f64 * certain + 0.5) as u64).collect();
        let place = |count: u64, j: u64| Due((2 * j + 1) as f64 / count as f64);
        let mut next: BinaryHeap<Reverse<(Due, usize)>> =
            counts.clone().enumerate().map(|(at, count)| Reverse((place(count, first[at]), at))).collect();
        for _ in first.iter().sum::<u64>()..rest {
            let Some(Reverse((_, at))) = next.pop() else { break };
            first[at] += 1;
            next.push(Reverse((place(self.kinds[at].count, first[at]), at)));
        }
        first.iter().zip(counts).map(|(first, count)| first + rounds * count).collect()
    }

    /// The maximum number of sessions of the mix that fit. If n sessions fit, fewer than n must fit too.
    pub(super) fn most(&self, fits: impl Fn(&[u64]) -> bool) -> u64 {
        let fits = |n: u64| fits(&self.first(n));
        let (mut low, mut high) = (0, 1);
        while high <= SESSIONS_MAX && fits(high) {
            (low, high) = (high, high * 2);
        }
        high = high.min(SESSIONS_MAX + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// The total needs of these sessions. A session with an unknown need adds nothing.
    pub(super) fn sum(&self, first: &[u64], need: impl Fn(&MixKind) -> Option<f64>) -> f64 {
        self.kinds.iter().zip(first).map(|(kind, n)| need(kind).unwrap_or(0.0) * *n as f64).sum()
    }
}

/// Twice the position of a session in the mix.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Due(f64);

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mix(counts: &[u32]) -> Mix {
        let rows: String =
            counts.iter().enumerate().map(|(at, count)| format!("{},{count}\n", 0.1 + at as f64)).collect();
        Mix::new(&crate::sessions::read_sessions(format!("cpus,count\n{rows}").as_bytes()).unwrap())
    }

    #[test]
    fn the_first_sessions_are_in_proportion() {
        let eight_and_one = mix(&[8, 1]);
        let seen: Vec<Vec<u64>> = [0, 1, 4, 5, 9, 18, 22].iter().map(|n| eight_and_one.first(*n)).collect();
        assert_eq!(seen, [vec![0, 0], vec![1, 0], vec![4, 0], vec![4, 1], vec![8, 1], vec![16, 2], vec![20, 2]]);
        assert_eq!(mix(&[1, 2]).first(2), [1, 1]);
        assert_eq!(mix(&[1, 2]).most(|first| first[0] <= 10), 31);
        assert_eq!(mix(&[3]).most(|first| first[0] <= 3_000_000_000), 3_000_000_000);
        assert_eq!(mix(&[3]).most(|_| true), SESSIONS_MAX);
    }

    #[test]
    fn equal_rows_are_one_kind() {
        let rows = "cpus,memory_mib,count\n0.1,,2\n0.2,,1\n0.1,,3\n0.1,5,1\n";
        let mix = Mix::new(&crate::sessions::read_sessions(rows.as_bytes()).unwrap());
        assert_eq!(mix.kinds.iter().map(|kind| kind.count).collect::<Vec<_>>(), [5, 1, 1]);
    }

    proptest! {
        #[test]
        fn one_more_session_is_one_more_of_one_kind(counts in prop::collection::vec(1..200_u32, 1..12)) {
            let mix = mix(&counts);
            let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let mut before = mix.first(0);
            for n in 1..=total + 3 {
                let first = mix.first(n);
                prop_assert_eq!(first.iter().sum::<u64>(), n);
                prop_assert!(first.iter().zip(&before).all(|(now, before)| now >= before), "{} {:?} {:?}", n, before, first);
                before = first;
            }
            prop_assert_eq!(mix.first(total), counts.iter().map(|count| u64::from(*count)).collect::<Vec<_>>());
        }
    }
}
