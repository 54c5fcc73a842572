//! Parts that several tabs use: colours, bars, sparklines, rows.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_watch::model::{Model, ServerModel};
use evenkeel_watch::{Measured, Unknown};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::show::escape::plain;

/// The maximum number of values of a sparkline.
const SPARK_VALUES: usize = 60;
/// The maximum number of servers with a sparkline.
const SPARK_SERVERS: usize = 64;
/// The width of the labels of rows.
const LABEL_WIDTH: usize = 17;
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The styles. Without colours, important text is bold. Every mark is also a character.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) has_colors: bool,
}

impl Palette {
    fn with(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn good(self) -> Style {
        self.with(Color::Green)
    }

    pub(super) fn warn(self) -> Style {
        self.with(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.with(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// The lateness of each server's ticks over the last samples.
#[derive(Debug, Default)]
pub(crate) struct Sparks {
    by_server: BTreeMap<String, VecDeque<Option<f64>>>,
}

impl Sparks {
    /// Adds the lateness of each server between two samples.
    pub(crate) fn add(&mut self, model: &Model) {
        let names: Vec<String> = model.servers.iter().map(key).collect();
        self.by_server.retain(|name, _| names.contains(name));
        for (name, server) in names.into_iter().zip(&model.servers).take(SPARK_SERVERS) {
            let late = server.ticks.known().and_then(|ticks| ticks.lateness.known()).map(|late| late.us_p99);
            let values = self.by_server.entry(name).or_default();
            values.push_back(late);
            if values.len() > SPARK_VALUES {
                values.pop_front();
            }
        }
    }

    /// The last `width` values as bars, relative to the highest of these values. A blank means an unknown value.
    pub(super) fn line(&self, server: &ServerModel, width: usize) -> String {
        let Some(values) = self.by_server.get(&key(server)) else { return " ".repeat(width) };
        let shown: Vec<Option<f64>> = values.iter().rev().take(width).rev().copied().collect();
        let highest = shown.iter().flatten().fold(0.0_f64, |highest, value| highest.max(*value));
        let bar = |value: &Option<f64>| match value {
            Some(value) if highest > 0.0 => {
                let eighth = (value / highest * 7.0).round().clamp(0.0, 7.0) as usize;
                SPARKS.get(eighth).copied().unwrap_or('█')
            }
            Some(_) => SPARKS[0],
            None => ' ',
        };
        let bars: String = shown.iter().map(bar).collect();
        format!("{}{bars}", " ".repeat(width.saturating_sub(shown.len())))
    }
}

fn key(server: &ServerModel) -> String {
    format!("{} {:?}", server.name, server.pid)
}

/// A row with a label.
pub(super) fn row(label: &str, value: impl Into<Span<'static>>) -> Line<'static> {
    Line::from(vec![Span::raw(format!(" {} ", fit(label, LABEL_WIDTH))), value.into()])
}

/// Like [`row`], for a value that may be unknown.
pub(super) fn known<T>(
    palette: Palette,
    label: &str,
    measured: &Measured<T>,
    show: impl FnOnce(&T) -> String,
) -> Line<'static> {
    match measured {
        Measured::Known(value) => row(label, plain(&show(value))),
        Measured::Unknown(unknown) => row(label, why(palette, unknown)),
    }
}

pub(super) fn why(palette: Palette, unknown: &Unknown) -> Span<'static> {
    Span::styled(format!("unknown: {}", plain(&unknown.why)), palette.dim())
}

/// A heading.
pub(super) fn title(palette: Palette, text: &str) -> Line<'static> {
    Line::styled(format!(" {}", plain(text)), palette.title())
}

/// Wraps a text to lines of this width, each with an indent.
pub(super) fn wrapped(text: &str, indent: usize, width: usize, style: Style) -> Vec<Line<'static>> {
    let text = plain(text);
    let room = width.saturating_sub(indent + 1).max(10);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| Line::styled(format!("{}{line}", " ".repeat(indent)), style)).collect()
}

/// A text that is cut or padded to this number of characters.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = plain(text);
    let count = text.chars().count();
    match count > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect(),
        false => format!("{text}{}", " ".repeat(width - count)),
    }
}

/// A text that is cut, or padded on the left, to this number of characters.
pub(super) fn right(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count >= width { fit(text, width) } else { format!("{}{text}", " ".repeat(width - count)) }
}

/// The width of [`hidden`].
pub(super) const HIDDEN_WIDTH: usize = 3;

/// The columns of a table that have room, in the order of the table. `keep` has their numbers, the most important first: a column is left
/// out if it, or a more important one, has no room.
pub(super) fn fitting(columns: &[(&str, usize)], keep: &[usize], room: usize) -> Vec<usize> {
    let mut used = 0;
    let fits = |at: &&usize| {
        used += columns[**at].1;
        used <= room
    };
    let mut shown: Vec<usize> = keep.iter().take_while(fits).copied().collect();
    shown.sort_unstable();
    shown
}

/// The sign in the head of a table that this many columns are hidden. Empty if none is.
pub(super) fn hidden(count: usize) -> String {
    if count == 0 { String::new() } else { right(&format!("+{count}"), HIDDEN_WIDTH) }
}

/// A line that fits into this width. If it is too long, it ends with `…`.
pub(super) fn cut(line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let mut left = width.saturating_sub(1);
    let mut spans = Vec::new();
    for span in line.spans {
        let mut text = String::new();
        let mut is_whole = true;
        for letter in span.content.chars() {
            let letter_width = Span::raw(letter.to_string()).width();
            if letter_width > left {
                is_whole = false;
                break;
            }
            left -= letter_width;
            text.push(letter);
        }
        spans.push(Span::styled(text, span.style));
        if !is_whole {
            break;
        }
    }
    spans.push(Span::raw("…"));
    Line { spans, ..line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_important_columns_that_have_room_are_shown() {
        let columns = [("a", 5), ("b", 10), ("c", 4)];
        let table: [(usize, &[usize]); 7] =
            [(19, &[0, 1, 2]), (18, &[0, 1]), (15, &[0, 1]), (14, &[1]), (10, &[1]), (9, &[]), (0, &[])];
        for (room, expected) in table {
            assert_eq!(fitting(&columns, &[1, 0, 2], room), expected, "{room}");
        }
        assert_eq!((hidden(0), hidden(2)), (String::new(), " +2".to_owned()));
    }

    #[test]
    fn a_line_that_is_too_long_shows_that_it_is_cut() {
        let line = || Line::from(vec![Span::raw("ab"), Span::raw("日本"), Span::raw("cd")]);
        let text = |width: usize| cut(line(), width).to_string();
        let table = [(8, "ab日本cd"), (7, "ab日本…"), (6, "ab日…"), (5, "ab日…"), (3, "ab…"), (1, "…"), (0, "…")];
        for (width, expected) in table {
            assert_eq!(text(width), expected, "{width}");
        }
    }
}
