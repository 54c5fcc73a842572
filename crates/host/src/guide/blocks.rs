//! Blocks of code in a page: which lines are the output of a command, and which lines a diff removes.

use std::ops::Range;

use super::html::BREAK;
use super::line::Skip;
use super::shell_line::here;
use super::{prompt, words};

/// The maximum number of lines of an open quote or a here-document of a command.
const OPEN_MAX: usize = 200;

/// A block of code.
pub(super) struct Block {
    /// The block's lines, without the lines of the fence.
    pub(super) lines: Range<usize>,
    pub(super) is_diff: bool,
    /// Whether the page calls it YAML.
    pub(super) is_yaml: bool,
    /// How many blanks are before the fence, and may be before each line.
    pub(super) indent: usize,
}

/// The kind of a block's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A line like any other.
    Plain,
    /// A line that a diff adds, with its mark.
    Marked,
    /// A line of HTML that begins with output, and continues with text.
    Begins,
    /// The line is not advice, for this reason.
    Skipped(Skip),
}

/// The blocks between fences of Markdown.
pub(super) fn fenced(raw: &[&str]) -> Vec<Block> {
    let (mut found, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (at, raw) in raw.iter().enumerate() {
        let line = raw.trim();
        if !line.starts_with("```") && !line.starts_with("~~~") {
            continue;
        }
        match open.take() {
            Some(block) => found.push(Block { lines: block.lines.start..at, ..block }),
            None => {
                let mut words =
                    line.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
                let language = words.next().unwrap_or_default().to_ascii_lowercase();
                open = Some(Block {
                    lines: at + 1..at + 1,
                    is_diff: is_diff(&language),
                    is_yaml: ["yaml", "yml"].contains(&language.as_str()),
                    indent: raw.len() - raw.trim_start().len(),
                });
            }
        }
    }
    found.extend(open.map(|block| Block { lines: block.lines.start..raw.len(), ..block }));
    found
}

/// A text that is one transcript.
pub(super) fn whole(raw: &[&str]) -> Vec<Block> {
    vec![Block { lines: 0..raw.len(), is_diff: false, is_yaml: false, indent: 0 }]
}

/// The blocks of a page in HTML: lines whose breaks count. `lines` says of each line whether it is such a line.
pub(super) fn preformatted(raw: &[&str], lines: &[bool]) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (at, is_in_pre) in lines.iter().enumerate() {
        let begins = raw.get(at).is_some_and(|raw| raw.contains("<pre"));
        match found.last_mut().filter(|_| is_open && !begins && *is_in_pre) {
            Some(block) => block.lines.end = at + 1,
            None if *is_in_pre => {
                let is_marked = |raw: &str| ["diff", "patch"].iter().any(|name| has_class(raw, name));
                let is_diff = raw.get(at).is_some_and(|raw| is_marked(raw));
                found.push(Block { lines: at..at + 1, is_diff, is_yaml: false, indent: 0 });
            }
            None => {}
        }
        is_open = *is_in_pre;
    }
    found
}

fn has_class(raw: &str, name: &str) -> bool {
    ["language-", "lang-", "highlight-", "class=\"", "class='", "class="]
        .iter()
        .any(|begin| raw.contains(&format!("{begin}{name}")))
}

fn is_diff(name: &str) -> bool {
    ["diff", "patch", "udiff"].contains(&name.to_ascii_lowercase().as_str())
}

/// The kinds of a diff's lines. The diff's fence has `indent` blanks before it.
pub(super) fn diff(texts: &[&str], indent: usize) -> Vec<Kind> {
    let one = |text: &&str| {
        let text = text.trim_start_matches(BREAK);
        let blanks = text.len() - text.trim_start_matches([' ', '\t']).len();
        let text = &text[blanks.min(indent)..];
        let is_head = ["--- ", "+++ ", "@@", "diff ", "index "].iter().any(|begin| text.starts_with(begin));
        match text.chars().next() {
            _ if is_head => Kind::Skipped(Skip::Structure),
            Some('-') => Kind::Skipped(Skip::SwitchedOff),
            Some('+') => Kind::Marked,
            _ => Kind::Plain,
        }
    };
    texts.iter().map(one).collect()
}

/// The kinds of a transcript's lines: a line without a prompt is output, if another line has a prompt. Commands without a prompt stay.
pub(super) fn transcript<'a>(texts: &[&'a str]) -> Vec<Kind> {
    // A line of HTML may end the block, and have a sentence after the block.
    let parts = |text: &&'a str| {
        let mut parts = text.split(BREAK).map(str::trim).filter(|part| !part.is_empty());
        let first = parts.next().unwrap_or("");
        (first, parts.next_back())
    };
    let parts: Vec<(&str, Option<&str>)> = texts.iter().map(parts).collect();
    let texts: Vec<&str> = parts
        .iter()
        .map(|(first, last)| last.filter(|last| prompt::command(last).is_some()).unwrap_or(first))
        .collect();
    let mut kinds = vec![Kind::Plain; texts.len()];
    let is_transcript = texts.iter().any(|text| prompt::command(text).is_some() || is_reading(text));
    if !is_transcript {
        return kinds;
    }
    let (mut at, mut has_command, mut prints_files) = (0, false, false);
    while let Some(text) = texts.get(at) {
        match prompt::command(text).or_else(|| prompt::after_hash(text)) {
            Some(command) => {
                has_command = true;
                prints_files = does_print_files(command);
                at += rest_of_command(command, &texts[at + 1..]);
            }
            // A comment between the commands ends the output of the previous command.
            None if text.starts_with('#') && !prints_files => has_command = false,
            None if has_command && is_output(text) => {
                kinds[at] = if parts[at].1.is_some() { Kind::Begins } else { Kind::Skipped(Skip::Prose) };
            }
            None => {}
        }
        at += 1;
    }
    kinds
}

/// How many of the next lines belong to a command: a backslash, a quote or a here-document continues in them.
fn rest_of_command(command: &str, next: &[&str]) -> usize {
    let mut count = 0;
    let mut line = command;
    while line.ends_with('\\') && count < OPEN_MAX {
        let Some(more) = next.get(count) else { return count };
        line = more;
        count += 1;
    }
    let next = next.get(count..).unwrap_or_default();
    if let Some(end) = here(&words::split(command)) {
        return count
            + next.iter().take(OPEN_MAX).position(|line| line.trim_start_matches("> ") == end).map_or(0, |at| at + 1);
    }
    let Some(mut quote) = words::open_quote(command, None).filter(|_| count == 0) else { return count };
    for (at, line) in next.iter().take(OPEN_MAX).enumerate() {
        match words::open_quote(line, Some(quote)) {
            Some(open) => quote = open,
            None => return at + 1,
        }
    }
    count
}

/// Whether a line has a root's prompt with a command that prints or sets sysctls.
fn is_reading(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("# ") else { return false };
    let rest = rest.strip_prefix("sudo ").unwrap_or(rest);
    let mut words = rest.split_whitespace();
    words.next() == Some("sysctl")
        && words.next().is_some_and(|word| word.starts_with('-') || word.contains('.') && !word.ends_with('.'))
}

/// Whether a command prints files. Comments in these files are part of the output.
fn does_print_files(command: &str) -> bool {
    command.split_whitespace().any(|word| ["cat", "less", "more", "head", "tail", "grep", "diff"].contains(&word))
}

/// Whether a line without a prompt is output. A command that sets something may have lost its prompt.
fn is_output(text: &str) -> bool {
    let is_command = prompt::COMMANDS
        .iter()
        .any(|command| text.strip_prefix(command).is_some_and(|rest| command.ends_with(' ') || rest.starts_with(' ')));
    // `> ` continues a command.
    !text.is_empty() && !is_command && !text.starts_with("> ")
}
