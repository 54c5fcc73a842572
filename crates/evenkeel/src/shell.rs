//! Quotes words for a shell.

use std::borrow::Cow;

/// Joins words to one line. A shell splits the line into the same words.
pub(crate) fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Quotes a word for a shell. Does not quote words that every shell takes literally, such as `vm.swappiness=10`.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=,._-+/:@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Cow::Borrowed(text),
        false => shlex::try_quote(text).unwrap_or(Cow::Borrowed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_again_as_it_was() {
        for (text, expected) in [
            ("vm.swappiness=10", "vm.swappiness=10"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$HOME", "'$HOME'"),
            ("it's", "\"it's\""),
        ] {
            assert_eq!(word(text), expected);
            assert_eq!(shlex::split(&word(text)), Some(vec![text.to_owned()]));
        }
    }
}
