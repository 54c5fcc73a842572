//! Shows a fact in a cell of a table, and the reason if the fact is unknown.

use std::collections::BTreeSet;

use evenkeel_host::Fact;
use evenkeel_sys::CpuSet;

use crate::show::page::{DIM, Page, unknown};

pub(super) fn list_or_none(set: &CpuSet) -> String {
    if set.is_empty() { "none".to_owned() } else { set.to_string() }
}

/// The cell of a fact: `?` if the fact is unknown.
/// Adds the reason to `unknowns`, which the page prints below the table.
pub(super) fn cell<T>(fact: &Fact<T>, show: impl FnOnce(&T) -> String, unknowns: &mut Vec<String>) -> String {
    match fact.known() {
        Some(value) => show(value),
        None => {
            unknowns.push(unknown(fact));
            "?".to_owned()
        }
    }
}

/// Writes why values in the table above are unknown, each reason once.
pub(super) fn notes(page: &mut Page, unknowns: impl Iterator<Item = String>) {
    for why in unknowns.collect::<BTreeSet<_>>() {
        page.row("", DIM, &why);
    }
}
