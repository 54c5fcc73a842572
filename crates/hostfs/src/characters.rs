//! Detects characters that change how text is displayed. Names and values from outside may contain them.

/// Whether the character sets the direction of text (Unicode's `Bidi_Control`). Text after such a character may be displayed in another
/// order than it is stored.
pub fn is_bidirectional(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a terminal acts on the character instead of displaying it: a control character (C0, DEL, C1), or one that sets the direction of
/// text.
pub fn acts(character: char) -> bool {
    character.is_control() || is_bidirectional(character)
}
