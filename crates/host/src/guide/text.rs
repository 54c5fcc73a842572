//! Pages and scripts: text that contains commands and settings. In Markdown and HTML, they may be in code, in tables and in sentences.

use std::collections::HashMap;

use super::html::{BREAK, END, Tags};
use super::line::{Ask, Content, GuideFormat, Skip};
use super::shell::Script;
use super::shell_line::CONTINUED_MAX;
use super::table::{self, Table};
use super::wide::is_wide;
use super::{blocks, config, here, inner, names, prompt, prose, settings, udev, words};

/// The maximum number of lines of a text between quotes.
const QUOTED_MAX: usize = 60;

/// A line of the page.
#[derive(Default)]
struct Line {
    text: String,
    is_in_row: bool,
    is_in_pre: bool,
    is_in_script: bool,
}

/// Every line of the text.
pub(super) fn read(text: &str, format: GuideFormat) -> Vec<Content> {
    let mut reader = Reader {
        format,
        script: Script::of_text(text),
        inner: Script::default(),
        is_in_code: false,
        table: Table::default(),
        before: String::new(),
        is_bare: false,
    };
    let mut contents: Vec<Content> = Vec::new();
    let mut lines = lines(text, format);
    // The last line with each text. A here-document counts only if its end word appears in a later line.
    let last: HashMap<&str, usize> = text.lines().map(str::trim).zip(0..).collect();
    let raw: Vec<&str> = text.lines().collect();
    let uses = uses(text);
    let skips = skips(&mut lines, &raw, format);
    let mut own = match format {
        GuideFormat::Markdown => inner::contents(&raw),
        _ => HashMap::new(),
    };
    while let Some(first) = lines.get(contents.len()) {
        let at = contents.len();
        if let Some(skip) = skips.get(at).copied().flatten() {
            contents.push(Content::NotASetting(skip));
            continue;
        }
        if let Some(content) = own.remove(&at) {
            contents.push(content);
            continue;
        }
        if format == GuideFormat::Html {
            reader.is_in_code = first.is_in_pre;
        }
        let (whole, parts) = reader.joined(&lines[at..]);
        let content = match whole {
            _ if first.is_in_script && !raw[at].trim().is_empty() => Content::NotASetting(Skip::Structure),
            None => Content::not("the command goes on, but the text ends"),
            Some(whole) => match reader.whole(&whole) {
                Content::NotASetting(Skip::Blank) if !raw[at].trim().is_empty() => {
                    Content::NotASetting(Skip::Structure)
                }
                content => content,
            },
        };
        let number = at + parts - 1;
        let is_endless = |end: &String| last.get(end.as_str()).is_none_or(|last| *last <= number);
        reader.script.here = reader.script.here.take().filter(|end| !is_endless(end));
        // The settings belong to the first line of their command.
        let is_quiet = matches!(content, Content::NotASetting(_));
        contents.push(content);
        contents.extend((1..parts).map(|_| Content::NotASetting(Skip::Structure)));
        if is_quiet && reader.has_code() {
            unused(&lines[at..], at, &uses, &mut contents[at..]);
        }
    }
    contents
}

fn lines(text: &str, format: GuideFormat) -> Vec<Line> {
    let mut tags = Tags::default();
    let one = |line: &str| match format {
        GuideFormat::Html => {
            let was_in_pre = tags.is_in_pre;
            let text = tags.strip(line);
            let is_in_pre = was_in_pre || tags.is_in_pre;
            Line { text, is_in_row: tags.is_in_row, is_in_pre, is_in_script: tags.is_in_script }
        }
        _ => Line { text: line.to_owned(), ..Line::default() },
    };
    text.lines().map(one).collect()
}

/// For each line of a block of code, why the line is not advice. It may be the output of a command, or a diff may remove it.
/// The text of a line without advice is dropped, so that no command continues in it. Lines that a diff adds lose their mark.
fn skips(lines: &mut [Line], raw: &[&str], format: GuideFormat) -> Vec<Option<Skip>> {
    let mut skips = vec![None; lines.len()];
    let blocks = match format {
        GuideFormat::Markdown => blocks::fenced(raw),
        GuideFormat::Shell if raw.iter().any(|line| line.starts_with("$ ")) => blocks::whole(raw),
        GuideFormat::Html => blocks::preformatted(raw, &lines.iter().map(|line| line.is_in_pre).collect::<Vec<_>>()),
        _ => Vec::new(),
    };
    for block in blocks {
        let texts: Vec<&str> = lines[block.lines.clone()].iter().map(|line| line.text.as_str()).collect();
        let kinds = if block.is_diff { blocks::diff(&texts, block.indent) } else { blocks::transcript(&texts) };
        for (at, kind) in block.lines.zip(kinds) {
            match kind {
                blocks::Kind::Plain => {}
                blocks::Kind::Marked => lines[at].text = lines[at].text.replacen('+', "", 1),
                blocks::Kind::Begins => {
                    let text = lines[at].text.trim_start_matches(BREAK);
                    lines[at].text = text.split_once(BREAK).map_or("", |(_, rest)| rest).to_owned();
                }
                blocks::Kind::Skipped(skip) => {
                    skips[at] = Some(skip);
                    lines[at].text.clear();
                }
            }
        }
    }
    skips
}

/// For each variable of a shell, the last line that uses it.
fn uses(text: &str) -> HashMap<&str, usize> {
    let mut last = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        for part in line.split('$').skip(1) {
            let part = part.strip_prefix('{').unwrap_or(part);
            let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(part.len());
            last.insert(&part[..end], number);
        }
    }
    last
}

/// If no later line uses the variable that these lines assign, reads settings in its text. `at` is the index of the first of these lines.
fn unused(lines: &[Line], at: usize, uses: &HashMap<&str, usize>, contents: &mut [Content]) {
    let first = lines[0].text.trim();
    let first = ["export ", "local ", "readonly "].iter().find_map(|begin| first.strip_prefix(begin)).unwrap_or(first);
    let Some((name, _)) = first.split_once('=').filter(|(name, _)| !name.contains(' ')) else { return };
    if uses.get(name).is_some_and(|last| *last >= at + contents.len()) {
        return;
    }
    for (line, content) in lines.iter().zip(contents) {
        let text = line.text.rsplit(['"', '\'', '(', ')']).find(|part| part.contains('=')).unwrap_or_default();
        if text.trim() != first && settings::assignment(text).is_some() {
            *content = Content::not(format!("it is in the variable {name}, and evenkeel can't tell its value"));
        }
    }
}

struct Reader {
    format: GuideFormat,
    script: Script,
    /// The script in the present here-document, if it is one.
    inner: Script,
    is_in_code: bool,
    table: Table,
    /// The previous line, which may be the head of a table.
    before: String,
    /// Whether the line is inside a table whose rows do not begin with `|`.
    is_bare: bool,
}

impl Reader {
    /// The first of these lines with its continuation lines, and the number of these lines.
    /// `None` if the text ends before the command ends.
    fn joined(&self, lines: &[Line]) -> (Option<String>, usize) {
        let (mut whole, mut count) = (lines[0].text.clone(), 1);
        loop {
            let continued = whole.trim_end().strip_suffix('\\').filter(|open| !open.ends_with('\\'));
            // The cells of a row may be on separate lines.
            let is_in_row = lines[count - 1].is_in_row;
            if (continued.is_some() || is_in_row) && count < CONTINUED_MAX {
                let Some(next) = lines.get(count) else { return (None, count) };
                whole = format!("{} {}", continued.unwrap_or(&whole), next.text.trim());
                count += 1;
                continue;
            }
            let more = match self.has_quotes(&whole) {
                true if opens_array(&whole) => rest_of_array(&lines[count..]),
                true => rest_of_quote(&whole, &lines[count..]),
                false => 0,
            };
            if more == 0 || count >= CONTINUED_MAX {
                return (Some(whole), count);
            }
            for next in &lines[count..count + more] {
                whole.push('\n');
                whole.push_str(&next.text);
            }
            count += more;
        }
    }

    fn has_code(&self) -> bool {
        self.format == GuideFormat::Shell || self.is_in_code
    }

    /// Whether an open quote at the end of a line belongs to a shell command, and is not an apostrophe.
    fn has_quotes(&self, line: &str) -> bool {
        let opens = ["=\"", "='", "-c '", "-c \"", "echo \"", "echo '", "echo -e ", "printf "];
        self.script.here.is_none()
            && (self.format == GuideFormat::Shell || self.is_in_code && opens.iter().any(|open| line.contains(open)))
    }

    /// A line of the file. A line may contain several lines of the page, separated by [`BREAK`].
    fn whole(&mut self, line: &str) -> Content {
        if !line.contains(BREAK) {
            return self.line(line);
        }
        let (mut asks, mut unclear, mut without) = (Vec::new(), Vec::new(), Content::NotASetting(Skip::Blank));
        for line in line.split(BREAK) {
            match self.line(line) {
                Content::Settings(found) => asks.extend(found),
                Content::NotUnderstood(why) => unclear.push(why),
                Content::NotASetting(Skip::Blank) => {}
                content => without = content,
            }
        }
        match (asks.is_empty(), unclear.is_empty()) {
            (true, true) => without,
            (true, false) => Content::not(unclear.join("; ")),
            (false, _) => {
                asks.extend(unclear.into_iter().map(Ask::not_understood));
                Content::settings(asks)
            }
        }
    }

    fn line(&mut self, line: &str) -> Content {
        let line = line.trim();
        if line == END {
            self.leave_table();
            return Content::NotASetting(Skip::Blank);
        }
        if line.is_empty() {
            if self.format == GuideFormat::Markdown {
                self.leave_table();
            }
            return Content::NotASetting(Skip::Blank);
        }
        if let Some(end) = &self.script.here {
            if line == end {
                self.script.here = None;
                self.inner = Script::default();
                return Content::NotASetting(Skip::Structure);
            }
            return here::line(&mut self.inner, line);
        }
        if line.starts_with("```") || line.starts_with("~~~") {
            self.is_in_code = !self.is_in_code;
            self.script.end_of_text();
            return Content::NotASetting(Skip::Structure);
        }
        let is_script = self.format == GuideFormat::Shell;
        if line.starts_with("#!") {
            return Content::NotASetting(Skip::Structure);
        }
        if is_script && line.starts_with('#') {
            return Content::NotASetting(Skip::Comment);
        }
        if !is_script && let Some(content) = self.row(line) {
            return content;
        }
        self.text(line, is_script)
    }

    /// A row of a table, or the line below its head.
    fn row(&mut self, line: &str) -> Option<Content> {
        let before = std::mem::replace(&mut self.before, line.to_owned());
        if line.starts_with('|') || self.is_bare && line.contains('|') {
            return Some(self.table.row(line));
        }
        if table::is_rule(line) && before.contains('|') {
            self.table.begin(&before);
            self.is_bare = true;
            return Some(Content::NotASetting(Skip::Structure));
        }
        self.leave_table();
        None
    }

    fn leave_table(&mut self) {
        self.table.end();
        self.is_bare = false;
    }

    /// A line outside of tables: a setting, a command, or a sentence.
    fn text(&mut self, line: &str, is_script: bool) -> Content {
        let shown = if is_script { line.strip_prefix("$ ").unwrap_or(line) } else { unmarked(line) };
        let is_code = is_script || self.is_in_code;
        // In Chinese text, no blank follows a value.
        let is_plain = !shown.contains('`') && !shown.contains(is_wide);
        let is_one = |ask: &Ask| is_plain && (is_code || is_one_value(&ask.value));
        if let Some(content) = config::line(line).or_else(|| config::line(shown)).or_else(|| udev::line(shown)) {
            return content;
        }
        if let Some(ask) = settings::assignment(shown).filter(is_one) {
            return Content::Settings(vec![ask]);
        }
        if let Some(asks) = names::by_known_arguments(shown).filter(|_| !is_script) {
            return Content::settings(asks);
        }
        if is_code && shown.starts_with('#') {
            return Content::NotASetting(Skip::Comment);
        }
        let command = self
            .script
            .line(shown)
            .filter(|content| is_script || !is_sentence(shown) || is_code && matches!(content, Content::Settings(_)));
        match (command, prose::content(shown)) {
            // The first word of a sentence may also be the name of a shell command.
            (Some(Content::NotASetting(_)), Some(content)) if !is_code => content,
            // `Set name=1 (the default is 0)` is not a command with a subshell.
            (Some(Content::NotUnderstood(_)), Some(content @ Content::Settings(_)))
                if !is_code && is_capital(shown) =>
            {
                content
            }
            (Some(content), _) => content,
            (None, Some(Content::NotUnderstood(_))) if line.starts_with('#') => Content::NotASetting(Skip::Prose),
            (None, Some(content)) => content,
            (None, None) if is_script => Content::NotASetting(Skip::Command),
            (None, None) => Content::NotASetting(Skip::Prose),
        }
    }
}

/// Whether a line begins an array (`NAME=(`), but does not end the array.
fn opens_array(line: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    line.trim().split_once("=(").is_some_and(|(name, rest)| is_name(name) && !rest.contains(')'))
}

/// How many of the next lines belong to an array. 0 if the array never ends.
fn rest_of_array(next: &[Line]) -> usize {
    next.iter().take(QUOTED_MAX).position(|line| line.text.contains(')')).map_or(0, |at| at + 1)
}

/// How many of the next lines belong to a quote that is open at the end of a line. 0 if the quote never closes.
fn rest_of_quote(line: &str, next: &[Line]) -> usize {
    let Some(mut quote) = words::open_quote(line, None) else { return 0 };
    for (at, line) in next.iter().take(QUOTED_MAX).enumerate() {
        if line.text.starts_with("```") {
            return 0;
        }
        match words::open_quote(&line.text, Some(quote)) {
            Some(open) => quote = open,
            None => return at + 1,
        }
    }
    0
}

/// Whether a value is one word, or only numbers. In a sentence, more text follows the value.
fn is_one_value(value: &str) -> bool {
    !value.contains('=') && (!value.contains(' ') || value.split(' ').all(|word| word.parse::<i64>().is_ok()))
}

/// A line without the marks of a list, of a quotation and of a prompt.
fn unmarked(line: &str) -> &str {
    let mut line = line;
    for _ in 0..4 {
        let rest = ["- ", "* ", "+ ", "> ", "$ ", "% ", "`$ "].iter().find_map(|mark| line.strip_prefix(mark));
        let rest = rest.or_else(|| prompt::stripped(line)).or_else(|| prompt::after_hash(line));
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

/// Whether a line begins with a word that has one capital letter. No command has such a name.
fn is_capital(line: &str) -> bool {
    let mut letters = line.chars();
    letters.next().is_some_and(char::is_uppercase) && letters.next().is_some_and(char::is_lowercase)
}

/// Whether a line is a sentence that only begins like a command: `Set …`, `Export the …`, `free memory …`.
fn is_sentence(line: &str) -> bool {
    let words = line.split_whitespace().count();
    let is_marked = line.contains(['=', '/', '|', '>', '-', '$']);
    line.contains('`') || !is_marked && (words > 3 || line.ends_with(['.', ':', ',']))
}
