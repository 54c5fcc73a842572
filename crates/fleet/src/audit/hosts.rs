//! The hosts of a fleet in bounded memory. A row is twenty bytes, and every text is stored once.

use evenkeel_host::{State, knobs};
use rustc_hash::FxHashMap;

use super::asked::By;
use super::names::{Name, Names};
use super::observed::{Observed, ObservedRow};

/// The maximum number of rows, summed over all hosts. This many rows take 500 MB. Ten thousand hosts have about two million rows.
const ROWS_MAX: usize = 25_000_000;
/// The maximum number of bytes of texts.
const TEXT_BYTES_MAX: usize = 200_000_000;

/// The hosts that were read, each reduced to its rows.
#[derive(Debug, Default)]
pub struct Hosts {
    names: Names,
    hosts: Vec<Host>,
    rows: usize,
    beyond: usize,
    knobs: FxHashMap<Name, &'static str>,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) file: String,
    traits: Vec<Name>,
    pub(super) rows: Box<[Row]>,
}

/// A knob at one place, or a fact, of one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) id: Name,
    pub(super) state: Option<State>,
    pub(super) value: Option<Name>,
    pub(super) wanted: Option<Name>,
    pub(super) why: Option<Name>,
}

/// The fleet has too many hosts for the memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hosts before it have {ROWS_MAX} findings, which is the limit: name fewer files")]
pub struct Full;

impl Hosts {
    /// Adds a host.
    pub fn add(&mut self, file: String, observed: &Observed) -> Result<(), Full> {
        if self.rows + observed.rows.len() > ROWS_MAX || self.names.bytes() > TEXT_BYTES_MAX {
            return Err(Full);
        }
        let traits = observed.traits.iter().map(|text| self.names.name(text)).collect();
        let rows: Box<[Row]> = observed.rows.iter().map(|row| self.row(row)).collect();
        self.rows += rows.len();
        self.beyond += observed.beyond;
        self.hosts.push(Host { file, traits, rows });
        Ok(())
    }

    fn row(&mut self, row: &ObservedRow) -> Row {
        let id = self.names.name(&row.id);
        if let Some(knob) = row.knob {
            self.knobs.insert(id, knob);
        }
        let mut name = |text: &Option<String>| text.as_deref().map(|text| self.names.name(text));
        Row { id, state: row.state, value: name(&row.value), wanted: name(&row.wanted), why: name(&row.why) }
    }

    /// The number of hosts.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether no host was added.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The number of rows that were dropped because a host has more rows than the limit.
    pub(super) fn beyond(&self) -> usize {
        self.beyond
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter()
    }

    pub(super) fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// The knob of a row; `None` for a fact.
    pub(super) fn knob(&self, id: Name) -> Option<&'static str> {
        self.knobs.get(&id).copied()
    }

    /// The texts of the traits that make groups.
    pub(super) fn traits<'a>(&'a self, host: &Host, by: &[By]) -> Vec<&'a str> {
        let at = |by: &By| By::ALL.iter().position(|one| one == by);
        by.iter().filter_map(|by| Some(self.text(*host.traits.get(at(by)?)?))).collect()
    }

    /// The order of rows: facts, then knobs as `knobs::ALL` has them.
    pub(super) fn order(&self, id: Name) -> (usize, &str) {
        let knob = self.knob(id).and_then(|knob| knobs::ALL.iter().position(|one| one.id == knob));
        (knob.map_or(0, |at| at + 1), self.text(id))
    }
}
