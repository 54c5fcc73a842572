//! Functions of a script: a call reads their lines again, with its arguments.

use std::collections::BTreeMap;

use super::line::{Ask, Content};

/// The maximum number of functions, of lines in each, and of bytes in a line. The rest is read in place only.
const FUNCTIONS_MAX: usize = 100;
const LINES_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 4096;
/// How many lines all calls of a script read: functions may call each other.
const READ_MAX: usize = 2000;

/// The functions of a script up to the current line.
#[derive(Default)]
pub(super) struct Functions {
    known: BTreeMap<String, Function>,
    /// The function around the current line: its name, and how many braces are open.
    open: Option<(String, usize)>,
    lines_read: usize,
}

/// A function.
#[derive(Clone, Default)]
pub(super) struct Function {
    pub(super) lines: Vec<String>,
    /// The settings that its lines have without an argument. They were read where they are.
    pub(super) asks: Vec<Ask>,
}

/// How a line belongs to a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Its first or its last line, without a command.
    Edge,
    /// A line of it. For a function on one line, the text between the braces.
    Inside(&'a str),
    Outside,
}

impl Functions {
    /// Follows the script to its next line.
    pub(super) fn part<'a>(&mut self, line: &'a str) -> Part<'a> {
        let line = line.trim();
        let Some((name, braces)) = &mut self.open else { return self.head(line) };
        if line.starts_with('}') {
            *braces = braces.saturating_sub(1);
            if *braces == 0 {
                self.open = None;
                return Part::Edge;
            }
        }
        if line.ends_with('{') {
            *braces += 1;
            if *braces == 1 {
                return Part::Edge;
            }
        }
        let name = name.clone();
        self.push(&name, line);
        Part::Inside(line)
    }

    fn head<'a>(&mut self, line: &'a str) -> Part<'a> {
        let Some((name, rest)) = head(line).filter(|_| self.known.len() < FUNCTIONS_MAX) else { return Part::Outside };
        self.known.insert(name.to_owned(), Function::default());
        if let Some(inner) = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let inner = inner.trim().trim_end_matches(';');
            self.push(name, inner);
            return Part::Inside(inner);
        }
        self.open = Some((name.to_owned(), rest.matches('{').count().min(1)));
        let first = rest.trim_start_matches('{').trim();
        if first.is_empty() {
            return Part::Edge;
        }
        self.push(name, first);
        Part::Inside(first)
    }

    fn push(&mut self, name: &str, line: &str) {
        let Some(function) = self.known.get_mut(name) else { return };
        if function.lines.len() < LINES_MAX && line.len() <= LINE_BYTES_MAX {
            function.lines.push(line.to_owned());
        }
    }

    /// Remembers what a line of a function has without an argument.
    pub(super) fn found(&mut self, content: Option<&Content>) {
        if let (Some(Content::Settings(asks)), Some((name, _))) = (content, &self.open)
            && let Some(function) = self.known.get_mut(name)
        {
            function.asks.extend(asks.iter().cloned());
        }
    }

    /// The function of this name, unless the line that calls it is inside it, or calls have read too many lines.
    pub(super) fn called(&mut self, name: &str) -> Option<Function> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| open == name);
        let function = self.known.get(name).filter(|_| !is_open)?;
        self.lines_read += function.lines.len();
        (self.lines_read <= READ_MAX).then(|| function.clone())
    }
}

/// The name of the function that a line begins, and the rest of the line: `NAME() {…`, `function NAME {…`.
fn head(line: &str) -> Option<(&str, &str)> {
    let (line, is_named) = match line.strip_prefix("function ") {
        Some(rest) => (rest.trim_start(), true),
        None => (line, false),
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || ['_', '-'].contains(&letter);
    let end = line.find(|letter| !is_name(letter)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let (rest, has_parentheses) = match rest.strip_prefix('(').and_then(|rest| rest.trim_start().strip_prefix(')')) {
        Some(rest) => (rest.trim_start(), true),
        None => (rest, false),
    };
    let is_head = (is_named || has_parentheses) && !name.is_empty() && (rest.is_empty() || rest.starts_with('{'));
    is_head.then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_functions() {
        for (line, expected) in [
            ("tune() {", Some(("tune", "{"))),
            ("tune ( ) {", Some(("tune", "{"))),
            ("function tune {", Some(("tune", "{"))),
            ("function tune() { sysctl -w a=1; }", Some(("tune", "{ sysctl -w a=1; }"))),
            ("tune()", Some(("tune", ""))),
            ("tune", None),
            ("tune a b", None),
            ("echo $(tune) {", None),
            ("f() (", None),
            ("() {", None),
        ] {
            assert_eq!(head(line), expected, "{line}");
        }
    }

    #[test]
    fn a_function_ends_with_its_last_brace() {
        let mut functions = Functions::default();
        let script = ["f() {", "if a; then {", "b", "}", "c", "}", "d"];
        let parts: Vec<Part<'_>> = script.iter().map(|line| functions.part(line)).collect();
        let inside = |text| Part::Inside(text);
        let expected =
            [Part::Edge, inside("if a; then {"), inside("b"), inside("}"), inside("c"), Part::Edge, Part::Outside];
        assert_eq!(parts, expected);
        assert_eq!(functions.called("f").unwrap().lines, ["if a; then {", "b", "}", "c"]);
        assert!(functions.called("g").is_none());
    }
}
