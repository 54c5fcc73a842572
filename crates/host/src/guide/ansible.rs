//! Ansible and cloud-init: tasks of the module `sysctl`, lists of them, maps of keys and values, commands, and files that a task writes.

use std::collections::BTreeSet;

use super::line::{Content, Skip};
use super::shell::Script;
use super::{prose, settings};

mod lines;
mod profile;
mod task;
mod yaml;

use lines::{Line, Lines, NO_VALUE, is_name};
use task::{Task, Variables};
use yaml::{Kind, Node, Pair};

/// Keys under which tasks and lists have the name of the sysctl.
const KEYS: [&str; 5] = ["name", "key", "sysctl_name", "param", "parameter"];
const VALUES: [&str; 3] = ["value", "val", "sysctl_value"];

pub(super) fn read(text: &str) -> Vec<Content> {
    let (nodes, odd) = yaml::parse(text);
    let mut lines = Lines::new(text.lines().count());
    let page = Page { variables: Variables::from_nodes(&nodes) };
    for node in &nodes {
        page.node(node, &mut lines);
    }
    let odd: BTreeSet<usize> = odd.into_iter().collect();
    let content = |(at, (line, raw)): (usize, (Line, &str))| line.content(raw.trim(), odd.contains(&at));
    lines.all().zip(text.lines()).enumerate().map(content).collect()
}

/// A name of the module without its collection.
fn short(key: &str) -> &str {
    ["ansible.posix.", "ansible.builtin.", "ansible.legacy.", "community.general."]
        .iter()
        .find_map(|begin| key.strip_prefix(begin))
        .unwrap_or(key)
}

/// The complete text. A task may use variables that another part of it defines.
struct Page<'a> {
    variables: Variables<'a>,
}

impl Page<'_> {
    fn node(&self, node: &Node, lines: &mut Lines) {
        match &node.kind {
            Kind::Map(pairs) => self.map(node, pairs, lines),
            Kind::List(items) => {
                for item in items {
                    if let (Kind::Text(text), false) = (&item.kind, lines.is_done(item.line)) {
                        settings::assignment(text).into_iter().for_each(|ask| lines.ask(item.line, ask));
                    }
                    self.node(item, lines);
                }
            }
            Kind::Text(_) | Kind::Lines(_) => {}
        }
    }

    fn map(&self, node: &Node, pairs: &[Pair], lines: &mut Lines) {
        for pair in pairs {
            match short(&pair.key) {
                "sysctl"
                    if !matches!(pair.value.kind, Kind::List(_))
                        && !pair.value.pairs().iter().any(|own| is_name(&own.key)) =>
                {
                    Task::new(node, pair, &self.variables).settings(lines);
                }
                "local_action" | "action" if pair.value.text().is_some_and(|text| text.starts_with("sysctl ")) => {
                    Task::new(node, pair, &self.variables).settings(lines);
                }
                "lineinfile" | "replace" | "blockinfile" | "copy" => task::file(&pair.value, lines),
                "command" | "shell" | "raw" | "cmd" => script(&pair.value, lines),
                "runcmd" | "bootcmd" => pair.value.items().iter().for_each(|item| command(item, lines)),
                // Arguments of a container's shell.
                "args" => pair
                    .value
                    .items()
                    .iter()
                    .filter(|item| item.text().is_some_and(is_command))
                    .for_each(|item| script(item, lines)),
                _ if profile::is_one(&pair.value) => profile::read(&pair.value, lines),
                "write_files" => pair.value.items().iter().for_each(|item| task::file(item, lines)),
                _ => {}
            }
        }
        named(pairs, lines);
        for pair in pairs {
            self.node(&pair.value, lines);
        }
    }
}

/// Reads a map that has a name and a value, or whose keys are sysctls themselves.
fn named(pairs: &[Pair], lines: &mut Lines) {
    for pair in pairs.iter().filter(|pair| is_name(&pair.key)) {
        let line = pair.value.line.max(pair.line);
        if lines.is_done(line) {
            continue;
        }
        match pair.value.text() {
            Some(value) => lines.setting(line, &pair.key, &value),
            // A list of values is one value of the sysctl.
            None => lines.not(pair.line, NO_VALUE),
        }
    }
    let of = |names: &[&str]| pairs.iter().find(|pair| names.contains(&pair.key.as_str()));
    let Some(key) = of(&KEYS) else { return };
    let Some(name) = key.value.text().filter(|name| is_name(name)) else { return };
    if lines.is_done(key.line) {
        return;
    }
    match of(&VALUES) {
        Some(value) => {
            lines.add(key.line, Content::NotASetting(Skip::Structure));
            let line = value.value.line;
            lines.setting(line, &name, &value.value.text().unwrap_or_default());
        }
        None if pairs.len() == 1 || name.contains('_') => lines.not(key.line, format!("{name} has no value here")),
        None => {}
    }
}

/// Whether a text may be commands, and not a single word.
fn is_command(text: String) -> bool {
    text.trim().contains([' ', '\n'])
}

/// Commands of a shell: a text, or one for each line.
fn script(value: &Node, lines: &mut Lines) {
    let mut script = Script::default();
    match &value.kind {
        Kind::Text(text) => command_text(&mut script, value.line, text, lines),
        Kind::Lines(texts) => {
            for (line, text) in texts.iter().filter(|(_, text)| !text.trim().is_empty()) {
                command_text(&mut script, *line, text.trim(), lines);
            }
        }
        Kind::Map(_) => {
            if let Some(argv) = value.get("argv") {
                command(&argv.value, lines);
            }
        }
        Kind::List(_) => command(value, lines),
    }
}

fn command_text(script: &mut Script, line: usize, text: &str, lines: &mut Lines) {
    if lines.is_done(line) {
        return;
    }
    let content = match &script.here {
        Some(end) if text == end => {
            script.here = None;
            Content::NotASetting(Skip::Structure)
        }
        Some(_) => settings::line(text),
        None if text.contains("{{") && prose::mentioned(text).is_some() => Content::not(NO_VALUE),
        None => script.line(text).unwrap_or(Content::NotASetting(Skip::Elsewhere)),
    };
    lines.add(line, content);
    lines.done(line, Skip::Command);
}

/// A command as a text, or as a list of its words.
fn command(item: &Node, lines: &mut Lines) {
    if item.items().is_empty() {
        return script(item, lines);
    }
    // `sh -c` with a text of several lines.
    if let Some(text) = item.items().iter().find(|word| matches!(word.kind, Kind::Lines(_))) {
        return script(text, lines);
    }
    let quoted = |word: &Node| format!("'{}'", word.text().unwrap_or_default().replace('\'', "'\\''"));
    let words: Vec<String> = item.items().iter().map(quoted).collect();
    command_text(&mut Script::default(), item.line, &words.join(" "), lines);
    item.items().iter().for_each(|word| lines.done(word.line, Skip::Command));
}
