//! Texts stored once. Ten thousand hosts have the same knobs and mostly the same values, so a host is a list of small numbers.

use rustc_hash::FxHashMap;

/// The maximum length of a stored text, in characters. A value of a knob is shorter.
const TEXT_CHARS_MAX: usize = 300;

/// The number of a text. Equal texts have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(u32);

/// Texts with their numbers.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u32>,
    bytes: usize,
}

impl Names {
    pub(super) fn name(&mut self, text: &str) -> Name {
        let text = cut(text);
        if let Some(number) = self.numbers.get(&*text) {
            return Name(*number);
        }
        // Callers bound the bytes, so the count stays far below the type's range.
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        Name(number)
    }

    pub(super) fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }

    /// The size of the texts, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Cuts a long text, and adds its full length. So it never equals a text with another length.
fn cut(text: &str) -> Box<str> {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_long_ones_are_cut() {
        let mut names = Names::default();
        let (one, other) = (names.name("a"), names.name("b"));
        assert_eq!((names.name("a"), names.bytes()), (one, 2));
        assert_ne!(one, other);
        let (long, longer) = (names.name(&"é".repeat(301)), names.name(&"é".repeat(302)));
        assert_ne!(long, longer);
        assert!(names.text(long).ends_with("é… (602 bytes in all)"));
    }
}
