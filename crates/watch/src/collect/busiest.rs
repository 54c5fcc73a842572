//! `Busiest`: the entries to list of a table that is too long, by what they counted since evenkeel first saw them.
//!
//! The counters since boot would hide an entry that is busy now behind those that were busy once. The counters since the previous sample
//! would choose other entries each time, and a rate needs two samples.

use std::collections::BTreeMap;

/// How much an entry counted: what is worst first.
pub(super) type Weight = [u64; 2];

/// The counters of each entry when it was first seen. Empty as long as all entries are listed.
#[derive(Debug)]
pub(super) struct Busiest<K> {
    first: BTreeMap<K, Weight>,
}

impl<K> Default for Busiest<K> {
    fn default() -> Busiest<K> {
        Busiest { first: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Busiest<K> {
    /// At most `max` entries, and the number of those that are left out. `counted` never decreases while an entry exists. Entries that
    /// counted the same are compared by `now`.
    pub(super) fn choose<T>(
        &mut self,
        all: Vec<(K, T)>,
        max: usize,
        counted: impl Fn(&T) -> Weight,
        now: impl Fn(&T) -> Weight,
    ) -> (Vec<(K, T)>, usize) {
        if all.len() <= max {
            self.first.clear();
            return (all, 0);
        }
        let mut first = std::mem::take(&mut self.first);
        let mut weighed: Vec<(Weight, Weight, K, T)> = Vec::with_capacity(all.len());
        for (key, entry) in all {
            let counts = counted(&entry);
            // If a count went back, this is another entry with the same name.
            let known = first.remove(&key).filter(|first| first.iter().zip(counts).all(|(first, now)| *first <= now));
            let begun = *self.first.entry(key.clone()).or_insert(known.unwrap_or(counts));
            let grown = [0, 1].map(|at| counts[at].saturating_sub(begun[at]));
            weighed.push((grown, now(&entry), key, entry));
        }
        weighed.sort_by(|one, other| (other.0, other.1).cmp(&(one.0, one.1)).then_with(|| one.2.cmp(&other.2)));
        let beyond = weighed.len() - max;
        (weighed.into_iter().take(max).map(|(.., key, entry)| (key, entry)).collect(), beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(busiest: &mut Busiest<u64>, all: &[(u64, u64)], max: usize) -> (Vec<u64>, usize) {
        let (list, beyond) = busiest.choose(all.to_vec(), max, |count| [*count, 0], |count| [*count, 0]);
        (list.into_iter().map(|(key, _)| key).collect(), beyond)
    }

    #[test]
    fn what_counts_most_since_it_was_first_seen_is_listed() {
        let mut busiest = Busiest::default();
        assert_eq!(chosen(&mut busiest, &[(1, 10), (2, 500), (3, 20)], 3), (vec![1, 2, 3], 0));
        // At first nothing has counted since, so the totals decide.
        assert_eq!(chosen(&mut busiest, &[(1, 10), (2, 500), (3, 20), (4, 0)], 2), (vec![2, 3], 2));
        assert_eq!(chosen(&mut busiest, &[(1, 40), (2, 500), (3, 20), (4, 5)], 2), (vec![1, 4], 2));
        // Entry 2 was created again.
        assert_eq!(chosen(&mut busiest, &[(1, 40), (2, 7), (3, 20), (4, 5)], 2), (vec![1, 4], 2));
        assert_eq!(chosen(&mut busiest, &[(1, 40), (2, 60), (3, 20), (4, 5)], 2), (vec![2, 1], 2));
        // An entry that is gone is forgotten.
        assert_eq!(chosen(&mut busiest, &[(1, 40), (3, 20), (5, 9)], 2), (vec![1, 3], 1));
        assert_eq!(busiest.first.len(), 3);
    }
}
