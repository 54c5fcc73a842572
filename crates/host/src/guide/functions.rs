//! Functions of a script. A call reads the lines of the function again, with the call's arguments.

use std::collections::BTreeMap;

use super::line::{Ask, Content};

/// The maximum number of functions, of lines in a function, and of bytes in a line. Text beyond a limit is read only where it is defined.
const FUNCTIONS_MAX: usize = 100;
const LINES_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 4096;
/// The maximum number of lines that all calls of a script read, because functions may call each other.
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
    /// The settings of the function's lines that need no argument. They were read where they are defined.
    pub(super) asks: Vec<Ask>,
}

/// How a line belongs to a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The function's first or last line, without a command.
    Edge,
    /// A line that a call of the function reads again. For a function on one line, the text between the braces.
    Inside { function: String, line: &'a str },
    /// A line outside of functions, or a line that a call does not read again.
    Outside,
}

/// The result of looking for a command among the functions.
pub(super) enum Called {
    /// No function has this name.
    Unknown,
    /// The line is inside the function itself.
    Within,
    Function(Function),
    /// All calls together have read [`READ_MAX`] lines.
    TooMany,
}

impl Functions {
    /// Follows the script to its next line.
    pub(super) fn part<'a>(&mut self, line: &'a str) -> Part<'a> {
        let line = line.trim();
        let Some((name, braces)) = &mut self.open else { return self.head(line) };
        match (*braces, line) {
            (0, "{") => {
                *braces = 1;
                return Part::Edge;
            }
            // `NAME()` without a brace after it does not begin a function.
            (0, _) => {
                let name = name.clone();
                self.known.remove(&name);
                self.open = None;
                return self.head(line);
            }
            (1, _) if line.starts_with('}') => {
                self.open = None;
                return Part::Edge;
            }
            _ => {}
        }
        *braces = *braces + usize::from(line.ends_with('{')) - usize::from(line.starts_with('}'));
        let name = name.clone();
        self.inside(name, line)
    }

    /// Handles the end of the text, for example the end of a block of code in a page.
    pub(super) fn end(&mut self) {
        self.open = None;
    }

    fn head<'a>(&mut self, line: &'a str) -> Part<'a> {
        let Some((name, rest)) = head(line).filter(|_| self.known.len() < FUNCTIONS_MAX) else { return Part::Outside };
        self.known.insert(name.to_owned(), Function::default());
        if let Some(inner) = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            return self.inside(name.to_owned(), inner.trim().trim_end_matches(';'));
        }
        self.open = Some((name.to_owned(), usize::from(rest.starts_with('{'))));
        match rest.trim_start_matches('{').trim() {
            "" => Part::Edge,
            first => self.inside(name.to_owned(), first),
        }
    }

    fn inside<'a>(&mut self, function: String, line: &'a str) -> Part<'a> {
        let room = self.known.get_mut(&function).filter(|function| function.lines.len() < LINES_MAX);
        match room.filter(|_| line.len() <= LINE_BYTES_MAX) {
            Some(known) => {
                known.lines.push(line.to_owned());
                Part::Inside { function, line }
            }
            None => Part::Outside,
        }
    }

    /// Remembers the settings of a function's line that need no argument.
    pub(super) fn found(&mut self, function: &str, content: Option<&Content>) {
        if let (Some(Content::Settings(asks)), Some(function)) = (content, self.known.get_mut(function)) {
            function.asks.extend(asks.iter().cloned());
        }
    }

    /// The function that a command calls.
    pub(super) fn called(&mut self, name: &str) -> Called {
        if self.open.as_ref().is_some_and(|(open, _)| open == name) {
            return Called::Within;
        }
        let Some(function) = self.known.get(name) else { return Called::Unknown };
        self.lines_read += function.lines.len();
        match self.lines_read <= READ_MAX {
            true => Called::Function(function.clone()),
            false => Called::TooMany,
        }
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
        let inside = |line| Part::Inside { function: "f".to_owned(), line };
        let expected =
            [Part::Edge, inside("if a; then {"), inside("b"), inside("}"), inside("c"), Part::Edge, Part::Outside];
        assert_eq!(parts, expected);
        let Called::Function(function) = functions.called("f") else { panic!("f is known") };
        assert_eq!(function.lines, ["if a; then {", "b", "}", "c"]);
        assert!(matches!(functions.called("g"), Called::Unknown));
    }

    #[test]
    fn a_call_alone_opens_no_function_and_a_long_one_loses_no_line() {
        let mut functions = Functions::default();
        assert_eq!(functions.part("main()"), Part::Edge);
        assert_eq!(functions.part("b"), Part::Outside);
        assert!(matches!(functions.called("main"), Called::Unknown));
        assert_eq!(functions.part("f() {"), Part::Edge);
        let outside = (0..LINES_MAX + 3).filter(|_| functions.part("b") == Part::Outside).count();
        assert_eq!(outside, 3, "a call does not read them, so they are read in place");
        assert!(matches!(functions.called("f"), Called::Within));
        assert_eq!(functions.part("}"), Part::Edge);
        for _ in 0..READ_MAX / LINES_MAX {
            assert!(matches!(functions.called("f"), Called::Function(_)));
        }
        assert!(matches!(functions.called("f"), Called::TooMany));
    }
}
