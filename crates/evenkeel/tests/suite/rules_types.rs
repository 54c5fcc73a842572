//! Sentences must not contain data for code:
//! no error of a trial is a plain text, and no code searches a text for its meaning.

use std::path::{Path, PathBuf};

use crate::rules::{files, project, read};

/// The crates in which code could depend on a text of another part.
const CRATES: [&str; 7] = ["host", "change", "measure", "profile", "workload", "trial", "evenkeel"];

/// Methods that search a text for another text.
const SEARCHES: [&str; 11] = [
    "contains",
    "ends_with",
    "find",
    "matches",
    "rsplit_once",
    "split",
    "split_once",
    "splitn",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
];

/// The usual names of variables for errors, caveats and reasons that are sentences.
const SENTENCES: [&str; 9] =
    ["why", "error", "caveat", "doubt", "reason", "sentence", "message", "hint", "to_string()"];

/// Texts of other programs, which code may search.
/// Each entry has the file, a part of the line, and the origin of the text.
const EXEMPT: [(&str, &str, &str); 11] = [
    ("change/src/owner.rs", "over boots [", "titles in journals of evenkeel 0.1, which had no owner"),
    ("change/src/owner.rs", "goes on after a boot", "the same titles"),
    ("evenkeel/src/show/facts/cpus.rs", "Not affected", "the kernel's word in /sys/devices/system/cpu/vulnerabilities"),
    (
        "evenkeel/src/show/page.rs",
        "why.strip_suffix(&errno)",
        "nothing is decided: the error's name is not shown twice",
    ),
    ("host/src/facts/dmi.rs", "Google Compute Engine", "the firmware's name of the product"),
    ("profile/src/live/already.rs", ": Kernel code", "/proc/iomem"),
    ("profile/src/live/build_ids.rs", " (deleted)", "/proc/PID/maps"),
    ("profile/src/live/probe/find.rs", " (deleted)", "/proc/PID/maps"),
    ("profile/src/text.rs", " (deleted)", "the text of perf script"),
    ("workload/src/load/ddnet/player.rs", "message.strip_prefix(&system::PONG)", "bytes of a packet"),
    ("workload/src/load/ddnet/player.rs", "why.split(|byte|", "bytes of a packet"),
];

/// The arguments of a generic type, split at its own commas. `code` begins after the opening angle bracket.
fn arguments(code: &str) -> Vec<&str> {
    let (mut depth, mut from, mut before, mut found) = (0_usize, 0, ' ', Vec::new());
    for (at, letter) in code.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            ',' if depth == 0 => {
                found.push(code[from..at].trim());
                from = at + 1;
            }
            '>' if before == '-' => {}
            '>' | ')' | ']' if depth == 0 => {
                found.push(code[from..at].trim());
                break;
            }
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
        before = letter;
    }
    found.retain(|argument| !argument.is_empty());
    found
}

/// Errors that are a plain text, or contain one. Returns the value and the error of each such `Result`.
fn text_errors(code: &str) -> Vec<String> {
    let results = code.match_indices("Result<").map(|(at, start)| arguments(&code[at + start.len()..]));
    let is_text = |error: &str| error == "String" || error.ends_with(", String)");
    let found = results.filter_map(|arguments| match arguments[..] {
        [gives, error] if is_text(error) => Some(format!("Result<{gives}, {error}>")),
        _ => None,
    });
    found.collect()
}

/// Lines that search a sentence, or compare something with a sentence.
/// The searched text has a usual name of a sentence, or the pattern has several words.
fn searches(code: &str) -> Vec<String> {
    // Join the lines of a chain of calls.
    let mut lines: Vec<String> = Vec::new();
    for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        match lines.last_mut().filter(|_| line.starts_with('.')) {
            Some(before) => before.push_str(line),
            None => lines.push(line.to_owned()),
        }
    }
    let is_search = |line: &str, at: usize, method: &str| {
        let Some(argument) = line[at + 1 + method.len()..].strip_prefix('(') else { return false };
        let searched = &line[..at];
        let is_called = |name: &&str| {
            let before = searched.strip_suffix(*name);
            before.is_some_and(|before| !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
        };
        begins_with_words(argument) || SENTENCES.iter().any(is_called)
    };
    let has_search = |line: &String| {
        let dots = line.match_indices('.').map(|(at, _)| at);
        let is_compared = ["== ", "!= "].iter().any(|sign| line.split(sign).skip(1).any(begins_with_words));
        is_compared
            || dots.into_iter().any(|at| {
                let method = SEARCHES.iter().find(|method| line[at + 1..].starts_with(&format!("{method}(")));
                method.is_some_and(|method| is_search(line, at, method))
            })
    };
    lines.into_iter().filter(has_search).collect()
}

/// Whether the code begins with a string literal of several words.
fn begins_with_words(code: &str) -> bool {
    let literal = code.strip_prefix('"').and_then(|rest| rest.split('"').next()).unwrap_or_default();
    literal.trim_end().contains(' ') && literal.contains(|letter: char| letter.is_alphabetic())
}

/// The product code of a crate: the path of each file below `crates/`, and its text without tests.
fn product(of: &str) -> Vec<(PathBuf, String)> {
    let crates = project().join("crates");
    let is_test = |path: &Path| path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
    let files = files(&crates.join(of).join("src"), "rs").into_iter().filter(|path| !is_test(path));
    files
        .map(|path| {
            let code = read(&path).split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            (path.strip_prefix(&crates).unwrap().to_owned(), code)
        })
        .collect()
}

#[test]
fn an_error_of_a_trial_or_workload_is_no_text() {
    let sources = ["crates/workload/src", "crates/trial/src"].map(|source| files(&project().join(source), "rs"));
    for path in sources.concat() {
        let found = text_errors(&read(&path));
        assert!(found.is_empty(), "{}: {found:?}: make it a type with fields, or `only_shown!`", path.display());
    }
}

#[test]
fn no_sentence_is_searched_for_what_it_means() {
    let mut needed = Vec::new();
    for (path, code) in CRATES.iter().flat_map(|of| product(of)) {
        for line in searches(&code) {
            let exempt = EXEMPT.iter().find(|(file, part, _)| path == Path::new(file) && line.contains(part));
            let exempt = exempt.unwrap_or_else(|| panic!("{}: {line}: decide by a type's fields", path.display()));
            needed.push(exempt);
        }
    }
    let left: Vec<_> = EXEMPT.iter().filter(|row| !needed.contains(row)).collect();
    assert!(left.is_empty(), "no longer needed: {left:?}");
}

#[test]
fn both_rules_see_what_they_are_to_see() {
    for code in [
        "fn a() -> Result<(), String> {",
        "fn a(&self) -> Result<Vec<(u32, f64)>, String> {",
        "fn a() -> Result<Report, (usize, String)>;",
        "mut f: impl FnMut(&str) -> Result<\n    Option<Windows>,\n    String,\n>",
    ] {
        assert_eq!(text_errors(code).len(), 1, "{code}");
    }
    for code in [
        "fn a() -> Result<String, BootsError> {",
        "fn a() -> Result<Option<String>, Errno>",
        "fn a() -> io::Result<String>",
        "fn a() -> Result<impl Fn(&str) -> String, Errno>",
    ] {
        assert_eq!(text_errors(code), [""; 0], "{code}");
    }
    for code in [
        "Err(why) if why.contains(HELD) && waited < LIMIT => {",
        "let takes_root = left_out.iter().any(|left| left.why.ends_with(\"takes root\"));",
        "let mechanism = caveat.split(\"was not at work: \").nth(1);",
        "match as_change(ratio).strip_suffix(\" lower\") {",
        "let is_full = error\n    .to_string()\n    .starts_with(\"add to \");",
        "if text.contains(\"another evenkeel\") {",
        "let is_unit = done.title == \"goes on after a boot\";",
    ] {
        assert_eq!(searches(code).len(), 1, "{code}");
    }
    for code in [
        "let line = stat.lines().next()?.strip_prefix(\"cpu \")?;",
        "// why.contains(\"a word\")",
        "names.contains(&name) && reasons.find(of).is_some()",
        "let reason = advice.iter().find(at_place).map(|found| found.reason.clone());",
    ] {
        assert_eq!(searches(code), [""; 0], "{code}");
    }
}
