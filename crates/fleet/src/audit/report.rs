//! The audit of a fleet: findings by level, the states of each knob in each group, and the hosts that differ from their group.

use std::collections::BTreeMap;

use evenkeel_host::{AdviceContext, State, knobs};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::answer::{Trait, Unread, ValueCount, counted, counts, group_traits, shared_caveats};
use super::asked::By;
use super::difference::{Difference, GroupContext};
use super::hosts::{Host, Hosts};
use super::names::Name;
use super::tally::{Group, Tally, groups, ids, tallies};

/// The maximum number of groups that the answer describes.
const GROUPS_MAX: usize = 200;
/// The maximum number of values that the answer lists for a row in a group.
const VALUES_MAX: usize = 16;
/// The maximum number of outliers that the answer lists for a row in a group.
const OUTLIERS_MAX: usize = 50;

/// The audit of many hosts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetAudit {
    /// The traits that make a group.
    pub by: Vec<By>,
    /// The goal of the advice, and what the user says about the server.
    #[serde(flatten)]
    pub context: AdviceContext,
    /// The number of hosts.
    pub hosts: usize,
    /// Findings by level, the most urgent first.
    pub levels: Vec<LevelCount>,
    /// The groups, the largest first.
    pub groups: Vec<GroupSummary>,
    /// Groups that are not listed.
    pub groups_beyond: usize,
    /// Each knob, with its states in each group. A host counts once, under the most urgent state of the knob's places.
    pub knobs: Vec<KnobStates>,
    /// Each knob at each place, and each fact that is compared, with its values in each group.
    pub rows: Vec<RowSummary>,
    /// Files that are not captures.
    pub unread: Vec<Unread>,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// The findings of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelCount {
    /// The level of the findings.
    pub state: State,
    /// Findings on all hosts together.
    pub findings: usize,
    /// Hosts with at least one finding at this level.
    pub hosts: usize,
}

/// A group of hosts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupSummary {
    /// The group's number, from 1.
    pub group: usize,
    /// The traits that the group's hosts share.
    pub traits: Vec<Trait>,
    /// The files of the group's hosts.
    pub hosts: Vec<String>,
    /// Findings by level.
    pub levels: Vec<LevelCount>,
    /// Hosts that differ from the group in a value or in advice.
    pub differing: usize,
}

/// A knob in each group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobStates {
    /// The knob's id.
    pub knob: &'static str,
    /// The states of the knob, for each group that has it.
    pub groups: Vec<GroupStates>,
}

/// The states of a knob in one group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupStates {
    /// The group's number.
    pub group: usize,
    /// Hosts by state.
    pub states: Vec<StateCount>,
}

/// Hosts in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateCount {
    /// The state.
    pub state: State,
    /// The number of hosts.
    pub hosts: usize,
}

/// A knob at one place, or a fact, in each group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowSummary {
    /// The name of the finding, as `audit` prints it, or of the fact.
    pub id: String,
    /// The knob; a fact has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knob: Option<&'static str>,
    /// The groups that have this row.
    pub groups: Vec<RowInGroup>,
}

/// A row in one group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowInGroup {
    /// The group's number.
    pub group: usize,
    /// Hosts that have this row.
    pub hosts: usize,
    /// Hosts by state; empty for a fact.
    pub states: Vec<StateCount>,
    /// Hosts by value, the most frequent first.
    pub values: Vec<ValueCount>,
    /// Values that are not listed.
    pub values_beyond: usize,
    /// The value of more than half of the hosts whose value is known. At least two hosts have it; otherwise there is no usual value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<String>,
    /// Hosts by the reason why the value or the advice is unknown.
    pub unknown: Vec<ValueCount>,
    /// Hosts whose value or advice differs from that of most hosts.
    pub outliers: Vec<Outlier>,
    /// Outliers that are not listed.
    pub outliers_beyond: usize,
}

/// A host that differs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outlier {
    /// The host's file.
    pub host: String,
    /// What differs.
    #[serde(flatten)]
    pub difference: Difference,
}

impl FleetAudit {
    /// Compares the hosts, and counts the advice.
    pub fn new(hosts: &Hosts, by: &[By], context: AdviceContext, unread: Vec<Unread>) -> FleetAudit {
        let all = groups(hosts, by);
        let groups_beyond = all.len().saturating_sub(GROUPS_MAX);
        let listed = &all[..all.len() - groups_beyond];
        let mut tallied: Vec<Tallied> = listed.iter().map(|group| Tallied::new(hosts, group)).collect();
        let mut caveats = shared_caveats(hosts, by, &unread);
        if groups_beyond > 0 {
            caveats.push(format!(
                "the answer leaves out {}, the smallest: use fewer traits (--by)",
                counted(groups_beyond, "group")
            ));
        }
        let summaries = listed.iter().zip(&tallied).enumerate().map(|(at, (group, tallied))| GroupSummary {
            group: at + 1,
            traits: group_traits(group, by),
            hosts: group.hosts.iter().map(|host| host.file.clone()).collect(),
            levels: levels(group.hosts.iter().copied()),
            differing: tallied.differing,
        });
        let groups = summaries.collect();
        let ids = ids(hosts, tallied.iter().map(|tallied| &tallied.rows));
        let rows = ids.into_iter().map(|id| RowSummary {
            id: hosts.text(id).to_owned(),
            knob: hosts.knob(id),
            groups: row_in_groups(hosts, id, &mut tallied),
        });
        let rows = rows.collect();
        FleetAudit {
            by: by.to_vec(),
            context,
            hosts: hosts.len(),
            levels: levels(hosts.iter()),
            groups,
            groups_beyond,
            knobs: knob_states(hosts, listed),
            rows,
            unread,
            caveats,
        }
    }

    /// The number of findings at this level or at a more urgent level.
    pub fn findings_at(&self, level: State) -> usize {
        self.levels.iter().filter(|one| one.state <= level).map(|one| one.findings).sum()
    }
}

fn levels<'a>(hosts: impl Iterator<Item = &'a Host>) -> Vec<LevelCount> {
    let mut levels: BTreeMap<State, (usize, usize)> = BTreeMap::new();
    for host in hosts {
        let mut own: BTreeMap<State, usize> = BTreeMap::new();
        for state in host.rows.iter().filter_map(|row| row.state) {
            *own.entry(state).or_default() += 1;
        }
        for (state, count) in own {
            let level = levels.entry(state).or_default();
            *level = (level.0 + count, level.1 + 1);
        }
    }
    levels.into_iter().map(|(state, (findings, hosts))| LevelCount { state, findings, hosts }).collect()
}

/// The matrix: knobs and groups.
fn knob_states(hosts: &Hosts, groups: &[Group]) -> Vec<KnobStates> {
    let counted: Vec<FxHashMap<&str, BTreeMap<State, usize>>> =
        groups.iter().map(|group| states(hosts, group)).collect();
    let knob_states = knobs::ALL.iter().map(|knob| {
        let groups = counted.iter().enumerate().filter_map(|(at, counted)| {
            Some(GroupStates { group: at + 1, states: state_counts(counted.get(knob.id)?) })
        });
        KnobStates { knob: knob.id, groups: groups.collect() }
    });
    knob_states.filter(|knob| !knob.groups.is_empty()).collect()
}

fn states(hosts: &Hosts, group: &Group) -> FxHashMap<&'static str, BTreeMap<State, usize>> {
    let mut counted: FxHashMap<&str, BTreeMap<State, usize>> = FxHashMap::default();
    for host in &group.hosts {
        let mut most_urgent: FxHashMap<&str, State> = FxHashMap::default();
        for row in &host.rows {
            if let (Some(knob), Some(state)) = (hosts.knob(row.id), row.state) {
                let own = most_urgent.entry(knob).or_insert(state);
                *own = state.min(*own);
            }
        }
        for (knob, state) in most_urgent {
            *counted.entry(knob).or_default().entry(state).or_default() += 1;
        }
    }
    counted
}

fn state_counts(states: &BTreeMap<State, usize>) -> Vec<StateCount> {
    states.iter().map(|(state, hosts)| StateCount { state: *state, hosts: *hosts }).collect()
}

fn row_in_groups(hosts: &Hosts, id: Name, tallied: &mut [Tallied]) -> Vec<RowInGroup> {
    let in_group = |(at, tallied): (usize, &mut Tallied)| {
        let tally = tallied.rows.get(&id)?;
        let (values, values_beyond) = counts(tally.values_by_count(hosts), VALUES_MAX);
        let (outliers, outliers_beyond) = tallied.outliers.remove(&id).unwrap_or_default();
        Some(RowInGroup {
            group: at + 1,
            hosts: tally.hosts,
            states: state_counts(&tally.states),
            values,
            values_beyond,
            usual: tally.value.map(|value| hosts.text(value).to_owned()),
            unknown: counts(tally.unknown_by_count(hosts), VALUES_MAX).0,
            outliers,
            outliers_beyond,
        })
    };
    tallied.iter_mut().enumerate().filter_map(in_group).collect()
}

/// The results for the rows of a group.
struct Tallied {
    rows: FxHashMap<Name, Tally>,
    /// For each row, the outliers that are listed, and the number of further ones.
    outliers: FxHashMap<Name, (Vec<Outlier>, usize)>,
    /// Hosts that are outliers in at least one row.
    differing: usize,
}

impl Tallied {
    fn new(hosts: &Hosts, group: &Group) -> Tallied {
        let rows = tallies(group);
        let mut outliers: FxHashMap<Name, (Vec<Outlier>, usize)> = FxHashMap::default();
        let mut differing = 0;
        for host in &group.hosts {
            let mut is_different = false;
            for row in &host.rows {
                let Some(tally) = rows.get(&row.id).filter(|tally| tally.differs(row)) else { continue };
                is_different = true;
                let (listed, beyond) = outliers.entry(row.id).or_default();
                if listed.len() < OUTLIERS_MAX {
                    let difference = GroupContext { hosts, tally }.difference(row);
                    listed.push(Outlier { host: host.file.clone(), difference });
                } else {
                    *beyond += 1;
                }
            }
            differing += usize::from(is_different);
        }
        Tallied { rows, outliers, differing }
    }
}
