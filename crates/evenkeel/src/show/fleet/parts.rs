//! The parts that the pages of `fleet audit` and `fleet diff` share.

use evenkeel_fleet::audit::{By, Difference, Trait, Unread, ValueCount};
use evenkeel_host::State;

use crate::view::{Block, Text};

/// The maximum number of unread files on a page. The JSON answer has all files.
const UNREAD_MAX: usize = 20;

/// The traits of a group, such as `c5n.xlarge, Linux 6.1, AMD EPYC`.
pub(super) fn traits(traits: &[Trait]) -> String {
    traits.iter().map(|one| one.value.as_str()).collect::<Vec<_>>().join(", ")
}

pub(super) fn by(by: &[By]) -> String {
    if by == [By::None] {
        return "no trait".to_owned();
    }
    by.iter().map(|by| by.noun()).collect::<Vec<_>>().join(", ")
}

/// `1 host`, `2 hosts`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A difference, such as `always (set to madvise); the group: madvise (keep)`.
pub(super) fn difference(of: &Difference) -> String {
    let differs_in_advice = of.state != of.usual_state || of.wanted != of.usual_wanted;
    let said = |value: &Option<String>, state: Option<State>, wanted: &Option<String>| {
        let advice = state.filter(|_| differs_in_advice).map(|state| advice(state, wanted.as_deref()));
        let value = value.as_deref().map(shown);
        match (value, advice) {
            (Some(value), Some(advice)) => format!("{value} ({advice})"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => "no usual value".to_owned(),
        }
    };
    let own = said(&of.value, of.state, &of.wanted);
    let usual = said(&of.usual, of.usual_state, &of.usual_wanted);
    format!("{own}; the group: {usual}")
}

/// The name of a row: the name of a knob is code, the name of a fact is plain text.
pub(super) fn row_name(id: &str) -> Text {
    if id.contains(' ') { Text::from(id.to_owned()) } else { Text::code(id) }
}

fn advice(state: State, wanted: Option<&str>) -> String {
    match wanted {
        Some(wanted) => format!("{} to {}", state.name(), shown(wanted)),
        None => state.name().to_owned(),
    }
}

/// Values with their hosts, such as `a on 3 hosts, b on 2 hosts`.
pub(super) fn values(values: &[ValueCount], beyond: usize) -> String {
    let mut said: Vec<String> =
        values.iter().map(|one| format!("{} on {}", shown(&one.value), counted(one.hosts, "host"))).collect();
    if beyond > 0 {
        said.push(format!("{beyond} more values"));
    }
    said.join(", ")
}

fn shown(value: &str) -> String {
    if value.is_empty() { "empty".to_owned() } else { value.to_owned() }
}

/// Warnings about the unread files, and the caveats.
pub(super) fn limits(unread: &[Unread], caveats: &[String]) -> Vec<Block> {
    let mut warnings: Vec<Block> = unread
        .iter()
        .take(UNREAD_MAX)
        .map(|one| Block::Warning(format!("not read: {}: {}", one.file, one.why)))
        .collect();
    if unread.len() > UNREAD_MAX {
        warnings.push(Block::Warning(format!("not read: {} more; JSON lists them", unread.len() - UNREAD_MAX)));
    }
    warnings.push(Block::caveats(caveats));
    warnings
}
