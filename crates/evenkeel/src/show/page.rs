//! A page of text for people: headings, labelled rows, tables and wrapped paragraphs that fit 80 columns.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use evenkeel_host::Fact;
use evenkeel_sys::Errno;

use crate::show::escape::plain;

/// The width in a pipe, in a log and in tests, where the width must not vary.
const USUAL_WIDTH: usize = 80;
/// The range of line widths. Wider lines would be hard to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=200;
/// The minimum width of a column for a table to wrap text in it.
const CELL_WIDTH_MIN: usize = 16;

/// The column at which the values of labelled rows begin.
const VALUE_COLUMN: usize = 20;

/// The maximum number of characters of an unexpected text that a page shows. The JSON answer has more.
const RAW_CHARS_MAX: usize = 60;

/// The maximum number of characters that a page shows of a word or of a table cell. The JSON answer has all characters.
/// Names of functions can have some hundreds. The limit must be below 65,536, because `format!` panics at that width.
const WORD_CHARS_MAX: usize = 1000;

/// The maximum number of characters of a line or a paragraph: four times the longest kernel command line.
const LINE_CHARS_MAX: usize = 16_384;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// The width of a page: the width of the terminal, or else `COLUMNS`, or else 80 columns.
pub(crate) fn width() -> usize {
    static WIDTH: OnceLock<usize> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let named = || std::env::var("COLUMNS").ok()?.parse().ok();
        terminal().or_else(named).map_or(USUAL_WIDTH, |width| width.clamp(*WIDTHS.start(), *WIDTHS.end()))
    })
}

/// The width of the terminal on standard output; `None` if standard output is not a terminal.
fn terminal() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(columns, _)| usize::from(columns.0))
}

/// Wraps the lines of a text for a terminal. In a pipe or a log, the lines stay whole, so that scripts can search them.
pub(crate) fn fitted(text: &str) -> String {
    if terminal().is_some() { fitted_to(text, width()) } else { text.to_owned() }
}

/// Wraps lines that are too long. Indents the rest of a line by four more columns.
fn fitted_to(text: &str, width: usize) -> String {
    let mut fitted = String::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            fitted += line;
            fitted.push('\n');
            continue;
        }
        let begin = line.len() - line.trim_start().len();
        for (at, part) in wrap(line, width.saturating_sub(begin + 4)).iter().enumerate() {
            let indent = if at == 0 { begin } else { begin + 4 };
            let _ = writeln!(fitted, "{:indent$}{part}", "");
        }
    }
    fitted
}

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    width: usize,
}

impl Default for Page {
    fn default() -> Page {
        Page { text: String::new(), width: width() }
    }
}

/// The indent of a wrapped paragraph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indent {
    /// The indent of the first line, in columns.
    pub(crate) first: usize,
    /// The indent of the other lines, in columns.
    pub(crate) rest: usize,
}

impl Indent {
    /// The same indent for every line.
    pub(crate) fn all(columns: usize) -> Indent {
        Indent { first: columns, rest: columns }
    }
}

impl Page {
    /// Writes a heading, with an empty line before it unless it is the first heading.
    pub(crate) fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        for line in wrap(title, self.width) {
            self.line(HEADING, &line);
        }
    }

    /// Writes one line of any length and never wraps it, so that users can copy commands.
    pub(crate) fn line(&mut self, style: Style, text: &str) {
        let text = one_line(text);
        let text = text.trim_end();
        if text.is_empty() || style == PLAIN {
            self.text.push_str(text);
        } else {
            let _ = write!(self.text, "{style}{text}{style:#}");
        }
        self.text.push('\n');
    }

    /// Writes a line of several parts. Each part has its own style.
    pub(crate) fn parts(&mut self, parts: &[(Style, &str)]) {
        for (style, text) in parts {
            let _ = match *style == PLAIN {
                true => write!(self.text, "{}", one_line(text)),
                false => write!(self.text, "{style}{}{style:#}", one_line(text)),
            };
        }
        self.text.push('\n');
    }

    /// Writes a paragraph, and wraps it.
    pub(crate) fn paragraph(&mut self, indent: Indent, style: Style, text: &str) {
        for (at, line) in wrap(text, self.width.saturating_sub(indent.first.max(indent.rest))).iter().enumerate() {
            let columns = if at == 0 { indent.first } else { indent.rest };
            self.text.push_str(&" ".repeat(columns));
            self.line(style, line);
        }
    }

    /// The number of lines that this paragraph would take.
    pub(crate) fn lines_of(&self, indent: Indent, text: &str) -> usize {
        wrap(text, self.width.saturating_sub(indent.first.max(indent.rest))).len()
    }

    /// Writes `label   value`. Wraps the value in its column.
    /// If the label is too long, the value begins on the next line.
    pub(crate) fn row(&mut self, label: &str, style: Style, value: &str) {
        let label = plain(label);
        let is_long = label.chars().count() >= self.width;
        if is_long {
            self.paragraph(Indent::all(2), PLAIN, &label);
        }
        for (at, line) in wrap(value, self.width - VALUE_COLUMN).iter().enumerate() {
            let label = if at == 0 && !is_long { &*label } else { "" };
            let _ = write!(self.text, "  {label:width$}", width = VALUE_COLUMN - 2);
            self.line(style, line);
        }
    }

    /// Writes a row with a fact: its value, or the reason why it is unknown, in dim text.
    pub(crate) fn fact<T: Display>(&mut self, label: &str, fact: &Fact<T>) {
        self.fact_as(label, fact, T::to_string);
    }

    /// Like [`Page::fact`], but `show` converts the value to text.
    pub(crate) fn fact_as<T>(&mut self, label: &str, fact: &Fact<T>, show: impl FnOnce(&T) -> String) {
        match fact.known() {
            Some(value) => self.row(label, PLAIN, &show(value)),
            None => self.row(label, DIM, &unknown(fact)),
        }
    }

    /// Writes a term in a column of this width, and its meaning, indented by two columns.
    /// On a narrow page, the meaning is below the term.
    pub(crate) fn term(&mut self, term: &str, width: usize, meaning: &str) {
        let column = width + 4;
        for (at, line) in wrap(meaning, self.width.saturating_sub(column).max(CELL_WIDTH_MIN)).iter().enumerate() {
            let term = if at == 0 { format!("  {term:width$}  ") } else { " ".repeat(column) };
            self.parts(&[(HEADING, &term), (PLAIN, line)]);
        }
    }

    /// Writes rows in columns, indented by two columns. Each column is as wide as its widest cell.
    pub(crate) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        // Cut long cells, because a cell of a megabyte would widen every row.
        let cells = |row: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            row.map(|cell| cut(&plain(cell), WORD_CHARS_MAX).into_owned()).collect()
        };
        let header = cells(&mut header.iter().copied());
        let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(&mut row.iter().map(String::as_str))).collect();
        let mut widths: Vec<usize> = header.iter().map(|title| title.chars().count()).collect();
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum::<usize>() + 2;
        let last = self.width.saturating_sub(before).max(CELL_WIDTH_MIN);
        self.table_row(DIM, &header, &widths, last);
        for row in &rows {
            self.table_row(PLAIN, row, &widths, last);
        }
    }

    /// Writes a row of a table. If the last cell is wider than `last`, it continues below.
    fn table_row(&mut self, style: Style, cells: &[String], widths: &[usize], last: usize) {
        let is_wide = cells.len() == widths.len() && widths.last().is_some_and(|width| *width > last);
        let (cells, rest) = match cells.split_last() {
            // A cut cell is one long word that states how much is missing. Do not wrap it.
            Some((cell, others)) if is_wide && cell.chars().count() <= WORD_CHARS_MAX => (others, wrap(cell, last)),
            _ => (cells, Vec::new()),
        };
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}", width = *width));
        let mut line = format!("  {}", padded.collect::<Vec<_>>().join("  "));
        let column = line.chars().count() + 2;
        for (at, piece) in rest.iter().enumerate() {
            if at > 0 {
                self.line(style, &line);
                line = " ".repeat(column - 2);
            }
            line.push_str("  ");
            line.push_str(piece);
        }
        self.line(style, &line);
    }

    /// The text of the page.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// The state of a fact without a value: `absent: why`, `denied: why` or `odd: why: "text"`.
/// The JSON uses the same first words.
pub(crate) fn unknown<T>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Known(_) => String::new(),
        Fact::Absent { why } => {
            // The text for a missing file adds nothing to the word "absent".
            let errno = format!(": {}", Errno::NOENT);
            format!("absent: {}", why.strip_suffix(&errno).unwrap_or(why))
        }
        Fact::Unseen { why } => format!("absent: {why}"),
        Fact::Denied { why } | Fact::Forbidden { why } => format!("denied: {why}"),
        Fact::Odd { why, raw, .. } if raw.is_empty() => format!("odd: {why}"),
        Fact::Odd { why, raw, .. } => {
            let head: String = raw.chars().take(RAW_CHARS_MAX).collect();
            let more = if head.len() < raw.len() { "…" } else { "" };
            format!("odd: {why}: {head:?}{more}")
        }
    }
}

/// The text, cut to at most this many characters. Adds the number of missing characters.
fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    // A text with this many bytes or fewer can't have more characters, so there is no need to count them.
    let end = if text.len() > chars_max { text.char_indices().nth(chars_max) } else { None };
    match end {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            Cow::Owned(kept.to_owned() + &missing(rest))
        }
    }
}

/// The text that replaces hidden text.
fn missing(text: &str) -> String {
    format!("… ({} more characters)", text.chars().count())
}

/// Cleans a text for a terminal, and cuts it to the maximum length of a line.
pub(crate) fn one_line(text: &str) -> String {
    cut(&plain(text), LINE_CHARS_MAX).into_owned()
}

/// Wraps a text at white space.
/// Splits a word that is longer than a line only after a slash or a comma, because a reader can't copy half a name.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text).iter().flat_map(|word| word.split_whitespace()) {
        let length = word.chars().count();
        if used > 0 && used + 1 + length <= width {
            if let Some(line) = lines.last_mut() {
                line.push(' ');
                line.push_str(word);
            }
            used += 1 + length;
            continue;
        }
        if used > 0 {
            lines.push(String::new());
        }
        used = 0;
        for piece in pieces(word, width) {
            if used > 0 {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(piece);
            }
            used = piece.chars().count();
        }
    }
    lines
}

/// The words of a paragraph.
/// Cuts each word to the maximum length of a word, and all words together to the maximum length of a paragraph.
fn words(text: &str) -> Vec<Cow<'_, str>> {
    let (mut words, mut chars) = (Vec::new(), 0);
    let mut rest = text.trim();
    while !rest.is_empty() && chars < LINE_CHARS_MAX {
        let (word, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        let word = cut(word, WORD_CHARS_MAX);
        chars += word.chars().count() + 1;
        words.push(word);
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        words.push(Cow::Owned(missing(rest)));
    }
    words
}

/// Splits a word into pieces that fit a line, if the word has places where a split is allowed.
fn pieces(word: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((end, _)) = rest.char_indices().nth(width) {
        let is_break = |at: &usize| matches!(rest.as_bytes()[*at], b'/' | b',') && at + 1 < rest.len();
        let Some(at) = (0..end).rev().find(|at| *at > 0 && is_break(at)).or_else(|| (end..rest.len()).find(is_break))
        else {
            break;
        };
        let (piece, after) = rest.split_at(at + 1);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below() {
        let text = "same: no difference\n  caveat: a window of this length is too short\n";
        let expected = "same: no difference\n  caveat: a window\n      of this length\n      is too short\n";
        assert_eq!(fitted_to(text, 22), expected);
        assert_eq!(fitted_to(text, 60), text);
    }

    #[test]
    fn words_wrap_and_only_long_ones_break() {
        let wrapped = |text: &str, width| wrap(text, width).join("|");
        assert_eq!(wrapped("one two three", 7), "one two|three");
        assert_eq!(wrapped("one", 80), "one");
        assert_eq!(wrapped("", 80), "");
        assert_eq!(wrapped("a abcdefgh b", 3), "a|abcdefgh|b");
        assert_eq!(wrapped("abcdef", 3), "abcdef");
        assert_eq!(wrapped("ab,cdef,gh", 3), "ab,|cdef,|gh");
        assert_eq!(wrapped("/a/bc/de", 5), "/a/|bc/de");
        assert_eq!(wrapped("äöü äöü", 7), "äöü äöü");
        assert_eq!(wrapped("ab", 0), "ab");
    }

    #[test]
    fn the_last_column_of_a_table_goes_on_below() {
        let mut page = Page { width: 30, ..Page::default() };
        let rows = [vec!["one".to_owned(), "1".to_owned(), "some words that do not fit".to_owned()]];
        page.table(&["name", "count", "why"], &rows);
        let page = anstream::adapter::strip_str(&page.finish()).to_string();
        assert_eq!(page, "  name  count  why\n  one   1      some words that\n               do not fit\n");
    }

    #[test]
    fn no_line_is_longer_than_the_page_where_words_are_shorter() {
        let text =
            "a server that waits for packets sleeps in the kernel until the interrupt of its queue has been served";
        for width in [40, 60, 80, 200] {
            let mut page = Page { width, ..Page::default() };
            page.row("label", PLAIN, text);
            page.paragraph(Indent { first: 2, rest: 6 }, PLAIN, text);
            page.table(&["name", "why"], &[vec!["x".to_owned(), text.to_owned()]]);
            let page = anstream::adapter::strip_str(&page.finish()).to_string();
            assert!(page.lines().all(|line| line.chars().count() <= width), "{width}: {page}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
            assert_eq!(words(&page).matches(text).count(), 3, "{width}: {page}");
        }
    }

    /// Regression: a cell of 65,536 characters ended the program,
    /// and the time for a long word grew with the square of its length.
    /// This test checks no time, but with such growth twenty megabytes would take for ever.
    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let said = |text: String| {
            let text = anstream::adapter::strip_str(&text).to_string();
            text.lines().map(str::trim).collect::<Vec<_>>().join("").replace(' ', "")
        };
        for length in [1001, 65_534, 65_536, 70_000] {
            let mut page = Page::default();
            page.table(&["name", "count"], &[vec!["x".repeat(length), "1".to_owned()], vec!["y".to_owned()]]);
            page.row(&"l".repeat(length), PLAIN, &"v".repeat(length));
            page.paragraph(Indent::all(2), PLAIN, &"p".repeat(length));
            let page = page.finish();
            assert!(page.lines().all(|line| line.chars().count() < 2 * WORD_CHARS_MAX), "{length}");
            let words = format!("…({}morecharacters)", length - WORD_CHARS_MAX);
            assert_eq!(said(page).matches(&words).count(), 4, "{length}");
        }
        let whole = "w".repeat(WORD_CHARS_MAX);
        let mut page = Page::default();
        page.row("name", PLAIN, &whole);
        page.table(&["name"], &[vec![whole.clone()]]);
        assert_eq!(said(page.finish()), format!("name{whole}name{whole}"));
        for long in ["x".repeat(20_000_000), "some words ".repeat(1_000_000), "ä/".repeat(1_000_000)] {
            let mut page = Page::default();
            page.row("name", PLAIN, &long);
            page.line(PLAIN, &long);
            page.parts(&[(PLAIN, &long)]);
            let page = page.finish();
            assert!(page.len() < 5 * LINE_CHARS_MAX && page.contains("more characters)"), "{} bytes", page.len());
        }
    }

    #[test]
    fn no_control_character_reaches_the_terminal() {
        let mut page = Page::default();
        page.row("a\x1b[2J", PLAIN, "b\x07 \x1b]0;title\x07");
        page.parts(&[(PLAIN, "\u{9b}2J")]);
        page.table(&["a\u{202e}b"], &[vec!["\u{2066}c".to_owned()]]);
        page.line(PLAIN, "x\r\ny");
        let page = anstream::adapter::strip_str(&page.finish()).to_string();
        assert_eq!(page.matches('\u{fffd}').count(), 9, "{page}");
        assert!(!page.chars().any(|character| character.is_control() && character != '\n'));
    }
}
