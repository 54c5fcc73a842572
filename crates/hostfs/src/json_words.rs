//! Describes for the user what is wrong with a file of JSON, or of another format that serde reads.
//! The parser's own texts name types of this program, and say "at line 1 column 2".

use serde_json::Error;
use serde_json::error::Category;

/// Describes what is wrong, with line and column if the parser knows them.
pub fn plain(error: &Error) -> String {
    let said = in_line(error);
    if error.column() == 0 && error.line() > 1 {
        return format!("{said} (after line {})", error.line() - 1);
    }
    // An empty text has no line and column. For a missing field, serde reports the end of the object, which does not help.
    if error.column() == 0 || error.to_string().starts_with("missing field ") {
        return said;
    }
    format!("{said} (line {}, column {})", error.line(), error.column())
}

/// As [`plain`], but without line and column: for a file with one value per line, where the caller names the line.
pub fn in_line(error: &Error) -> String {
    match error.classify() {
        // Column 0 alone does not mean empty: a text that is cut off after a newline ends at column 0 of a later line.
        Category::Eof if error.column() == 0 && error.line() <= 1 => "it is empty".to_owned(),
        Category::Eof => "it is not JSON, or it is cut short".to_owned(),
        Category::Syntax if error.to_string().starts_with("number out of range") => "a number is too large".to_owned(),
        Category::Syntax => "it is not JSON".to_owned(),
        Category::Data => {
            let message = error.to_string();
            of_value(message.split(" at line ").next().unwrap_or(&message))
        }
        Category::Io => error.to_string(),
    }
}

/// Rewords serde's sentence about an unexpected value. serde uses this one sentence for all formats of files.
/// This function returns unknown sentences unchanged.
pub fn of_value(what: &str) -> String {
    if let Some(field) = quoted_after(what, "missing field ") {
        return format!("it has no field \"{field}\"");
    }
    if let Some(field) = quoted_after(what, "duplicate field ") {
        return format!("it has the field \"{field}\" twice");
    }
    for kind in ["variant", "field"] {
        if let Some(word) = quoted_after(what, &format!("unknown {kind} ")) {
            let takes = what.split_once(", expected ").map_or("", |(_, takes)| takes).trim_start_matches("one of ");
            let takes =
                if takes.is_empty() { String::new() } else { format!("; expected {}", takes.replace('`', "\"")) };
            return format!("unknown {} \"{word}\"{takes}", if kind == "field" { "field" } else { "word" });
        }
    }
    let expected = |rest: &str| {
        let (found, wanted) = rest.split_once(", expected ")?;
        Some(format!("expected {}, found {}", wanted_words(wanted), found_words(found)))
    };
    let odd =
        ["invalid type: ", "invalid value: "].iter().find_map(|start| what.strip_prefix(start).and_then(expected));
    if let Some(odd) = odd {
        return odd;
    }
    if what.starts_with("invalid length ") {
        return "expected an object in braces, found a list".to_owned();
    }
    what.to_owned()
}

fn quoted_after<'m>(what: &'m str, start: &str) -> Option<&'m str> {
    what.strip_prefix(start)?.strip_prefix('`')?.split('`').next()
}

fn found_words(found: &str) -> String {
    let inside = |start: &str| found.strip_prefix(start).map(|rest| rest.trim_matches('`'));
    if let Some(number) = inside("integer ").or_else(|| inside("floating point ")) {
        return format!("the number {number}");
    }
    if let Some(text) = found.strip_prefix("string ") {
        return format!("the text {text}");
    }
    if let Some(value) = inside("boolean ") {
        return value.to_owned();
    }
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        other => other.to_owned(),
    }
}

fn wanted_words(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "string" | "a borrowed string" => "a text",
        "a boolean" => "true or false",
        "a map" => "an object in braces",
        "a sequence" => "a list",
        other if other.starts_with("struct ") || other.starts_with("internally tagged ") => "an object in braces",
        other if other.starts_with("enum ") || other.contains("Visitor") => "another value",
        other if other.starts_with("tuple ") || other.starts_with("an array") => "a list",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only read")]
    #[serde(deny_unknown_fields)]
    struct File {
        format: u64,
        #[serde(default)]
        better: Option<Better>,
        #[serde(default)]
        share: Option<f64>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Better {
        Lower,
        Higher,
    }

    #[test]
    fn the_parsers_words_are_not_shown() {
        for (text, expected) in [
            ("", "it is empty"),
            ("{\n\"format\": 1", "it is not JSON, or it is cut short (line 2, column 11)"),
            ("{\n\"format\": 1\n", "it is not JSON, or it is cut short (after line 2)"),
            ("x", "it is not JSON (line 1, column 1)"),
            ("{\"format\": 1} x", "it is not JSON (line 1, column 15)"),
            ("{}", "it has no field \"format\""),
            ("{\"format\": 1, \"format\": 2}", "it has the field \"format\" twice (line 1, column 22)"),
            ("[]", "expected an object in braces, found a list (line 1, column 2)"),
            ("5", "expected an object in braces, found the number 5 (line 1, column 1)"),
            ("{\"format\": \"x\"}", "expected a whole number, 0 or more, found the text \"x\" (line 1, column 14)"),
            ("{\"format\": -1}", "expected a whole number, 0 or more, found the number -1 (line 1, column 13)"),
            ("{\"format\": 1, \"share\": []}", "expected a number, found a list (line 1, column 23)"),
            (
                "{\"format\": 1, \"better\": \"worse\"}",
                "unknown word \"worse\"; expected \"lower\" or \"higher\" (line 1, column 31)",
            ),
            (
                "{\"format\": 1, \"x\": 2}",
                "unknown field \"x\"; expected \"format\", \"better\", \"share\" (line 1, column 17)",
            ),
            ("{\"format\": 1e999}", "a number is too large (line 1, column 16)"),
        ] {
            assert_eq!(plain(&serde_json::from_str::<File>(text).unwrap_err()), expected, "{text}");
        }
        assert_eq!(in_line(&serde_json::from_str::<File>("x").unwrap_err()), "it is not JSON");
        // A value that was parsed earlier has no line and column.
        let value = serde_json::json!({ "format": null });
        let error = serde_json::from_value::<File>(value).unwrap_err();
        assert_eq!(plain(&error), "expected a whole number, 0 or more, found null");
    }
}
