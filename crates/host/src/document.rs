//! Generates docs/knobs.md from the table of knobs, so that the page and the program always agree.

use std::fmt::{self, Write};

use crate::knob::{Area, Knob, TakesEffect};
use crate::knobs;

const HEAD: &str = "\
# The knobs

This page lists every setting that evenkeel knows: what it does, its risks, and its sources. The right value depends on the
machine. For each knob, `evenkeel audit` recommends to keep or to set it, or explains why it does not apply.
`evenkeel prove KNOB=VALUE` measures the effect of a value on a server under load.

This page is generated from the knobs in `crates/host/src/knobs`. To regenerate it, run
`UPDATE_EXPECT=1 cargo test -p evenkeel-host`.
";

/// The page, in Markdown.
pub fn knobs_page() -> String {
    let mut page = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = write_index(&mut page);
    for knob in knobs::ALL {
        let _ = write_knob(&mut page, knob);
    }
    page
}

fn write_index(page: &mut String) -> fmt::Result {
    writeln!(page, "\n| knob | sets | belongs to | takes effect |\n|---|---|---|---|")?;
    for knob in knobs::ALL {
        // GitHub removes the dots of a heading to make its anchor.
        let anchor = knob.id.replace('.', "");
        let (area, takes_effect) = (area(knob.area), takes_effect(knob.takes_effect));
        writeln!(page, "| [`{}`](#{anchor}) | {} | {area} | {takes_effect} |", knob.id, knob.title)?;
    }
    Ok(())
}

fn write_knob(page: &mut String, knob: &Knob) -> fmt::Result {
    writeln!(page, "\n## {}\n\nSets {}.\n\n{}\n", knob.id, knob.title, knob.mechanism)?;
    writeln!(page, "- Where: {}", knob.place)?;
    writeln!(page, "- Values: {}", knob.values)?;
    writeln!(page, "- Default: {}", knob.default)?;
    writeln!(page, "- Takes effect: {}", takes_effect(knob.takes_effect))?;
    writeln!(page, "- Risk: {}", knob.risk)?;
    writeln!(page, "- Shows in: {}", knob.shows_in)?;
    writeln!(page, "- Kernels: {}", knob.kernels)?;
    if !knob.extras.side_effects.is_empty() {
        writeln!(page, "- The kernel also changes: `{}`", knob.extras.side_effects.join("`, `"))?;
    }
    writeln!(page, "- Sources:")?;
    for source in knob.sources {
        writeln!(page, "  - {}: {}", source.title, source.says)?;
    }
    Ok(())
}

fn area(area: Area) -> &'static str {
    match area {
        Area::Network => "network",
        Area::Cpu => "CPU",
        Area::Clock => "clock",
        Area::Memory => "memory",
        Area::Disk => "disk",
        Area::Process => "process",
    }
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
