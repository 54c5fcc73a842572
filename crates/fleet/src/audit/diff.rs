//! Finds the outliers of each group: the hosts whose values or advice differ from those of most hosts.

use serde::Serialize;

use super::answer::{Trait, Unread, ValueCount, counted, counts, group_traits, shared_caveats};
use super::asked::By;
use super::difference::{Difference, GroupContext};
use super::hosts::Hosts;
use super::tally::{Group, groups, ids, tallies};

/// The maximum number of differences that the answer lists.
const DIFFERENCES_MAX: usize = 200_000;
/// The maximum number of differences of one host that the answer lists.
const OF_HOST_MAX: usize = 200;
/// The maximum number of values that the answer lists for a row without a usual value.
const VALUES_MAX: usize = 16;

/// The hosts that differ from their groups.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetDiff {
    /// The traits that make a group.
    pub by: Vec<By>,
    /// The number of hosts in all groups.
    pub hosts: usize,
    /// Hosts that differ from their group.
    pub differing: usize,
    /// The groups, the largest first.
    pub groups: Vec<GroupDiff>,
    /// Differences that are not listed.
    pub beyond: usize,
    /// Files that are not captures.
    pub unread: Vec<Unread>,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// A group, and the hosts that differ in it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupDiff {
    /// The group's number, from 1.
    pub group: usize,
    /// The traits that the group's hosts share.
    pub traits: Vec<Trait>,
    /// The number of the group's hosts.
    pub hosts: usize,
    /// The hosts that differ, by name.
    pub differing: Vec<HostDiff>,
    /// Rows without a value that most hosts share, so no host counts as differing.
    pub mixed: Vec<Mixed>,
}

/// A host that differs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostDiff {
    /// The host's file.
    pub host: String,
    /// The rows in which the host differs.
    pub differences: Vec<RowDiff>,
    /// The number of further differences of this host, which are not listed.
    pub beyond: usize,
}

/// A difference.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowDiff {
    /// The name of the finding, as `audit` prints it, or of the fact.
    pub id: String,
    /// The knob; a fact has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knob: Option<&'static str>,
    /// What differs.
    #[serde(flatten)]
    pub difference: Difference,
}

/// A row in which no value belongs to most hosts of the group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mixed {
    /// The name of the finding, or of the fact.
    pub id: String,
    /// Hosts by value, the most frequent first.
    pub values: Vec<ValueCount>,
    /// Values that are not listed.
    pub values_beyond: usize,
}

impl FleetDiff {
    /// Compares the hosts of each group.
    pub fn new(hosts: &Hosts, by: &[By], unread: Vec<Unread>) -> FleetDiff {
        let caveats = shared_caveats(hosts, by, &unread);
        let mut room = DIFFERENCES_MAX;
        let (mut diffs, mut beyond, mut alone) = (Vec::new(), 0, 0);
        for (at, group) in groups(hosts, by).iter().enumerate() {
            alone += usize::from(group.hosts.len() == 1);
            let diff = group_diff(hosts, at, group, by, &mut room);
            beyond += diff.differing.iter().map(|host| host.beyond).sum::<usize>();
            diffs.push(diff);
        }
        let differing = diffs.iter().map(|group| group.differing.len()).sum();
        let mut diff =
            FleetDiff { by: by.to_vec(), hosts: hosts.len(), differing, groups: diffs, beyond, unread, caveats };
        if alone > 0 {
            diff.caveats.push(format!(
                "{} without another in the group: use fewer traits (--by) to compare",
                counted(alone, "host")
            ));
        }
        diff
    }
}

fn group_diff(hosts: &Hosts, at: usize, group: &Group, by: &[By], room: &mut usize) -> GroupDiff {
    let tallies = tallies(group);
    let mut differing = Vec::new();
    for host in &group.hosts {
        let mut own = HostDiff { host: host.file.clone(), differences: Vec::new(), beyond: 0 };
        for row in &host.rows {
            let Some(tally) = tallies.get(&row.id).filter(|tally| tally.differs(row)) else { continue };
            if *room == 0 || own.differences.len() == OF_HOST_MAX {
                own.beyond += 1;
                continue;
            }
            *room -= 1;
            let difference = GroupContext { hosts, tally }.difference(row);
            own.differences.push(RowDiff { id: hosts.text(row.id).to_owned(), knob: hosts.knob(row.id), difference });
        }
        if !own.differences.is_empty() || own.beyond > 0 {
            differing.push(own);
        }
    }
    let mixed = ids(hosts, [&tallies].into_iter()).into_iter().filter_map(|id| {
        let tally = tallies.get(&id).filter(|tally| tally.is_mixed())?;
        let (values, values_beyond) = counts(tally.values_by_count(hosts), VALUES_MAX);
        Some(Mixed { id: hosts.text(id).to_owned(), values, values_beyond })
    });
    let mixed = mixed.collect();
    GroupDiff { group: at + 1, traits: group_traits(group, by), hosts: group.hosts.len(), differing, mixed }
}
