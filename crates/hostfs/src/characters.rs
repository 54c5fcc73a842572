//! Detects characters that change how text is displayed. Names and values from outside may contain them.

/// Whether the character sets the direction of text (Unicode's `Bidi_Control`).
/// A program may display the text after it in another order than the stored order.
pub fn is_bidirectional(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a terminal acts on the character instead of displaying it.
/// Such characters are control characters (C0, DEL, C1), and characters that set the direction of text.
pub fn acts(character: char) -> bool {
    character.is_control() || is_bidirectional(character)
}
