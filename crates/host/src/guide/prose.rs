//! Sentences: settings inside text for people.
//! evenkeel does not understand a sentence that speaks against a setting, or that only names the setting's default.

use super::line::{Ask, Content};
use super::{against, names, settings, wide};
use crate::sysctl;

/// The maximum number of settings to find in a sentence, which is larger than the maximum for a line.
const SETTINGS_MAX: usize = 300;

/// The result of a line of text. `None` if the line names no setting.
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
    let parts = sentences(&rest);
    for (at, part) in parts.iter().enumerate() {
        let found = inline(part);
        if found.is_empty() {
            unclear.extend(mentioned(part).map(|name| format!("it names {name} without a value to set")));
            continue;
        }
        let places: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
        let taken_back = parts.get(at + 1).and_then(|next| against::takes_back(next));
        for ((_, said), word) in found.into_iter().zip(against::words_against(part, &places)) {
            match (said, word.or_else(|| taken_back.clone())) {
                (Ok(ask), None) => asks.push(ask),
                (Ok(ask), Some(word)) => {
                    unclear.push(format!("it names {ask}, but has {word:?}, so it may not recommend this value"))
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
            '\u{3002}' | '\u{ff01}' | '\u{ff1f}' => true,
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

/// Settings inside a sentence, and where each setting begins: `key=value`, `key = value`, `key: value`, "key to value".
fn inline(part: &str) -> Vec<(usize, Result<Ask, String>)> {
    let places = wide::words(part);
    let words: Vec<&str> = places.iter().map(|(_, word)| *word).collect();
    let trimmed =
        |word: &str| word.trim_matches(['"', '\'', ',', ';', ':', '.', '(', ')', '*', '[', ']', '!', '?']).to_owned();
    let mut found = of_code(part);
    let (from, asks) = boot_line(part);
    for ask in asks {
        if !found.iter().any(|(_, known)| known.as_ref() == Ok(&ask)) {
            found.push((from, Ok(ask)));
        }
    }
    for ((place, raw), at) in places.iter().zip(0..) {
        // A line with more settings is not understood, so stop here.
        if found.len() > SETTINGS_MAX {
            break;
        }
        let word = trimmed(raw);
        if let Some((key, value)) = word.split_once('=')
            && !value.is_empty()
        {
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            let more = numbers(&words[at + 1..]).filter(|_| is_number && word.len() + 1 >= raw.len());
            let count = more.as_ref().map_or(0, |more| more.split(' ').count());
            let after = words.get(at + 1 + count..).filter(|_| is_number && raw.ends_with(char::is_alphanumeric));
            let value = more.map_or_else(|| value.to_owned(), |more| format!("{value} {more}"));
            let ask = settings::plain_value(&value).and_then(|value| named(key, value));
            found.extend(ask.map(|ask| (*place, one_value(ask, after.unwrap_or_default()))));
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
        found.extend(named(key, &value).map(|ask| (*place, one_value(ask, after))));
    }
    found
}

/// The settings in the code of a sentence, if that code has only kernel arguments.
fn of_code(part: &str) -> Vec<(usize, Result<Ask, String>)> {
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, text) in part.split('`').enumerate() {
        // Every second part of the line is code.
        let asks = names::by_known_arguments(text).filter(|_| at % 2 == 1);
        let place = from + text.len() - text.trim_start().len();
        found.extend(asks.into_iter().flatten().map(|ask| (place, Ok(ask))));
        from += text.len() + 1;
    }
    found
}

/// The kernel arguments of `GRUB_CMDLINE_LINUX="…"` in a sentence, and where this text begins.
fn boot_line(part: &str) -> (usize, Vec<Ask>) {
    let Some((before, rest)) = part.split_once("GRUB_CMDLINE") else { return (0, Vec::new()) };
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let (_, rest) = rest.split_once('=').filter(|(_, rest)| rest.starts_with(*quote))?;
        rest[1..].split_once(*quote).map(|(inner, _)| inner)
    });
    match quoted.map(|arguments| settings::arguments(&format!("GRUB_CMDLINE={arguments}"))) {
        Some(Content::Settings(asks)) => (before.len(), asks),
        _ => (0, Vec::new()),
    }
}

/// Beginnings of Chinese words that are units after a number, or that make the number a limit.
const WIDE_UNITS: [&str; 6] = ["秒", "毫秒", "微秒", "分", "字节", "兆"];
const WIDE_LIMITS: [&str; 6] = ["以下", "以上", "以内", "左右", "到", "至"];

/// The setting. An error if the words after it give another value.
fn one_value(ask: Ask, after: &[&str]) -> Result<Ask, String> {
    let plain = |word: &&str| word.trim_matches(['.', ',', ';', ')', '(', '!', '"', '\'', '*']).to_lowercase();
    let next = after.first().map(plain).unwrap_or_default();
    let is_number = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
    if UNITS.contains(&next.as_str()) || WIDE_UNITS.iter().any(|unit| next.starts_with(unit)) {
        return Err(format!("it names {ask} {next}, and evenkeel does not convert units"));
    }
    if WIDE_LIMITS.iter().any(|limit| next.starts_with(limit)) {
        return Err(format!("it names {ask} {next}, which is not an exact value"));
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
    let words =
        line.split(|letter: char| letter.is_whitespace() || !letter.is_ascii() || "`\"'(),;=<>*[]|".contains(letter));
    let is_name = |word: &&str| {
        let is_file = (word.starts_with("/proc/sys/") || word.starts_with("/sys/")) && word.len() > 12;
        // A word with `_` is not an English word.
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
