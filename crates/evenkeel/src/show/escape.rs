//! Replaces characters that control a terminal and are not shown:
//! control characters (C0, DEL, C1), and characters that set the direction of text.
//! Names and values come from outside. None of these characters in them may reach a terminal, in text or in JSON.

use std::borrow::Cow;
use std::fmt::Write as _;

use evenkeel_hostfs::characters::acts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The replacement for a control character on a page.
const REPLACEMENT: char = '\u{fffd}';

/// Replaces all control characters, including line ends.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|character| if acts(character) { REPLACEMENT } else { character }).collect()
}

/// Cleans a text of several lines with evenkeel's own styles. Keeps line ends, tabs and colour sequences.
pub(crate) fn styled(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = style_bytes(rest).unwrap_or(character.len_utf8());
        let (taken, after) = rest.split_at(length);
        match character {
            '\n' | '\t' => cleaned.push(character),
            '\x1b' if length > 1 => cleaned.push_str(taken),
            _ if acts(character) => cleaned.push(REPLACEMENT),
            _ => cleaned.push(character),
        }
        rest = after;
    }
    cleaned
}

/// Cleans a page without styles. Keeps line ends and tabs.
pub(crate) fn page(text: &str) -> String {
    let kept = |character: char| matches!(character, '\n' | '\t') || !acts(character);
    text.chars().map(|character| if kept(character) { character } else { REPLACEMENT }).collect()
}

/// The length of a sequence that sets a style (`ESC [ 1;31 m`), if the text begins with such a sequence.
fn style_bytes(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let length = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    (parameters.as_bytes().get(length) == Some(&b'm')).then_some(length + 3)
}

/// Writes control characters in a JSON text as `\u` and four digits.
/// They occur only within strings, where both forms mean the same.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character != '\n' && acts(character);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_escaped(character) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// The bytes that must be encoded in an address: all except letters, digits and `-_.~` (RFC 3986).
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    /// All characters of Unicode's `Bidi_Control`, and some control characters of each kind.
    const ACTING: &str = "\0\x07\x1b\x7f\u{80}\u{85}\u{9b}\u{9f}\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                          \u{2066}\u{2067}\u{2068}\u{2069}";

    #[test]
    fn no_character_that_acts_is_left() {
        assert_eq!(plain(&format!("a{ACTING}\nb")), format!("a{}b", "\u{fffd}".repeat(ACTING.chars().count() + 1)));
        assert_eq!(plain("שלום, 世界 – é\u{300}"), "שלום, 世界 – é\u{300}");
        let json = json(&serde_json::to_string_pretty(&[ACTING]).unwrap()).into_owned();
        assert!(!json.chars().any(|character| acts(character) && character != '\n'), "{json}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [ACTING]);
    }

    #[test]
    fn styles_stay_and_nothing_else() {
        let table = [
            ("\x1b[1;31mx\x1b[0m\ny", "\x1b[1;31mx\x1b[0m\ny"),
            ("\x1b[2Jx", "\u{fffd}[2Jx"),
            ("\x1b]0;t\x07", "\u{fffd}]0;t\u{fffd}"),
            ("\x1b[", "\u{fffd}["),
            ("\x1b[1;", "\u{fffd}[1;"),
            ("a\u{202e}b\u{9b}2J", "a\u{fffd}b\u{fffd}2J"),
        ];
        for (text, expected) in table {
            assert_eq!(styled(text), expected);
        }
        assert_eq!(page("\x1b[1ma\u{202e}\tb\r\n"), "\u{fffd}[1ma\u{fffd}\tb\u{fffd}\n");
    }
}
