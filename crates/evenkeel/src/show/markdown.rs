//! The answer of `audit` as Markdown, for tickets, pull requests and wikis: a table for each section of the page.

use std::fmt::Write;

use crate::show::advice::{Audit, Group, commands, effect, is_to_set};
use crate::view::Text;
use crate::view::markdown::{self, code};

/// The columns of findings with a value to set.
const TO_SET: [&str; 7] = ["finding", "now", "wanted", "effect", "why", "risk", "commands"];
/// The columns of all other findings.
const TO_KNOW: [&str; 5] = ["finding", "state", "now", "wanted", "why"];

pub(crate) fn page(audit: &Audit<'_>) -> String {
    let mut page = format!("# {}\n", text(&audit.title()));
    for section in audit.sections() {
        let _ = write!(page, "\n## {}\n\n", section.title);
        let columns = if is_to_set(&section.groups[0]) { &TO_SET[..] } else { &TO_KNOW[..] };
        let _ = writeln!(page, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
        for group in &section.groups {
            let cells: Vec<String> = columns.iter().map(|column| cell(column, group, audit)).collect();
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    }
    if let Some(waivers) = &audit.waivers {
        let _ = write!(page, "\n## Waivers in {}\n\n", text(&waivers.file));
        if waivers.warnings.is_empty() {
            page.push_str("All of them hold.\n");
        }
        for warning in &waivers.warnings {
            let _ = writeln!(page, "- {}", text(warning));
        }
    }
    page
}

fn cell(column: &str, group: &Group<'_>, audit: &Audit<'_>) -> String {
    let first = group[0].advice;
    let value = |value: &Option<String>| value.as_deref().map(code).unwrap_or_default();
    let lines =
        |codes: &mut dyn Iterator<Item = &String>| codes.map(|text| code(text)).collect::<Vec<_>>().join("<br>");
    match column {
        "finding" => lines(&mut group.iter().map(|finding| &finding.advice.id)),
        "state" => first.state.name().to_owned(),
        "now" => value(&first.current),
        "wanted" => value(&first.wanted),
        "effect" => effect(first.effect).to_owned(),
        "why" => match group[0].waived {
            None => text(&first.reason),
            Some(waiver) => {
                format!("waived until {}: {}; {}", waiver.expires, text(&waiver.reason), text(&first.reason))
            }
        },
        "risk" => text(first.risk),
        _ => lines(&mut commands(group, audit).iter()),
    }
}

/// The text of a cell. Keeps backticks in evenkeel's own reasons.
fn text(text: &str) -> String {
    markdown::text(&Text::prose(text))
}
