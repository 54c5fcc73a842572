//! Words of a shell line, without a shell: quotes are removed, operators are words of their own, and nothing is expanded.

/// The most words of a line.
const WORDS_MAX: usize = 2000;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// It is an operator of the shell: `>`, `|`, `;`, `&&`.
    pub(super) is_operator: bool,
    /// It contains what only a shell can expand.
    pub(super) is_expanded: bool,
}

/// The words of a line up to its comment.
pub(super) fn split(line: &str) -> Vec<Word> {
    let (mut words, mut word, mut quote): (Vec<Word>, Option<Word>, Option<char>) = (Vec::new(), None, None);
    let fresh = || Word { text: String::new(), is_operator: false, is_expanded: false };
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if words.len() > WORDS_MAX {
            // Like a word that only a shell could expand, so the line is not understood.
            words.push(Word { text: "$more".to_owned(), is_operator: false, is_expanded: true });
            return words;
        }
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_with(fresh);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '>' | '|' | ';' | '&' | '<' | '(' | ')') => {
                // `2>` is a redirection of another stream, which carries no setting.
                words.extend(word.take());
                let mut text = letter.to_string();
                while let Some(next) = letters.next_if(|next| *next == letter) {
                    text.push(next);
                }
                words.push(Word { text, is_operator: true, is_expanded: false });
            }
            (open, '\\') if open != Some('\'') => {
                let word = word.get_or_insert_with(fresh);
                // Between double quotes it stands for itself before most letters, such as the n of a line's end.
                let stays = |next: &char| open == Some('"') && !['$', '`', '"', '\\'].contains(next);
                word.text.extend(letters.peek().is_some_and(stays).then_some('\\'));
                word.text.extend(letters.next());
            }
            (open, letter) => {
                let word = word.get_or_insert_with(fresh);
                word.is_expanded |= open != Some('\'') && matches!(letter, '$' | '`');
                word.text.push(letter);
            }
        }
    }
    words.extend(word);
    words
}
