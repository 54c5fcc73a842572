//! The common parts of the answers about a fleet: traits, files that were not read, values with counts, caveats.

use serde::Serialize;

use super::asked::By;
use super::hosts::Hosts;
use super::tally::Group;

/// A trait that the hosts of a group share, with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trait {
    /// The name of the trait.
    pub name: By,
    /// The value of the trait, or `unknown …`.
    pub value: String,
}

/// A file that is not a capture, or could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The file.
    pub file: String,
    /// Why the file was not read.
    pub why: String,
}

/// A text with the number of hosts that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValueCount {
    /// The value, or the reason why it is unknown.
    pub value: String,
    /// The number of hosts.
    pub hosts: usize,
}

/// The first `most` entries, and the number of the others.
pub(super) fn counts(of: Vec<(&str, usize)>, most: usize) -> (Vec<ValueCount>, usize) {
    let beyond = of.len().saturating_sub(most);
    let listed = of.into_iter().take(most).map(|(value, hosts)| ValueCount { value: value.to_owned(), hosts });
    (listed.collect(), beyond)
}

pub(super) fn group_traits(group: &Group, by: &[By]) -> Vec<Trait> {
    by.iter().zip(&group.traits).map(|(name, value)| Trait { name: *name, value: (*value).to_owned() }).collect()
}

pub(super) fn shared_caveats(hosts: &Hosts, by: &[By], unread: &[Unread]) -> Vec<String> {
    let mut caveats = Vec::new();
    if !unread.is_empty() {
        caveats.push(format!("this answer is without {} that could not be read", counted(unread.len(), "file")));
    }
    if hosts.beyond() > 0 {
        caveats.push(format!("{} on hosts with very many places are not compared", counted(hosts.beyond(), "finding")));
    }
    for by in by {
        let unknown = format!("unknown {}", by.noun());
        let count = hosts.iter().filter(|host| hosts.traits(host, &[*by]) == [unknown.as_str()]).count();
        if count > 0 {
            let noun = by.noun();
            caveats.push(format!(
                "the {noun} of {} is unknown: different kinds may be in one group",
                counted(count, "host")
            ));
        }
    }
    caveats
}

/// `1 host`, `2 hosts`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
