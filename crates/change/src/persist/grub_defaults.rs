//! Computes the kernel arguments from `/etc/default/grub`
//! and the files of `/etc/default/grub.d`, with the line of each word.
//! `update-grub` runs these files as shell scripts; this code only parses them.
//! If a statement has an unknown form, its words count as possible additions, and no word counts as removed.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::str::CharIndices;

use crate::arguments;

/// The variable whose arguments every entry has. evenkeel appends its arguments to this variable.
pub(super) const LINUX: &str = "GRUB_CMDLINE_LINUX";
/// The variable whose arguments follow those of `GRUB_CMDLINE_LINUX` in all entries except recovery entries.
const DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

/// The maximum length of a value. The kernel accepts a line of at most 4,096 bytes.
/// A file that doubles a variable on each line must not exhaust the memory.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Marks where our file is read.
const OURS: &str = "\u{1}ours";

/// The origin of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin<'a> {
    pub(super) path: &'a str,
    /// Counted from 1.
    pub(super) line: usize,
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {})", self.path, self.line)
    }
}

/// A word of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) text: String,
    pub(super) origin: Origin<'a>,
}

/// The kernel arguments that the files define.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The words before ours.
    pub(super) before: Vec<Word<'a>>,
    /// The words after ours.
    pub(super) after: Vec<Word<'a>>,
    /// Where another file removes the arguments that our file adds.
    pub(super) replaced: Option<Origin<'a>>,
    /// Words of statements that the parser does not support.
    pub(super) maybe: Vec<Word<'a>>,
}

/// The kernel line that results from the files, in the order of reading. `ours` is the path of our file.
pub(super) fn line<'a>(files: &[(&'a str, &'a str)], ours: &'a str) -> Line<'a> {
    let mut shell = Shell::default();
    let (first, last): (Vec<_>, Vec<_>) =
        files.iter().filter(|(path, _)| *path != ours).partition(|(path, _)| !is_drop_in(path) || *path < ours);
    for (path, text) in first {
        shell.run(path, text);
    }
    let origin = Origin { path: ours, line: 1 };
    shell.variables.entry(LINUX.to_owned()).or_default().push(Piece { text: format!(" {OURS}"), origin });
    for (path, text) in last {
        shell.run(path, text);
    }
    let mut all = shell.words(LINUX);
    let at = all.iter().position(|word| word.text == OURS);
    let replaced = if at.is_none() { shell.set.get(LINUX).copied() } else { None };
    let mut after = all.split_off(at.unwrap_or(all.len()));
    after.retain(|word| word.text != OURS);
    after.extend(shell.words(DEFAULT).into_iter().filter(|word| word.text != OURS));
    Line { before: all, after, replaced, maybe: shell.maybe }
}

fn is_drop_in(path: &str) -> bool {
    path.starts_with("/etc/default/grub.d/")
}

/// A part of a variable's value.
#[derive(Clone, Debug)]
struct Piece<'a> {
    text: String,
    origin: Origin<'a>,
}

/// A variable's value.
#[derive(Clone, Debug, Default)]
struct Value<'a> {
    pieces: Vec<Piece<'a>>,
    bytes: usize,
}

impl<'a> Value<'a> {
    fn push(&mut self, piece: Piece<'a>) {
        if !piece.text.is_empty() && self.bytes + piece.text.len() <= VALUE_BYTES_MAX {
            self.bytes += piece.text.len();
            self.pieces.push(piece);
        }
    }

    fn extend(&mut self, other: &Value<'a>) {
        other.pieces.iter().for_each(|piece| self.push(piece.clone()));
    }
}

/// The variables of the shell that runs the files.
#[derive(Debug, Default)]
struct Shell<'a> {
    variables: BTreeMap<String, Value<'a>>,
    /// Where the files set each variable last.
    set: BTreeMap<String, Origin<'a>>,
    maybe: Vec<Word<'a>>,
}

impl<'a> Shell<'a> {
    fn run(&mut self, path: &'a str, text: &str) {
        let statements = statements(text);
        // In a branch, the shell may or may not set the variable.
        let is_sure = !statements.iter().any(|statement| statement.branches());
        for statement in &statements {
            self.take(statement, Origin { path, line: statement.line }, is_sure);
        }
    }

    fn take(&mut self, statement: &Statement, origin: Origin<'a>, is_sure: bool) {
        let mut rest = statement.body();
        let mut assigned = Vec::new();
        while let Some((name, adds, value)) = assignment(rest) {
            let mut expansion =
                Expansion { shell: self, origin, value: Value::default(), text: String::new(), is_sure };
            rest = expansion.word(value).trim_start();
            expansion.flush();
            assigned.push((name, adds, expansion.value, expansion.is_sure));
        }
        if !rest.is_empty() && (assigned.is_empty() || rest.contains(LINUX)) {
            self.guess(rest, origin);
        }
        for (name, adds, expanded, is_sure) in assigned {
            let value = self.variables.entry(name.to_owned()).or_default();
            // An assignment in front of a command applies only to that command.
            if is_sure && !adds && rest.is_empty() {
                *value = Value::default();
            } else {
                value.push(Piece { text: " ".to_owned(), origin });
            }
            value.extend(&expanded);
            self.set.insert(name.to_owned(), origin);
        }
    }

    /// Records the words of a statement that affects the line but that the parser does not support.
    fn guess(&mut self, text: &str, origin: Origin<'a>) {
        if text.contains(LINUX) {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-=,/+@".contains(letter);
            let words = text.split(|letter| !is_plain(letter)).map(|word| word.trim_start_matches('='));
            let words = words.filter(|word| !word.is_empty() && !word.starts_with(LINUX));
            self.maybe.extend(words.map(|word| Word { text: word.to_owned(), origin }));
        }
    }

    fn words(&self, variable: &str) -> Vec<Word<'a>> {
        let pieces = self.variables.get(variable).map(|value| value.pieces.as_slice()).unwrap_or_default();
        let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        let mut ends = pieces.iter().scan(0, |end, piece| {
            *end += piece.text.len();
            Some((*end, piece.origin))
        });
        let mut piece = ends.next();
        let mut origin_at = |at: usize| {
            while piece.is_some_and(|(end, _)| end <= at) {
                piece = ends.next();
            }
            piece.map(|(_, origin)| origin)
        };
        let words = arguments::words(&text).into_iter();
        words.filter_map(|(at, word)| Some(Word { text: word.to_owned(), origin: origin_at(at)? })).collect()
    }
}

/// Splits `NAME=` or `NAME+=` from the beginning of a text. Returns the name, whether the value is added, and the rest.
fn assignment(text: &str) -> Option<(&str, bool, &str)> {
    let (name, value) = text.split_once('=')?;
    let (name, adds) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name =
        !name.is_empty() && name.bytes().all(plain) && !name.starts_with(|first: char| first.is_ascii_digit());
    is_name.then_some((name, adds, value))
}

/// Expands one shell word: removes quotes and expands variables.
struct Expansion<'s, 'a> {
    shell: &'s Shell<'a>,
    origin: Origin<'a>,
    value: Value<'a>,
    /// Expanded text that is not in the value yet.
    text: String,
    is_sure: bool,
}

impl<'a> Expansion<'_, 'a> {
    /// Reads one word and returns the text after it.
    fn word<'t>(&mut self, text: &'t str) -> &'t str {
        let mut rest = text.char_indices().peekable();
        let (mut quote, mut depth) = (None, 0_usize);
        while let Some((at, letter)) = rest.next() {
            match letter {
                '\'' if quote.is_none() => quote = Some('\''),
                '"' if quote.is_none() => quote = Some('"'),
                _ if quote == Some(letter) => quote = None,
                _ if quote == Some('\'') => self.push(letter),
                '\\' => match rest.next() {
                    Some((_, next)) if quote.is_none() || "\"\\$`".contains(next) => self.push(next),
                    next => {
                        self.push('\\');
                        next.into_iter().for_each(|(_, letter)| self.push(letter));
                    }
                },
                '$' => depth += usize::from(self.variable(&mut rest)),
                '`' => {
                    self.is_sure = false;
                    self.push(' ');
                }
                ')' if depth > 0 => {
                    depth -= 1;
                    self.push(' ');
                }
                _ if letter.is_whitespace() && quote.is_none() && depth == 0 => return &text[at..],
                other => self.push(other),
            }
        }
        ""
    }

    /// Reads a variable after a `$`. Returns whether the `$` starts a command, whose text then follows.
    fn variable(&mut self, rest: &mut Peekable<CharIndices<'_>>) -> bool {
        let part = |(_, letter): &(usize, char)| letter.is_ascii_alphanumeric() || *letter == '_';
        if rest.next_if(|(_, next)| *next == '(').is_some() {
            self.is_sure = false;
            self.push(' ');
            return true;
        }
        let is_braced = rest.next_if(|(_, next)| *next == '{').is_some();
        let name: String = std::iter::from_fn(|| rest.next_if(part)).map(|(_, letter)| letter).collect();
        if name.is_empty() && !is_braced {
            self.push('$');
        }
        if let Some(value) = self.shell.variables.get(&name) {
            self.flush();
            self.value.extend(value);
        }
        if is_braced {
            let more: String = rest.map(|(_, letter)| letter).take_while(|letter| *letter != '}').collect();
            if !more.is_empty() {
                self.is_sure = false;
                self.text += &format!(" {} ", more.trim_start_matches([':', '-', '+', '=', '?', '#', '%', '/']));
            }
        }
        false
    }

    fn push(&mut self, letter: char) {
        self.text.push(letter);
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.value.push(Piece { text, origin: self.origin });
    }
}

/// A statement of the shell.
#[derive(Debug)]
struct Statement {
    /// The line where the statement begins, counted from 1.
    line: usize,
    text: String,
    /// Whether the statement runs depending on the result of the previous statement.
    is_joined: bool,
}

/// Words in front of a statement that do not affect its assignments.
const PREFIXES: [&str; 10] = ["{", "export", "then", "else", "do", "!", "time", "readonly", "local", "declare"];
/// Words that begin a branch or a loop.
const BRANCHES: [&str; 7] = ["if", "elif", "else", "case", "for", "while", "until"];

impl Statement {
    fn body(&self) -> &str {
        let mut body = self.text.trim();
        while let Some((_, rest)) = body.split_once(char::is_whitespace).filter(|(first, _)| PREFIXES.contains(first)) {
            body = rest.trim_start();
        }
        body
    }

    fn branches(&self) -> bool {
        self.is_joined || self.text.split_whitespace().next().is_some_and(|first| BRANCHES.contains(&first))
    }
}

/// A text split into its statements, without comments.
fn statements(text: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut now = Statement { line: 1, text: String::new(), is_joined: false };
    let (mut quote, mut depth, mut line) = (None, 0_usize, 1);
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        let is_open = quote.is_none() && depth == 0;
        if now.text.trim().is_empty() {
            now.line = line;
        }
        line += usize::from(letter == '\n');
        match letter {
            '\\' if quote != Some('\'') => match rest.next() {
                Some('\n') => line += 1,
                next => now.text.extend([Some('\\'), next].into_iter().flatten()),
            },
            '#' if is_open && now.text.chars().next_back().is_none_or(char::is_whitespace) => {
                while rest.next_if(|next| *next != '\n').is_some() {}
            }
            '\n' | ';' | '&' | '|' | '(' | ')' if is_open && !(letter == '(' && now.text.ends_with('$')) => {
                let next = Statement { line, text: String::new(), is_joined: "&|(".contains(letter) };
                statements.push(std::mem::replace(&mut now, next));
            }
            _ => {
                match letter {
                    '\'' | '"' | '`' if quote.is_none() => quote = Some(letter),
                    _ if quote == Some(letter) => quote = None,
                    '(' if depth > 0 || now.text.ends_with('$') && quote != Some('\'') => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                now.text.push(letter);
            }
        }
    }
    statements.push(now);
    statements.retain(|statement| !statement.text.trim().is_empty());
    statements
}
