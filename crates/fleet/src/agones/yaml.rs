//! Manifests as YAML with comments. A serializer can't write comments, and a reviewer needs the reason for each number.

use std::fmt::Write as _;

use serde_json::Value;

/// The maximum number of columns of a comment.
const COLUMNS: usize = 110;
/// The minimum width of a comment, even if it is far to the right.
const COLUMNS_MIN: usize = 60;

/// A comment above a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The field, as a JSON pointer.
    pub(super) at: String,
    /// Why the field has its value.
    pub(super) text: String,
}

/// The text as lines of a YAML comment: each is indented and begins with `#`, and is wrapped to a readable length.
pub(super) fn comment(text: &str, indent: usize) -> String {
    let most = COLUMNS.saturating_sub(indent).max(COLUMNS_MIN);
    let mut lines = vec![String::new()];
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > most {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{:indent$}# {line}\n", "")).collect()
}

/// An object as a document.
pub(super) fn document(value: &Value, notes: &[Note]) -> String {
    let mut text = String::new();
    block(&mut text, value, "", 0, notes);
    text
}

fn block(text: &mut String, value: &Value, at: &str, indent: usize, notes: &[Note]) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let at = format!("{at}/{name}");
                for note in notes.iter().filter(|note| note.at == at) {
                    text.push_str(&comment(&note.text, indent));
                }
                let _ = write!(text, "{:indent$}{}:", "", plain(name));
                field(text, value, &at, indent, notes);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (nth, item) in items.iter().enumerate() {
                let mut of_item = String::new();
                block(&mut of_item, item, &format!("{at}/{nth}"), indent + 2, notes);
                let _ = write!(text, "{:indent$}- {}", "", &of_item[indent + 2..]);
            }
        }
        scalar => {
            let _ = writeln!(text, "{:indent$}{}", "", one_line(scalar));
        }
    }
}

/// Writes the value of a field: on the field's line, or as a block below it.
fn field(text: &mut String, value: &Value, at: &str, indent: usize, notes: &[Note]) {
    match value {
        Value::Object(fields) if !fields.is_empty() => text.push('\n'),
        Value::Array(items) if !items.is_empty() => text.push('\n'),
        scalar => {
            let _ = writeln!(text, " {}", one_line(scalar));
            return;
        }
    }
    block(text, value, at, indent + 2, notes);
}

fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// Writes the text without quotes if every YAML parser reads it as the same text.
/// Otherwise writes it as a JSON string, which is valid YAML too.
fn plain(text: &str) -> String {
    const OTHER_MEANING: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan"];
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
        && !OTHER_MEANING.contains(&text.to_ascii_lowercase().as_str());
    if is_word { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_its_comments_above_the_fields() {
        let value = json!({
            "list": [{"a": 1, "b": {"c": []}}, "text", {}],
            "no": "yes",
            "quoted": ["1", "a: b", "", "#", "line\nline", "500m", "evenkeel.dev/sessions"],
        });
        let note = |at: &str, text: &str| Note { at: at.to_owned(), text: text.to_owned() };
        let notes = [note("/list/0/b", "why"), note("/quoted", &"word ".repeat(30)), note("/list/0/a", "first")];
        let expected =
            "list:\n  - # first\n    a: 1\n    # why\n    b:\n      c: []\n  - text\n  - {}\n\"no\": \"yes\"\n";
        let text = document(&value, &notes);
        let rest = text.strip_prefix(expected).unwrap_or_else(|| panic!("{text}"));
        let comments = rest.lines().take_while(|line| line.starts_with("# word")).count();
        assert_eq!(comments, 2, "{rest}");
        assert!(rest.lines().all(|line| line.len() <= COLUMNS + 2), "{rest}");
        let quoted: Vec<&str> = rest.lines().skip(comments).collect();
        assert_eq!(
            quoted,
            [
                "quoted:",
                "  - \"1\"",
                "  - \"a: b\"",
                "  - \"\"",
                "  - \"#\"",
                "  - \"line\\nline\"",
                "  - \"500m\"",
                "  - evenkeel.dev/sessions"
            ]
        );
    }

    #[test]
    fn no_comment_begins_a_line_of_its_own() {
        assert_eq!(comment("a\nkind: Pod\r\u{85}b", 2), "  # a kind: Pod b\n");
    }
}
