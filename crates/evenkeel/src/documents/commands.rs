//! Generates docs/commands.md from the definition of the command line. So the page and `--help` always agree.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};
use expect_test::expect_file;

use crate::command_line::Args;

const HEAD: &str = "# Commands

Every command of evenkeel with its options, as the `--help` of each command and its manual page show them.

This page is generated from the definition of the command line. To regenerate it, run
`UPDATE_EXPECT=1 cargo test -p evenkeel --bin evenkeel documents`.
";

#[test]
fn the_page_of_commands_is_fresh() {
    expect_file!["../../../../docs/commands.md"].assert_eq(&page());
}

/// A user who reads the help of a command needs a command line that works.
#[test]
fn every_command_has_examples() {
    let mut all = Vec::new();
    let mut root = Args::command();
    root.build();
    collect(&root, &mut all);
    let acts = all.into_iter().filter(|command| command.get_subcommands().all(|below| below.get_name() == "help"));
    let without: Vec<&str> = acts
        .filter(|command| !below(command).contains("Examples:"))
        .filter_map(|command| command.get_bin_name())
        .collect();
    assert!(without.is_empty(), "no example in the help of {without:?}");
}

#[test]
fn text_outside_of_code_is_no_markup() {
    let table = [
        ("write <FILE>", "write \\<FILE>"),
        ("with `a < b` and <b>", "with `a < b` and \\<b>"),
        ("NAME=PERCENT", "NAME=PERCENT"),
        ("tick_lateness_us_p99 or process.*", "tick_lateness_us_p99 or process.\\*"),
    ];
    for (text, expected) in table {
        assert_eq!(escaped(text), expected);
    }
}

fn page() -> String {
    let mut whole = Args::command();
    // `build` gives every command its full name.
    whole.build();
    let mut commands = Vec::new();
    collect(&whole, &mut commands);
    let mut page = HEAD.to_owned();
    page.push_str("\n| command | what it does |\n|---|---|\n");
    for command in &commands[1..] {
        let name = command.get_bin_name().unwrap_or_default();
        let about = escaped(&command.get_about().map(ToString::to_string).unwrap_or_default()).replace('|', "\\|");
        writeln!(page, "| [`{name}`](#{}) | {about} |", name.replace(' ', "-")).unwrap();
    }
    page.push_str("\n## Options of every command\n");
    page.push_str(&list(whole.get_arguments().filter(|arg| !arg.is_positional())));
    page.push_str(&below(&whole));
    for command in &commands[1..] {
        page.push_str(&section(command));
    }
    page
}

/// The commands that the help lists. Each command comes before its subcommands.
fn collect<'c>(command: &'c Command, found: &mut Vec<&'c Command>) {
    found.push(command);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        collect(below, found);
    }
}

fn section(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_default();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.lines().map(|line| line.trim_start_matches("Usage:").trim()).collect();
    let (first, rest) = about.split_once("\n\n").unwrap_or((about.as_str(), ""));
    let about = [ended(first).as_str(), rest].join("\n\n");
    let usage = usage.join("\n");
    let mut text = format!("\n## {name}\n\n{}\n\n```text\n{usage}\n```\n", escaped(about.trim_end()));
    let own = |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help";
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in command.get_arguments().filter(own) {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    // Arguments without a heading come first, as in `--help`.
    headings.sort_by_key(Option::is_some);
    for heading in headings {
        if let Some(heading) = heading {
            write!(text, "\n{heading}:\n").unwrap();
        }
        text.push_str(&list(command.get_arguments().filter(own).filter(|arg| arg.get_help_heading() == heading)));
    }
    text + &below(command)
}

/// The text below the options in `--help`. Indented lines are commands, or a table.
fn below(command: &Command) -> String {
    let text = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let mut page = String::new();
    for group in lines.chunk_by(|one, next| one.starts_with("  ") == next.starts_with("  ")) {
        let is_code = group[0].starts_with("  ");
        let is_command = group.iter().any(|line| line.contains("evenkeel "));
        let shown: Vec<String> = match is_code {
            true => group.iter().map(|line| line.trim_start().to_owned()).collect(),
            false => group.iter().map(|line| escaped(line)).collect(),
        };
        let shown = shown.join("\n");
        match (is_code, is_command) {
            (true, true) => write!(page, "\n```sh\n{shown}\n```\n").unwrap(),
            (true, false) => write!(page, "\n```text\n{shown}\n```\n").unwrap(),
            (false, _) => write!(page, "\n{}\n", shown.trim()).unwrap(),
        }
    }
    page
}

fn list<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut lines: Vec<String> = args.map(item).collect();
    if !lines.is_empty() {
        lines.insert(0, String::new());
        lines.push(String::new());
    }
    lines.join("\n")
}

/// One option or argument, with its default and its values.
fn item(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_value_names().into_iter().flatten().map(ToString::to_string).collect();
    let takes = arg.get_action().takes_values() && !values.is_empty();
    let value = if takes { format!(" {}", values.join(" ")) } else { String::new() };
    let long = arg.get_long().map(|long| format!("--{long}{value}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let names: Vec<String> = match arg.is_positional() {
        true => vec![values.join(" ")],
        false => short.into_iter().chain(long).collect(),
    };
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("- {}: {}", names.join(", "), escaped(&help.replace('\n', " ")));
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        write!(text, " [default: {}]", defaults.join(" ")).unwrap();
    }
    text = ended(&text);
    if takes && !arg.is_hide_possible_values_set() {
        let values = arg.get_possible_values();
        let (explained, names): (Vec<_>, Vec<_>) =
            values.iter().filter(|value| !value.is_hide_set()).partition(|value| value.get_help().is_some());
        let names: Vec<String> = names.iter().map(|value| format!("`{}`", value.get_name())).collect();
        if !names.is_empty() {
            write!(text, " Values: {}.", names.join(", ")).unwrap();
        }
        for value in explained {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            write!(text, "\n  - `{}`: {}", value.get_name(), ended(&escaped(&help))).unwrap();
        }
    }
    text
}

/// `text` with a full stop, so that the page does not run one option into the next.
fn ended(text: &str) -> String {
    match text.ends_with(['.', '?', '!', ':']) {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

/// `text`, with the characters outside of `code` escaped.
fn escaped(text: &str) -> String {
    let mut parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part.replace('<', "\\<").replace('*', "\\*"),
        _ => part.to_owned(),
    });
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |text, part| format!("{text}`{part}"))
}
