//! The pages of `explain`: the list of knobs, and everything about one knob.

use evenkeel_host::{Advice, Area, Facts, Knob, Place, Source, TakesEffect};
use serde::Serialize;

use crate::readings::Reading;
use crate::show::advice::{Finding, finding, groups, verbs};
use crate::show::page::{DIM, Indent, PLAIN, Page, unknown};

/// A knob in the list.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct KnobLine {
    id: &'static str,
    title: &'static str,
    area: Area,
}

/// Everything about a knob, as text.
#[derive(Serialize, schemars::JsonSchema)]
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
    pub(crate) fn from_knob(knob: &Knob) -> KnobLine {
        KnobLine { id: knob.id, title: knob.title, area: knob.area }
    }
}

impl KnobView {
    pub(crate) fn from_knob(knob: &Knob) -> KnobView {
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
            side_effects: knob.extras.side_effects,
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
        page.term(knob.id, width, knob.title);
    }
    page.finish()
}

/// The commands that try a knob and undo it.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Handling {
    /// The command that proves the knob; absent if no trial can prove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    prove: Option<String>,
    /// The command that restores the knob.
    undo: String,
}

impl Handling {
    pub(crate) fn from_advice(knob: &Knob, advice: &[Advice]) -> Handling {
        let wanted = advice.iter().find_map(|advice| advice.wanted.as_deref()).unwrap_or("VALUE");
        let can_prove = verbs(knob.id).contains(&"prove");
        let undo = match knob.place {
            Place::File { .. } | Place::FileSince { .. } | Place::Each { .. } | Place::EachNetworkIrq => {
                "`evenkeel revert` puts back what was there; a reboot forgets the change too".to_owned()
            }
            Place::KernelArgument { name } => {
                format!("remove {name}= from the kernel's command line, and reboot")
            }
            Place::Process => "start the server without it".to_owned(),
            Place::Held { .. } => "it ends by itself with the process that holds it".to_owned(),
            Place::ByHand { .. } | Place::ByHandEach { .. } => {
                "by hand, as it was set: note the value that is in force first".to_owned()
            }
        };
        Handling { prove: can_prove.then(|| format!("evenkeel prove {}={wanted}", knob.id)), undo }
    }
}

/// The content of one knob's page.
pub(crate) struct Known<'a> {
    pub(crate) knob: &'a KnobView,
    pub(crate) advice: &'a [Advice],
    pub(crate) readings: &'a [Reading],
    pub(crate) handling: &'a Handling,
    pub(crate) facts: &'a Facts,
}

pub(crate) fn page(known: &Known<'_>) -> String {
    let Known { knob, advice, readings, handling, facts } = known;
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
        ("kernels", knob.kernels),
    ];
    for (label, value) in rows {
        page.row(label, PLAIN, value);
    }
    if !knob.side_effects.is_empty() {
        page.row("changes too", PLAIN, &knob.side_effects.join(", "));
    }
    page.heading("Who says what");
    for source in knob.sources {
        page.paragraph(Indent { first: 2, rest: 4 }, PLAIN, &format!("{}: {}", source.title, source.says));
    }
    page.heading("Whether it matters");
    page.row("shows in", PLAIN, knob.shows_in);
    for (at, reading) in readings.iter().enumerate() {
        let (style, value) = match reading.value.known() {
            Some(value) => (PLAIN, format!("{}: {value}", reading.name)),
            None => (DIM, format!("{}: {}", reading.name, unknown(&reading.value))),
        };
        page.row(if at == 0 { "reads now" } else { "" }, style, &value);
    }
    page.heading("On this machine");
    for group in groups(advice.iter().map(|advice| Finding { advice, waived: None })) {
        finding(&mut page, &group, facts);
    }
    if advice.is_empty() {
        page.paragraph(Indent::all(2), DIM, "there is no place for it");
    }
    page.heading("Before you change it");
    page.row("risk", PLAIN, knob.risk);
    page.row("undo", PLAIN, &handling.undo);
    match &handling.prove {
        Some(command) => page.row("prove", PLAIN, command),
        None => page.row("prove", DIM, "no trial can switch it back and forth: measure before and after"),
    }
    page.finish()
}

fn takes_effect(when: TakesEffect) -> &'static str {
    match when {
        TakesEffect::AtOnce => "at once",
        TakesEffect::NewSockets => "for sockets created afterwards",
        TakesEffect::NewInterfaces => "for interfaces brought up afterwards",
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
        Area::Disk => "Disk",
        Area::Process => "Process",
    }
}
