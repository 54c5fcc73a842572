//! Groups hosts, and finds the value and the advice that most hosts of a group share.
//! A value is the group's if at least two hosts have it, and more than half of the hosts with a known value.
//! If all values differ, even the most frequent value says nothing about the other hosts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use evenkeel_host::State;
use rustc_hash::FxHashMap;

use super::asked::By;
use super::hosts::{Host, Hosts, Row};
use super::names::Name;

/// The hosts of one group.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) traits: Vec<&'a str>,
    pub(super) hosts: Vec<&'a Host>,
}

/// The groups, the largest first.
pub(super) fn groups<'a>(hosts: &'a Hosts, by: &[By]) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<Vec<&str>, Vec<&Host>> = BTreeMap::new();
    for host in hosts.iter() {
        groups.entry(hosts.traits(host, by)).or_default().push(host);
    }
    let mut groups: Vec<Group> = groups.into_iter().map(|(traits, hosts)| Group { traits, hosts }).collect();
    groups.sort_by_key(|group| Reverse(group.hosts.len()));
    groups
}

/// The advice: the state, and the value to set, if any.
pub(super) type AdviceKey = (State, Option<Name>);

/// One row of a group.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Hosts that have the row.
    pub(super) hosts: usize,
    pub(super) states: BTreeMap<State, usize>,
    pub(super) values: FxHashMap<Name, usize>,
    advice: BTreeMap<AdviceKey, usize>,
    /// Hosts by the reason why the value or the advice is unknown.
    pub(super) unknown: FxHashMap<Name, usize>,
    /// The value that most hosts have, if most hosts have the same value.
    pub(super) value: Option<Name>,
    /// The advice for most hosts, if most hosts have the same advice.
    pub(super) advised: Option<AdviceKey>,
}

/// The rows of a group, by their names.
pub(super) fn tallies(group: &Group) -> FxHashMap<Name, Tally> {
    let mut tallies: FxHashMap<Name, Tally> = FxHashMap::default();
    for row in group.hosts.iter().flat_map(|host| host.rows.iter()) {
        tallies.entry(row.id).or_default().add(row);
    }
    for tally in tallies.values_mut() {
        tally.value = majority(&tally.values);
        tally.advised = majority(&tally.advice);
    }
    tallies
}

impl Tally {
    fn add(&mut self, row: &Row) {
        self.hosts += 1;
        if let Some(state) = row.state {
            *self.states.entry(state).or_default() += 1;
        }
        if let Some(value) = row.value {
            *self.values.entry(value).or_default() += 1;
        }
        if let Some(advice) = advice(row) {
            *self.advice.entry(advice).or_default() += 1;
        }
        if let Some(why) = row.why {
            *self.unknown.entry(why).or_default() += 1;
        }
    }

    /// Whether a host of the group differs from most hosts. An unknown value does not count as different.
    pub(super) fn differs(&self, row: &Row) -> bool {
        let differs_in_value = self.value.is_some() && row.value.is_some() && row.value != self.value;
        let advice = advice(row);
        let differs_in_advice = self.advised.is_some() && advice.is_some() && advice != self.advised;
        differs_in_value || differs_in_advice
    }

    /// Whether hosts have different values, and no value belongs to more than half of them.
    pub(super) fn is_mixed(&self) -> bool {
        self.value.is_none() && self.values.len() > 1
    }

    /// The values, the most frequent first.
    pub(super) fn values_by_count<'a>(&self, hosts: &'a Hosts) -> Vec<(&'a str, usize)> {
        by_count(&self.values, hosts)
    }

    pub(super) fn unknown_by_count<'a>(&self, hosts: &'a Hosts) -> Vec<(&'a str, usize)> {
        by_count(&self.unknown, hosts)
    }
}

/// The advice on a row. `None` for a fact, or if too little is known for advice.
fn advice(row: &Row) -> Option<AdviceKey> {
    row.state.filter(|state| *state != State::Unknown).map(|state| (state, row.wanted))
}

/// The entry that more than half of the hosts have. At least two hosts must have it.
fn majority<'a, K: Copy + 'a>(counts: impl IntoIterator<Item = (&'a K, &'a usize)> + Clone) -> Option<K> {
    let all: usize = counts.clone().into_iter().map(|(_, count)| count).sum();
    counts.into_iter().find(|(_, count)| **count * 2 > all && **count > 1).map(|(key, _)| *key)
}

fn by_count<'a>(counts: &FxHashMap<Name, usize>, hosts: &'a Hosts) -> Vec<(&'a str, usize)> {
    let mut counts: Vec<(&str, usize)> = counts.iter().map(|(name, count)| (hosts.text(*name), *count)).collect();
    counts.sort_by_key(|(text, count)| (Reverse(*count), *text));
    counts
}

/// The rows of some groups in the order in which they are shown.
pub(super) fn ids<'a>(hosts: &Hosts, tallies: impl Iterator<Item = &'a FxHashMap<Name, Tally>>) -> Vec<Name> {
    let mut ids: Vec<Name> = tallies.flat_map(|tallies| tallies.keys().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.sort_by_cached_key(|id| hosts.order(*id));
    ids
}
