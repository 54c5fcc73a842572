//! Kernel arguments in a file of somebody else: an entry of the Boot Loader Specification, where the `options` lines hold them, or
//! `/etc/kernel/cmdline`, which is nothing but arguments.
//!
//! Ours go to the end of the last such line, behind two spaces. The kernel takes any white space between arguments; people and
//! programs write one space, so that two tell which words are ours and which were there before, be they the same. Nothing else of
//! the text is taken apart: order, repeats, quotes, variables, comments and odd spacing stay, because nobody looks at them.

/// What stands before our arguments, and tells that they are ours.
const MARK: &str = "  ";

/// The words that begin the lines of an entry, and no kernel argument.
const ENTRY_KEYS: [&str; 6] = ["title", "version", "linux", "initrd", "options", "efi"];

/// The text with our arguments.
///
/// # Errors
/// If the text has no kernel arguments to which ours could be added, or ends them in an open quote.
pub(super) fn with(text: &str, arguments: &[String]) -> Result<String, String> {
    let ours = arguments.join(" ");
    if ours.is_empty() {
        return Ok(text.to_owned());
    }
    let Some(Line { body, rest, .. }) = line(text) else {
        return match (is_entry(text), text.ends_with('\n')) {
            (false, _) => {
                Err("it holds no kernel arguments, and ours alone would be a kernel without its root".to_owned())
            }
            (true, true) => Ok(format!("{text}{OPTIONS}{MARK}{ours}\n")),
            // A last line without its newline stays one.
            (true, false) => Ok(format!("{text}\n{OPTIONS}{MARK}{ours}")),
        };
    };
    if marked(body, &ours).is_some() {
        return Ok(text.to_owned());
    }
    if body.matches('"').count() % 2 == 1 {
        return Err(
            "a quote is open at the end of its kernel arguments, and ours would become part of it; close it".to_owned()
        );
    }
    let head = &text[..text.len() - body.len() - rest.len()];
    Ok(format!("{head}{body}{MARK}{ours}{rest}"))
}

/// The text without our arguments. Where the mark is gone (somebody wrote the line anew), the last word that is the same as ours
/// goes: it is the one that we added, unless people moved it.
pub(super) fn without(text: &str, arguments: &[String]) -> String {
    let ours = arguments.join(" ");
    let Some(Line { body, rest, is_last }) = line(text).filter(|_| !ours.is_empty()) else {
        return text.to_owned();
    };
    let head = &text[..text.len() - body.len() - rest.len()];
    match marked(body, &ours) {
        // The whole line is ours, and so is the newline that parts it from a line which had none.
        Some(at) if is_last && at + MARK.len() + ours.len() == body.len() && &body[..at] == OPTIONS => match rest {
            "" => head.strip_suffix('\n').unwrap_or(head).to_owned(),
            _ => head.to_owned(),
        },
        Some(at) => format!("{head}{}{}{rest}", &body[..at], &body[at + MARK.len() + ours.len()..]),
        None => {
            let body = arguments.iter().rev().fold(body.to_owned(), |body, argument| without_word(&body, argument));
            format!("{head}{body}{rest}")
        }
    }
}

/// The key of the lines that hold arguments. A line with nothing behind it is left alone, so that one that we made is told from it.
const OPTIONS: &str = "options";

/// The line that takes our arguments: `text` ends in `body` and `rest`.
struct Line<'a> {
    /// Without its newline.
    body: &'a str,
    /// From its newline on.
    rest: &'a str,
    /// Whether it is the last line of the text.
    is_last: bool,
}

/// The last `options` line of an entry; of anything else the last line that is neither empty nor a comment.
fn line(text: &str) -> Option<Line<'_>> {
    let is_entry = is_entry(text);
    let mut end = text.len();
    for line in text.split_inclusive('\n').rev() {
        let start = end - line.len();
        let body = line.strip_suffix('\n').unwrap_or(line);
        let body = body.strip_suffix('\r').unwrap_or(body);
        let is_it = match is_entry {
            true => key(body) == OPTIONS && body.trim() != OPTIONS,
            false => !body.trim().is_empty() && !body.trim_start().starts_with('#'),
        };
        if is_it {
            return Some(Line { body, rest: &text[start + body.len()..], is_last: end == text.len() });
        }
        end = start;
    }
    None
}

fn is_entry(text: &str) -> bool {
    text.lines().any(|line| ENTRY_KEYS.contains(&key(line)))
}

fn key(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// Where our mark stands in a line: behind it exactly our arguments, and then nothing or white space.
fn marked(body: &str, ours: &str) -> Option<usize> {
    let needle = format!("{MARK}{ours}");
    let ends_there = |at: &usize| body[at + needle.len()..].chars().next().is_none_or(char::is_whitespace);
    body.rmatch_indices(&needle).map(|(at, _)| at).find(ends_there)
}

/// The line without the last word that is `argument`, and without the white space before that. The first word of an `options` line
/// is no argument, and what stands in quotes is part of a value.
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
            // The first of all words takes the white space behind it along instead.
            if before.is_empty() { after.trim_start().to_owned() } else { format!("{before}{after}") }
        }
        None => body.to_owned(),
    }
}
