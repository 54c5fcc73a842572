//! Collects the results for each line of a text in YAML. The nodes are not read in the order of the lines.

use std::collections::BTreeMap;

use super::super::line::{Ask, Content, Skip};
use super::super::{mentions, names, prose, settings};
use crate::sysctl;

/// Why a setting has no known value.
pub(super) const NO_VALUE: &str = "its value is empty, or a variable of Ansible";
/// The maximum number of settings that the loops of a text's tasks may produce.
const LOOPED_MAX: usize = 20_000;

/// The result of one line.
#[derive(Default)]
pub(super) struct Line {
    asks: Vec<Ask>,
    unclear: Vec<String>,
    skip: Option<Skip>,
    /// Whether a task has set the result of this line.
    is_done: bool,
}

impl Line {
    pub(super) fn content(mut self, raw: &str, is_odd: bool) -> Content {
        match (self.asks.is_empty(), self.unclear.is_empty()) {
            (false, _) => {
                self.asks.extend(self.unclear.into_iter().map(Ask::not_understood));
                return Content::settings(self.asks);
            }
            (true, false) => return Content::not(self.unclear.join("; ")),
            (true, true) => {}
        }
        if let Some(skip) = self.skip {
            return Content::NotASetting(skip);
        }
        let is_pattern = ["#", "regexp:", "regex:"].iter().any(|begin| raw.starts_with(begin));
        let named = prose::assigned(raw).filter(|_| !self.is_done && !is_pattern);
        match raw.chars().next() {
            Some(_) if named.is_some() => {
                let ask = named.map(|ask| ask.to_string()).unwrap_or_default();
                Content::not(format!("it has {ask}, and evenkeel does not know what reads this text"))
            }
            None => Content::NotASetting(Skip::Blank),
            Some('#') => Content::NotASetting(Skip::Comment),
            Some(_) if is_odd && mentions::first(raw).is_some() => Content::not("evenkeel can't read it as YAML"),
            Some(_) if raw.starts_with("---") || raw.ends_with(':') => Content::NotASetting(Skip::Structure),
            Some(_) => Content::NotASetting(Skip::Elsewhere),
        }
    }
}

/// The results of the lines of the text.
pub(super) struct Lines {
    lines: Vec<Line>,
    looped: usize,
    /// The variables of the text that have one value.
    pub(super) constants: BTreeMap<String, String>,
}

impl Lines {
    pub(super) fn new(count: usize) -> Lines {
        Lines { lines: (0..count).map(|_| Line::default()).collect(), looped: 0, constants: BTreeMap::new() }
    }

    pub(super) fn all(self) -> impl Iterator<Item = Line> {
        self.lines.into_iter()
    }

    /// Counts one more setting of a loop. Returns whether the total is within the limit.
    pub(super) fn may_loop(&mut self) -> bool {
        self.looped += 1;
        self.looped <= LOOPED_MAX
    }

    fn at(&mut self, line: usize, does: impl FnOnce(&mut Line)) {
        if let Some(line) = self.lines.get_mut(line) {
            does(line);
        }
    }

    /// Whether a task has set the result of a line.
    pub(super) fn is_done(&self, line: usize) -> bool {
        self.lines.get(line).is_none_or(|line| line.is_done)
    }

    pub(super) fn done(&mut self, line: usize, skip: Skip) {
        self.at(line, |line| {
            line.is_done = true;
            line.skip = line.skip.or(Some(skip));
        });
    }

    pub(super) fn ask(&mut self, line: usize, ask: Ask) {
        self.at(line, |line| line.asks.push(ask));
    }

    pub(super) fn not(&mut self, line: usize, why: impl Into<String>) {
        let why = why.into();
        self.at(line, |line| {
            if !line.unclear.contains(&why) {
                line.unclear.push(why);
            }
        });
    }

    pub(super) fn add(&mut self, line: usize, content: Content) {
        match content {
            Content::Settings(asks) => self.at(line, |line| line.asks.extend(asks)),
            Content::NotUnderstood(why) => self.not(line, why),
            Content::NotASetting(skip) => self.at(line, |line| line.skip = line.skip.or(Some(skip))),
        }
    }

    /// A setting by its key and its value in Ansible's form.
    pub(super) fn setting(&mut self, line: usize, key: &str, value: &str) {
        let constant = value.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let value = constant.and_then(|name| self.constants.get(name)).map_or(value, String::as_str);
        match ask(key, value) {
            Some(ask) => self.ask(line, ask),
            None => self.not(line, NO_VALUE),
        }
    }
}

/// The setting of a key. The module writes booleans as 0 and 1.
fn ask(key: &str, value: &str) -> Option<Ask> {
    let value = match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "y" | "t" => "1",
        "no" | "false" | "off" | "n" | "f" => "0",
        _ => value,
    };
    settings::plain_value(value).and_then(|value| match key.starts_with('/') {
        true => names::by_file(key, value),
        false => names::by_key(key, value),
    })
}

/// Whether a text is the name of a sysctl.
pub(super) fn is_name(text: &str) -> bool {
    text.contains('.') && !text.contains(' ') && sysctl::known_path(text).is_some()
}
