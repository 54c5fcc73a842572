//! A measurement's page as self-contained HTML, with the same blocks as on the terminal.

use std::path::Path;

use evenkeel_measure::{Samples, Unit};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::exit;
use crate::failure::Failure;
use crate::show::blocks::{Block, Timeline};
use crate::show::escape;
use crate::show::finding::Grade;
use crate::show::units::quantity;

const WIDTH: f64 = 720.0;
const BAR_HEIGHT: f64 = 16.0;
const TIMELINE_HEIGHT: f64 = 90.0;
/// The most points of a chart; more than it has pixels would be invisible.
const POINTS_MAX: usize = 5000;

/// Writes the page.
pub(crate) fn write(file: &Path, title: &str, blocks: &[Block]) -> Result<(), Failure> {
    std::fs::write(file, escape::page(&page(title, blocks).into_string()))
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, format_args!("write {}", file.display()), &error))
}

fn page(title: &str, blocks: &[Block]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "evenkeel: " (title) }
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body { main { h1 { (title) } @for block in blocks { (shown(block)) } } }
        }
    }
}

fn shown(block: &Block) -> Markup {
    match block {
        Block::Finding(of, finding) => html! {
            p class=(if finding.grade == Grade::Poor { "bad" } else { "finding" }) {
                b { (finding.grade.word()) @if let Some(of) = of { " (" (of) ")" } } ": " (finding.says) "."
            }
        },
        Block::Heading(title) => html! { h2 { (title) } },
        Block::Row(label, value) => html! { p { b { (label) } ": " (value) } },
        Block::Table { header, rows } => html! {
            table {
                thead { tr { @for title in header { th { (title) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        },
        Block::Note(words) => html! { p { (words) } },
        Block::Warning(words) => html! { p.bad { (words) } },
        Block::Histogram(samples) => histogram(samples),
        Block::Timeline(points) => timeline(points),
    }
}

fn histogram(samples: &Samples) -> Markup {
    let bars = samples.histogram.bars();
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1) as f64;
    let height = bars.len() as f64 * BAR_HEIGHT;
    html! {
        h3 { (samples.name) @for (name, value) in &samples.conditions { ", " (name) " " (value) } }
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(samples.name) {
            @for (at, bar) in bars.iter().enumerate() {
                @let y = at as f64 * BAR_HEIGHT;
                text.tick x="90" y=(y + 12.0) text-anchor="end" { "≤ " (quantity(bar.upper, samples.unit)) }
                rect.interval x="100" y=(y + 2.0) height=(BAR_HEIGHT - 4.0) width=(bar.count as f64 / most * (WIDTH - 200.0)) {}
                text.tick x=(110.0 + bar.count as f64 / most * (WIDTH - 200.0)) y=(y + 12.0) { (bar.count) }
            }
        }
        @if samples.lost.count > 0 {
            p.bad { "lost: " (samples.lost.count) " (" (samples.lost.why.as_deref().unwrap_or("unknown why")) ")" }
        }
    }
}

fn timeline(shown: &Timeline) -> Markup {
    let total_ns = shown.total_ns.max(1) as f64;
    let longest = shown.points.iter().map(|(_, length)| *length).max().unwrap_or(1).max(2) as f64;
    let mut points: Vec<(u64, u64)> = shown.points.clone();
    // The longest are what people look for.
    points.sort_unstable_by_key(|(_, length)| std::cmp::Reverse(*length));
    points.truncate(POINTS_MAX);
    html! {
        h3 { (shown.title) }
        svg viewBox={ "0 0 " (WIDTH) " " (TIMELINE_HEIGHT + 20.0) } role="img" aria-label=(shown.title) {
            @for (at_ns, length_ns) in &points {
                @let x = *at_ns as f64 / total_ns * WIDTH;
                @let tall = (*length_ns as f64).ln_1p() / longest.ln_1p() * TIMELINE_HEIGHT;
                rect.interval x=(format!("{x:.1}")) y=(format!("{:.1}", TIMELINE_HEIGHT - tall)) width="1.5" height=(format!("{tall:.1}")) {
                    title { (quantity(*length_ns, shown.unit)) " at " (quantity(*at_ns, Unit::Ns)) }
                }
            }
            text.tick x="0" y=(TIMELINE_HEIGHT + 14.0) { "0" }
            text.tick x=(WIDTH) y=(TIMELINE_HEIGHT + 14.0) text-anchor="end" { (quantity(shown.total_ns, Unit::Ns)) }
        }
        @if shown.points.len() > points.len() {
            p { "The longest " (points.len()) " of " (shown.points.len()) " are drawn." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_machine_are_no_markup() {
        let blocks = [Block::row("<b>", "<script>alert(1)</script>"), Block::Warning("a & b".to_owned())];
        let page = page("<title>", &blocks).into_string();
        assert!(!page.contains("<script>") && page.contains("a &amp; b"), "{page}");
    }

    #[test]
    fn drawings_are_bounded() {
        let mut samples = Samples::new("gap_ns", Unit::Ns, []);
        samples.record(1);
        samples.record(3_600_000_000_000);
        let points = (0..20_000).map(|at| (at, at)).collect();
        let line = Timeline { title: "gaps".into(), total_ns: 20_000, unit: Unit::Ns, points };
        let page = page("t", &[Block::Histogram(samples), Block::Timeline(line)]).into_string();
        assert!(page.contains("The longest 5000 of 20000 are drawn.") && page.len() < 1_000_000);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
