//! Computes the text of a file after its [`Content`] is added, and after it is removed again.
//! All functions are pure, from text to text. Removing the content leaves everything else unchanged.

mod kernel_line;
#[cfg(test)]
pub(crate) mod tests;

use evenkeel_hostfs::Entry;

use crate::persist_plan::Content;

/// The permission bits of a file that evenkeel creates.
const NEW_MODE: u32 = 0o644;

/// The marks around our block.
const BEGIN: &str = "# evenkeel begin: `evenkeel revert` removes these lines\n";
/// The begin mark if the last line of the file has no newline.
/// evenkeel then adds a newline, which is part of its block.
const BEGIN_WITH_NEWLINE: &str =
    "\n# evenkeel begin: `evenkeel revert` removes these lines, and the newline before them\n";
const END: &str = "# evenkeel end\n";

/// The entry at a path that now holds `before`, with `content` added.
pub(crate) fn with(before: &Entry, content: &Content) -> Result<Entry, String> {
    let text_of = || match before {
        Entry::File { text, mode } => Ok((text.as_str(), *mode)),
        Entry::Absent => Ok(("", NEW_MODE)),
        Entry::Link { target } => Err(format!("it is a symbolic link to {target}; evenkeel edits only regular files")),
    };
    match content {
        Content::Whole { text, mode } => Ok(Entry::File { text: text.clone(), mode: *mode }),
        Content::Link { target } => Ok(Entry::Link { target: target.clone() }),
        Content::Block { lines } => {
            let (text, mode) = text_of()?;
            let text = without_block(text);
            let begin = if text.is_empty() || text.ends_with('\n') { BEGIN } else { BEGIN_WITH_NEWLINE };
            Ok(Entry::File { text: format!("{text}{begin}{lines}{END}"), mode })
        }
        // A file with only our arguments would start the kernel without its root device.
        Content::KernelArguments { .. } if *before == Entry::Absent => {
            Err("it does not exist, and evenkeel only adds kernel arguments to an existing file".to_owned())
        }
        Content::KernelArguments { arguments } => {
            let (text, mode) = text_of()?;
            Ok(Entry::File { text: kernel_line::with(text, arguments)?, mode })
        }
    }
}

/// The entry at a path without our content. `now` may differ from the text that we wrote.
pub(crate) fn without(now: &Entry, content: &Content) -> Entry {
    match (content, now) {
        (Content::Block { .. }, Entry::File { text, mode }) => Entry::File { text: without_block(text), mode: *mode },
        (Content::KernelArguments { arguments }, Entry::File { text, mode }) => {
            Entry::File { text: kernel_line::without(text, arguments), mode: *mode }
        }
        (Content::Block { .. } | Content::KernelArguments { .. }, other) => other.clone(),
        (Content::Whole { .. } | Content::Link { .. }, _) => Entry::Absent,
    }
}

/// Adds kernel arguments to a text. Returns the reason if the text cannot take them.
pub(crate) fn with_arguments(text: &str, arguments: &[String]) -> Result<String, String> {
    kernel_line::with(text, arguments)
}

/// The lines of a text that hold kernel arguments, each with its number, counted from 1.
pub(crate) fn argument_lines(text: &str) -> Vec<(usize, &str)> {
    kernel_line::numbered(text)
}

fn without_block(text: &str) -> String {
    let cut = text.split_once(BEGIN_WITH_NEWLINE).or_else(|| text.split_once(BEGIN));
    let Some((before, rest)) = cut else {
        return text.to_owned();
    };
    match rest.split_once(END) {
        Some((_, after)) => format!("{before}{after}"),
        // Somebody removed the end mark, so we do not know which lines are from evenkeel.
        None => text.to_owned(),
    }
}
