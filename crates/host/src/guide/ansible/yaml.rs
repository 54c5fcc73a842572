//! The part of YAML that people write in tasks and variables, with the line of each node.
//! The parser refuses nothing: a line that does not fit the structure counts as invalid.

/// How deep maps and lists may be nested.
const DEPTH_MAX: usize = 40;
/// The maximum number of lines of one text between quotes, or of one map or list in brackets.
const LINES_MAX: usize = 200;
/// The maximum number of bytes to read in total after brackets and quotes that never close.
const WASTED_BYTES_MAX: usize = 1 << 22;

/// A map, a list or a text, with the index of its first line.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Map(Vec<Pair>),
    List(Vec<Node>),
    Text(String),
    /// A text of several lines (`|` or `>`), each with its own line.
    Lines(Vec<(usize, String)>),
}

/// A key with its value.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

impl Node {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Pair> {
        self.pairs().iter().find(|pair| pair.key == key)
    }

    pub(super) fn pairs(&self) -> &[Pair] {
        match &self.kind {
            Kind::Map(pairs) => pairs,
            _ => &[],
        }
    }

    pub(super) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The text. Several lines are joined to one.
    pub(super) fn text(&self) -> Option<String> {
        match &self.kind {
            Kind::Text(text) => Some(text.clone()),
            Kind::Lines(lines) => Some(
                lines.iter().map(|(_, line)| line.trim()).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "),
            ),
            _ => None,
        }
    }
}

/// The documents of a text, and the lines that do not fit the structure.
pub(super) fn parse(text: &str) -> (Vec<Node>, Vec<usize>) {
    let lines = text.lines().map(|line| (line.len() - line.trim_start().len(), line.trim().to_owned())).collect();
    let mut reader = Reader { raw: text.lines().collect(), lines, at: 0, odd: Vec::new(), wasted_bytes: 0 };
    let mut found = Vec::new();
    while let Some(indent) = reader.peek() {
        let before = reader.at;
        found.push(reader.block(indent, 0));
        if reader.at == before {
            reader.skip_odd();
        }
    }
    (found, reader.odd)
}

struct Reader<'a> {
    raw: Vec<&'a str>,
    /// Each line: its indentation and its text. The item of a list becomes a separate line after the `-`.
    lines: Vec<(usize, String)>,
    at: usize,
    odd: Vec<usize>,
    wasted_bytes: usize,
}

impl Reader<'_> {
    /// How far the next line with content is indented.
    fn peek(&mut self) -> Option<usize> {
        loop {
            let (indent, line) = self.lines.get(self.at)?;
            let is_mark = *indent == 0 && (line.starts_with("---") || line == "...");
            if !line.is_empty() && !line.starts_with('#') && !is_mark {
                return Some(*indent);
            }
            self.at += 1;
        }
    }

    fn skip_odd(&mut self) {
        self.odd.push(self.at);
        self.at += 1;
    }

    fn line(&self) -> &str {
        self.lines.get(self.at).map_or("", |(_, line)| line)
    }

    fn block(&mut self, indent: usize, depth: usize) -> Node {
        let line = self.at;
        if depth > DEPTH_MAX {
            self.skip_odd();
            return Node { line, kind: Kind::Text(String::new()) };
        }
        if is_item(self.line()) {
            return self.list(indent, depth);
        }
        if !is_bracket(self.line()) && split(self.line()).is_some() {
            return self.map(indent, depth);
        }
        let text = self.line().to_owned();
        self.value(&text, indent.checked_sub(1), depth)
    }

    fn list(&mut self, indent: usize, depth: usize) -> Node {
        let (line, mut items) = (self.at, Vec::new());
        while self.peek() == Some(indent) && is_item(self.line()) {
            let rest = self.line()[1..].trim_start().to_owned();
            let inner = indent + self.line().len() - rest.len();
            if rest.is_empty() || rest.starts_with('#') {
                let own = self.at;
                self.at += 1;
                match self.peek() {
                    Some(inner) if inner > indent => items.push(self.block(inner, depth + 1)),
                    _ => items.push(Node { line: own, kind: Kind::Text(String::new()) }),
                }
                continue;
            }
            self.lines[self.at] = (inner, rest);
            items.push(self.block(inner, depth + 1));
        }
        Node { line, kind: Kind::List(items) }
    }

    fn map(&mut self, indent: usize, depth: usize) -> Node {
        let (line, mut pairs) = (self.at, Vec::new());
        while let Some(next) = self.peek() {
            if next < indent || next == indent && is_item(self.line()) {
                break;
            }
            let Some((key, value)) = split(self.line()).filter(|_| next == indent) else {
                self.skip_odd();
                continue;
            };
            let (key, value, own) = (unquoted(key).to_owned(), value.to_owned(), self.at);
            let value = self.value(&value, Some(indent), depth);
            pairs.push(Pair { key, line: own, value });
        }
        Node { line, kind: Kind::Map(pairs) }
    }

    /// The value that begins on this line. `indent` is the indentation of the key or item, if there is one.
    fn value(&mut self, text: &str, indent: Option<usize>, depth: usize) -> Node {
        let line = self.at;
        let is_inner = |next: usize| indent.is_none_or(|indent| next > indent);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            self.at += 1;
            return match self.peek() {
                Some(next) if is_inner(next) || Some(next) == indent && is_item(self.line()) => {
                    self.block(next, depth + 1)
                }
                _ => Node { line, kind: Kind::Text(String::new()) },
            };
        }
        if text.starts_with(['|', '>']) && text[1..].split(" #").next().is_some_and(|rest| rest.trim().len() < 3) {
            return self.lines_of(line, indent);
        }
        if is_bracket(text) || text.starts_with(['"', '\'']) {
            return self.closed(line, text, depth);
        }
        let mut whole = without_comment(text).to_owned();
        self.at += 1;
        // A text continues while its lines are indented further.
        while let Some((next, more)) = self.lines.get(self.at) {
            let goes_on = !more.is_empty()
                && is_inner(*next)
                && indent.is_some()
                && !more.starts_with('#')
                && split(more).is_none();
            if !goes_on || is_item(more) || whole.len() > 1 << 16 {
                break;
            }
            whole.push(' ');
            whole.push_str(without_comment(more));
            self.at += 1;
        }
        Node { line, kind: Kind::Text(whole) }
    }

    /// A text of several lines, unchanged.
    fn lines_of(&mut self, line: usize, indent: Option<usize>) -> Node {
        self.at += 1;
        let mut found = Vec::new();
        while let (Some(raw), Some((next, _))) = (self.raw.get(self.at), self.lines.get(self.at)) {
            if !raw.trim().is_empty() && indent.is_some_and(|indent| *next <= indent) {
                break;
            }
            found.push((self.at, (*raw).to_owned()));
            self.at += 1;
        }
        Node { line, kind: Kind::Lines(found) }
    }

    /// A map or a list in brackets, or a text in quotes. Each may span several lines.
    fn closed(&mut self, line: usize, text: &str, depth: usize) -> Node {
        let (mut whole, mut count) = (text.to_owned(), 1);
        let mut open = Open::default();
        open.read(text, is_bracket(text));
        while !open.is_closed() && count < LINES_MAX && self.wasted_bytes < WASTED_BYTES_MAX {
            let Some((_, next)) = self.lines.get(self.at + count) else { break };
            open.read(next, is_bracket(text));
            whole.push('\n');
            whole.push_str(next);
            count += 1;
        }
        if !open.is_closed() {
            self.wasted_bytes += whole.len();
            whole = text.to_owned();
            count = 1;
        }
        self.at += count;
        if is_bracket(&whole) {
            return Flow { text: &whole, at: 0, line }.node(depth);
        }
        Node { line, kind: Kind::Text(unquoted(&whole).replace('\n', " ")) }
    }
}

fn is_item(line: &str) -> bool {
    line == "-" || line.starts_with("- ")
}

/// Whether a map or a list in brackets begins here. A template (`{{`) does not count.
fn is_bracket(text: &str) -> bool {
    text.starts_with(['{', '[']) && !text.starts_with("{{") && !text.starts_with("{%")
}

/// The brackets and the quote that are open.
#[derive(Default)]
struct Open {
    depth: usize,
    quote: Option<char>,
}

impl Open {
    fn read(&mut self, line: &str, has_brackets: bool) {
        for letter in line.chars() {
            match (self.quote, letter) {
                (Some(own), letter) if own == letter => self.quote = None,
                (None, '"' | '\'') => self.quote = Some(letter),
                (None, '{' | '[') if has_brackets => self.depth += 1,
                (None, '}' | ']') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.depth == 0 && self.quote.is_none()
    }
}

/// Key and value, split at the first `: ` outside of quotes and templates.
fn split(text: &str) -> Option<(&str, &str)> {
    let (mut quote, mut depth) = (None, 0_usize);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(own), letter) if own == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if at == 0 => quote = Some(letter),
            (None, '{') => depth += 1,
            (None, '}') => depth = depth.saturating_sub(1),
            (None, '#') if text[..at].ends_with(' ') => return None,
            (None, ':') if depth == 0 && (text[at + 1..].is_empty() || text[at + 1..].starts_with([' ', '\t'])) => {
                return Some((text[..at].trim(), text[at + 1..].trim()));
            }
            _ => {}
        }
    }
    None
}

fn without_comment(text: &str) -> &str {
    text.split(" #").next().unwrap_or(text).trim()
}

/// A text without its quotes, and without a comment after the quotes.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let Some(quote) = text.chars().next().filter(|quote| ['"', '\''].contains(quote)) else {
        return without_comment(text);
    };
    let end = text[1..].rfind(quote).map_or(text.len(), |end| end + 1);
    let inner = text.get(1..end).unwrap_or_default();
    // The last quote may belong to the comment.
    match inner.find(&format!("{quote} #")) {
        Some(end) => &inner[..end],
        None => inner,
    }
}

/// Maps and lists in brackets.
struct Flow<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Flow<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blank(&mut self) {
        while let Some(letter) = self.rest().chars().next().filter(|letter| letter.is_whitespace()) {
            self.line += usize::from(letter == '\n');
            self.at += letter.len_utf8();
        }
    }

    fn node(&mut self, depth: usize) -> Node {
        self.skip_blank();
        let line = self.line;
        let is_map = self.rest().starts_with('{');
        if self.rest().starts_with([',', '}', ']']) {
            return Node { line, kind: Kind::Text(String::new()) };
        }
        if depth > DEPTH_MAX || !is_bracket(self.rest()) {
            let text = self.scalar();
            return Node { line, kind: Kind::Text(text) };
        }
        self.at += 1;
        let (mut pairs, mut items) = (Vec::new(), Vec::new());
        loop {
            self.skip_blank();
            match self.rest().chars().next() {
                None => break,
                Some('}' | ']') => {
                    self.at += 1;
                    break;
                }
                Some(',') => self.at += 1,
                Some(_) if is_map => {
                    let own = self.line;
                    let key = self.key();
                    let value = self.node(depth + 1);
                    pairs.push(Pair { key, line: own, value });
                }
                Some(_) => items.push(self.node(depth + 1)),
            }
        }
        Node { line, kind: if is_map { Kind::Map(pairs) } else { Kind::List(items) } }
    }

    /// A key up to its colon.
    fn key(&mut self) -> String {
        let text = self.scalar();
        self.skip_blank();
        if self.rest().starts_with(':') {
            self.at += 1;
        }
        text.trim_end_matches(':').to_owned()
    }

    /// Whether a colon here ends a key.
    fn ends_key(&self, from: usize) -> bool {
        let next = self.rest().get(1..).unwrap_or_default();
        let is_quoted = self.at > from && self.text[from..self.at].ends_with(['"', '\'']);
        is_quoted || next.is_empty() || next.starts_with([' ', '\n', '"', '\'', '{', '[', ',', '}'])
    }

    /// A text up to the next bracket, comma or colon outside of quotes and templates.
    fn scalar(&mut self) -> String {
        self.skip_blank();
        let (from, mut quote, mut templates) = (self.at, None, 0_usize);
        while let Some(letter) = self.rest().chars().next() {
            match (quote, letter) {
                (Some(own), letter) if own == letter => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') if self.at == from => quote = Some(letter),
                (None, '{') if self.rest().starts_with("{{") => templates += 1,
                (None, '}') if templates > 0 && self.rest().starts_with("}}") => {
                    templates -= 1;
                    self.at += 1;
                }
                (None, ':') if templates == 0 && self.ends_key(from) => break,
                (None, ',' | '}' | ']') if templates == 0 => break,
                (None, '{' | '[') if templates == 0 && self.at > from => break,
                _ => {}
            }
            self.line += usize::from(letter == '\n');
            self.at += letter.len_utf8();
        }
        if self.at == from {
            // A bracket that is nested too deep, or a colon without a key, is plain text.
            self.at += self.rest().chars().next().map_or(0, char::len_utf8);
        }
        unquoted(&self.text[from..self.at]).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn said(node: &Node) -> String {
        match &node.kind {
            Kind::Text(text) => format!("{text:?}"),
            Kind::Lines(lines) => format!("{lines:?}"),
            Kind::List(items) => format!("[{}]", items.iter().map(said).collect::<Vec<_>>().join(", ")),
            Kind::Map(pairs) => {
                let pair = |pair: &Pair| format!("{}@{}: {}", pair.key, pair.line, said(&pair.value));
                format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        let (nodes, odd) = parse(text);
        expected.assert_eq(&format!("{}\n{odd:?}\n", nodes.iter().map(said).collect::<Vec<_>>().join("\n")));
    }

    #[test]
    fn what_people_write() {
        check(
            "---\n- hosts: all # every\n  tasks:\n  - name: \"a: b\"\n    sysctl:\n      name: vm.x\n      value: 1\n\n    loop: [a, {b: 1, 'c': \"d, e\"}]\n  - debug: {msg: '{{ x }}'}\n",
            expect![[r#"
                [{hosts@1: "all", tasks@2: [{name@3: "a: b", sysctl@4: {name@5: "vm.x", value@6: "1"}, loop@8: ["a", {b@8: "1", c@8: "d, e"}]}, {debug@9: {msg@9: "{{ x }}"}}]}]
                []
            "#]],
        );
        check(
            "a: |\n  x\n  # y\n\n  z\nb: >-\n  1\nc: d\n  e\nf:\n- 1\n- - 2\n  - 3\n",
            expect![[r#"
            {a@0: [(1, "  x"), (2, "  # y"), (3, ""), (4, "  z")], b@5: [(6, "  1")], c@7: "d e", f@9: ["1", ["2", "3"]]}
            []
        "#]],
        );
        check(
            "a: [\n  b,\n  {c: 1},\n]\nd: {\n e: {{ x }},\n f: 2 }\ng: 'x\n  y'\n",
            expect![[r#"
            {a@0: ["b", {c@2: "1"}], d@4: {e@5: "{{ x }}", f@6: "2"}, g@7: "x y"}
            []
        "#]],
        );
        check(
            "a: 1\n   odd\nb\nc: \"open\nd: 2\n",
            expect![[r#"
            {a@0: "1 odd", c@3: "open", d@4: "2"}
            [2]
        "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([ \\-:{}\\[\\]'\",#|>a\n]|\\PC){0,80}") {
            let lines = text.lines().count();
            let (_, odd) = parse(&text);
            prop_assert!(odd.iter().all(|line| *line < lines));
        }
    }
}
