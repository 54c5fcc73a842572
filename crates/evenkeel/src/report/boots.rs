//! A trial over boots as a page: the verdict with its basis and its caveats, the boots as a drawing, the guards, and how to repeat it. It
//! needs no network and no script, and text from the machine never becomes markup.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::time::Duration;

use evenkeel_stats::BootsComparison;
use evenkeel_trial::boots::{BootWords, BootsReport, BootsState, GuardOfBoots};
use evenkeel_trial::{ArmName, Outcome};
use maud::{Markup, html};

use super::chart::{self, Estimate, Source};
use super::counted;
use super::markup::{badge, download, framed, prose, sentence};
use super::trial::{caveats, ways};
use super::words::{as_change, range, share, trim};
use crate::shell::quoted;
use crate::show::boots::{COLUMNS, engaged_words, harm_of, numbers, progress, rows, sentences};
use crate::times;

/// The page; `json` is what programs read of the same.
pub(crate) fn page(state: &BootsState, report: &BootsReport, json: &str) -> String {
    let begun = i64::try_from(state.begun_s).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
    let begun =
        begun.map_or_else(|| "at an unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let settings = report.design.settings.join(" ");
    let source = source(state, report, &begun);
    let sub = html! { "begun " (begun) " · evenkeel " (report.evenkeel) " · " code { (settings) } };
    let inside = html! {
        section {
            h2 { "In short" }
            (verdict(report, &settings))
            p { (sentence(&progress(report))) }
            (caveats(&report.caveats))
        }
        (effect(report, &source))
        section {
            h2 { "The boots" }
            (chart::boots(report, &source))
            (table(report))
            (was(report))
        }
        (guards(report))
        (engagement(report))
        (repeat(state, report, json))
    };
    framed("evenkeel report over boots", &sub, &inside).into_string()
}

fn source(state: &BootsState, report: &BootsReport, begun: &str) -> Source {
    let machine = report.boots.first().map(|boot| &boot.machine);
    let kernel = machine.and_then(|machine| machine.kernel.as_ref()).map(|kernel| format!("Linux {kernel}"));
    let cpus = machine.and_then(|machine| machine.cpus.as_ref()).map(|cpus| format!("CPUs {cpus}"));
    let host: Vec<String> = [cpus, kernel].into_iter().flatten().collect();
    let host = if host.is_empty() { "unknown host".to_owned() } else { host.join(", ") };
    Source { host, date: begun.to_owned(), command: again(state) }
}

/// The verdict in one sentence. Its badge always has the number of boots.
fn verdict(report: &BootsReport, settings: &str) -> Markup {
    let line = format!(
        "{settings} over boots: {}{}",
        report.verdict,
        report.comparison.map_or_else(String::new, |found| change(report, &found))
    );
    let word =
        |verdict: Outcome| report.vetoed_by.as_ref().map_or_else(|| verdict.to_string(), |_| "vetoed".to_owned());
    html! {
        p.verdict {
            @if let Some((found, verdict)) = report.comparison.as_ref().zip(report.outcome) {
                (badge(verdict, &format!("{} over {} boots", word(verdict), found.boots)))
            } @else { span.badge { "not yet" } }
            " " strong { (sentence(&line)) }
        }
    }
}

fn change(report: &BootsReport, found: &BootsComparison) -> String {
    let title = &report.design.metric.title;
    let often = found.confidence * 100.0;
    format!("; {title} is {}, with {often:.0} % confidence {}", as_change(found.ratio), range(found.low, found.high))
}

fn effect(report: &BootsReport, source: &Source) -> Markup {
    let Some(found) = &report.comparison else { return html! {} };
    let metric = &report.design.metric;
    let mut shown = vec![Estimate {
        label: "B against A".to_owned(),
        note: format!("{} boots", found.boots),
        ratio: Some(found.ratio),
        interval: Some((found.low, found.high)),
        rug: Vec::new(),
    }];
    // The axis has the direction of the deciding metric. A guard with the opposite direction is shown only in the table.
    let fits = |guard: &&GuardOfBoots| guard.metric.better == metric.better;
    shown.extend(report.guards.iter().filter(fits).map(|guard| Estimate {
        label: format!("guard: {}", guard.metric.name),
        note: format!("{} boots", guard.a.len() + guard.b.len()),
        ratio: guard.ratio,
        ..Estimate::default()
    }));
    let matters = report.design.smallest_effect_ratio;
    html! {
        section {
            h2 { "The effect" }
            figure {
                (chart::estimates(&shown, matters, ways(metric.better), source))
                figcaption {
                    "Square: the estimated change of " code { (metric.name) } ". Bar: its " (format!("{:.0}", found.confidence * 100.0))
                    " % confidence interval. Grey band (±" (share(matters)) "): changes too small to matter, fixed before the first boot."
                    @if shown.len() > 1 { " For a guard, the square is the ratio of the medians. So few boots give no interval, and the band does not apply." }
                }
            }
            ul { @for words in sentences(found) { li { (sentence(&words)) } } }
        }
    }
}

fn table(report: &BootsReport) -> Markup {
    let unit = &report.design.metric.unit;
    html! {
        div.wide {
            table {
                thead { tr { @for title in COLUMNS { th scope="col" { (title) @if title == "median" && !unit.is_empty() { ", " (unit) } } } } }
                tbody {
                    @for row in rows(report) {
                        tr { @for (at, cell) in row.iter().enumerate() { @if at == 0 { th scope="row" { (cell) } } @else { td { (cell) } } } }
                    }
                }
            }
        }
    }
}

/// The machine in each boot.
fn was(report: &BootsReport) -> Markup {
    let known = |text: &Option<String>| text.as_deref().unwrap_or("unknown").to_owned();
    html! {
        details {
            summary { "The machine in each boot" }
            div.wide {
                table {
                    thead { tr { @for title in ["boot", "arm", "kernel", "processor", "CPUs", "command line"] { th scope="col" { (title) } } } }
                    tbody {
                        @for (at, boot) in report.boots.iter().enumerate() {
                            tr {
                                th scope="row" { (at + 1) } td { (format!("{:?}", boot.arm)) }
                                td { (known(&boot.machine.kernel)) } td { (known(&boot.machine.processor)) }
                                td { (known(&boot.machine.cpus)) } td { code { (known(&boot.machine.command_line)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn guards(report: &BootsReport) -> Markup {
    if report.guards.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Guards" }
            @if let Some(guard) = &report.vetoed_by {
                p.bad { "Rejected: the guard " code { (guard) } " got worse by more than its limit in every boot." }
            }
            div.wide {
                table {
                    thead { tr { @for title in ["guard", "unit", "boots of A", "boots of B", "B against A", "result"] { th scope="col" { (title) } } } }
                    tbody {
                        @for guard in &report.guards {
                            tr.bad[guard.is_harmed] {
                                th scope="row" { (guard.metric.title) br; code { (guard.metric.name) } }
                                td { (guard.metric.unit) }
                                td { (numbers(&guard.a)) } td { (numbers(&guard.b)) }
                                td { (guard.ratio.map_or_else(|| "not compared".to_owned(), as_change)) }
                                td { (harm_of(guard)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn engagement(report: &BootsReport) -> Markup {
    if report.mechanism.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Was the setting engaged?" }
            @for knob in &report.mechanism {
                p { code { (knob.knob) } ": " (engaged_words(&knob.engaged)) "." }
                @if !knob.readings.is_empty() {
                    (counted::table(ArmName::B, &knob.readings.iter().map(|reading| (reading.name.clone(), [reading.a, reading.b])).collect(), "counter, in a window", &|_| None))
                }
            }
        }
    }
}

fn repeat(state: &BootsState, report: &BootsReport, json: &str) -> Markup {
    let design = &report.design;
    let seen = |of: fn(&BootWords) -> &Option<String>| {
        let all: BTreeSet<&str> = report.boots.iter().filter_map(|boot| of(&boot.machine).as_deref()).collect();
        if all.is_empty() { "unknown".to_owned() } else { all.into_iter().collect::<Vec<_>>().join(", ") }
    };
    html! {
        section {
            h2 { "How to repeat it" }
            p { "The same order of boots, from the same seed, on a machine like this one, in the folder " code { (state.folder) } ":" }
            pre { code { (again(state)) } }
            dl {
                dt { "evenkeel" } dd { (report.evenkeel) }
                dt { "kernel" } dd { (seen(|machine| &machine.kernel)) }
                dt { "processor" } dd { (seen(|machine| &machine.processor)) }
                dt { "server and load" } dd { (prose(&report.workload)) }
                dt { "deciding metric" } dd { (design.metric.title) " (" code { (design.metric.name) } ")" }
                dt { "smallest effect that matters" } dd { (share(design.smallest_effect_ratio)) }
                dt { "order of the boots" } dd { (report.order) ", random, from seed " (design.seed) }
                dt { "each boot" }
                dd { (design.windows) " windows of " (design.window_ms) " ms, after " (trim(design.settle_ms as f64 / 1000.0)) " s of settle time" }
            }
            p { (download("boots.json", "application/json", json, "all numbers of this page, for programs")) }
        }
    }
}

/// The command that repeats it, even if the defaults change.
fn again(state: &BootsState) -> String {
    let design = &state.design;
    let percent = |share: f64| trim(share * 100.0);
    let guards: Vec<String> = match design.guards.as_slice() {
        [] => vec!["none".to_owned()],
        guards => guards.iter().map(|guard| format!("{}={}", guard.metric.name, percent(guard.harm_ratio))).collect(),
    };
    format!(
        "evenkeel prove boots start {} --boots {}{} --settle {} --windows {} --window {} --smallest-effect {} --metric {}{} --seed {}{}",
        quoted(&design.settings),
        design.boots,
        if design.reboots { " --reboot" } else { "" },
        times::option(Duration::from_millis(design.settle_ms)),
        design.windows,
        times::option(Duration::from_millis(design.window_ms)),
        percent(design.smallest_effect_ratio),
        quoted(from_ref(&design.metric.name.to_string())),
        guards.iter().map(|guard| format!(" --guard {}", quoted(from_ref(guard)))).collect::<String>(),
        design.seed,
        state.workload,
    )
}
