//! The parts of report pages: their frame, verdicts as badges, sentences, downloads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_trial::{ArmName, Outcome};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = concat!(include_str!("report.css"), include_str!("trial.css"));

/// A page with its head; `inside` is the part after the title.
pub(super) fn framed(title: &str, sub: &Markup, inside: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } p.sub { (sub) } }
                main { (inside) }
            }
        }
    }
}

/// A verdict as a word with a sign, so that it does not depend on colour.
pub(super) fn word(verdict: Outcome) -> Markup {
    badge(verdict, &verdict.to_string())
}

/// A badge with other words.
pub(super) fn badge(verdict: Outcome, words: &str) -> Markup {
    use evenkeel_trial::Outcome::{Better, NotEngaged, Same, Undecided, Worse};
    let (sign, class) = match verdict {
        Better => ("▲", "better"),
        Worse => ("▼", "worse"),
        Same => ("=", "same"),
        Undecided => ("?", "undecided"),
        NotEngaged => ("○", "not-engaged"),
    };
    html! { span.badge.(class) { span aria-hidden="true" { (sign) } " " (words) } }
}

/// Makes a sentence: a capital first letter and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().collect::<String>()).unwrap_or_default();
    // A knob's name is not a word: it keeps its case.
    let begins_with_a_name = text.split([' ', ',']).next().is_some_and(|word| word.contains(['=', '.', '_', ':']));
    let start = if begins_with_a_name { text.to_owned() } else { first + letters.as_str() };
    if start.ends_with(['.', '!', '?']) { start } else { start + "." }
}

/// The signs of the two arms; the other one has its own name among several.
pub(super) fn key(other: ArmName) -> Markup {
    html! { span.key-a { "○ A" } ", " span.key-b { "■ " (other) } }
}

/// A file inside the page.
pub(super) fn download(name: &str, kind: &str, text: &str, what: &str) -> Markup {
    html! {
        a.file download=(name) href={ "data:" (kind) ";charset=utf-8;base64," (STANDARD.encode(text)) } { (name) }
        ": " (what) " (" (text.len().div_ceil(1024)) " KiB, inside this page)"
    }
}

/// Text with commands between backticks.
pub(super) fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
