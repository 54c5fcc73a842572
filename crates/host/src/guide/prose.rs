//! Sentences: settings inside text for people.
//! evenkeel does not understand a sentence that speaks against a setting, or that only names the setting's default.

use super::line::{Ask, Content};
use super::spans::Placed;
use super::{against, mentions, names, settings, spans, wide};

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
            unclear.extend(mentions::first(part).map(|name| format!("{name} is struck out")));
        } else {
            rest.push_str(part);
        }
    }
    let parts = sentences(&rest);
    for (at, part) in parts.iter().enumerate() {
        let (of_commands, plain) = spans::commands(part);
        let found = inline(of_commands, &plain);
        if found.is_empty() {
            let name = mentions::first(part).map(|name| format!("it names {name} without a value to set"));
            let command =
                || Some(format!("it names the command {}, and has no line of its own for it", spans::named(part)?));
            unclear.extend(name.or_else(command));
            continue;
        }
        let places: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
        let taken_back = parts.get(at + 1).and_then(|next| against::takes_back(next));
        for ((_, said), word) in found.into_iter().zip(against::words_against(&plain, &places)) {
            match (said, word.or_else(|| taken_back.clone())) {
                (Ok(ask), None) => asks.push(ask),
                (Ok(ask), Some(word)) => {
                    unclear.push(format!("it names {ask}, but has {word:?}, so it may not recommend this value"))
                }
                (Err(why), _) => unclear.push(why),
            }
        }
    }
    unclear.extend(several(&mut asks));
    match (asks.is_empty(), unclear.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Content::not(unclear.join("; "))),
        (false, _) => {
            asks.extend(unclear.into_iter().map(Ask::not_understood));
            Some(Content::settings(asks))
        }
    }
}

/// Removes the settings for which the text has several values, such as one for each size of machine: only its reader can choose.
fn several(asks: &mut Vec<Ask>) -> Vec<String> {
    let is_one = |of: &Ask| asks.iter().all(|ask| ask.target != of.target || ask.value == of.value);
    let kept: Vec<bool> = asks.iter().map(is_one).collect();
    let mut found: Vec<String> = Vec::new();
    let mut kept = kept.into_iter();
    asks.retain(|ask| {
        let is_kept = kept.next().unwrap_or(true);
        if !is_kept {
            found.push(ask.to_string());
        }
        is_kept
    });
    match found.as_slice() {
        [] => Vec::new(),
        found => vec![format!("it has several values to choose from: {}", found.join(", "))],
    }
}

/// The first setting that a text gives a value.
pub(super) fn assigned(text: &str) -> Option<Ask> {
    inline(Vec::new(), text).into_iter().find_map(|(_, said)| said.ok())
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

/// Settings inside a sentence, and where each begins: `key=value`, `key = value`, `key: value`, "key to value". Those of the commands in
/// the sentence come first.
fn inline(of_commands: Vec<Placed>, part: &str) -> Vec<Placed> {
    let places = wide::words(part);
    let words: Vec<&str> = places.iter().map(|(_, word)| *word).collect();
    let trimmed =
        |word: &str| word.trim_matches(['"', '\'', ',', ';', ':', '.', '(', ')', '*', '[', ']', '!', '?']).to_owned();
    let mut found = of_commands;
    found.extend(of_code(part));
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
            Some(&("=" | "to" | "at" | ":" | "->" | "\u{2192}" | "\u{2013}" | "\u{2014}")) => {
                (true, words.get(at + 2..).unwrap_or_default())
            }
            _ => match after_filler(&words[at + 1..]) {
                Some(rest) => (true, rest),
                None => (word.ends_with('=') || is_colon, words.get(at + 1..).unwrap_or_default()),
            },
        };
        let Some(value) = numbers(rest).filter(|_| joint) else { continue };
        let after = rest.get(value.split(' ').count()..).unwrap_or_default();
        found.extend(named(key, &value).map(|ask| (*place, one_value(ask, after))));
    }
    found
}

/// Words between the name of a setting and `to`, as in `the key parameter should be raised from 128 to 4096`.
const FILLER: [&str; 17] = [
    "be",
    "changed",
    "from",
    "increased",
    "lowered",
    "must",
    "needs",
    "option",
    "parameter",
    "raised",
    "reduced",
    "set",
    "setting",
    "should",
    "sysctl",
    "tuned",
    "value",
];
/// The maximum number of such words.
const FILLER_MAX: usize = 7;

/// The words after `should be set to`. `None` if these words do not begin like that.
fn after_filler<'a>(words: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let plain = |word: &str| word.trim_matches(['*', '"', '\'']).to_lowercase();
    let is_end = |word: &&str| plain(word) == "to";
    let end = words.iter().take(FILLER_MAX).position(is_end).filter(|end| *end > 0)?;
    let is_filler = |(at, word): (usize, &&str)| {
        let is_old = at > 0 && plain(words[at - 1]) == "from" && word.parse::<i64>().is_ok();
        is_old || FILLER.contains(&plain(word).as_str())
    };
    words[..end].iter().enumerate().all(is_filler).then(|| &words[end + 1..])
}

/// The settings in the code of a sentence that has only kernel arguments.
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
