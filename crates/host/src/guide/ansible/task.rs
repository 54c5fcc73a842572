//! Tasks: the settings of the module `sysctl`, with its loop, and the files that other modules write.

use std::collections::BTreeMap;

use super::super::line::{Content, Skip};
use super::super::shell::Script;
use super::super::{boot, config, mentions, settings, udev, unit, words};
use super::lines::{Lines, NO_VALUE, is_name};
use super::profile;
use super::yaml::{Kind, Node, Pair};

/// Lists and maps of a text, by name.
pub(super) struct Variables<'a>(BTreeMap<&'a str, &'a Node>);

impl<'a> Variables<'a> {
    pub(super) fn from_nodes(nodes: &'a [Node]) -> Variables<'a> {
        let mut found = BTreeMap::new();
        let mut rest: Vec<&Node> = nodes.iter().collect();
        while let Some(node) = rest.pop() {
            rest.extend(node.items());
            for pair in node.pairs() {
                if matches!(pair.value.kind, Kind::Map(_) | Kind::List(_)) {
                    found.insert(pair.key.as_str(), &pair.value);
                }
                rest.push(&pair.value);
            }
        }
        Variables(found)
    }
}

/// The variables of a text that have one plain value.
pub(super) fn constants(nodes: &[Node]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut rest: Vec<&Node> = nodes.iter().collect();
    while let Some(node) = rest.pop() {
        rest.extend(node.items());
        for pair in node.pairs() {
            if let Kind::Text(text) = &pair.value.kind {
                let value = Some(text.clone()).filter(|text| !text.contains("{{") && !text.is_empty());
                let known = found.entry(pair.key.clone()).or_insert_with(|| value.clone());
                // Another value elsewhere: only Ansible knows which one counts.
                if *known != value {
                    *known = None;
                }
            }
            rest.push(&pair.value);
        }
    }
    found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// An argument of a module.
struct Argument {
    name: String,
    value: String,
    line: usize,
}

/// Arguments as a map, or as `name=value` words.
fn arguments(value: &Node) -> Vec<Argument> {
    match &value.kind {
        Kind::Map(pairs) => {
            let one = |pair: &Pair| {
                let value = pair.value.text()?;
                Some(Argument { name: pair.key.clone(), value, line: pair.value.line })
            };
            pairs.iter().filter_map(one).collect()
        }
        _ => {
            let one = |word: words::Word| {
                let (name, value) = word.text.split_once('=')?;
                Some(Argument { name: name.to_owned(), value: value.to_owned(), line: 0 })
            };
            let text = without_blanks(&value.text().unwrap_or_default());
            words::split(&text).into_iter().filter_map(one).map(|own| Argument { line: value.line, ..own }).collect()
        }
    }
}

/// The text without the blanks in `{{ … }}`, so that each template is part of one word.
fn without_blanks(text: &str) -> String {
    let mut parts = text.split("{{");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inner, rest) = part.split_once("}}").unwrap_or((part, ""));
        let is_closed = part.contains("}}");
        found.push_str("{{");
        match is_closed {
            true => found.extend(inner.chars().filter(|letter| !letter.is_whitespace())),
            false => found.push_str(inner),
        }
        found.push_str(if is_closed { "}}" } else { "" });
        found.push_str(rest);
    }
    found
}

/// The items of a task's loop.
enum Loop<'a> {
    None,
    Over(Vec<Item<'a>>),
    /// A variable that the text does not define.
    Unknown(String),
}

/// One item of a loop.
enum Item<'a> {
    Text(usize, String),
    Node(&'a Node),
    /// A key of a map with its value.
    Pair(&'a Pair),
}

/// A task of the module `sysctl`.
pub(super) struct Task<'a> {
    line: usize,
    arguments: Vec<Argument>,
    over: Loop<'a>,
    /// The name of the loop's variable.
    variable: String,
}

/// The keys of loops.
const LOOPS: [&str; 5] = ["loop", "with_items", "with_list", "with_flattened", "with_dict"];

impl<'a> Task<'a> {
    pub(super) fn new(node: &'a Node, module: &'a Pair, variables: &Variables<'a>) -> Task<'a> {
        let over = node.pairs().iter().find(|pair| LOOPS.contains(&pair.key.as_str()));
        let control = node.get("loop_control").and_then(|control| control.value.get("loop_var"));
        Task {
            line: module.line,
            arguments: arguments(&module.value),
            over: over.map_or(Loop::None, |over| loop_of(&over.value, variables)),
            variable: control.and_then(|name| name.value.text()).unwrap_or_else(|| "item".to_owned()),
        }
    }

    fn argument(&self, names: &[&str]) -> Option<&Argument> {
        self.arguments.iter().find(|argument| names.contains(&argument.name.as_str()))
    }

    /// Adds the settings of the task to its lines.
    pub(super) fn settings(&self, lines: &mut Lines) {
        let Some(name) = self.argument(&["name", "key"]) else { return };
        let value = self.argument(&["value", "val"]);
        let state = self.argument(&["state"]);
        let is_absent = state.is_some_and(|state| state.value == "absent");
        let has_template = |text: &str| text.contains("{{");
        let is_looped = has_template(&name.value) || value.is_some_and(|value| has_template(&value.value));
        let line = value.map_or(name.line, |value| value.line);
        lines.done(line, if is_absent { Skip::Command } else { Skip::Structure });
        lines.done(name.line, Skip::Structure);
        if let Some(state) = state.filter(|_| is_absent) {
            lines.done(state.line, Skip::Structure);
        }
        match (&self.over, is_looped) {
            (_, false) if !is_name(&name.value) => lines.not(name.line, format!("{} is not a sysctl", name.value)),
            (_, false) if is_absent => {}
            (_, false) => match value {
                Some(value) => lines.setting(line, &name.value, &value.value),
                None => lines.not(line, format!("{} has no value here", name.value)),
            },
            (Loop::Over(items), true) => {
                for item in items {
                    self.item(item, (name, value), is_absent, lines);
                }
            }
            (Loop::Unknown(variable), true) if has_template(&name.value) => {
                lines.not(name.line, format!("its names are in {variable}, which is not in this text"));
            }
            (Loop::None, true) if has_template(&name.value) => {
                lines.not(name.line, "its name is a variable of Ansible")
            }
            (_, true) => lines.not(line, NO_VALUE),
        }
    }

    /// Adds the settings of one pass of the loop.
    fn item(&self, item: &Item<'_>, (name, value): (&Argument, Option<&Argument>), is_absent: bool, lines: &mut Lines) {
        let resolved = |text: &str| resolve(text, item, &self.variable);
        let own = item.line();
        if !lines.may_loop() {
            return lines.not(self.line, "its loops have too many items");
        }
        let value = value.map(|value| (resolved(&value.value), value));
        let line = match &value {
            Some((Some((_, Some(line))), _)) => *line,
            _ => own,
        };
        item.lines().into_iter().for_each(|line| lines.done(line, Skip::Structure));
        match (resolved(&name.value), value) {
            (Some((name, _)), _) if is_absent && is_name(&name) => lines.done(line, Skip::Command),
            (Some((name, _)), Some((Some((value, _)), _))) if is_name(&name) => lines.setting(line, &name, &value),
            (Some((name, _)), _) if is_name(&name) => lines.not(own, format!("{name} has no value here")),
            _ => lines.not(own, "evenkeel can't tell its name or its value"),
        }
    }
}

fn loop_of<'a>(over: &'a Node, variables: &Variables<'a>) -> Loop<'a> {
    match &over.kind {
        Kind::List(items) => Loop::Over(items.iter().map(Item::Node).collect()),
        Kind::Map(pairs) => Loop::Over(pairs.iter().map(Item::Pair).collect()),
        Kind::Text(_) | Kind::Lines(_) => {
            let text = over.text().unwrap_or_default();
            let Some(inner) = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) else {
                return Loop::Over(vec![Item::Text(over.line, text)]);
            };
            if let Some(words) = words_of(inner.trim()) {
                return Loop::Over(words.into_iter().map(|word| Item::Text(over.line, word)).collect());
            }
            let (name, filter) = inner.split_once('|').unwrap_or((inner, ""));
            let known = variables.0.get(name.trim()).filter(|_| ["", "dict2items"].contains(&filter.trim()));
            match known.map(|node| &node.kind) {
                Some(Kind::List(items)) => Loop::Over(items.iter().map(Item::Node).collect()),
                Some(Kind::Map(pairs)) => Loop::Over(pairs.iter().map(Item::Pair).collect()),
                _ => Loop::Unknown(inner.trim().chars().take(80).collect()),
            }
        }
    }
}

/// `'a b'.split()` and `"a,b".split(',')`.
fn words_of(text: &str) -> Option<Vec<String>> {
    let quote = text.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let (words, rest) = text[1..].split_once(quote)?;
    let mark = rest.trim_start().strip_prefix(".split(")?.strip_suffix(')')?.trim().trim_matches(['"', '\'']);
    let words: Vec<&str> =
        if mark.is_empty() { words.split_whitespace().collect() } else { words.split(mark).collect() };
    Some(words.into_iter().map(|word| word.trim().to_owned()).collect())
}

impl Item<'_> {
    fn line(&self) -> usize {
        match self {
            Item::Text(line, _) => *line,
            Item::Node(node) => node.line,
            Item::Pair(pair) => pair.line,
        }
    }

    /// The lines of the text that an item uses.
    fn lines(&self) -> Vec<usize> {
        match self {
            Item::Node(node) => {
                let inner =
                    node.pairs().iter().map(|pair| pair.value.line).chain(node.items().iter().map(|item| item.line));
                [node.line].into_iter().chain(inner).collect()
            }
            other => vec![other.line()],
        }
    }

    /// The value of a part of the item, and its line.
    fn part(&self, name: &str) -> Option<(String, usize)> {
        let of = |node: &Node| node.text().map(|text| (text, node.line));
        match self {
            Item::Text(line, text) if name.is_empty() => Some((text.clone(), *line)),
            Item::Text(..) => None,
            Item::Pair(pair) => match name {
                "key" => Some((pair.key.clone(), pair.line)),
                "value" => of(&pair.value),
                name => pair.value.get(name.strip_prefix("value.")?).and_then(|pair| of(&pair.value)),
            },
            Item::Node(node) if name.is_empty() => of(node),
            Item::Node(node) => match name.parse::<usize>() {
                Ok(at) => node.items().get(at).and_then(of),
                Err(_) => node.get(name).and_then(|pair| of(&pair.value)),
            },
        }
    }
}

/// Replaces the templates of a text with parts of the item. `None` if a template is not a part of the item.
/// Also returns the line of the last part.
fn resolve(text: &str, item: &Item<'_>, variable: &str) -> Option<(String, Option<usize>)> {
    let (mut found, mut rest, mut line) = (String::new(), text, None);
    while let Some((before, after)) = rest.split_once("{{") {
        let (inner, after) = after.split_once("}}")?;
        let (name, filter) = inner.split_once('|').unwrap_or((inner, ""));
        if !["", "int", "string", "trim"].contains(&filter.trim()) {
            return None;
        }
        let part = name.trim().strip_prefix(variable)?;
        let part = part.trim_start_matches(['.', '[']).trim_end_matches(']').trim_matches(['"', '\'']);
        let (value, own) = item.part(part)?;
        line = Some(own);
        found.push_str(before);
        found.push_str(&value);
        rest = after;
    }
    found.push_str(rest);
    Some((found, line))
}

/// A task that writes a file, or lines of a file.
pub(super) fn file(value: &Node, lines: &mut Lines) {
    let arguments = arguments(value);
    let of = |names: &[&str]| arguments.iter().find(|argument| names.contains(&argument.name.as_str()));
    let path = of(&["path", "dest", "destfile"]).map_or("", |path| path.value.as_str());
    let old = of(&["regexp", "regex"]).map_or("", |old| old.value.as_str());
    let is_absent = of(&["state"]).is_some_and(|state| state.value == "absent");
    for argument in &arguments {
        let content = match argument.name.as_str() {
            // The loop's items are lines of their own.
            "line" if without_blanks(&argument.value).starts_with("{{item") => Content::NotASetting(Skip::Structure),
            "line" if argument.value.contains('\\') => boot::replaced(path, old, &argument.value),
            "replace" => boot::replaced(path, old, &argument.value),
            "line" => written(path, &argument.value),
            "regexp" | "regex" if is_absent && of(&["line"]).is_none() => Content::NotASetting(Skip::Command),
            _ => continue,
        };
        let content = if is_absent { Content::NotASetting(Skip::Command) } else { content };
        lines.add(argument.line, content);
        lines.done(argument.line, Skip::Command);
    }
    let encoded = of(&["encoding"]).is_some_and(|encoding| !encoding.value.starts_with("text"));
    for pair in value.pairs().iter().filter(|pair| ["content", "block"].contains(&pair.key.as_str()) && !is_absent) {
        text_of(path, pair, encoded, lines);
    }
}

/// A file as the value of a key: `99-game.conf: |` of a ConfigMap.
pub(super) fn data(pair: &Pair, lines: &mut Lines) {
    let is_known = [".conf", ".sh", ".service", ".sysctl"].iter().any(|end| pair.key.ends_with(end));
    let path = if pair.key.ends_with(".conf") || pair.key.ends_with(".sysctl") { "" } else { pair.key.as_str() };
    if is_known && matches!(pair.value.kind, Kind::Lines(_)) && !profile::is_one(&pair.value) {
        text_of(path, pair, false, lines);
    }
}

/// Each line of a file's text.
fn text_of(path: &str, pair: &Pair, encoded: bool, lines: &mut Lines) {
    let texts = match &pair.value.kind {
        Kind::Lines(texts) => texts.clone(),
        Kind::Text(text) => vec![(pair.value.line, text.clone())],
        Kind::Map(_) | Kind::List(_) => Vec::new(),
    };
    let mut script = Script::numbered(pair.line + 1);
    for (line, text) in texts.iter().filter(|(_, text)| !text.trim().is_empty()) {
        // `\n` of a text in quotes begins another line of the file.
        for text in text.split("\\n").map(str::trim).filter(|text| !text.is_empty()) {
            let content = match path.ends_with(".sh") {
                true => script.line(text).unwrap_or(Content::NotASetting(Skip::Elsewhere)),
                false if path.ends_with(".service") => unit::line(text),
                false if encoded && (boot::is_file(path) || path.contains("sysctl")) => {
                    Content::not("its text is encoded")
                }
                false => written(path, text),
            };
            lines.add(*line, content);
        }
        lines.done(*line, Skip::Elsewhere);
    }
}

/// The content of a line that a task writes to a file: a sysctl, or kernel arguments.
fn written(path: &str, text: &str) -> Content {
    let is_ours = boot::is_file(path) || path.contains("sysctl") || path.is_empty() || path.contains("{{");
    if is_ours && text.contains("{{") && (mentions::first(text).is_some() || text.contains("CMDLINE")) {
        return Content::not(NO_VALUE);
    }
    match path {
        path if boot::is_file(path) => boot::written(path, text),
        path if path.contains("sysctl") => settings::line(text),
        _ if is_ours => {
            settings::assignment(text).map_or(Content::NotASetting(Skip::Elsewhere), |ask| Content::Settings(vec![ask]))
        }
        _ if ["limits", "modprobe", "udev"].iter().any(|part| path.contains(part)) => {
            config::line(text).or_else(|| udev::line(text)).unwrap_or(Content::NotASetting(Skip::Elsewhere))
        }
        _ => Content::NotASetting(Skip::Elsewhere),
    }
}
