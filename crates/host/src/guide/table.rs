//! Tables: finds the column of a row that has the value to set. The head of the table names the column.
//! Without such a head, the row must have a single value.

use super::line::{Ask, Content, Skip};
use super::{names, prose, settings};
use crate::sysctl;

/// The maximum number of columns in a head.
const COLUMNS_MAX: usize = 64;

/// A table, up to the current line.
#[derive(Default)]
pub(super) struct Table {
    head: Vec<Column>,
    rows: usize,
}

/// The meaning of a column, from its head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    /// The names.
    Name,
    /// The values to set, if the head says so.
    Wanted,
    /// Values. The head does not say whether to set them.
    Value,
    /// Other values, such as the defaults, or text about them.
    Other,
    /// The unit of the values.
    Unit,
    /// The head has another or an unknown meaning.
    Unknown,
}

/// Words in heads, for each kind of column.
const WANTED: [&str; 24] = [
    "recommended",
    "recommendation",
    "recommend",
    "suggested",
    "suggestion",
    "new",
    "set",
    "tuned",
    "target",
    "optimized",
    "optimised",
    "optimal",
    "proposed",
    "desired",
    "should",
    "after",
    "better",
    "our",
    "use",
    "required",
    "best",
    "change",
    "improved",
    "final",
];
const OTHER: [&str; 35] = [
    "default",
    "defaults",
    "old",
    "current",
    "before",
    "previous",
    "stock",
    "original",
    "type",
    "description",
    "why",
    "reason",
    "effect",
    "effects",
    "notes",
    "note",
    "comment",
    "comments",
    "meaning",
    "range",
    "min",
    "minimum",
    "max",
    "maximum",
    "since",
    "purpose",
    "impact",
    "risk",
    "what",
    "explanation",
    "rationale",
    "details",
    "version",
    "source",
    "allowed",
];
const NAMES: [&str; 11] =
    ["name", "names", "key", "sysctl", "parameter", "param", "option", "variable", "tunable", "knob", "attribute"];
const VALUES: [&str; 4] = ["value", "values", "setting", "settings"];
const UNITS: [&str; 2] = ["unit", "units"];

fn column(cell: &str) -> Column {
    let lower = cell.to_lowercase();
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_alphanumeric()).collect();
    let has = |own: &[&str]| words.iter().any(|word| own.contains(word));
    match () {
        () if has(&["recommended", "recommendation", "suggested", "new"]) => Column::Wanted,
        () if has(&UNITS) => Column::Unit,
        () if has(&OTHER) => Column::Other,
        () if has(&WANTED) => Column::Wanted,
        () if has(&NAMES) && !has(&VALUES) => Column::Name,
        () if has(&VALUES) => Column::Value,
        () => Column::Unknown,
    }
}

impl Table {
    /// A line that is not a row ends the table.
    pub(super) fn end(&mut self) {
        *self = Table::default();
    }

    /// Remembers the head, if its line does not begin with the mark of a row.
    pub(super) fn begin(&mut self, head: &str) {
        self.head = cells(head).iter().map(|cell| column(cell)).take(COLUMNS_MAX).collect();
        self.rows = 1;
    }

    /// The result of a row.
    pub(super) fn row(&mut self, line: &str) -> Content {
        let cells = cells(line);
        if is_rule(line) {
            return Content::NotASetting(Skip::Structure);
        }
        self.rows += 1;
        let named: Vec<usize> = (0..cells.len()).filter(|at| is_name(&cells[*at])).collect();
        match named.as_slice() {
            [] => {
                let kinds: Vec<Column> = cells.iter().map(|cell| column(cell)).take(COLUMNS_MAX).collect();
                let has = |kind| kinds.contains(&kind);
                let is_head = has(Column::Name) && (has(Column::Value) || has(Column::Wanted));
                if self.rows == 1 || is_head {
                    self.head = kinds;
                }
                self.sentences(&cells)
            }
            [first, second, ..] if self.rows == 1 && cells.get(first + 1).is_some_and(|next| is_name(next)) => {
                let names = [&cells[*first], &cells[*second]].map(String::as_str).join(", ");
                Content::not(format!("the names are in the head of the table: {names}"))
            }
            [at, ..] => match self.value(&cells, *at) {
                Ok(ask) => Content::Settings(vec![ask]),
                Err(why) => Content::not(format!("{}: {why}", cells[*at])),
            },
        }
    }

    /// A row without a name in its own cell. Its cells are read as sentences, except cells in a column of other values.
    fn sentences(&self, cells: &[String]) -> Content {
        let (mut asks, mut unclear) = (Vec::new(), Vec::new());
        for (at, cell) in cells.iter().enumerate() {
            let arguments = names::by_known_arguments(cell.trim_matches('`')).map(Content::settings);
            match prose::content(cell).or(arguments) {
                Some(Content::Settings(_)) if self.kind(at) == Column::Other => {
                    let plain = cell.trim_matches('`');
                    unclear.push(format!("{plain}: it is in a column of other values"));
                }
                Some(Content::Settings(found)) => asks.extend(found),
                Some(Content::NotUnderstood(why)) => unclear.push(why),
                _ => {}
            }
        }
        match (asks.is_empty(), unclear.is_empty()) {
            (true, true) => Content::NotASetting(Skip::Prose),
            (true, false) => Content::not(unclear.join("; ")),
            (false, _) => {
                asks.extend(unclear.into_iter().map(Ask::not_understood));
                Content::settings(asks)
            }
        }
    }

    fn kind(&self, at: usize) -> Column {
        self.head.get(at).copied().unwrap_or(Column::Unknown)
    }

    /// The setting of a row with a name.
    fn value(&self, cells: &[String], name: usize) -> Result<Ask, &'static str> {
        let of = |kind: Column| -> Vec<usize> {
            (0..cells.len()).filter(|at| *at != name && self.kind(*at) == kind && !cells[*at].is_empty()).collect()
        };
        let like_values = || -> Vec<usize> {
            let candidates = of(Column::Unknown).into_iter().chain(of(Column::Name));
            candidates.filter(|at| *at > name && is_number(&cells[*at])).collect()
        };
        let wanted = [of(Column::Wanted), of(Column::Value), like_values()];
        let at = match wanted.iter().find(|found| !found.is_empty()).map(Vec::as_slice) {
            Some([at]) => *at,
            Some(_) => return Err("the table has several columns of values"),
            None if of(Column::Other).iter().any(|at| is_number(&cells[*at])) => {
                return Err("the table has no column of values to set");
            }
            None => match of(Column::Unknown).into_iter().find(|at| *at > name) {
                Some(at) => at,
                None => return Err("the table has no value for it"),
            },
        };
        let unit = of(Column::Unit).into_iter().map(|at| cells[at].to_lowercase());
        if unit
            .into_iter()
            .any(|unit| !["bytes", "byte", "count", "number", "-", "none", "bool", "boolean"].contains(&unit.as_str()))
        {
            return Err("the table has a unit for it, and evenkeel does not convert units");
        }
        let value = cells[at].as_str();
        if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" _-".contains(&byte)) {
            return Err("the value in the table is not plain");
        }
        let is_word = |value: &str| !NO_VALUES.contains(&value.to_lowercase().as_str()) && !has_unit(value);
        settings::plain_value(value)
            .filter(|value| if value.contains(' ') { is_number(value) } else { is_word(value) })
            .and_then(|value| prose::named(&cells[name], value))
            .ok_or("the table has no value for it")
    }
}

/// Words that appear in a column of values but are not values.
const NO_VALUES: [&str; 10] = ["default", "unchanged", "varies", "yes", "no", "na", "-", "--", "same", "see"];

/// Whether the value consists only of numbers.
fn is_number(value: &str) -> bool {
    !value.is_empty() && value.split_whitespace().all(|word| word.parse::<i64>().is_ok())
}

/// Whether letters follow a number, as in `16MB`.
fn has_unit(value: &str) -> bool {
    let letters = value.trim_start_matches(|letter: char| letter.is_ascii_digit());
    letters.len() < value.len() && !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether a cell contains only a name.
fn is_name(cell: &str) -> bool {
    let is_file = cell.starts_with("/proc/sys/") || cell.starts_with("/sys/");
    !cell.contains(' ') && (is_file || sysctl::known_path(cell).is_some())
}

/// The line between the head of a table and its rows.
pub(super) fn is_rule(line: &str) -> bool {
    line.contains('|') && line.contains('-') && line.bytes().all(|byte| b"|-: ".contains(&byte))
}

/// The cells of a row, without marks for code and emphasis, and without the addresses of links.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').filter(|line| !line.ends_with('\\')).unwrap_or(line);
    let marked = line.replace("\\|", "\u{2}");
    let one = |cell: &str| {
        let cell = cell.replace('\u{2}', "|").replace("\\_", "_");
        let cell = cell.trim();
        let inner = cell.trim_matches(['`', '*', ' ']);
        let link = inner.strip_prefix('[').and_then(|rest| rest.split_once("](")).filter(|(_, end)| end.ends_with(')'));
        let plain = link.map_or(inner, |(text, _)| text.trim_matches(['`', '*', ' ']));
        // Marks within the cell belong to its sentence.
        // The mark before an assignment in code stays too, because a kernel argument counts only in code.
        let is_code = cell.contains('`') && plain.contains('=');
        if plain.contains('`') || is_code { cell.to_owned() } else { plain.to_owned() }
    };
    marked.split('|').map(one).collect()
}
