//! A page of text for people: headings, labelled rows, tables and wrapped paragraphs that fit 80 columns.

use std::fmt::{Display, Write};

use anstyle::{AnsiColor, Style};
use evenkeel_host::Fact;
use evenkeel_sys::Errno;

use crate::show::escape::plain;

/// What every terminal has; a fixed width also keeps the output the same in a pipe, a log and a test.
pub(crate) const WIDTH: usize = 80;

/// Where the values of labelled rows begin.
const VALUE_COLUMN: usize = 20;

/// The most of an odd text that a page shows, in characters; JSON has more of it.
const RAW_CHARS_MAX: usize = 60;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// A page under construction.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
}

/// A wrapped paragraph's place on the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indent {
    /// Of the first line, in columns.
    pub(crate) first: usize,
    /// Of the others.
    pub(crate) rest: usize,
}

impl Indent {
    /// The same for every line.
    pub(crate) fn all(columns: usize) -> Indent {
        Indent { first: columns, rest: columns }
    }
}

impl Page {
    /// A heading, with an empty line before it unless it is the first.
    pub(crate) fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(HEADING, title);
    }

    /// One line as it is, however long: for commands that are to be copied.
    pub(crate) fn line(&mut self, style: Style, text: &str) {
        let text = plain(text);
        let text = text.trim_end();
        if text.is_empty() || style == PLAIN {
            self.text.push_str(text);
        } else {
            let _ = write!(self.text, "{style}{text}{style:#}");
        }
        self.text.push('\n');
    }

    /// A line made of parts that each have a style.
    pub(crate) fn parts(&mut self, parts: &[(Style, &str)]) {
        for (style, text) in parts {
            let _ = match *style == PLAIN {
                true => write!(self.text, "{}", plain(text)),
                false => write!(self.text, "{style}{}{style:#}", plain(text)),
            };
        }
        self.text.push('\n');
    }

    /// A paragraph, wrapped.
    pub(crate) fn paragraph(&mut self, indent: Indent, style: Style, text: &str) {
        for (at, line) in wrap(text, WIDTH - indent.first.max(indent.rest)).iter().enumerate() {
            let columns = if at == 0 { indent.first } else { indent.rest };
            self.text.push_str(&" ".repeat(columns));
            self.line(style, line);
        }
    }

    /// `label   value`, the value wrapped in its column.
    pub(crate) fn row(&mut self, label: &str, style: Style, value: &str) {
        for (at, line) in wrap(value, WIDTH - VALUE_COLUMN).iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            let _ = write!(self.text, "  {:width$}", plain(label), width = VALUE_COLUMN - 2);
            self.line(style, line);
        }
    }

    /// A row with a fact: its value, or dim words that say why it is unknown.
    pub(crate) fn fact<T: Display>(&mut self, label: &str, fact: &Fact<T>) {
        self.fact_as(label, fact, T::to_string);
    }

    /// A row with what `show` makes of a fact.
    pub(crate) fn fact_as<T>(&mut self, label: &str, fact: &Fact<T>, show: impl FnOnce(&T) -> String) {
        match fact.known() {
            Some(value) => self.row(label, PLAIN, &show(value)),
            None => self.row(label, DIM, &unknown(fact)),
        }
    }

    /// Rows in columns as wide as their widest cell; indented by two.
    pub(crate) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        let widths: Vec<usize> = header
            .iter()
            .enumerate()
            .map(|(column, title)| {
                let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
                cells.max().unwrap_or(0).max(title.chars().count())
            })
            .collect();
        let join = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width));
            format!("  {}", padded.collect::<Vec<_>>().join("  "))
        };
        self.line(DIM, &join(&mut header.iter().copied()));
        for row in rows {
            self.line(PLAIN, &join(&mut row.iter().map(String::as_str)));
        }
    }

    /// The page.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// `absent: why`, `denied: why` or `odd: why: "text"`; the first words are those of the JSON.
pub(crate) fn unknown<T>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Known(_) => String::new(),
        Fact::Absent { why } => {
            // The errno of absence says nothing that the word does not.
            let errno = format!(": {}", Errno::NOENT);
            format!("absent: {}", why.strip_suffix(&errno).unwrap_or(why))
        }
        Fact::Unseen { why } => format!("absent: {why}"),
        Fact::Denied { why } => format!("denied: {why}"),
        Fact::Odd { why, raw, .. } if raw.is_empty() => format!("odd: {why}"),
        Fact::Odd { why, raw, .. } => {
            let head: String = raw.chars().take(RAW_CHARS_MAX).collect();
            let more = if head.len() < raw.len() { "…" } else { "" };
            format!("odd: {why}: {head:?}{more}")
        }
    }
}

/// Breaks at white space; inside a word only where it is longer than a line, and then after a slash if there is one.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() <= width {
            if let Some(line) = lines.last_mut() {
                line.push(' ');
                line.extend(&word);
            }
            used += 1 + word.len();
            continue;
        }
        if used > 0 {
            lines.push(String::new());
        }
        while word.len() > width {
            let slash = word[..width].iter().rposition(|letter| *letter == '/');
            let rest = word.split_off(slash.map_or(width, |at| at + 1));
            if let Some(line) = lines.last_mut() {
                line.extend(&word);
            }
            lines.push(String::new());
            word = rest;
        }
        used = word.len();
        if let Some(line) = lines.last_mut() {
            line.extend(&word);
        }
    }
    lines
}

/// `35.8 MiB`: binary units, one decimal where it is not whole.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (1..units.len()).take_while(|power| bytes >> (10 * power) > 0).last().unwrap_or(0);
    let unit = 1_u64 << (10 * power);
    let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    match tenths % 10 {
        0 => format!("{} {}", tenths / 10, units[power]),
        tenth => format!("{}.{tenth} {}", tenths / 10, units[power]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_and_only_long_ones_break() {
        let wrapped = |text: &str, width| wrap(text, width).join("|");
        assert_eq!(wrapped("one two three", 7), "one two|three");
        assert_eq!(wrapped("one", 80), "one");
        assert_eq!(wrapped("", 80), "");
        assert_eq!(wrapped("a abcdefgh b", 3), "a|abc|def|gh|b");
        assert_eq!(wrapped("abcdef", 3), "abc|def");
        assert_eq!(wrapped("/a/bc/de", 5), "/a/|bc/de");
        assert_eq!(wrapped("äöü äöü", 7), "äöü äöü");
        assert_eq!(wrapped("ab", 0), "a|b");
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (32 << 10, "32 KiB"),
            (37_486_592, "35.8 MiB"),
            (16_777_216_000, "15.6 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (size, expected) in table {
            assert_eq!(bytes(size), expected);
        }
    }

    #[test]
    fn no_control_character_reaches_the_terminal() {
        let mut page = Page::default();
        page.row("a\x1b[2J", PLAIN, "b\x07 \x1b]0;title\x07");
        page.parts(&[(PLAIN, "\u{9b}2J")]);
        page.line(PLAIN, "x\r\ny");
        assert!(!page.finish().chars().any(|character| character.is_control() && character != '\n'));
    }
}
