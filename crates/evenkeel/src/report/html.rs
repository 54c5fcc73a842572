//! The report as one page that needs no network and no script: it contains its style, charts and downloads.
//! evenkeel makes the page from `report.json`, so the two always agree.
//! It can make the page again from any stored report.

use evenkeel_trial::saved::{RunReport, TrialEntry};
use maud::{Markup, html};

use super::markup::{download, framed, prose, sentence, word};
use super::{choice, machine, trial};

/// The page of a report. `json` is the text of its `report.json`.
pub(super) fn page(saved: &RunReport, json: &str) -> Markup {
    let taken = saved.taken.as_deref().unwrap_or("at an unknown time");
    let version = saved.evenkeel.as_deref().unwrap_or("of an unknown version");
    let command = saved.command.as_deref().unwrap_or("unknown");
    let sub = html! { (taken) " · evenkeel " (version) " · " code { (command) } };
    let several = saved.trials.len() > 1;
    let inside = html! {
        (answers(saved))
        @if let Some(choice) = &saved.choice { (choice::section(saved, choice)) }
        @for (at, one) in saved.trials.iter().enumerate() { (trial::section(saved, one, &anchor(at))) }
        (repeat(saved, json))
        (machine::machine(saved))
        (machine::advice(saved))
        (machine::kept(saved))
        @if several { p { a href="#short" { "Back to the top" } } }
    };
    framed("evenkeel report", &sub, &inside)
}

fn anchor(at: usize) -> String {
    format!("trial-{}", at + 1)
}

/// The verdicts. Each has the number of its caveats.
fn answers(saved: &RunReport) -> Markup {
    html! {
        section #short {
            h2 { "In short" }
            @if let Some(choice) = &saved.choice {
                p.verdict { span.badge { "best arm" } " " strong { (sentence(&choice.sentence)) } " " a href="#which" { "All arms" } "." }
            }
            @for (at, one) in saved.trials.iter().enumerate() { (answer(one, &anchor(at))) }
            @if saved.trials.is_empty() { p { "Nothing was measured." } }
            @for not_tried in &saved.not_tried {
                p.verdict { span.badge { "not tried" } " " code { (not_tried.knob) } ": " (prose(&not_tried.why)) }
            }
            @match saved.all_as_before.filter(|_| !saved.settings.is_empty()) {
                Some(true) => p { "All settings are restored: they read as before the run." },
                Some(false) => p { strong { "Some settings do not read as before the run: see the end of this page." } },
                None => {},
            }
        }
    }
}

fn answer(one: &TrialEntry, anchor: &str) -> Markup {
    let caveats = match one.report.caveats.len() {
        0 => "no caveats".to_owned(),
        1 => "1 caveat".to_owned(),
        many => format!("{many} caveats"),
    };
    html! {
        p.verdict { (word(one.report.verdict)) " " strong { (sentence(&one.sentence)) } " " a href={ "#" (anchor) } { (caveats) } "." }
    }
}

fn repeat(saved: &RunReport, json: &str) -> Markup {
    let kernel = saved.fact("/kernel/release");
    html! {
        section {
            h2 { "How to repeat it" }
            @if let Some(command) = &saved.command {
                p { "This command repeats the run with the same order of windows, on a machine like this one:" }
                pre { code { (command) } }
            }
            dl {
                dt { "evenkeel" } dd { (saved.evenkeel.as_deref().unwrap_or("unknown")) }
                dt { "kernel" } dd { (kernel.as_deref().unwrap_or("unknown")) }
                dt { "server and load" }
                dd { (saved.trials.first().map_or("unknown", |trial| trial.report.workload.as_str())) }
            }
            p {
                (download("report.json", "application/json", json, "all numbers of this page, for programs"))
                @if let Some(capture) = &saved.capture {
                    br;
                    (download("host.txt", "text/plain", capture, "this machine as every command takes it by --host"))
                }
            }
        }
    }
}
