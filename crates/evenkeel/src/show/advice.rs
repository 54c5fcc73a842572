//! The page of `audit`: what to act on first, each finding with its reason and the commands that prove and apply it.

use anstyle::Style;
use evenkeel_host::{Advice, Goal, Place, State, TakesEffect, knobs};

use crate::show::page::{BAD, DIM, GOOD, HEADING, Indent, PLAIN, Page, WARN};

/// Where the text of a finding begins.
const TEXT_COLUMN: usize = 10;

pub(crate) fn page(goal: Goal, advice: &[Advice]) -> String {
    let mut page = Page::default();
    page.heading(&format!("Advice for {goal}: {}", counts(advice)));
    for group in groups(advice) {
        finding(&mut page, &group);
        if group[0].state == State::Set {
            for command in commands(&group, advice) {
                page.line(PLAIN, &format!("{:TEXT_COLUMN$}{command}", ""));
            }
        }
    }
    page.finish()
}

/// State, knob, places and values on one line; the reason below.
pub(crate) fn finding(page: &mut Page, group: &[&Advice]) {
    let first = group[0];
    let places: Vec<&str> =
        group.iter().map(|advice| advice.place.as_str()).filter(|_| has_places(first.knob)).collect();
    let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
    let values = match (first.current.as_deref().map(value), first.wanted.as_deref().map(value)) {
        (Some(current), Some(wanted)) if current != wanted => format!(": {current} -> {wanted}"),
        (Some(current), _) => format!(": {current}"),
        (None, Some(wanted)) => format!(": ? -> {wanted}"),
        (None, None) => String::new(),
    };
    let state = format!("{:TEXT_COLUMN$}", name(first.state));
    page.parts(&[(style(first.state), &state), (HEADING, first.knob), (PLAIN, &values)]);
    if !at.is_empty() {
        page.paragraph(Indent::all(TEXT_COLUMN), PLAIN, at.trim());
    }
    let when = match (first.state, first.takes_effect) {
        (State::Set, TakesEffect::NewSockets) => ". It takes effect for sockets created afterwards",
        (State::Set, TakesEffect::NewInterfaces) => ". It takes effect for interfaces brought up afterwards",
        (State::Set, TakesEffect::ProcessStart) => ". It takes effect when the server starts",
        (State::Set, TakesEffect::Reboot) => ". It takes effect after a reboot",
        _ => "",
    };
    page.paragraph(Indent::all(TEXT_COLUMN), DIM, &format!("{}{when}", first.reason));
    if first.state == State::Set {
        page.paragraph(Indent::all(TEXT_COLUMN), DIM, &format!("risk: {}", first.risk));
    }
}

/// Neighbours that differ in their place alone are one finding to a reader.
pub(crate) fn groups(advice: &[Advice]) -> Vec<Vec<&Advice>> {
    let mut groups: Vec<Vec<&Advice>> = Vec::new();
    for advice in advice {
        match groups.last_mut() {
            Some(group) if is_alike(group[0], advice) => group.push(advice),
            _ => groups.push(vec![advice]),
        }
    }
    groups
}

fn is_alike(one: &Advice, other: &Advice) -> bool {
    (one.knob, one.state, &one.current, &one.wanted, &one.reason)
        == (other.knob, other.state, &other.current, &other.wanted, &other.reason)
}

/// The commands that prove and apply a group: one setting if it is all that there is of the knob, else one a place.
fn commands(group: &[&Advice], all: &[Advice]) -> Vec<String> {
    let id = group[0].knob;
    let is_all = all.iter().filter(|advice| advice.knob == id).count() == group.len();
    let setting = |advice: &Advice| {
        let value = advice.wanted.as_deref()?;
        let setting = if is_all { format!("{id}={value}") } else { format!("{id}@{}={value}", advice.place) };
        // Of all that a value may hold, only the space between several numbers means something to a shell.
        Some(if setting.contains(' ') { format!("'{setting}'") } else { setting })
    };
    let mut settings: Vec<String> = group.iter().filter_map(|advice| setting(advice)).collect();
    settings.dedup();
    let verbs: &[&str] = match knobs::find(id).map(|knob| knob.place) {
        // It lasts as long as a process: that of the trial.
        Ok(Place::Held { .. } | Place::Process) => &["prove"],
        // A trial does not restart the machine.
        Ok(Place::KernelArgument { .. }) => &["apply"],
        Ok(Place::ByHand { .. } | Place::ByHandEach { .. }) => &[],
        _ => &["prove", "apply"],
    };
    settings.iter().flat_map(|setting| verbs.iter().map(move |verb| format!("evenkeel {verb} {setting}"))).collect()
}

/// Whether a knob is set at several places; the place of any other goes without saying.
pub(crate) fn has_places(knob: &str) -> bool {
    knobs::find(knob)
        .is_ok_and(|knob| matches!(knob.place, Place::Each { .. } | Place::EachNetworkIrq | Place::ByHandEach { .. }))
}

/// A value where nothing would be overlooked.
pub(crate) fn value(value: &str) -> &str {
    if value.is_empty() { "empty" } else { value }
}

/// The state as it is in JSON.
pub(crate) fn name(state: State) -> &'static str {
    match state {
        State::Set => "set",
        State::OwnedBy => "owned-by",
        State::Blocked => "blocked",
        State::Unknown => "unknown",
        State::Keep => "keep",
        State::NotHere => "not-here",
        State::Removed => "removed",
    }
}

fn style(state: State) -> Style {
    match state {
        State::Set => WARN,
        State::OwnedBy | State::Blocked => BAD,
        State::Keep => GOOD,
        State::Unknown | State::NotHere | State::Removed => DIM,
    }
}

/// `2 set, 5 keep`, in the order of the page.
fn counts(advice: &[Advice]) -> String {
    let groups = groups(advice);
    let states = groups.iter().map(|group| group[0].state);
    let mut counts: Vec<(State, usize)> = Vec::new();
    for state in states {
        match counts.last_mut() {
            Some((last, count)) if *last == state => *count += 1,
            _ => counts.push((state, 1)),
        }
    }
    let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {}", name(*state))).collect();
    counts.join(", ")
}
