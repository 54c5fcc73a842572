//! Pages and scripts: text with commands and settings in it. Markdown and HTML may hide them in code, in tables and in sentences.

use std::collections::HashMap;

use super::line::{Ask, Content, GuideFormat, Skip};
use super::shell::Script;
use super::{names, settings};
use crate::sysctl;

/// The most lines that one command may go over.
const CONTINUED_MAX: usize = 200;

/// Every line of the text.
pub(super) fn read(text: &str, format: GuideFormat) -> Vec<Content> {
    let mut reader = Reader { format, script: Script::default(), is_in_code: false, tags: Tags::default() };
    let mut contents: Vec<Content> = Vec::new();
    let mut begun: Option<(usize, String, usize)> = None;
    // Where a line comes for the last time: text that a command reads must end somewhere.
    let last: HashMap<&str, usize> = text.lines().map(str::trim).zip(0..).collect();
    for (number, raw) in text.lines().enumerate() {
        let line = reader.plain(raw);
        let in_row = reader.tags.is_in_row;
        let (at, whole, parts) = match begun.take() {
            Some((at, before, parts)) => (at, before + " " + line.trim(), parts + 1),
            None => (contents.len(), line, 1),
        };
        // The settings belong to the line on which their command begins.
        if at < contents.len() {
            contents.push(Content::NotASetting(Skip::Structure));
        }
        // The cells of a row may have lines of their own.
        let open = whole.trim_end().strip_suffix('\\').or_else(|| in_row.then_some(whole.as_str()));
        match open {
            Some(open) if parts < CONTINUED_MAX && !open.ends_with('\\') => {
                if at == contents.len() {
                    contents.push(Content::not("the command goes on, but the text ends"));
                }
                begun = Some((at, open.to_owned(), parts));
            }
            _ => {
                let content = match reader.whole(&whole) {
                    Content::NotASetting(Skip::Blank) if !raw.trim().is_empty() => {
                        Content::NotASetting(Skip::Structure)
                    }
                    content => content,
                };
                let is_endless = |end: &String| last.get(end.as_str()).is_none_or(|last| *last <= number);
                reader.script.here = reader.script.here.take().filter(|end| !is_endless(end));
                match contents.get_mut(at) {
                    Some(first) => *first = content,
                    None => contents.push(content),
                }
            }
        }
    }
    contents
}

struct Reader {
    format: GuideFormat,
    script: Script,
    is_in_code: bool,
    tags: Tags,
}

impl Reader {
    /// The line without the markup of its format.
    fn plain(&mut self, line: &str) -> String {
        match self.format {
            GuideFormat::Html => self.tags.strip(line),
            _ => line.to_owned(),
        }
    }

    /// A line of the file, which has several lines of the page where the page breaks within it.
    fn whole(&mut self, line: &str) -> Content {
        if !line.contains(BREAK) {
            return self.line(line);
        }
        let (mut asks, mut without) = (Vec::new(), Content::NotASetting(Skip::Blank));
        for line in line.split(BREAK) {
            match self.line(line) {
                Content::Settings(found) => asks.extend(found),
                Content::NotUnderstood(why) => asks.push(Ask::not_understood(why)),
                Content::NotASetting(Skip::Blank) => {}
                content => without = content,
            }
        }
        if asks.is_empty() { without } else { Content::settings(asks) }
    }

    fn line(&mut self, line: &str) -> Content {
        let line = line.trim();
        if self.tags.is_in_script || line.is_empty() {
            return Content::NotASetting(if line.is_empty() { Skip::Blank } else { Skip::Structure });
        }
        if let Some(end) = &self.script.here {
            if line == end {
                self.script.here = None;
                return Content::NotASetting(Skip::Structure);
            }
            return match settings::line(line) {
                // The text may be any file's.
                Content::NotUnderstood(_) if mentioned(line).is_none() => Content::NotASetting(Skip::Command),
                content => content,
            };
        }
        if line.starts_with("```") || line.starts_with("~~~") {
            self.is_in_code = !self.is_in_code;
            return Content::NotASetting(Skip::Structure);
        }
        let is_script = self.format == GuideFormat::Shell;
        if line.starts_with("#!") {
            return Content::NotASetting(Skip::Structure);
        }
        let shown = if is_script { line } else { unmarked(line) };
        if is_script && line.starts_with('#') {
            return Content::NotASetting(Skip::Comment);
        }
        if let Some(ask) = settings::assignment(shown).filter(|_| !shown.contains('`')) {
            return Content::Settings(vec![ask]);
        }
        if let Some(asks) = names::by_known_arguments(shown).filter(|_| !is_script) {
            return Content::settings(asks);
        }
        if let Some(content) = self.script.line(shown).filter(|_| is_script || !is_sentence(shown)) {
            return content;
        }
        if !is_script && line.starts_with('|') {
            return row(line);
        }
        let asks = inline(shown);
        match (asks.is_empty(), mentioned(shown)) {
            (false, _) => Content::settings(asks),
            (true, Some(name)) if !line.starts_with('#') => {
                Content::not(format!("it names {name} without a value to set"))
            }
            _ if line.starts_with('#') && self.is_in_code => Content::NotASetting(Skip::Comment),
            _ if is_script => Content::NotASetting(Skip::Command),
            _ => Content::NotASetting(Skip::Prose),
        }
    }
}

/// Commands that may follow a root's prompt, which looks like a comment or a heading.
const PROMPTED: [&str; 9] = ["sysctl", "echo", "ethtool", "cpupower", "grubby", "tee", "sh -c", "for ", "sudo "];

/// A line without the marks of a list, of a quotation and of a prompt.
fn unmarked(line: &str) -> &str {
    let mut line = line;
    for _ in 0..4 {
        let rest = ["- ", "* ", "+ ", "> ", "$ ", "% ", "`$ "].iter().find_map(|mark| line.strip_prefix(mark));
        let rest = rest.or_else(|| {
            let rest = line.strip_prefix("# ")?;
            PROMPTED.iter().any(|command| rest.starts_with(command)).then_some(rest)
        });
        let rest = rest.or_else(|| {
            let (number, rest) = line.split_once([')', '.'])?;
            (!number.is_empty()
                && number.len() < 4
                && number.trim_start_matches('(').bytes().all(|byte| byte.is_ascii_digit()))
            .then_some(rest)
        });
        match rest {
            Some(rest) => line = rest.trim_start(),
            None => break,
        }
    }
    let code = line.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).filter(|rest| !rest.contains('`'));
    code.unwrap_or(line)
}

/// Whether a line is a sentence that only begins like a command: `Set …`, `Export the …`, `free memory …`.
fn is_sentence(line: &str) -> bool {
    let words = line.split_whitespace().count();
    let is_marked = line.contains(['=', '/', '|', '>', '-']);
    line.contains('`') || !is_marked && (words > 3 || line.ends_with(['.', ':', ',']))
}

/// A row of a table: the first cell with a sysctl's name, and the value in the next one.
fn row(line: &str) -> Content {
    let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches(['`', '*', ' '])).collect();
    let at = cells
        .iter()
        .position(|cell| sysctl::known_path(cell).is_some_and(|path| path.contains('_') || path.contains('/')));
    match at.and_then(|at| Some((cells.get(at)?, cells.get(at + 1)?))) {
        Some((key, value)) if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" _-".contains(&byte)) => {
            let value = settings::plain_value(value)
                .filter(|value| !value.contains(' ') || value.split(' ').all(|word| word.parse::<i64>().is_ok()));
            match value.and_then(|value| names::by_key(key, value)) {
                Some(ask) => Content::Settings(vec![ask]),
                None => Content::not("the table has no value for it"),
            }
        }
        Some(_) => Content::not("the value in the table is not plain"),
        None => match (inline(line), mentioned(line)) {
            (asks, Some(name)) if asks.is_empty() => Content::not(format!("it names {name} without a value to set")),
            (asks, None) if asks.is_empty() => Content::NotASetting(Skip::Prose),
            (asks, _) => Content::settings(asks),
        },
    }
}

/// Settings inside a sentence: `key=value`, `key = value`, "key to value".
fn inline(line: &str) -> Vec<Ask> {
    let words: Vec<&str> =
        line.split(|letter: char| letter.is_whitespace() || letter == '`').filter(|word| !word.is_empty()).collect();
    let trimmed = |word: &str| word.trim_matches(['"', '\'', ',', ';', ':', '.', '(', ')', '*']).to_owned();
    // Every second part of the line is code.
    let code = line.split('`').skip(1).step_by(2);
    let mut found: Vec<Ask> = code.filter_map(names::by_known_arguments).flatten().collect();
    for (at, word) in words.iter().enumerate() {
        let word = trimmed(word);
        if let Some((key, value)) = word.split_once('=')
            && !value.is_empty()
        {
            let more = numbers(&words[at + 1..])
                .filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()) && word.len() + 1 >= words[at].len());
            let value = more.map_or_else(|| value.to_owned(), |more| format!("{value} {more}"));
            found.extend(settings::plain_value(&value).and_then(|value| named(key, value)));
            continue;
        }
        let key = word.trim_end_matches('=');
        let (joint, rest) = match words.get(at + 1) {
            Some(&("=" | "to" | "at")) => (true, words.get(at + 2..).unwrap_or_default()),
            _ => (word.ends_with('='), words.get(at + 1..).unwrap_or_default()),
        };
        if let Some(value) = numbers(rest).filter(|_| joint) {
            found.extend(named(key, &value));
        }
    }
    found
}

/// A sysctl, or a file of the kernel; a bare word is none.
fn named(key: &str, value: &str) -> Option<Ask> {
    if key.starts_with("/proc/sys/") || key.starts_with("/sys/") {
        return names::by_file(key, value);
    }
    names::by_key(key, value).filter(|_| key.contains('.'))
}

/// The numbers at the beginning of these words.
fn numbers(words: &[&str]) -> Option<String> {
    let mut found = Vec::new();
    for word in words.iter().take(4) {
        let plain = word.trim_matches(['"', '\'', ',', ';', ':', '.', ')']);
        if plain.is_empty() || plain.parse::<i64>().is_err() {
            break;
        }
        found.push(plain);
        if word.ends_with(['.', ',', ';', ')']) {
            break;
        }
    }
    (!found.is_empty()).then(|| found.join(" "))
}

/// The first name of a sysctl or of a file of the kernel in a line.
fn mentioned(line: &str) -> Option<String> {
    let words = line.split(|letter: char| letter.is_whitespace() || "`\"'(),;=<>".contains(letter));
    let is_name = |word: &&str| {
        let is_file = (word.starts_with("/proc/sys/") || word.starts_with("/sys/")) && word.len() > 12;
        let is_key = word.contains('.') && word.contains('_') && sysctl::known_path(word).is_some();
        is_file || is_key
    };
    words
        .into_iter()
        .map(|word| word.trim_end_matches(['.', ':']))
        .find(is_name)
        .map(|word| word.chars().take(80).collect())
}

/// The most lines of one tag: a longer one is no tag, and its text counts.
const TAG_LINES_MAX: usize = 30;

/// Where a page breaks within a line of its file.
const BREAK: char = '\u{1}';

/// Where a page in HTML is.
#[derive(Default)]
struct Tags {
    is_in_row: bool,
    is_in_tag: bool,
    lines_in_tag: usize,
    is_in_script: bool,
}

impl Tags {
    /// The text of a line; code becomes what Markdown has.
    fn strip(&mut self, line: &str) -> String {
        let (mut text, mut tag) = (String::new(), String::new());
        self.lines_in_tag = if self.is_in_tag { self.lines_in_tag + 1 } else { 0 };
        self.is_in_tag &= self.lines_in_tag < TAG_LINES_MAX;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            let begins = letters.peek().is_some_and(|next| next.is_ascii_alphabetic() || *next == '/' || *next == '!');
            match (self.is_in_tag, letter) {
                (false, '<') if begins => {
                    self.is_in_tag = true;
                    tag.clear();
                }
                (true, '>') => {
                    self.is_in_tag = false;
                    self.leave(&tag, &mut text);
                }
                (true, letter) if tag.len() < 32 => tag.push(letter),
                (true, _) => {}
                (false, letter) => text.push(letter),
            }
        }
        ["&gt;", "&lt;", "&quot;", "&#34;", "&#39;", "&nbsp;", "&amp;"]
            .into_iter()
            .zip([">", "<", "\"", "\"", "'", " ", "&"])
            .fold(text, |text, (name, letter)| text.replace(name, letter))
    }

    fn leave(&mut self, tag: &str, text: &mut String) {
        let tag = tag.to_ascii_lowercase();
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name {
            "script" | "style" => self.is_in_script = true,
            "/script" | "/style" => self.is_in_script = false,
            "code" | "/code" | "kbd" | "/kbd" | "tt" | "/tt" => text.push('`'),
            "tr" => {
                self.is_in_row = true;
                text.push(BREAK);
            }
            "/tr" | "/table" => {
                self.is_in_row = false;
                text.push(BREAK);
            }
            // A row of Markdown.
            "td" | "th" => text.push_str(" | "),
            "/td" | "/th" => text.push(' '),
            "br" | "br/" | "li" | "/li" | "p" | "/p" => text.push(BREAK),
            _ => {}
        }
    }
}
