//! Fits `--help` to the width of the terminal: its usage, and the text below the options.
//! The parser never wraps a usage, and would break an example between an option and its value.
//! This code continues a long command after a backslash, so that a reader can still copy the command.

use clap::Command;

/// The maximum width of the help text. Wider text is hard to read.
pub(crate) const WIDTH_MAX: usize = 100;
/// The indentation of a continued command or row.
const HANGING: usize = 6;

/// The width of the help text: the width of the terminal, or else `COLUMNS`, or else the maximum.
pub(crate) fn width() -> usize {
    let terminal = || terminal_size::terminal_size().map(|(columns, _)| usize::from(columns.0));
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal().or_else(named).filter(|width| *width > 0).map_or(WIDTH_MAX, |width| width.min(WIDTH_MAX))
}

/// Wraps the usage and the text below the options of a command, and of its subcommands.
pub(crate) fn fit(mut command: Command, width: usize) -> Command {
    if width < WIDTH_MAX {
        // Only a built command has a usage. At the maximum width, every usage fits on a line.
        command.build();
    }
    fitted(command, width)
}

fn fitted(command: Command, width: usize) -> Command {
    let text = command.get_after_help().map(ToString::to_string);
    let usage = if width < WIDTH_MAX { narrow_usage(&command.clone().render_usage().to_string(), width) } else { None };
    let command = match text {
        Some(text) => command.after_help(wrapped(&text, width)),
        None => command,
    };
    let command = match usage {
        Some(usage) => command.override_usage(usage),
        None => command,
    };
    command.mut_subcommands(|below| fitted(below, width))
}

/// The usage without its title, wrapped between arguments; `None` if the usage fits on one line.
fn narrow_usage(usage: &str, width: usize) -> Option<String> {
    const TITLE: &str = "Usage: ";
    if usage.lines().all(|line| line.chars().count() <= width) {
        return None;
    }
    let (indent, continued) = (" ".repeat(TITLE.len()), " ".repeat(TITLE.len() + 4));
    let mut lines = Vec::new();
    for line in usage.trim_start_matches(TITLE).lines() {
        let mut shown = indent.clone();
        for (at, argument) in arguments(line.trim()).iter().enumerate() {
            if at > 0 && shown.chars().count() + 1 + argument.chars().count() > width {
                lines.push(std::mem::replace(&mut shown, continued.clone()));
            } else if at > 0 {
                shown.push(' ');
            }
            shown.push_str(argument);
        }
        lines.push(shown);
    }
    Some(lines.join("\n").trim_start().to_owned())
}

/// Splits a usage into words. Brackets, and an option with its value, stay together.
fn arguments(usage: &str) -> Vec<String> {
    let is_open = |text: &str| {
        let count = |brackets: [char; 2]| text.matches(brackets).count();
        count(['<', '[']) > count(['>', ']'])
    };
    let mut all: Vec<String> = Vec::new();
    for word in usage.split(' ') {
        match all.last_mut() {
            Some(last) if is_open(last) || (last.starts_with("--") && !last.contains('<') && word.starts_with('<')) => {
                *last += &format!(" {word}");
            }
            _ => all.push(word.to_owned()),
        }
    }
    all
}

fn wrapped(text: &str, width: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = Vec::new();
    // Join the lines of a paragraph. Each indented line stays separate.
    for group in lines.chunk_by(|one, next| is_prose(one) && is_prose(next) && !one.ends_with(':')) {
        match group[0] {
            line if is_prose(line) => shown.extend(filled(&group.join(" "), "", "", width)),
            line if line.contains("evenkeel ") => shown.extend(example(line, width)),
            "" => shown.push(String::new()),
            line => shown.extend(row(line, width)),
        }
    }
    shown.join("\n")
}

fn is_prose(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ')
}

/// Wraps a command and its description.
fn example(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    let text = line.trim_start();
    let (command, does) = text.split_once("   ").map_or((text, ""), |(command, does)| (command, does.trim_start()));
    let mut parts: Vec<String> = Vec::new();
    for word in command.split(' ') {
        let is_quoted = parts.last().is_some_and(|part| part.matches('\'').count() % 2 == 1);
        // A new part begins at an option, and where the user's own command line begins.
        match parts.last_mut() {
            Some(part) if is_quoted || !(word.starts_with('-') || word == "|") => *part += &format!(" {word}"),
            _ => parts.push(word.to_owned()),
        }
    }
    let mut lines = filled_parts(&parts, width);
    if !does.is_empty() {
        let indent = " ".repeat(HANGING);
        lines.extend(filled(does, &indent, &indent, width));
    }
    lines
}

/// Joins the parts of a command to as few lines as possible. All lines except the last end with a backslash.
/// A part is never split.
fn filled_parts(parts: &[String], width: usize) -> Vec<String> {
    let mut lines = vec![format!("  {}", parts[0])];
    for part in &parts[1..] {
        match lines.last_mut() {
            Some(line) if line.chars().count() + part.chars().count() + 3 <= width => {
                line.push(' ');
                line.push_str(part);
            }
            last => {
                last.into_iter().for_each(|line| line.push_str(" \\"));
                lines.push(format!("{}{part}", " ".repeat(HANGING)));
            }
        }
    }
    lines
}

/// Wraps a row of a table. The text after two spaces continues in its own column.
fn row(line: &str, width: usize) -> Vec<String> {
    let text = line.trim_start();
    let (name, says) = text.split_once("  ").unwrap_or(("", text));
    let indent = if name.is_empty() { "  ".to_owned() } else { " ".repeat(name.chars().count() + 4) };
    let first = if name.is_empty() { indent.clone() } else { format!("  {name}  ") };
    filled(says.trim_start(), &first, &indent, width)
}

/// Distributes words over lines. Does not split a word that is longer than a line.
fn filled(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= width;
        match lines.last_mut() {
            Some(line) if is_empty => line.push_str(word),
            Some(line) if fits(line) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{rest}{word}")),
        }
        is_empty = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_is_broken_between_arguments() {
        let usage =
            "Usage: evenkeel one [OPTIONS] --two <TWO> <--a <A>|--b <B>> [-- <CMD>...]\n       evenkeel one <COMMAND>";
        let expected = "evenkeel one\n           [OPTIONS]\n           --two <TWO>\n           <--a <A>|--b <B>>\n           [-- <CMD>...]\n       \
                        evenkeel one\n           <COMMAND>";
        assert_eq!(narrow_usage(usage, 28).as_deref(), Some(expected));
        assert_eq!(narrow_usage(usage, 80), None);
    }

    #[test]
    fn text_below_the_options_fits() {
        let text = "One two three four\nfive.\n\nExamples:\n  evenkeel one --two 3 --four 5 -- ./six --seven\n  evenkeel a    what it does\n\nCodes:\n  \
                    0  a long meaning of it";
        let expected = "One two three four\nfive.\n\nExamples:\n  evenkeel one \\\n      --two 3 \\\n      --four 5 \\\n      -- ./six \\\n      \
                        --seven\n  evenkeel a\n      what it does\n\nCodes:\n  0  a long meaning\n     of it";
        assert_eq!(wrapped(text, 19), expected);
        let wide = "One two three four five.\n\nExamples:\n  evenkeel one --two 3 --four 5 -- ./six --seven\n  evenkeel a    what it does\n\nCodes:\n  \
                    0  a long meaning of it";
        assert_eq!(wrapped(text, 100), wide);
    }
}
