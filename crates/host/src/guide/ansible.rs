//! Ansible and cloud-init.
//! Reads tasks of the module `sysctl`, lists of these tasks, maps of keys and values, commands, and files that a task writes.

use std::collections::BTreeSet;

use super::line::{Content, Skip};
use super::{boot, settings};

mod commands;
mod lines;
mod profile;
mod task;
mod yaml;

use commands::{command, script, words_of};
use lines::{Line, Lines, NO_VALUE, is_name};
use task::{Task, Variables};
use yaml::{Kind, Node, Pair};

/// Keys under which tasks and lists have the name of the sysctl.
const KEYS: [&str; 5] = ["name", "key", "sysctl_name", "param", "parameter"];
const VALUES: [&str; 3] = ["value", "val", "sysctl_value"];

pub(super) fn read(text: &str) -> Vec<Content> {
    let (nodes, odd) = yaml::parse(text);
    let mut lines = Lines::new(text.lines().count());
    lines.constants = task::constants(&nodes);
    let page = Page { variables: Variables::from_nodes(&nodes) };
    // The maps of a task's loop may come before the task.
    for node in &nodes {
        page.tasks(node, &mut lines);
    }
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

/// The complete text. A task may use variables that another part of the text defines.
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

    /// The tasks of the module `sysctl`.
    fn tasks(&self, node: &Node, lines: &mut Lines) {
        for pair in node.pairs() {
            let is_module = match short(&pair.key) {
                "sysctl" => {
                    !matches!(pair.value.kind, Kind::List(_)) && !pair.value.pairs().iter().any(|own| is_name(&own.key))
                }
                "local_action" | "action" => pair.value.text().is_some_and(|text| text.starts_with("sysctl ")),
                _ => false,
            };
            if is_module {
                Task::new(node, pair, &self.variables).settings(lines);
            }
            self.tasks(&pair.value, lines);
        }
        node.items().iter().for_each(|item| self.tasks(item, lines));
    }

    fn map(&self, node: &Node, pairs: &[Pair], lines: &mut Lines) {
        words_of(node, lines);
        for pair in pairs {
            match short(&pair.key) {
                "lineinfile" | "replace" | "blockinfile" | "copy" => task::file(&pair.value, lines),
                "command" | "shell" | "raw" | "cmd" => script(&pair.value, lines),
                "runcmd" | "bootcmd" => pair.value.items().iter().for_each(|item| command(item, lines)),
                _ if profile::is_one(&pair.value) => profile::read(&pair.value, lines),
                "write_files" => pair.value.items().iter().for_each(|item| task::file(item, lines)),
                "extraKernelArgs" | "kernelArguments" | "additionalKernelArgs" => kernel_arguments(&pair.value, lines),
                "data" | "stringData" => pair.value.pairs().iter().for_each(|file| task::data(file, lines)),
                "kernel_settings_transparent_hugepages" => huge_pages("enabled", &pair.value, lines),
                "kernel_settings_transparent_hugepages_defrag" => huge_pages("defrag", &pair.value, lines),
                _ => {}
            }
        }
        named(pairs, lines);
        for pair in pairs {
            self.node(&pair.value, lines);
        }
    }
}

/// A list of kernel arguments, as in Talos and other systems with one image. `-` before an argument removes the argument.
fn kernel_arguments(value: &Node, lines: &mut Lines) {
    for item in value.items() {
        let text = item.text().unwrap_or_default();
        match text.strip_prefix('-') {
            Some(argument) => lines.ask(item.line, boot::without(argument)),
            None => boot::arguments(&text).into_iter().for_each(|ask| lines.ask(item.line, ask)),
        }
        lines.done(item.line, Skip::Command);
    }
}

/// A setting of transparent huge pages, of the role `kernel_settings`.
fn huge_pages(file: &str, value: &Node, lines: &mut Lines) {
    let text = value.text().unwrap_or_default();
    lines.setting(value.line, &format!("/sys/kernel/mm/transparent_hugepage/{file}"), &text);
    lines.done(value.line, Skip::Structure);
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
            // A list of values counts as one value of the sysctl.
            None => lines.not(pair.line, NO_VALUE),
        }
    }
    let of = |names: &[&str]| pairs.iter().find(|pair| names.contains(&pair.key.as_str()));
    let Some(key) = of(&KEYS) else { return };
    let is_file = |name: &str| ["/sys/", "/proc/sys/"].iter().any(|folder| name.starts_with(folder));
    let Some(name) = key.value.text().filter(|name| is_name(name) || is_file(name)) else { return };
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
