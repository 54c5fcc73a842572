//! Text of scripts without blanks between words, such as Chinese and Japanese.

/// Marks that end a clause.
pub(super) const MARKS: [char; 9] =
    ['\u{ff0c}', '\u{3002}', '\u{ff1b}', '\u{ff1a}', '\u{ff01}', '\u{ff1f}', '\u{3001}', '\u{ff08}', '\u{ff09}'];

/// Whether a letter or a mark belongs to a script without blanks. A name or a value ends at this letter.
pub(super) fn is_wide(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
}

/// The words of a text, and where each begins. A word also ends where the script changes.
pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut from, mut is_before) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        let is_end = letter.is_whitespace() || letter == '`';
        if is_end || is_wide(letter) != is_before {
            found.push((from, &text[from..at]));
            from = if is_end { at + letter.len_utf8() } else { at };
        }
        is_before = is_wide(letter);
    }
    found.push((from, &text[from..]));
    found.retain(|(_, word)| !word.is_empty());
    found
}

/// Words that advise against a setting, or introduce its default.
const AGAINST: [&str; 27] = [
    "不要",
    "不建议",
    "不建議",
    "不推荐",
    "不推薦",
    "不应",
    "不應",
    "不能",
    "不可",
    "不宜",
    "勿",
    "禁止",
    "别设",
    "别用",
    "别把",
    "别将",
    "应避免",
    "默认",
    "默認",
    "しないで",
    "ないでください",
    "べきではない",
    "推奨しません",
    "避けて",
    "デフォルト",
    "마세요",
    "금지",
];
/// The word for `avoid`, and the words before it if its object is something else.
const AVOID: &str = "避免";
const PURPOSES: [&str; 6] = ["为了", "為了", "为", "以", "能", "可"];

/// The objections of a clause to its settings.
#[derive(Clone, Copy, Default)]
pub(super) struct Against {
    word: Option<&'static str>,
    /// Where the clause says to avoid something.
    avoids: Option<usize>,
}

impl Against {
    pub(super) fn of(clause: &str) -> Against {
        if clause.is_ascii() {
            return Against::default();
        }
        let is_purpose = |at: &usize| PURPOSES.iter().any(|purpose| clause[..*at].ends_with(purpose));
        Against {
            word: AGAINST.into_iter().find(|word| clause.contains(word)),
            avoids: clause.find(AVOID).filter(|at| !is_purpose(at)),
        }
    }

    /// The word that speaks against the setting that begins at `at` in the clause.
    pub(super) fn word(self, at: usize) -> Option<String> {
        self.word.or_else(|| self.avoids.filter(|avoids| *avoids < at).map(|_| AVOID)).map(str::to_owned)
    }
}
