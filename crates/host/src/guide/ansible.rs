//! Ansible: tasks of the module `sysctl`, lists of them, and maps of keys and values. A reader of lines is enough for what people write, and it
//! names what it does not understand.

use super::line::{Ask, Content, Skip};
use super::shell::Script;
use super::{names, settings};
use crate::sysctl;

/// Names that tasks and lists give to the key.
const KEYS: [&str; 5] = ["name", "key", "sysctl_name", "param", "parameter"];
const VALUES: [&str; 3] = ["value", "val", "sysctl_value"];

/// A setting of which only one half was read.
#[derive(Default)]
struct Half {
    /// The line with the key, and the key.
    key: Option<(usize, String)>,
    /// The value before its key.
    value: Option<String>,
    /// The line of the last setting of this item.
    done: Option<usize>,
}

pub(super) fn read(text: &str) -> Vec<Content> {
    let (mut contents, mut half): (Vec<Content>, Half) = (Vec::new(), Half::default());
    for line in text.lines() {
        let content = one(line, contents.len(), &mut half, &mut contents);
        contents.push(content);
    }
    missing(&mut half, &mut contents);
    contents
}

fn one(line: &str, at: usize, half: &mut Half, contents: &mut [Content]) -> Content {
    let trimmed = line.trim();
    match trimmed.chars().next() {
        None => return Content::NotASetting(Skip::Blank),
        Some('#') => return Content::NotASetting(Skip::Comment),
        Some(_) => {}
    }
    let item = trimmed.strip_prefix("- ").map(str::trim);
    if item.is_some() {
        missing(half, contents);
    }
    let body = item.unwrap_or(trimmed);
    if body.starts_with('{') && body.contains('}') {
        return flow(bare(body));
    }
    let Some((key, value)) = pair(body) else {
        return match settings::assignment(body.trim_matches(['"', '\''])) {
            Some(ask) => Content::Settings(vec![ask]),
            None => Content::NotASetting(if trimmed.starts_with("---") { Skip::Structure } else { Skip::Elsewhere }),
        };
    };
    if value.starts_with(['{', '[']) && !value.starts_with("{{") {
        return flow(bare(value));
    }
    let plain = unquoted(value);
    if is_module(key) && plain.contains("name=") {
        return flow(&plain.replace(' ', ", ").replace('=', ": "));
    }
    if KEYS.contains(&key)
        && sysctl::known_path(plain).is_some_and(|path| path.contains(['_', '/']))
        && plain.contains('.')
    {
        half.key = Some((at, plain.to_owned()));
        return match half.value.take() {
            Some(value) => finished(half, at, &value),
            None => Content::NotASetting(Skip::Structure),
        };
    }
    if VALUES.contains(&key) {
        return match &half.key {
            Some(_) => finished(half, at, plain),
            None => {
                half.value = Some(plain.to_owned());
                Content::NotASetting(Skip::Structure)
            }
        };
    }
    if key == "state"
        && plain == "absent"
        && let Some(done) = half.done.take()
        && let Some(done) = contents.get_mut(done)
    {
        *done = Content::NotASetting(Skip::Command);
        return Content::NotASetting(Skip::Structure);
    }
    other(key, plain)
}

/// A line with a key that is no part of a task of `sysctl`.
fn other(key: &str, value: &str) -> Content {
    let name = key.trim_matches(['"', '\'']);
    if name.contains('.') && sysctl::known_path(name).is_some() {
        return match settings::plain_value(value).and_then(|value| names::by_key(name, value)) {
            Some(ask) => Content::Settings(vec![ask]),
            None => Content::not("its value is empty, or a variable of Ansible"),
        };
    }
    match key {
        "line" => settings::assignment(value)
            .map_or(Content::NotASetting(Skip::Elsewhere), |ask| Content::Settings(vec![ask])),
        "command" | "shell" | "cmd" | "ansible.builtin.command" | "ansible.builtin.shell" => {
            Script::default().line(value).unwrap_or(Content::NotASetting(Skip::Elsewhere))
        }
        _ if value.is_empty() || is_module(key) => Content::NotASetting(Skip::Structure),
        _ => Content::NotASetting(Skip::Elsewhere),
    }
}

/// Whether a key is the module `sysctl` under any of its names.
fn is_module(key: &str) -> bool {
    key == "sysctl" || key.ends_with(".sysctl")
}

/// The key and the value of a setting are both known.
fn finished(half: &mut Half, at: usize, value: &str) -> Content {
    let Some((_, key)) = half.key.take() else { return Content::NotASetting(Skip::Structure) };
    match settings::plain_value(value).and_then(|value| names::by_key(&key, value)) {
        Some(ask) => {
            half.done = Some(at);
            Content::Settings(vec![ask])
        }
        None => Content::not("its value is empty, or a variable of Ansible"),
    }
}

/// A new item begins: a key that never got a value is not understood.
fn missing(half: &mut Half, contents: &mut [Content]) {
    let begun = std::mem::take(half);
    if let Some((at, key)) = begun.key
        && let Some(content) = contents.get_mut(at)
    {
        *content = Content::not(format!("{key} has no value here"));
    }
}

/// How deep maps and lists on one line may be nested.
const DEPTH_MAX: usize = 4;

/// What maps and lists on one line say.
#[derive(Default)]
struct Flow {
    asks: Vec<Ask>,
    unclear: Vec<&'static str>,
    is_template: bool,
}

/// A map or a list on one line: `{name: KEY, value: VALUE}`, `[{a: 1}, {b: 2}]`.
fn flow(text: &str) -> Content {
    let mut said = Flow::default();
    said.inside(text, 0);
    match (said.asks.is_empty(), said.unclear.first()) {
        (false, _) => {
            let unclear = said.unclear.into_iter().map(|why| Ask::not_understood(why.to_owned()));
            said.asks.extend(unclear);
            Content::settings(said.asks)
        }
        (true, Some(why)) => Content::not(*why),
        (true, None) if said.is_template => Content::NotASetting(Skip::Structure),
        (true, None) => Content::NotASetting(Skip::Elsewhere),
    }
}

impl Flow {
    fn inside(&mut self, text: &str, depth: usize) {
        if depth > DEPTH_MAX {
            self.unclear.push("its lists are nested too deep");
            return;
        }
        let is_nested = |text: &str| text.starts_with(['{', '[']) && !text.starts_with("{{");
        let mut half: [Option<&str>; 2] = [None, None];
        for part in parts(text) {
            let Some((key, value)) = pair(part).filter(|_| !is_nested(part)) else {
                match is_nested(part) {
                    true => self.inside(bare(part), depth + 1),
                    false => self.asks.extend(settings::assignment(unquoted(part))),
                }
                continue;
            };
            if is_nested(value) {
                self.inside(bare(value), depth + 1);
            } else if KEYS.contains(&key) {
                half[0] = Some(unquoted(value));
            } else if VALUES.contains(&key) {
                half[1] = Some(unquoted(value));
            } else if key.contains('.') && sysctl::known_path(key).is_some() {
                self.setting(key, unquoted(value), "its value is empty, or a variable of Ansible");
            }
        }
        if let [Some(key), Some(value)] = half {
            match key.contains("{{") {
                true => self.is_template = true,
                false => self.setting(key, value, "its key is no sysctl, or its value is a variable"),
            }
        }
    }

    fn setting(&mut self, key: &str, value: &str, otherwise: &'static str) {
        match settings::plain_value(value).and_then(|value| names::by_key(key, value)) {
            Some(ask) => self.asks.push(ask),
            None => self.unclear.push(otherwise),
        }
    }
}

/// A map or a list without its brackets.
fn bare(text: &str) -> &str {
    let inner = text.get(1..).unwrap_or_default();
    inner.rfind(['}', ']']).map_or(inner, |end| &inner[..end])
}

/// The parts between the commas that are in no brackets and no quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

fn pair(text: &str) -> Option<(&str, &str)> {
    let at = text.find(": ").or_else(|| text.strip_suffix(':').map(str::len))?;
    let (key, value) = text.split_at(at);
    Some((key.trim().trim_matches(['"', '\'']), value[1..].trim()))
}

fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let value = value.split(" #").next().unwrap_or(value).trim().trim_end_matches(',');
    // The end of a map that began on another line.
    let value = value.strip_suffix('}').filter(|value| !value.contains('{')).unwrap_or(value).trim_end();
    ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(value)
}
