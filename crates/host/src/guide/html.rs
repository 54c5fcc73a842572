//! Pages in HTML: converts each line to text. Line breaks of the page become marks.
//! Code, rows of tables and struck-out text get the marks of Markdown.

/// The maximum number of lines of one tag. A longer tag counts as text.
const TAG_LINES_MAX: usize = 30;
/// The maximum number of bytes of a tag that are kept, which is enough for its name.
const NAME_BYTES_MAX: usize = 32;

/// Marks a line break of the page inside a line of the file.
pub(super) const BREAK: char = '\u{1}';

/// Marks the end of a table or of a list of terms.
pub(super) const END: &str = "\u{3}";

/// Elements that begin and end a line.
const BLOCKS: [&str; 51] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "legend",
    "li",
    "main",
    "menu",
    "nav",
    "noscript",
    "ol",
    "optgroup",
    "option",
    "p",
    "pre",
    "search",
    "section",
    "select",
    "summary",
    "table",
    "textarea",
    "tr",
    "ul",
    "video",
];

/// The current position in a page.
#[derive(Default)]
pub(super) struct Tags {
    /// Within a row of a table, or between a term and its description.
    pub(super) is_in_row: bool,
    /// Inside text whose line breaks are line breaks of the page.
    pub(super) is_in_pre: bool,
    /// Within a script, a style or a title.
    pub(super) is_in_script: bool,
    is_in_tag: bool,
    is_in_comment: bool,
    lines_in_tag: usize,
}

impl Tags {
    /// Converts a line of HTML to text. Code gets the marks of Markdown.
    pub(super) fn strip(&mut self, line: &str) -> String {
        let (mut text, mut tag) = (String::new(), String::new());
        self.lines_in_tag = if self.is_in_tag { self.lines_in_tag + 1 } else { 0 };
        self.is_in_tag &= self.lines_in_tag < TAG_LINES_MAX;
        let mut rest = line;
        while let Some(letter) = rest.chars().next() {
            if self.is_in_comment {
                let Some((_, after)) = rest.split_once("-->") else { break };
                self.is_in_comment = false;
                rest = after;
                continue;
            }
            let after = &rest[letter.len_utf8()..];
            let begins = after.starts_with(|next: char| next.is_ascii_alphabetic() || next == '/' || next == '!');
            match (self.is_in_tag, letter) {
                (false, '<') if after.starts_with("!--") => self.is_in_comment = true,
                (false, '<') if begins => {
                    self.is_in_tag = true;
                    tag.clear();
                }
                (true, '>') => {
                    self.is_in_tag = false;
                    self.leave(&tag, &mut text);
                }
                (true, letter) if tag.len() < NAME_BYTES_MAX => tag.push(letter),
                (true, _) => {}
                (false, '&') => {
                    let (letters, length) = reference(rest);
                    text.push_str(&letters);
                    rest = &rest[length..];
                    continue;
                }
                (false, _) if self.is_in_script => {}
                (false, letter) => text.extend(plain(letter)),
            }
            rest = after;
        }
        text
    }

    fn leave(&mut self, tag: &str, text: &mut String) {
        let tag = tag.to_ascii_lowercase();
        let name = tag.split(|letter: char| letter.is_whitespace()).next().unwrap_or_default();
        let name = name.strip_suffix('/').filter(|name| !name.is_empty()).unwrap_or(name);
        match name {
            // A title is not advice.
            "script" | "style" | "title" => self.is_in_script = true,
            "/script" | "/style" | "/title" => self.is_in_script = false,
            "pre" | "/pre" | "textarea" | "/textarea" => {
                self.is_in_pre = !name.starts_with('/');
                text.push(BREAK);
            }
            "code" | "/code" | "kbd" | "/kbd" | "tt" | "/tt" | "samp" | "/samp" if !self.is_in_pre => text.push('`'),
            "s" | "/s" | "del" | "/del" | "strike" | "/strike" => text.push_str("~~"),
            "table" | "dl" => {
                text.push(BREAK);
                text.push_str(END);
                text.push(BREAK);
            }
            "tr" => {
                self.is_in_row = true;
                text.push(BREAK);
            }
            "/tr" | "/table" | "/dl" => {
                self.is_in_row = false;
                text.push(BREAK);
            }
            // Write the cell like a cell of a row in Markdown.
            "td" | "th" => text.push_str(" | "),
            "/td" | "/th" | "/dt" => text.push(' '),
            // A term and its description become a row of two cells.
            "dt" => {
                self.is_in_row = true;
                text.push(BREAK);
                text.push_str("| ");
            }
            "dd" => text.push_str(" | "),
            "/dd" => {
                self.is_in_row = false;
                text.push(BREAK);
            }
            // A cell may have blocks, which do not begin a new row.
            name if self.is_in_row && ["p", "/p", "div", "/div"].contains(&name) => text.push(' '),
            name if BLOCKS.contains(&name.trim_start_matches('/')) => text.push(BREAK),
            _ => {}
        }
    }
}

/// The character of a reference (such as `&amp;`) at the beginning of a text, and its length. An unknown reference stays unchanged.
fn reference(text: &str) -> (String, usize) {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '#';
    let inner = text.get(1..).unwrap_or_default();
    let end = inner.find(|letter| !is_part(letter)).unwrap_or(inner.len());
    let name = &inner[..end];
    let whole = 1 + end + usize::from(inner[end..].starts_with(';'));
    let number = name.strip_prefix('#').and_then(|number| match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    });
    let named = || NAMES.iter().find(|(own, _)| *own == name).map(|(_, letter)| *letter);
    match number.and_then(char::from_u32).or_else(named) {
        Some(letter) => (plain(letter).into_iter().collect(), whole),
        None => ("&".to_owned(), 1),
    }
}

/// A letter in the form of commands. Typographic quotes and spaces become plain, and invisible characters are removed.
fn plain(letter: char) -> Option<char> {
    Some(match letter {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{2032}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{2033}' => '"',
        '\u{2011}' => '-',
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => return None,
        letter if letter.is_whitespace() => ' ',
        letter if letter.is_control() => return None,
        letter => letter,
    })
}

/// Names of characters that pages of settings have.
const NAMES: [(&str, char); 62] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("AMP", '&'),
    ("LT", '<'),
    ("GT", '>'),
    ("nbsp", ' '),
    ("ensp", ' '),
    ("emsp", ' '),
    ("thinsp", ' '),
    ("Tab", ' '),
    ("NewLine", ' '),
    ("shy", '\u{ad}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("ZeroWidthSpace", '\u{200b}'),
    ("equals", '='),
    ("lowbar", '_'),
    ("UnderBar", '_'),
    ("period", '.'),
    ("comma", ','),
    ("colon", ':'),
    ("semi", ';'),
    ("sol", '/'),
    ("bsol", '\\'),
    ("num", '#'),
    ("ast", '*'),
    ("dollar", '$'),
    ("percnt", '%'),
    ("plus", '+'),
    ("excl", '!'),
    ("quest", '?'),
    ("commat", '@'),
    ("lpar", '('),
    ("rpar", ')'),
    ("lsqb", '['),
    ("lbrack", '['),
    ("rsqb", ']'),
    ("rbrack", ']'),
    ("lcub", '{'),
    ("lbrace", '{'),
    ("rcub", '}'),
    ("rbrace", '}'),
    ("verbar", '|'),
    ("vert", '|'),
    ("grave", '`'),
    ("Hat", '^'),
    ("lsquo", '\''),
    ("rsquo", '\''),
    ("ldquo", '"'),
    ("rdquo", '"'),
    ("ndash", '\u{2013}'),
    ("mdash", '\u{2014}'),
    ("minus", '\u{2212}'),
    ("hellip", '\u{2026}'),
    ("rarr", '\u{2192}'),
    ("bull", '\u{2022}'),
    ("middot", '\u{b7}'),
    ("times", '\u{d7}'),
    ("hyphen", '-'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_what_they_stand_for() {
        for (text, expected) in [
            ("a&#61;1", "a=1"),
            ("a &#x3D; 1 &#X3d;", "a = 1 ="),
            ("echo 0 &#62;&#160;/proc", "echo 0 > /proc"),
            ("&gt;&#160;x &lt;b&gt;", "> x <b>"),
            ("it&#x27;s, it&#8217;s, &ldquo;x&rdquo;", "it's, it's, \"x\""),
            ("&amp;lt;", "&lt;"),
            ("a && b &unknown; &", "a && b &unknown; &"),
            ("a&nbsp=&nbsp;1", "a = 1"),
            ("&#1;&#0;&#x110000;&#99999999999;", "&#x110000;&#99999999999;"),
            ("net.core<wbr>.rmem&shy;_max", "net.core.rmem_max"),
            ("a<!-- no > tag --> b", "a b"),
        ] {
            assert_eq!(Tags::default().strip(text).replace('\0', ""), expected, "{text}");
        }
    }

    #[test]
    fn every_block_is_a_break() {
        for (text, expected) in [
            ("<div>a</div><div>b</div>", "|a||b|"),
            ("<h2>a</h2><P class=x>b<br/>c<hr />d", "|a||b|c|d"),
            ("<pre><code>a<span>b</span></code></pre>", "|ab|"),
            ("<pre><div class=line>a</div><div class=line>b</div></pre>", "||a||b||"),
            ("<code>a</code>", "`a`"),
        ] {
            assert_eq!(Tags::default().strip(text).replace(BREAK, "|"), expected, "{text}");
        }
    }
}
