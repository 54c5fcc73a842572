//! What is wrong with a JSON file, in words for its user. The parser's own texts name types of this program, and say "at line 1 column 2".

/// The parser's message in plain words, with the place if it has one.
pub fn plain(message: &str) -> String {
    let (what, place) = split(message);
    match place {
        // The place of a missing field is the end of the file.
        Some((line, column)) if is_at(what) && (line, column) != (1, 0) => {
            format!("{} (line {line}, column {column})", in_line(message))
        }
        _ => in_line(message),
    }
}

/// The same without the place, for a file with one value a line, whose reader names the line.
pub fn in_line(message: &str) -> String {
    let (what, place) = split(message);
    if place == Some((1, 0)) && what.starts_with("EOF while parsing") {
        return "it is empty".to_owned();
    }
    if what.starts_with("EOF while parsing") {
        return "it is not JSON, or it is cut short".to_owned();
    }
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
    if what.contains("out of range") {
        return "a number is too large".to_owned();
    }
    if SYNTAX.iter().any(|text| what.contains(text)) { "it is not JSON".to_owned() } else { what.to_owned() }
}

/// Parts of the parser's messages about text that is not JSON.
const SYNTAX: [&str; 11] = [
    "expected value",
    "expected ident",
    "expected `",
    "trailing ",
    "key must be a string",
    "control character",
    "invalid escape",
    "invalid number",
    "invalid unicode",
    "surrogate",
    "recursion limit",
];

fn is_at(what: &str) -> bool {
    !what.starts_with("missing field ")
}

/// The message without its place.
fn split(message: &str) -> (&str, Option<(u64, u64)>) {
    let place = || {
        let (what, place) = message.rsplit_once(" at line ")?;
        let (line, column) = place.split_once(" column ")?;
        Some((what, Some((line.parse().ok()?, column.parse().ok()?))))
    };
    place().unwrap_or((message, None))
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

    #[test]
    fn the_parsers_words_are_not_shown() {
        for (message, expected) in [
            ("EOF while parsing a value at line 1 column 0", "it is empty"),
            ("EOF while parsing an object at line 3 column 7", "it is not JSON, or it is cut short (line 3, column 7)"),
            ("expected value at line 1 column 1", "it is not JSON (line 1, column 1)"),
            ("missing field `format` at line 1 column 2", "it has no field \"format\""),
            ("missing field `a`", "it has no field \"a\""),
            (
                "invalid length 0, expected struct Format with 1 element at line 1 column 2",
                "expected an object in braces, found a list (line 1, column 2)",
            ),
            (
                "invalid type: string \"x\", expected u64 at line 4 column 9",
                "expected a whole number, 0 or more, found the text \"x\" (line 4, column 9)",
            ),
            ("invalid type: sequence, expected struct Head", "expected an object in braces, found a list"),
            ("invalid type: null, expected f64", "expected a number, found null"),
            ("invalid value: integer `-1`, expected u32", "expected a whole number, 0 or more, found the number -1"),
            ("unknown variant `worse`, expected one of `a`, `b`", "unknown word \"worse\"; expected \"a\", \"b\""),
            ("unknown field `x`, there are no fields", "unknown field \"x\""),
            ("number out of range at line 29 column 23", "a number is too large (line 29, column 23)"),
            ("it has 3 trials", "it has 3 trials"),
            ("", ""),
        ] {
            assert_eq!(plain(message), expected, "{message}");
        }
        assert_eq!(in_line("expected value at line 1 column 1"), "it is not JSON");
    }
}
