//! Blocks as text for a terminal.

use evenkeel_measure::{Samples, Unit};

use super::{Block, Text, Timeline, Verdict};
use crate::show::finding::{Finding, Grade};
use crate::show::page::{BAD, DIM, GOOD, HEADING, Indent, PLAIN, Page, WARN, width};
use crate::show::units::quantity;

/// The maximum length of a bar, and the number of columns before the bar.
const BAR_COLUMNS_MAX: usize = 40;
const BEFORE_BAR_COLUMNS: usize = 27;
/// The characters of a timeline's columns, from empty to full.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const TIMELINE_COLUMNS_MAX: usize = 72;
/// The indent of a list item.
const ITEM: Indent = Indent { first: 2, rest: 4 };

/// The blocks as text.
pub(crate) fn text(blocks: &[Block]) -> String {
    let mut page = Page::default();
    draw(&mut page, blocks);
    page.finish()
}

fn draw(page: &mut Page, blocks: &[Block]) {
    for block in blocks {
        match block {
            Block::Opening(blocks) => draw(page, blocks),
            Block::Section(title, blocks) => {
                page.heading(&title.words());
                draw(page, blocks);
            }
            Block::Heading(title) => page.heading(title),
            Block::Subheading(title) => page.paragraph(Indent::all(2), HEADING, title),
            Block::Verdict(verdict) => page.heading(&headline(verdict)),
            Block::Caveats(caveats) => {
                caveats.iter().for_each(|caveat| page.paragraph(ITEM, WARN, &format!("caveat: {caveat}")));
            }
            Block::Finding(of, finding) => {
                let style = match finding.grade {
                    Grade::Poor => BAD,
                    Grade::Fair => WARN,
                    Grade::Unknown => PLAIN,
                    Grade::Good => GOOD,
                };
                page.paragraph(Indent::all(2), style, &finding_text(*of, finding));
            }
            Block::Paragraph(words) => page.paragraph(ITEM, PLAIN, &words.words()),
            Block::List(items) => items.iter().for_each(|item| page.paragraph(ITEM, PLAIN, &item.words())),
            Block::Terms(terms) => terms.iter().for_each(|(term, meaning)| page.row(term, PLAIN, &meaning.words())),
            Block::Row(label, value) => page.row(label, PLAIN, value),
            Block::Table { header, rows } => {
                let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(Text::words).collect()).collect();
                page.table(&header.iter().map(|column| column.title.as_str()).collect::<Vec<_>>(), &rows);
            }
            Block::Note(words) => page.paragraph(Indent::all(2), DIM, words),
            Block::Warning(words) => page.paragraph(Indent::all(2), WARN, words),
            Block::Histogram(samples) => histogram(page, samples),
            Block::Timeline(shown) => timeline(page, shown),
            Block::Command(command) => page.line(PLAIN, &format!("  {command}")),
            Block::Drawing(..) | Block::Download { .. } | Block::Details(..) | Block::Detail(_) => {}
        }
    }
}

fn headline(verdict: &Verdict) -> String {
    match verdict.is_repeated {
        true => verdict.says.clone(),
        false => format!("{}: {}", verdict.badge, verdict.says),
    }
}

/// A finding as text, such as `Good (disk): a write takes 1 ms.`
fn finding_text(of: Option<&str>, finding: &Finding) -> String {
    let of = of.map(|of| format!(" ({of})")).unwrap_or_default();
    format!("{}{of}: {}.", finding.grade.word(), finding.says)
}

fn histogram(page: &mut Page, samples: &Samples) {
    let conditions = samples.conditions.iter().map(|(name, value)| format!("{name} {value}"));
    let conditions = conditions.collect::<Vec<_>>().join(", ");
    page.paragraph(Indent::all(2), PLAIN, &format!("{}  {conditions}", samples.name));
    let bars = samples.histogram.bars();
    let bar_columns = BAR_COLUMNS_MAX.min(width() - BEFORE_BAR_COLUMNS);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    for bar in &bars {
        // Round up, so that a single event is visible next to a million.
        let columns =
            if bar.count == 0 { 0 } else { ((bar.count as f64 / most as f64) * bar_columns as f64).ceil() as usize };
        page.line(
            PLAIN,
            &format!("  <= {:>9}  {:>9}  {}", quantity(bar.upper, samples.unit), bar.count, "█".repeat(columns)),
        );
    }
    if samples.lost.count > 0 {
        let why = samples.lost.why.as_deref().unwrap_or("unknown why");
        page.paragraph(Indent::all(2), BAD, &format!("lost: {} ({why})", samples.lost.count));
    }
}

/// Draws the maximum of the points in each column, on a logarithmic scale between the smallest and the largest value.
fn timeline(page: &mut Page, shown: &Timeline) {
    let columns = TIMELINE_COLUMNS_MAX.min(width() - 2);
    let mut longest = vec![0_u64; columns];
    for (at_ns, length_ns) in &shown.points {
        let share = *at_ns as f64 / shown.total_ns.max(1) as f64;
        let column = ((share * columns as f64) as usize).min(columns - 1);
        longest[column] = longest[column].max(*length_ns);
    }
    let lengths = shown.points.iter().filter(|(_, length)| *length > 0).map(|(_, length)| *length as f64);
    let (low, high) = lengths.fold((f64::MAX, 1.0_f64), |(low, high), length| (low.min(length), high.max(length)));
    let level = |length: u64| -> char {
        if length == 0 {
            return LEVELS[0];
        }
        let spread = (high / low).ln();
        let share = if spread > 0.0 { (length as f64 / low).ln() / spread } else { 1.0 };
        LEVELS[1 + ((share * 7.0).round() as usize).min(7)]
    };
    page.paragraph(Indent::all(2), PLAIN, &shown.title);
    page.line(PLAIN, &format!("  {}", longest.into_iter().map(level).collect::<String>()));
    page.line(DIM, &format!("  0{:>width$}", quantity(shown.total_ns, Unit::Ns), width = columns - 1));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_page_of_every_block() {
        let mut samples = Samples::new("wake_latency_ns", Unit::Ns, [("cpu", "1".to_owned())]);
        (0..50).for_each(|_| samples.record(30_000));
        samples.record(3_000_000);
        samples.lose(3, "the ring was full");
        let points = vec![(0, 1000), (500, 1_000_000), (999, 30_000)];
        let blocks = [
            Block::heading("Wake latency"),
            Block::row("CPU", "1"),
            Block::table(["gap", "p50"], vec![["100 us".to_owned(), "38.2 us".to_owned()]]),
            Block::Note("A note.".to_owned()),
            Block::Warning("A warning.".to_owned()),
            Block::Histogram(samples),
            Block::Timeline(Timeline { title: "gaps".to_owned(), total_ns: 1000, unit: Unit::Ns, points }),
        ];
        let plain = anstream::adapter::strip_str(&text(&blocks)).to_string();
        expect![[r#"
            Wake latency
              CPU               1
              gap     p50
              100 us  38.2 us
              A note.
              A warning.
              wake_latency_ns cpu 1
              <=   50.0 us         50  ████████████████████████████████████████
              <=    100 us          0
              <=    200 us          0
              <=    500 us          0
              <=   1.00 ms          0
              <=   2.00 ms          0
              <=   5.00 ms          1  █
              lost: 3 (the ring was full)
              gaps
              ▁                                   █                                  ▄
              0                                                                1.00 us
        "#]]
        .assert_eq(&plain);
    }
}
