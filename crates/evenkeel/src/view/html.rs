//! Blocks as an HTML page that needs no network and no script: it contains its style, charts and downloads.
//! Text from the machine never becomes markup.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_measure::{Samples, Unit};
use evenkeel_trial::{ArmName, Outcome};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Block, Column, Span, Text, Timeline, sentence};
use crate::show::finding::Grade;
use crate::show::units::quantity;

const STYLE: &str = concat!(include_str!("../report/report.css"), include_str!("../report/trial.css"));
const WIDTH: f64 = 720.0;
const BAR_HEIGHT: f64 = 16.0;
const TIMELINE_HEIGHT: f64 = 90.0;
/// The maximum number of points of a chart. A chart has fewer pixels than 5,000.
const POINTS_MAX: usize = 5000;

/// A page. `sub` is the line below its title.
pub(crate) fn page(title: &str, sub: &Text, blocks: &[Block]) -> String {
    framed(title, &text(sub), &shown(blocks)).into_string()
}

/// A page with its head. `inside` is the content after the title.
pub(crate) fn framed(title: &str, sub: &Markup, inside: &Markup) -> Markup {
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
                header { h1 { (title) } @if !sub.0.is_empty() { p.sub { (sub) } } }
                main { (inside) }
            }
        }
    }
}

pub(crate) fn shown(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (one(block)) } }
}

fn one(block: &Block) -> Markup {
    match block {
        Block::Opening(blocks) => html! { section #short { h2 { "In short" } (shown(blocks)) } },
        Block::Section(title, blocks) => html! { section { h2 { (text(title)) } (shown(blocks)) } },
        Block::Heading(title) => html! { h2 { (title) } },
        Block::Subheading(title) => html! { h3 { (title) } },
        Block::Verdict(verdict) => html! {
            p.verdict { (badge(verdict.outcome, &verdict.badge)) " " strong { (sentence(&verdict.says)) } }
        },
        Block::Caveats(caveats) => html! {
            div.caveats {
                h3 { "Caveats" }
                @if caveats.is_empty() { p { "None." } }
                @else { ul { @for caveat in caveats { li { (sentence(caveat)) } } } }
            }
        },
        Block::Finding(of, finding) => html! {
            p class=(if finding.grade == Grade::Poor { "bad" } else { "finding" }) {
                b { (finding.grade.word()) @if let Some(of) = of { " (" (of) ")" } } ": " (finding.says) "."
            }
        },
        Block::Paragraph(words) => html! { p { (text(words)) } },
        Block::List(items) => html! { ul { @for item in items { li { (text(item)) } } } },
        Block::Terms(terms) => html! { dl { @for (term, meaning) in terms { dt { (term) } dd { (text(meaning)) } } } },
        Block::Row(label, value) => html! { p { b { (label) } ": " (value) } },
        Block::Table { header, rows } => table(header, rows),
        Block::Note(words) => html! { p { (words) } },
        Block::Warning(words) => html! { p.bad { (words) } },
        Block::Histogram(samples) => histogram(samples),
        Block::Timeline(points) => timeline(points),
        Block::Drawing(drawing, caption) if caption.0.is_empty() => drawing.clone(),
        Block::Drawing(drawing, caption) => html! { figure { (drawing) figcaption { (text(caption)) } } },
        Block::Command(command) => html! { pre { code { (command) } } },
        Block::Download { name, kind, content, what } => html! { p { (download(name, kind, content, what)) } },
        Block::Details(summary, blocks) => html! { details { summary { (summary) } (shown(blocks)) } },
        Block::Detail(blocks) => shown(blocks),
    }
}

/// A badge. It has a sign for the verdict, so that the meaning does not depend on colour.
pub(crate) fn badge(verdict: Option<Outcome>, words: &str) -> Markup {
    use evenkeel_trial::Outcome::{Better, NotEngaged, Same, Undecided, Worse};
    let (sign, class) = match verdict {
        None => return html! { span.badge { (words) } },
        Some(Better) => ("▲", "better"),
        Some(Worse) => ("▼", "worse"),
        Some(Same) => ("=", "same"),
        Some(Undecided) => ("?", "undecided"),
        Some(NotEngaged) => ("○", "not-engaged"),
    };
    html! { span.badge.(class) { span aria-hidden="true" { (sign) } " " (words) } }
}

/// The legend of a chart: the marks of A and of the other arm.
pub(crate) fn key(other: ArmName) -> Markup {
    html! { span.key-a { "○ A" } ", " span.key-b { "■ " (other) } }
}

/// A link that downloads a file from the page itself.
pub(crate) fn download(name: &str, kind: &str, content: &str, what: &str) -> Markup {
    html! {
        a.file download=(name) href={ "data:" (kind) ";charset=utf-8;base64," (STANDARD.encode(content)) } { (name) }
        ": " (what) " (" (content.len().div_ceil(1024)) " KiB, inside this page)"
    }
}

pub(crate) fn text(text: &Text) -> Markup {
    html! {
        @for span in &text.0 {
            @match span {
                Span::Plain(words) => (words),
                Span::Code(words) => code { (words) },
                Span::Bad(words) => span.bad { (words) },
            }
        }
    }
}

fn table(header: &[Column], rows: &[Vec<Text>]) -> Markup {
    let class = |at: usize| header.get(at).filter(|column| column.is_number).map(|_| "n");
    html! {
        div.wide {
            table {
                thead { tr { @for (at, column) in header.iter().enumerate() { th scope="col" class=[class(at)] { (column.title) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 { th scope="row" { (text(cell)) } } @else { td class=[class(at)] { (text(cell)) } }
                            }
                        }
                    }
                }
            }
        }
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
    // Keep the longest points, because people look for them.
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
        let page = page("<title>", &Text::default(), &blocks);
        assert!(!page.contains("<script>") && page.contains("a &amp; b"), "{page}");
    }

    #[test]
    fn drawings_are_bounded() {
        let mut samples = Samples::new("gap_ns", Unit::Ns, []);
        samples.record(1);
        samples.record(3_600_000_000_000);
        let points = (0..20_000).map(|at| (at, at)).collect();
        let line = Timeline { title: "gaps".into(), total_ns: 20_000, unit: Unit::Ns, points };
        let page = page("t", &Text::default(), &[Block::Histogram(samples), Block::Timeline(line)]);
        assert!(page.contains("The longest 5000 of 20000 are drawn.") && page.len() < 1_000_000);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
