//! Sentences: settings inside text for people. evenkeel does not understand a sentence that speaks against a setting, or only names
//! its default.

use super::line::{Ask, Content};
use super::{names, settings};
use crate::sysctl;

/// The result of a line of text. `None` if it names no setting.
pub(super) fn content(line: &str) -> Option<Content> {
    let line = line.replace("\\_", "_");
    let (mut asks, mut unclear) = (Vec::new(), Vec::new());
    let parts: Vec<&str> = line.split("~~").collect();
    let mut rest = String::new();
    for (at, part) in parts.iter().enumerate() {
        // The text between two `~~` marks is struck out.
        if at % 2 == 1 && at + 1 < parts.len() {
            unclear.extend(mentioned(part).map(|name| format!("{name} is struck out")));
        } else {
            rest.push_str(part);
        }
    }
    for part in sentences(&rest) {
        let against = against(part);
        let found = inline(part);
        if found.is_empty() {
            unclear.extend(mentioned(part).map(|name| format!("it names {name} without a value to set")));
        }
        for said in found {
            match (said, &against) {
                (Ok(ask), None) => asks.push(ask),
                (Ok(ask), Some(word)) => {
                    unclear.push(format!("it names {ask}, but has {word:?}, so it may not ask for it"))
                }
                (Err(why), _) => unclear.push(why),
            }
        }
    }
    match (asks.is_empty(), unclear.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Content::not(unclear.join("; "))),
        (false, _) => {
            asks.extend(unclear.into_iter().map(Ask::not_understood));
            Some(Content::settings(asks))
        }
    }
}

/// The sentences of a text, each including its end mark.
fn sentences(text: &str) -> Vec<&str> {
    let (mut found, mut from, mut is_code) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        is_code ^= letter == '`';
        let rest = &text[at + letter.len_utf8()..];
        let begins = rest.trim_start_matches(['*', '_', ')']).strip_prefix([' ', '\t']).map(str::trim_start);
        let is_end = match letter {
            '.' | '!' | '?' => begins.is_some_and(|next| next.starts_with(|next: char| !next.is_lowercase())),
            ';' => begins.is_some(),
            _ => false,
        };
        if is_end && !is_code {
            found.push(&text[from..at + letter.len_utf8()]);
            from = at + letter.len_utf8();
        }
    }
    found.push(&text[from..]);
    found
}

/// Words that advise against a setting, or introduce another value than the one to set.
const AGAINST: [&str; 38] = [
    "don't",
    "dont",
    "doesn't",
    "didn't",
    "isn't",
    "aren't",
    "wasn't",
    "shouldn't",
    "mustn't",
    "can't",
    "cannot",
    "won't",
    "wouldn't",
    "never",
    "not",
    "nor",
    "without",
    "avoid",
    "avoids",
    "unlike",
    "default",
    "defaults",
    "deprecated",
    "obsolete",
    "removed",
    "remove",
    "unset",
    "revert",
    "previously",
    "formerly",
    "was",
    "were",
    "wrong",
    "bad",
    "harmful",
    "between",
    "range",
    "myth",
];
/// Phrases of two words with the same meaning.
const AGAINST_IN_TWO: [[&str; 2]; 7] = [
    ["instead", "of"],
    ["rather", "than"],
    ["no", "longer"],
    ["no", "effect"],
    ["no", "need"],
    ["used", "to"],
    ["stop", "setting"],
];

/// The word in a sentence that makes it unclear whether the sentence recommends its settings.
fn against(part: &str) -> Option<String> {
    let plain = |word: &str| {
        let word = word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
        word.replace(['\u{2019}', '\u{2018}'], "'")
    };
    let words: Vec<String> = part.split_whitespace().map(plain).filter(|word| !word.is_empty()).collect();
    let one = words.iter().find(|word| AGAINST.contains(&word.as_str())).cloned();
    let two = || {
        let found =
            words.windows(2).find(|pair| AGAINST_IN_TWO.iter().any(|own| own[0] == pair[0] && own[1] == pair[1]));
        found.map(|pair| pair.join(" "))
    };
    let asks = || part.trim_end().ends_with('?').then(|| "?".to_owned());
    one.or_else(two).or_else(asks)
}

/// Units that a number in a sentence may have. The kernel takes the number without its unit.
const UNITS: [&str; 27] = [
    "b",
    "k",
    "kb",
    "kib",
    "m",
    "mb",
    "mib",
    "g",
    "gb",
    "gib",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "pages",
    "thousand",
    "million",
    "ms",
    "us",
    "µs",
    "milliseconds",
    "microseconds",
    "seconds",
    "minutes",
    "minute",
    "hours",
    "times",
    "x",
];

/// Settings inside a sentence: `key=value`, `key = value`, `key: value`, "key to value".
fn inline(part: &str) -> Vec<Result<Ask, String>> {
    let words: Vec<&str> =
        part.split(|letter: char| letter.is_whitespace() || letter == '`').filter(|word| !word.is_empty()).collect();
    let trimmed =
        |word: &str| word.trim_matches(['"', '\'', ',', ';', ':', '.', '(', ')', '*', '[', ']', '!', '?']).to_owned();
    // Every second part of the line is code.
    let code = part.split('`').skip(1).step_by(2);
    let mut found: Vec<Result<Ask, String>> = code.filter_map(names::by_known_arguments).flatten().map(Ok).collect();
    for ask in boot_line(part) {
        if !found.iter().any(|known| known.as_ref() == Ok(&ask)) {
            found.push(Ok(ask));
        }
    }
    for (at, raw) in words.iter().enumerate() {
        let word = trimmed(raw);
        if let Some((key, value)) = word.split_once('=')
            && !value.is_empty()
        {
            let more = numbers(&words[at + 1..])
                .filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()) && word.len() + 1 >= raw.len());
            let value = more.map_or_else(|| value.to_owned(), |more| format!("{value} {more}"));
            found.extend(settings::plain_value(&value).and_then(|value| named(key, value)).map(Ok));
            continue;
        }
        let key = word.trim_end_matches('=');
        let is_colon = raw.trim_end_matches(['*', '"', '\'']).ends_with(':');
        let (joint, rest) = match words.get(at + 1) {
            Some(&("=" | "to" | "at" | ":" | "->" | "\u{2192}")) => (true, words.get(at + 2..).unwrap_or_default()),
            _ => (word.ends_with('=') || is_colon, words.get(at + 1..).unwrap_or_default()),
        };
        let Some(value) = numbers(rest).filter(|_| joint) else { continue };
        let after = rest.get(value.split(' ').count()..).unwrap_or_default();
        found.extend(named(key, &value).map(|ask| one_value(ask, after)));
    }
    found
}

/// The kernel arguments of `GRUB_CMDLINE_LINUX="…"` in a sentence.
fn boot_line(part: &str) -> Vec<Ask> {
    let Some((_, rest)) = part.split_once("GRUB_CMDLINE") else { return Vec::new() };
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let (_, rest) = rest.split_once('=').filter(|(_, rest)| rest.starts_with(*quote))?;
        rest[1..].split_once(*quote).map(|(inner, _)| inner)
    });
    match quoted.map(|arguments| settings::arguments(&format!("GRUB_CMDLINE={arguments}"))) {
        Some(Content::Settings(asks)) => asks,
        _ => Vec::new(),
    }
}

/// The setting, unless the words after it give it another value.
fn one_value(ask: Ask, after: &[&str]) -> Result<Ask, String> {
    let plain = |word: &&str| word.trim_matches(['.', ',', ';', ')', '(', '!', '"', '\'', '*']).to_lowercase();
    let next = after.first().map(plain).unwrap_or_default();
    let is_number = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
    if UNITS.contains(&next.as_str()) {
        return Err(format!("it names {ask} {next}, and evenkeel does not convert units"));
    }
    match ["or", "to", "and", "-", "\u{2013}"].contains(&next.as_str()) && after.get(1).is_some_and(is_number) {
        true => Err(format!("it names {ask} and another value")),
        false => Ok(ask),
    }
}

/// The setting of a sysctl, or of a file of the kernel. `None` for a bare word.
pub(super) fn named(key: &str, value: &str) -> Option<Ask> {
    if key.starts_with("/proc/sys/") || key.starts_with("/sys/") {
        return names::by_file(key, value);
    }
    names::by_key(key, value).filter(|_| key.contains('.'))
}

/// The numbers at the beginning of these words.
fn numbers(words: &[&str]) -> Option<String> {
    let mut found = Vec::new();
    for word in words.iter().take(4) {
        let plain = word.trim_matches(['"', '\'', ',', ';', ':', '.', ')', '*', '!']);
        if plain.is_empty() || plain.parse::<i64>().is_err() {
            break;
        }
        found.push(plain);
        if word.ends_with(['.', ',', ';', ')', '!']) {
            break;
        }
    }
    (!found.is_empty()).then(|| found.join(" "))
}

/// Endings of host names, of files, and of folders of sysctls. A name with such an ending is not a sysctl.
const NO_KEYS: [&str; 12] = ["org", "com", "net", "io", "dev", "conf", "sh", "core", "ipv4", "ipv6", "netfilter", "d"];

/// The first name of a sysctl or of a file of the kernel in a line.
pub(super) fn mentioned(line: &str) -> Option<String> {
    let words = line.split(|letter: char| letter.is_whitespace() || "`\"'(),;=<>*[]|".contains(letter));
    let is_name = |word: &&str| {
        let is_file = (word.starts_with("/proc/sys/") || word.starts_with("/sys/")) && word.len() > 12;
        // A word with `_` is not a word of English.
        let is_sure = || {
            let is_area = ["vm.", "kernel.", "net."].iter().any(|area| word.starts_with(area));
            word.contains('_') || is_area && !word.rsplit('.').next().is_some_and(|last| NO_KEYS.contains(&last))
        };
        is_file || word.contains('.') && sysctl::known_path(word).is_some() && is_sure()
    };
    words
        .into_iter()
        .map(|word| word.trim_end_matches(['.', ':', '!', '?']))
        .find(is_name)
        .map(|word| word.chars().take(80).collect())
}
