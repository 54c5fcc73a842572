//! Words that both a plan's script and its undo script use.

use evenkeel_host::Reading;

use super::{RenderError, line, refused};
use crate::shell::word;

/// The name of a reading for `text_of` and `spelled`.
pub(super) fn reading_name(reading: Reading) -> &'static str {
    match reading {
        Reading::Plain => "plain",
        Reading::Words => "words",
        Reading::ChosenWord => "chosen-word",
        Reading::CpuList => "cpu-list",
        Reading::CpuMask => "cpu-mask",
    }
}

/// A word of the kernel command line, which the kernel splits at white space.
pub(super) fn argument(text: &str) -> Result<&str, RenderError> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(refused("the kernel argument", text, "it must be one word"));
    }
    line("the kernel argument", text)
}

pub(super) fn words(texts: &[String], check: fn(&str) -> Result<&str, RenderError>) -> Result<String, RenderError> {
    let words: Vec<String> = texts.iter().map(|text| Ok(word(check(text)?))).collect::<Result<_, _>>()?;
    Ok(words.join(" "))
}
