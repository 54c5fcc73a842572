//! Edits kernel arguments in a file of another owner:
//! the `options` lines of a Boot Loader Specification entry, or `/etc/kernel/cmdline`, which contains only arguments.
//!
//! Our arguments go to the end of the first line with arguments, after two spaces.
//! GRUB reads only the first `options` line.
//! If that line has the word `--`, our arguments go before it, because the kernel passes all words after `--` to init.
//! The kernel accepts any white space between arguments, but people and programs write one space.
//! So two spaces mark our words, even if other words are equal.
//! We never parse the rest of the text: order, repeats, quotes, variables, comments and odd spacing stay.

use crate::arguments;

/// This mark precedes our arguments and identifies them.
const MARK: &str = "  ";

/// First words of entry lines that are not kernel arguments.
const ENTRY_KEYS: [&str; 6] = ["title", "version", "linux", "initrd", "options", "efi"];

/// The text with our arguments added.
///
/// # Errors
/// If the text has no line of kernel arguments to extend, or ends with an open quote.
pub(super) fn with(text: &str, arguments: &[String]) -> Result<String, String> {
    let ours = arguments.join(" ");
    if ours.is_empty() {
        return Ok(text.to_owned());
    }
    let Some(line) = lines(text).into_iter().next() else {
        return Err(if is_entry(text) { NO_OPTIONS } else { NO_ARGUMENTS }.to_owned());
    };
    let own = line.own();
    if own.trim().is_empty() {
        return Err(NO_ARGUMENTS.to_owned());
    }
    if marked(own, &ours).is_some() {
        return Ok(text.to_owned());
    }
    if own.matches('"').count() % 2 == 1 {
        return Err(
            "a quote is open at the end of its kernel arguments, and ours would become part of it; close it".to_owned()
        );
    }
    let (head, rest) = text.split_at(line.start + own.len());
    Ok(format!("{head}{MARK}{ours}{rest}"))
}

/// If an entry has no `options` line, GRUB uses the arguments of its variable `default_kernelopts`, including root=.
const NO_OPTIONS: &str = "it has no `options` line with arguments: the boot loader gives such an entry its own default arguments, \
                          root= among them, and a line with ours alone would replace those";
const NO_ARGUMENTS: &str = "it holds no kernel arguments, and ours alone would be a kernel without its root";

/// The text without our arguments. If somebody rewrote the line, the mark is gone.
/// Then we remove the last equal word, which is the word that we added unless people moved it.
pub(super) fn without(text: &str, arguments: &[String]) -> String {
    let ours = arguments.join(" ");
    if ours.is_empty() {
        return text.to_owned();
    }
    let lines = lines(text);
    // Earlier versions put our arguments at the end of the last line, even after `--`.
    let found = lines.iter().find_map(|line| Some((line, marked(line.own(), &ours)?)));
    let found = found.or_else(|| lines.iter().rev().find_map(|line| Some((line, marked(line.body, &ours)?))));
    if let Some((line, at)) = found {
        let (head, rest) = (&text[..line.start], &text[line.start + line.body.len()..]);
        let (before, after) = (&line.body[..at], &line.body[at + MARK.len() + ours.len()..]);
        let is_last = matches!(rest, "" | "\n" | "\r\n");
        // Earlier versions added a whole line.
        // If the preceding line had no newline, the newline between the two lines is also ours.
        return match (before == OPTIONS && after.is_empty() && is_last, rest) {
            (true, "") => head.strip_suffix('\n').unwrap_or(head).to_owned(),
            (true, _) => head.to_owned(),
            (false, _) => format!("{head}{before}{after}{rest}"),
        };
    }
    for line in &lines {
        let body = arguments.iter().rev().fold(line.body.to_owned(), |body, argument| without_word(&body, argument));
        if body != line.body {
            return format!("{}{body}{}", &text[..line.start], &text[line.start + line.body.len()..]);
        }
    }
    text.to_owned()
}

/// The key of the lines that hold arguments.
const OPTIONS: &str = "options";

/// A line that contains arguments.
struct Line<'a> {
    /// Counted from 1.
    number: usize,
    /// Where the line begins in the text, in bytes.
    start: usize,
    /// Without its newline.
    body: &'a str,
}

impl<'a> Line<'a> {
    /// The part before the word `--`, without the white space in front of `--`.
    fn own(&self) -> &'a str {
        let end = arguments::end(self.body).unwrap_or(self.body.len());
        let own = &self.body[..end];
        let space = own.chars().next_back().filter(|last| end < self.body.len() && last.is_whitespace());
        &own[..end - space.map_or(0, char::len_utf8)]
    }
}

/// The `options` lines of an entry that have arguments. For other files, all lines except empty lines and comments.
fn lines(text: &str) -> Vec<Line<'_>> {
    let is_entry = is_entry(text);
    let mut start = 0;
    let mut lines = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let body = line.strip_suffix('\n').unwrap_or(line);
        let body = body.strip_suffix('\r').unwrap_or(body);
        let is_it = match is_entry {
            true => key(body) == OPTIONS && body.trim() != OPTIONS,
            false => !body.trim().is_empty() && !body.trim_start().starts_with('#'),
        };
        if is_it {
            lines.push(Line { number: at + 1, start, body });
        }
        start += line.len();
    }
    lines
}

/// The lines that hold arguments, with their numbers, counted from 1.
pub(super) fn numbered(text: &str) -> Vec<(usize, &str)> {
    lines(text).into_iter().map(|line| (line.number, line.body)).collect()
}

fn is_entry(text: &str) -> bool {
    text.lines().any(|line| ENTRY_KEYS.contains(&key(line)))
}

fn key(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// The position of our mark in a line. Exactly our arguments follow the mark, and then nothing or white space.
fn marked(body: &str, ours: &str) -> Option<usize> {
    let needle = format!("{MARK}{ours}");
    let ends_there = |at: &usize| body[at + needle.len()..].chars().next().is_none_or(char::is_whitespace);
    body.rmatch_indices(&needle).map(|(at, _)| at).find(ends_there)
}

/// The line without the last word that equals `argument`, and without the white space before that word.
/// The first word of an `options` line is not an argument, and quoted text is part of a value.
fn without_word(body: &str, argument: &str) -> String {
    let is_word = |(at, _): &(usize, &str)| {
        let (before, after) = (&body[..*at], &body[at + argument.len()..]);
        before.chars().next_back().is_none_or(char::is_whitespace)
            && after.chars().next().is_none_or(char::is_whitespace)
            && before.matches('"').count() % 2 == 0
    };
    match body.rmatch_indices(argument).find(is_word) {
        Some((at, _)) => {
            let (before, after) = (body[..at].trim_end(), &body[at + argument.len()..]);
            // For the first word, also remove the white space after the word.
            if before.is_empty() { after.trim_start().to_owned() } else { format!("{before}{after}") }
        }
        None => body.to_owned(),
    }
}
