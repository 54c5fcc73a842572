//! Reports of several machines as one page: each setting with every machine's estimate and interval on one axis.

use evenkeel_trial::saved::{Across, Asked};
use maud::{Markup, html};

use super::chart::{self, Estimate, Source};
use super::markup::{framed, sentence, word};
use crate::show::across::{summary, title, traits, veto};

/// The page.
pub(crate) fn page(across: &Across) -> String {
    let sub = html! { (across.machines.len()) " reports · evenkeel " (env!("CARGO_PKG_VERSION")) };
    let inside = html! {
        @for asked in &across.asked { (one(asked, across)) }
        @if across.asked.is_empty() { p { "None of these reports has a trial." } }
        section {
            h2 { "Machines" }
            dl { @for machine in &across.machines { dt { (machine.name) } dd { (traits(machine)) } } }
            p.sub { "A result of one machine does not hold for another: nothing here is averaged." }
        }
    };
    framed("evenkeel: reports side by side", &sub, &inside).into_string()
}

fn source(across: &Across) -> Source {
    let names: Vec<&str> = across.machines.iter().map(|machine| machine.name.as_str()).collect();
    Source {
        host: format!("{} machines", names.len()),
        date: "dates as in the reports".to_owned(),
        command: format!("evenkeel prove compare {}", names.join(" ")),
    }
}

fn one(asked: &Asked, across: &Across) -> Markup {
    let machine = |at: usize| across.machines.get(at);
    let rows: Vec<Estimate> = asked
        .cells
        .iter()
        .map(|cell| Estimate {
            label: machine(cell.machine).map_or_else(|| "unknown".to_owned(), |machine| machine.name.clone()),
            note: machine(cell.machine).and_then(|machine| machine.kernel.clone()).unwrap_or_default(),
            ratio: cell.ratio,
            interval: cell.interval,
            rug: Vec::new(),
        })
        .collect();
    html! {
        section {
            h2 { (title(asked)) }
            p.verdict { strong { (sentence(&summary(asked, across))) } }
            @if !asked.caveats.is_empty() {
                div.caveats { ul { @for caveat in &asked.caveats { li { (sentence(&caveat.to_string())) } } } }
            }
            figure {
                (chart::estimates(&rows, asked.smallest_effect_ratio.unwrap_or(0.0), ["lower", "higher"], &source(across)))
                figcaption {
                    "The change of " code { (asked.metric) } " on each machine, with its confidence interval. Grey band: too small to matter."
                }
            }
            div.wide {
                table {
                    thead { tr { @for title in ["machine", "verdict", "pairs", "caveats", "server and load"] { th scope="col" { (title) } } } }
                    tbody {
                        @for cell in &asked.cells {
                            tr {
                                th scope="row" { (machine(cell.machine).map_or("unknown", |machine| machine.name.as_str())) }
                                td { (word(cell.verdict)) (veto(cell)) } td { (cell.pairs) } td { (cell.caveats) } td { (cell.workload) }
                            }
                        }
                    }
                }
            }
        }
    }
}
