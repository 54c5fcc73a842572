//! Guards of a rollout.
//! A guard has a number from Prometheus for each node, and compares the nodes that have the goal with those that wait for it.
//!
//! Each query gives one pair: how the released nodes changed since before their release, and how the waiting nodes changed in the same time.
//! An effect on the whole cluster, such as more players in the evening, changes both.
//! The sequential test of `evenkeel-stats` runs after every pair.
//! The error bound of the test assumes a random order, which a rollout does not have. So a node that drifts by itself can halt a rollout.
//! Such a halt is safe.

use std::collections::BTreeMap;

use evenkeel_stats::{Direction, Options, Pair, Sequential, Verdict, median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::is_zero;

/// The maximum number of stored pairs. If there are more, the oldest are dropped.
const PAIRS_MAX: usize = 200;
/// The maximum number of nodes whose number before the release is stored. The medians of a guard need no more.
const NODES_MAX: usize = 400;
/// The maximum size of these numbers for one guard, in bytes of JSON. A goal has up to ten guards, and etcd accepts 1.5 MB for an object.
const BEFORE_BYTES_MAX: usize = 24 << 10;
/// The maximum size of a number in JSON, with what separates it from its node and from the next one.
const NUMBER_BYTES_MAX: usize = 24;

/// A number from Prometheus that must not get worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    /// Its name in messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// A query that returns one number above 0 for each node. Its label `node` or `instance` has the node's name.
    #[schemars(length(min = 1, max = 4000))]
    pub query: String,
    /// The direction in which the number gets worse.
    pub worse: Worse,
}

/// The direction in which a number gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Worse {
    /// A higher number is worse, as with lateness.
    Higher,
    /// A lower number is worse, as with ticks per second.
    Lower,
}

/// The measurements of a guard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardState {
    /// The numbers of nodes before anything was released: of the canaries first, then of nodes that are spread evenly over the others by name.
    /// A choice by their numbers would change the comparison, because an unusual number is usually followed by a more usual one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub before: BTreeMap<String, f64>,
    /// How many nodes with a number are left out of `before`, because an object of a cluster has a maximum size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
    /// Pairs of ratios to the numbers before: the median of the waiting nodes, then the median of the released nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<[f64; 2]>,
}

/// The result of a guard.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardLook {
    /// No harm was detected so far.
    Well {
        /// The number of pairs so far.
        pairs: usize,
    },
    /// The number got worse by more than the smallest effect that matters.
    Worse {
        /// How much worse it got, in words.
        why: String,
    },
    /// The guard cannot compare: a number from before the release is missing, or a number of a released node.
    NoNumbers,
}

impl GuardState {
    /// Stores the numbers before the first release. `canaries` are the nodes of the first wave. Pairs of an earlier release, which was undone,
    /// do not count any more.
    pub fn note_before(&mut self, numbers: &BTreeMap<String, f64>, canaries: &[&str]) {
        self.pairs.clear();
        let usable = numbers.iter().filter(|(_, number)| number.is_finite() && **number > 0.0);
        let (mut kept, rest): (Vec<_>, Vec<_>) = usable.partition(|(node, _)| canaries.contains(&node.as_str()));
        let all = kept.len() + rest.len();
        let longest = kept.iter().chain(&rest).map(|(node, _)| node.len()).max().unwrap_or_default();
        let max = NODES_MAX.min(BEFORE_BYTES_MAX / (longest + NUMBER_BYTES_MAX));
        // Nodes that wait are the other half of each comparison.
        kept.truncate(max / 2);
        let more = (max - kept.len()).min(rest.len());
        kept.extend((0..more).map(|index| rest[index * rest.len() / more]));
        self.left_out = u32::try_from(all - kept.len()).unwrap_or(u32::MAX);
        self.before = kept.into_iter().map(|(node, number)| (node.clone(), rounded(*number))).collect();
    }

    /// Adds the numbers of one query, and returns the result of the guard.
    pub fn look(
        &mut self,
        numbers: &BTreeMap<String, f64>,
        is_released: impl Fn(&str) -> bool,
        worse: Worse,
    ) -> GuardLook {
        let (mut waiting, mut released) = (Vec::new(), Vec::new());
        for (node, before) in &self.before {
            let now = numbers.get(node).copied().filter(|now| now.is_finite() && *now > 0.0);
            let Some(now) = now else { continue };
            if is_released(node) { &mut released } else { &mut waiting }.push(now / before);
        }
        let Some(b) = median(&released) else { return GuardLook::NoNumbers };
        // After the last wave no node waits, so compare only with the time before the release.
        let a = median(&waiting).unwrap_or(1.0);
        self.pairs.push([rounded(a), rounded(b)]);
        let surplus = self.pairs.len().saturating_sub(PAIRS_MAX);
        self.pairs.drain(..surplus);
        self.judge(worse)
    }

    fn judge(&self, worse: Worse) -> GuardLook {
        let better = match worse {
            Worse::Higher => Direction::Lower,
            Worse::Lower => Direction::Higher,
        };
        let Ok(mut test) = Sequential::new(Options { confidence: 0.99, ..Options::new(better) }) else {
            return GuardLook::NoNumbers;
        };
        for &[a, b] in &self.pairs {
            // Skip an invalid pair: somebody may have edited the status.
            if test.add(Pair { a, b }).is_ok() && test.verdict() == Verdict::Worse {
                let look = test.look();
                let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                let (low, high) = (percent(look.low), percent(look.high));
                let pairs = test.pairs();
                return GuardLook::Worse { why: format!("changed by {low:+.0} to {high:+.0} % in {pairs} looks") };
            }
        }
        GuardLook::Well { pairs: test.pairs() }
    }
}

/// The number with six significant digits, which takes a third of the space of all digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
        pairs.iter().map(|(node, number)| ((*node).to_owned(), *number)).collect()
    }

    /// The first look at which the guard finds harm. Of four nodes only `a` has the goal.
    /// `effect` multiplies the number of `a`; the load of the evening multiplies the numbers of all nodes.
    fn looks(effect: f64, worse: Worse) -> Option<usize> {
        let mut guard = GuardState::default();
        guard.note_before(&numbers(&[("a", 100.0), ("b", 80.0), ("c", 120.0), ("d", 100.0)]), &["a"]);
        (1..=100)
            .find(|look| {
                let evening = 1.0 + f64::from(*look) / 50.0;
                let wobble = 1.0 + 0.01 * f64::from(look % 5);
                let now = numbers(&[
                    ("a", 100.0 * evening * effect * wobble),
                    ("b", 80.0 * evening),
                    ("c", 120.0 * evening / wobble),
                    ("d", 100.0 * evening),
                ]);
                matches!(guard.look(&now, |node| node == "a", worse), GuardLook::Worse { .. })
            })
            .map(|look| look as usize)
    }

    #[test]
    fn what_moves_the_whole_cluster_is_no_harm_and_a_worse_node_is() {
        assert_eq!(looks(1.0, Worse::Higher), None);
        let seen = looks(1.5, Worse::Higher).unwrap();
        assert!((5..40).contains(&seen), "{seen}");
        assert_eq!(looks(1.5, Worse::Lower), None, "more is better here");
        assert!(looks(0.5, Worse::Lower).is_some());
    }

    #[test]
    fn a_query_without_numbers_is_blind_and_hostile_numbers_do_no_harm() {
        let mut guard = GuardState::default();
        assert_eq!(guard.look(&numbers(&[("a", 1.0)]), |_| true, Worse::Higher), GuardLook::NoNumbers);
        guard.pairs = vec![[1.0, 2.0]];
        guard.note_before(&numbers(&[("a", f64::NAN), ("b", 0.0), ("c", -1.0), ("d", 2.0)]), &["a"]);
        assert_eq!((guard.before.len(), guard.pairs.len()), (1, 0), "pairs of an undone release are left");
        assert_eq!(guard.look(&numbers(&[("d", f64::INFINITY)]), |_| true, Worse::Higher), GuardLook::NoNumbers);
        guard.pairs = vec![[f64::NAN, 1.0], [0.0, -1.0]];
        assert!(matches!(guard.look(&numbers(&[("d", 2.0)]), |_| true, Worse::Higher), GuardLook::Well { .. }));
        for _ in 0..1_000 {
            guard.look(&numbers(&[("d", 2.0)]), |_| true, Worse::Higher);
        }
        assert_eq!(guard.pairs.len(), PAIRS_MAX);
    }
    #[test]
    fn ten_guards_over_many_nodes_fit_into_an_object_and_canaries_are_kept_first() {
        for (nodes, name_bytes) in [(2_000, 40), (10_000, 253), (300, 40), (5, 253)] {
            let name = |i: usize| format!("{i:0>name_bytes$}");
            let numbers: BTreeMap<String, f64> = (0..nodes).map(|i| (name(i), 1.0 / 3.0 + i as f64 * 1e9)).collect();
            // The last ones by name are the canaries.
            let canaries = [name(nodes - 1), name(nodes - 2)];
            let canaries = canaries.each_ref().map(String::as_str);
            let mut guard = GuardState::default();
            guard.note_before(&numbers, &canaries);
            for _ in 0..2 * PAIRS_MAX {
                guard.look(&numbers, |node| canaries.contains(&node), Worse::Higher);
            }
            assert!(canaries.iter().all(|canary| guard.before.contains_key(*canary)), "{nodes}");
            assert_eq!(guard.before.len() + guard.left_out as usize, nodes);
            assert_eq!(guard.left_out == 0, nodes < NODES_MAX, "{nodes}");
            let bytes = serde_json::to_string(&guard).unwrap().len();
            assert!(bytes < 40_000, "{bytes} bytes for {nodes} nodes");
            // Every part of the cluster is in the comparison.
            let middle = guard.before.keys().filter(|node| **node < name(nodes / 2)).count();
            assert!(middle.abs_diff(guard.before.len() / 2) <= 2, "{middle} of {}", guard.before.len());
        }
    }
}
