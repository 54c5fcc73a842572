//! The pages of `explain`: the list of knobs, and everything known of one.

use evenkeel_host::{Advice, Area, Facts, Knob, Source, TakesEffect};
use serde::Serialize;

use crate::show::advice::{Finding, finding, groups};
use crate::show::page::{DIM, HEADING, Indent, PLAIN, Page};

/// A knob in the list.
#[derive(Serialize)]
pub(crate) struct KnobLine {
    id: &'static str,
    title: &'static str,
    area: Area,
}

/// Everything known of a knob, as text.
#[derive(Serialize)]
pub(crate) struct KnobView {
    id: &'static str,
    title: &'static str,
    area: Area,
    place: String,
    takes: String,
    default: &'static str,
    takes_effect: TakesEffect,
    mechanism: &'static str,
    risk: &'static str,
    shows_in: &'static str,
    kernels: &'static str,
    side_effects: &'static [&'static str],
    sources: &'static [Source],
}

impl KnobLine {
    pub(crate) fn of(knob: &Knob) -> KnobLine {
        KnobLine { id: knob.id, title: knob.title, area: knob.area }
    }
}

impl KnobView {
    pub(crate) fn of(knob: &Knob) -> KnobView {
        KnobView {
            id: knob.id,
            title: knob.title,
            area: knob.area,
            place: knob.place.to_string(),
            takes: knob.values.to_string(),
            default: knob.default,
            takes_effect: knob.takes_effect,
            mechanism: knob.mechanism,
            risk: knob.risk,
            shows_in: knob.shows_in,
            kernels: knob.kernels,
            side_effects: knob.side_effects,
            sources: knob.sources,
        }
    }
}

pub(crate) fn list(knobs: &[KnobLine]) -> String {
    let mut page = Page::default();
    let width = knobs.iter().map(|knob| knob.id.len()).max().unwrap_or(0);
    for (at, knob) in knobs.iter().enumerate() {
        if at == 0 || knobs[at - 1].area != knob.area {
            page.heading(area(knob.area));
        }
        let id = format!("  {:width$}  ", knob.id);
        page.parts(&[(HEADING, &id), (PLAIN, knob.title)]);
    }
    page.finish()
}

pub(crate) fn page(knob: &KnobView, advice: &[Advice], facts: &Facts) -> String {
    let mut page = Page::default();
    page.heading(knob.id);
    page.paragraph(Indent::all(2), PLAIN, knob.title);
    page.heading("How it works");
    page.paragraph(Indent::all(2), PLAIN, knob.mechanism);
    page.heading("Facts");
    let rows = [
        ("place", knob.place.as_str()),
        ("takes", &knob.takes),
        ("default", knob.default),
        ("takes effect", takes_effect(knob.takes_effect)),
        ("risk", knob.risk),
        ("shows in", knob.shows_in),
        ("kernels", knob.kernels),
    ];
    for (label, value) in rows {
        page.row(label, PLAIN, value);
    }
    if !knob.side_effects.is_empty() {
        page.row("changes too", PLAIN, &knob.side_effects.join(", "));
    }
    page.heading("Sources");
    for source in knob.sources {
        page.paragraph(Indent { first: 2, rest: 4 }, PLAIN, &format!("{}: {}", source.title, source.says));
    }
    page.heading("On this machine");
    for group in groups(advice.iter().map(|advice| Finding { advice, waived: None })) {
        finding(&mut page, &group, facts);
    }
    if advice.is_empty() {
        page.paragraph(Indent::all(2), DIM, "there is no place for it");
    }
    page.finish()
}

fn takes_effect(when: TakesEffect) -> &'static str {
    match when {
        TakesEffect::AtOnce => "at once",
        TakesEffect::NewSockets => "for sockets created afterwards",
        TakesEffect::ProcessStart => "when the server's process starts",
        TakesEffect::Reboot => "after a reboot",
    }
}

fn area(area: Area) -> &'static str {
    match area {
        Area::Network => "Network",
        Area::Cpu => "CPU",
        Area::Clock => "Clock",
        Area::Memory => "Memory",
        Area::Process => "Process",
    }
}
