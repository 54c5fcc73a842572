//! What a file becomes when its [`Content`] is put there, and when it is taken out again: pure, from text to text. To take out what
//! was put in is the identity on everything else.

use evenkeel_sys::Entry;

use crate::keep::Content;

/// The permission bits of a file that we make because there was none to edit.
const NEW_MODE: u32 = 0o644;

/// The marks around a block of ours.
const BEGIN: &str = "# evenkeel begin: `evenkeel revert` removes these lines\n";
const END: &str = "# evenkeel end\n";

/// What is to be at a path where `before` is.
pub(crate) fn with(before: &Entry, content: &Content) -> Result<Entry, String> {
    let text_of = || match before {
        Entry::File { text, mode } => Ok((text.as_str(), *mode)),
        Entry::Absent => Ok(("", NEW_MODE)),
        Entry::Link { target } => Err(format!("it is a symbolic link to {target}, and only files are edited")),
    };
    match content {
        Content::Whole { text, mode } => Ok(Entry::File { text: text.clone(), mode: *mode }),
        Content::Link { target } => Ok(Entry::Link { target: target.clone() }),
        Content::Block { lines } => {
            let (text, mode) = text_of()?;
            let text = without_block(text);
            // A last line without its newline stays one: ours goes on a new line, and takes it away again.
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Ok(Entry::File { text: format!("{text}{gap}{BEGIN}{lines}{END}"), mode })
        }
        Content::KernelArguments { .. } => Err("editing entries is not known yet".to_owned()),
    }
}

/// What is to be at a path once ours is gone, where `now` is what somebody changed since we wrote it.
pub(crate) fn without(now: &Entry, content: &Content) -> Entry {
    match (content, now) {
        (Content::Block { .. }, Entry::File { text, mode }) => Entry::File { text: without_block(text), mode: *mode },
        (Content::Block { .. } | Content::KernelArguments { .. }, other) => other.clone(),
        (Content::Whole { .. } | Content::Link { .. }, _) => Entry::Absent,
    }
}

fn without_block(text: &str) -> String {
    let Some((before, rest)) = text.split_once(BEGIN) else {
        return text.to_owned();
    };
    match rest.split_once(END) {
        Some((_, after)) => format!("{before}{after}"),
        // Somebody cut the end mark away: then nobody knows which lines are ours.
        None => text.to_owned(),
    }
}
