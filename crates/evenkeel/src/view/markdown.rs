//! Blocks as Markdown, for tickets, pull requests and wikis.
//! Text from the machine must not end a cell, and must not become a link or a tag.

use super::{Block, Span, Text};
use crate::show::page::one_line;

/// A document with its title.
pub(crate) fn document(title: &str, blocks: &[Block]) -> String {
    let mut document = format!("# {}\n", escaped(title));
    draw(&mut document, blocks);
    document
}

fn draw(to: &mut String, blocks: &[Block]) {
    for block in blocks {
        match block {
            Block::Opening(blocks) | Block::Detail(blocks) => draw(to, blocks),
            Block::Section(title, blocks) => {
                *to += &format!("\n## {}\n", text(title));
                draw(to, blocks);
            }
            Block::Heading(title) => *to += &format!("\n## {}\n", escaped(title)),
            Block::Subheading(title) => *to += &format!("\n### {title}\n"),
            Block::Verdict(verdict) if verdict.is_repeated => *to += &format!("\n**{}**\n", escaped(&verdict.says)),
            Block::Verdict(verdict) => {
                *to += &format!("\n**{}: {}**\n", escaped(&verdict.badge), escaped(&verdict.says));
            }
            Block::Caveats(caveats) => list(to, caveats.iter().map(|caveat| format!("Caveat: {}", escaped(caveat)))),
            Block::Finding(of, finding) => {
                let of = of.map_or_else(String::new, |of| format!(" ({of})"));
                *to += &format!("\n**{}{of}**: {}.\n", finding.grade.word(), escaped(&finding.says));
            }
            Block::Paragraph(words) => *to += &format!("\n{}\n", paragraph(&text(words))),
            Block::Note(words) => *to += &format!("\n{}\n", paragraph(&escaped(words))),
            Block::Warning(words) => *to += &format!("\n**{}**\n", escaped(words)),
            Block::List(items) => list(to, items.iter().map(text)),
            Block::Terms(terms) => list(to, terms.iter().map(|(term, meaning)| format!("{term}: {}", text(meaning)))),
            Block::Row(label, value) => list(to, [format!("{}: {}", escaped(label), escaped(value))].into_iter()),
            Block::Table { header, rows } => {
                let titles: Vec<String> = header.iter().map(|column| escaped(&column.title)).collect();
                *to += &format!("\n| {} |\n|{}\n", titles.join(" | "), "---|".repeat(header.len()));
                for row in rows {
                    *to += &format!("| {} |\n", row.iter().map(text).collect::<Vec<_>>().join(" | "));
                }
            }
            Block::Command(command) => *to += &format!("\n    {}\n", one_line(command)),
            Block::Details(summary, blocks) => {
                *to += &format!("\n<details><summary>{}</summary>\n", escaped(summary));
                draw(to, blocks);
                *to += "\n</details>\n";
            }
            Block::Drawing(..) | Block::Histogram(_) | Block::Timeline(_) | Block::Download { .. } => {}
        }
    }
}

fn list(to: &mut String, items: impl Iterator<Item = String>) {
    let items: String = items.map(|item| format!("- {}\n", paragraph(&item))).collect();
    if !items.is_empty() {
        *to += &format!("\n{items}");
    }
}

/// Escapes the first character of a line if it would begin a heading or a list.
fn paragraph(text: &str) -> String {
    if text.starts_with(['#', '-', '+', '=']) { format!("\\{text}") } else { text.to_owned() }
}

pub(crate) fn text(text: &Text) -> String {
    let span = |span: &Span| match span {
        Span::Plain(words) => escaped(words),
        Span::Code(words) => code(words),
        Span::Bad(words) => format!("**{}**", escaped(words)),
    };
    text.0.iter().map(span).collect()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '|' | '[' | ']' | '*' | '\\' | '`' => escaped.extend(['\\', character]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A value or a command as code, so that a reader can copy it.
pub(crate) fn code(code: &str) -> String {
    if code.is_empty() {
        return "empty".to_owned();
    }
    // Inside code, a pipe character would still end the cell, and a backtick would end the code.
    format!("`{}`", one_line(code).replace('|', "\\|").replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_cell() {
        let table = [
            ("a|b", "a\\|b"),
            ("[x](y)", "\\[x\\](y)"),
            ("<script>", "&lt;script&gt;"),
            ("`x`", "\\`x\\`"),
            ("a\nb", "a\u{fffd}b"),
            ("a\u{202e}b\u{9b}", "a\u{fffd}b\u{fffd}"),
            ("net.core.rmem_max", "net.core.rmem_max"),
        ];
        for (given, expected) in table {
            assert_eq!(escaped(given), expected);
        }
        assert_eq!(text(&Text::prose("run `evenkeel prove x`")), "run `evenkeel prove x`");
        assert_eq!(code("a|`b"), "`a\\|'b`");
        assert_eq!(code(""), "empty");
        assert_eq!(paragraph(&escaped("# a")), "\\# a");
    }

    /// Regression: a name of 25 MB made a table of 78 MB.
    #[test]
    fn no_cell_is_without_end() {
        let long = "x".repeat(20_000);
        for cell in [escaped(&long), code(&long)] {
            assert!(cell.len() < 17_000 && cell.contains("… (3616 more characters)"), "{} bytes", cell.len());
        }
    }
}
