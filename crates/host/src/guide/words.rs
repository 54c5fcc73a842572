//! Words of a shell line, without a shell. Quotes are removed, operators are separate words, and nothing is expanded.

/// The maximum number of words of a line.
const WORDS_MAX: usize = 2000;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether the word is an operator of the shell: `>`, `|`, `;`, `&&`.
    pub(super) is_operator: bool,
    /// Whether only a shell can expand a part of the word.
    pub(super) is_expanded: bool,
}

/// The words of a line without its comment.
pub(super) fn split(line: &str) -> Vec<Word> {
    let (mut words, mut word, mut quote): (Vec<Word>, Option<Word>, Option<char>) = (Vec::new(), None, None);
    let operator = |text| Word { text, is_operator: true, is_expanded: false };
    let fresh = || Word { text: String::new(), is_operator: false, is_expanded: false };
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if words.len() > WORDS_MAX {
            // Like a word that only a shell can expand, this word makes the line count as not understood.
            words.push(Word { text: "$more".to_owned(), is_operator: false, is_expanded: true });
            return words;
        }
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_with(fresh);
            }
            (None, '\n') => {
                words.extend(word.take());
                words.push(operator(";".to_owned()));
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => while letters.next_if(|next| *next != '\n').is_some() {},
            (None, '<') if placeholder(letters.clone()).is_some() => {
                let length = placeholder(letters.clone()).unwrap_or_default();
                let word = word.get_or_insert_with(fresh);
                word.is_expanded = true;
                word.text.push(letter);
                word.text.extend(letters.by_ref().take(length));
            }
            (None, '>' | '|' | ';' | '&' | '<' | '(' | ')') => {
                let is_redirection = matches!(letter, '>' | '<') || letter == '&' && letters.peek() == Some(&'>');
                // `2>` redirects another stream, which carries no setting.
                let is_number =
                    |word: &Word| !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_digit());
                let stream = word.take_if(|word| is_redirection && is_number(word)).map(|word| word.text);
                words.extend(word.take());
                let mut text = stream.filter(|stream| stream != "1").unwrap_or_default();
                text.push(letter);
                while let Some(next) =
                    letters.next_if(|next| if is_redirection { "<>&|".contains(*next) } else { *next == letter })
                {
                    text.push(next);
                }
                words.push(operator(text));
            }
            (open, '\\') if open != Some('\'') => {
                let word = word.get_or_insert_with(fresh);
                // Between double quotes, a backslash is literal before most letters, such as the n of `\n`.
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

/// The longest name of a placeholder.
const PLACEHOLDER_MAX: usize = 30;

/// The length of `interface>`, after a `<`: a name that the reader replaces. The shell's `<file` has no `>` after the name.
fn placeholder(letters: impl Iterator<Item = char>) -> Option<usize> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_- ".contains(letter);
    let name: Vec<char> = letters.take(PLACEHOLDER_MAX).take_while(|letter| *letter != '\n').collect();
    let end = name.iter().position(|letter| *letter == '>')?;
    let is_one = name.first().is_some_and(char::is_ascii_alphabetic)
        && name[..end].last().is_some_and(char::is_ascii_alphanumeric)
        && name[..end].iter().all(|letter| is_name(*letter));
    is_one.then_some(end + 1)
}

/// The quote that is open at the end of a line. `open` is the quote that is open at its beginning.
pub(super) fn open_quote(line: &str, open: Option<char>) -> Option<char> {
    let (mut quote, mut is_word, mut letters) = (open, open.is_some(), line.chars());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(own), letter) if letter == own => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '#') if !is_word => drop(letters.find(|letter| *letter == '\n')),
            (own, '\\') if own != Some('\'') => _ = letters.next(),
            _ => {}
        }
        is_word = quote.is_some() || !letter.is_whitespace() && !";|&()".contains(letter);
    }
    quote
}
