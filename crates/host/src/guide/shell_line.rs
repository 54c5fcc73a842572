//! The commands of a shell line: their words, the destination of their output, and what `echo` and `printf` print.

use super::words::Word;

/// The maximum number of lines of one command.
pub(super) const CONTINUED_MAX: usize = 200;
/// The maximum number of words to which braces or a sequence expand.
const EXPANDED_MAX: usize = 64;
/// The longest text that `printf` makes.
const PRINTED_BYTES_MAX: usize = 1 << 16;

/// Words that may precede the command itself.
pub(super) const BEFORE: [&str; 16] = [
    "sudo", "doas", "do", "then", "else", "elif", "if", "while", "until", "time", "nohup", "exec", "!", "{", "RUN",
    "command",
];
/// Words of a shell that are not commands.
pub(super) const OF_SHELL: [&str; 18] = [
    "done", "fi", "esac", "case", "function", "return", "exit", "set", "export", "local", "shift", "trap", "}",
    "source", ".", "true", "false", "break",
];
/// Commands that change no setting, or whose effect concerns packages, services and files.
pub(super) const HARMLESS: [&str; 46] = [
    "apt",
    "apt-get",
    "yum",
    "dnf",
    "zypper",
    "apk",
    "cat",
    "ls",
    "grep",
    "awk",
    "cut",
    "sort",
    "head",
    "tail",
    "wc",
    "cd",
    "mkdir",
    "cp",
    "mv",
    "rm",
    "chmod",
    "chown",
    "touch",
    "vi",
    "vim",
    "nano",
    "reboot",
    "shutdown",
    "update-grub",
    "grub-mkconfig",
    "grub2-mkconfig",
    "update-initramfs",
    "systemd-analyze",
    "uname",
    "lscpu",
    "lspci",
    "free",
    "top",
    "dmesg",
    "read",
    "sleep",
    "test",
    "[",
    "[[",
    "curl",
    "wget",
];

/// More of them, whose names also begin sentences. Alone on a line they say nothing about it.
pub(super) const QUIET: [&str; 51] = [
    ":", "sync", "date", "logger", "ln", "id", "whoami", "hostname", "tput", "clear", "pwd", "basename", "dirname",
    "tr", "uniq", "find", "ps", "pgrep", "pidof", "kill", "nproc", "which", "type", "mktemp", "diff", "tar", "gzip",
    "unzip", "stat", "wait", "numastat", "lsmod", "lsblk", "mount", "umount", "continue", "unset", "readonly",
    "install", "less", "more", "watch", "ping", "expr", "env", "ss", "netstat", "iostat", "vmstat", "git", "make",
];

/// A command with the file that receives its output.
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    pub(super) file: Option<Word>,
    /// The text after `<<<`.
    pub(super) input: Option<Word>,
    /// Whether the command is the first of a group in parentheses.
    pub(super) opens: bool,
    /// The operator after the command. Empty at the end of the line.
    pub(super) end: String,
    /// A file that the command opens under a number, as in `exec 3<>FILE`.
    pub(super) opened: Option<(String, Word)>,
}

/// The commands of a line, in order.
pub(super) fn commands(words: &[Word]) -> Vec<Command> {
    let is_end = |word: &Word| word.is_operator && !word.text.contains(['>', '<']);
    let (mut found, mut from) = (Vec::new(), 0);
    for at in 0..=words.len() {
        if words.get(at).is_some_and(|word| !is_end(word)) {
            continue;
        }
        // `$(` does not open a group.
        let is_group = |before: usize| {
            words[before].text == "("
                && before.checked_sub(1).is_none_or(|at| words[at].is_operator || words[at].text == "do")
        };
        let end = words.get(at).map_or("", |word| word.text.as_str());
        if from < at || end == ";;" {
            let opens = from.checked_sub(1).is_some_and(is_group);
            found.push(one(&words[from..at], opens, end));
        }
        from = at + 1;
    }
    found
}

fn one(words: &[Word], opens: bool, end: &str) -> Command {
    let end = end.to_owned();
    let mut command = Command { words: Vec::new(), file: None, input: None, opens, end, opened: None };
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        if !word.is_operator {
            command.words.push(word.clone());
            continue;
        }
        // The file of a redirection is not a word of the command.
        let Some(target) = rest.next_if(|next| !next.is_operator) else { continue };
        match word.text.as_str() {
            "<<<" => command.input = Some(target.clone()),
            ">" | ">>" | ">|" | "&>" | "&>>" if target.text != "/dev/null" && command.file.is_none() => {
                command.file = Some(target.clone());
            }
            ">&" if is_number(&target.text) && target.text.len() == 1 && target.text.as_str() > "2" => {
                command.file = Some(Word { text: format!("&{}", target.text), is_operator: false, is_expanded: false });
            }
            operator => {
                let number = operator.trim_end_matches(['<', '>']);
                if is_number(number) && operator.ends_with('>') && number != "2" {
                    command.opened = Some((number.to_owned(), target.clone()));
                }
            }
        }
    }
    command
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The word that ends the here-document of a command in this line. The `<<` in `$((1 << 3))` shifts a number, and begins no here-document.
pub(super) fn here(words: &[Word]) -> Option<String> {
    let at = words.iter().position(|word| word.is_operator && word.text == "<<")?;
    if words[..at].iter().any(|word| word.is_operator && word.text == "((") {
        return None;
    }
    let end = words.get(at + 1).filter(|word| !word.is_operator)?.text.trim_start_matches('-');
    let is_name = !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| end.to_owned())
}

/// A loop that counts.
pub(super) struct Counted {
    /// Its variable.
    pub(super) name: String,
    /// The numbers that it takes, if the line has them.
    pub(super) numbers: Option<Vec<String>>,
    /// The index of the first word after its head.
    pub(super) after: usize,
}

/// `for ((i = 0; i < 4; i++))`.
pub(super) fn counted(words: &[Word]) -> Option<Counted> {
    let [first, open, ..] = words else { return None };
    if first.text != "for" || !open.is_operator || open.text != "((" {
        return None;
    }
    let end = words.iter().position(|word| word.is_operator && word.text == "))")?;
    let head: String = words[2..end].iter().map(|word| word.text.as_str()).collect();
    let mut parts = head.split(';');
    let (name, from) = parts.next()?.split_once('=')?;
    let mut numbers = || {
        let (test, step) = (parts.next()?.strip_prefix(name)?, parts.next()?);
        let counts = [format!("{name}++"), format!("++{name}"), format!("{name}+=1")].iter().any(|own| own == step);
        let from = from.parse::<u32>().ok().filter(|_| counts)?;
        let to = match test.strip_prefix("<=") {
            Some(last) => last.parse::<u32>().ok()?.checked_add(1)?,
            None => test.strip_prefix('<')?.parse().ok()?,
        };
        let is_short = to > from && (to - from) as usize <= EXPANDED_MAX;
        is_short.then(|| (from..to).map(|number| number.to_string()).collect())
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| Counted { name: name.to_owned(), numbers: numbers(), after: end + 1 })
}

/// Replaces `$(seq 0 3)` by its numbers.
pub(super) fn with_sequences(words: Vec<Word>) -> Vec<Word> {
    let is = |word: &Word, text: &str| word.is_operator && word.text == text;
    let (mut found, mut at) = (Vec::with_capacity(words.len()), 0);
    while let Some(word) = words.get(at) {
        let inner = words.get(at + 2..).unwrap_or_default();
        let end = inner.iter().take(4).position(|word| is(word, ")"));
        let numbers = match (word.text.as_str(), words.get(at + 1), end) {
            ("$", Some(open), Some(end)) if is(open, "(") => sequence(&inner[..end]).map(|numbers| (numbers, end)),
            _ => None,
        };
        match numbers {
            Some((numbers, end)) => {
                let plain = |number: u32| Word { text: number.to_string(), is_operator: false, is_expanded: false };
                found.extend(numbers.map(plain));
                at += end + 3;
            }
            None => {
                found.push(word.clone());
                at += 1;
            }
        }
    }
    found
}

fn sequence(words: &[Word]) -> Option<std::ops::RangeInclusive<u32>> {
    let number = |word: &Word| word.text.parse::<u32>().ok();
    let range = match words {
        [name, last] if name.text == "seq" => 1..=number(last)?,
        [name, first, last] if name.text == "seq" => number(first)?..=number(last)?,
        _ => return None,
    };
    (range.clone().count() <= EXPANDED_MAX).then_some(range)
}

/// The expansion of `a{b,c}` and `a{0..3}`. Without braces, the word itself.
pub(super) fn braces(word: &str) -> Vec<String> {
    let whole = || vec![word.to_owned()];
    let Some((before, rest)) = word.split_once('{').filter(|(before, _)| !before.ends_with('$')) else {
        return whole();
    };
    let Some((inner, after)) = rest.split_once('}') else { return whole() };
    let range =
        inner.split_once("..").and_then(|(first, last)| Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?));
    let parts: Vec<String> = match range {
        Some(range) if range.clone().count() <= EXPANDED_MAX => range.map(|number| number.to_string()).collect(),
        None if inner.contains(',') => inner.split(',').map(str::to_owned).take(EXPANDED_MAX).collect(),
        _ => return whole(),
    };
    parts.into_iter().map(|part| format!("{before}{part}{after}")).collect()
}

/// The output of `echo` or `printf`. `None` for another command, or for text that only a shell could print.
pub(super) fn output(words: &[Word]) -> Option<String> {
    let at = words.iter().position(|word| word.text == "echo" || word.text == "printf")?;
    let texts: Vec<&str> = words.get(at + 1..)?.iter().map(|word| word.text.as_str()).collect();
    if words[at].text == "printf" {
        let (format, values) = texts.strip_prefix(&["--"]).unwrap_or(&texts).split_first()?;
        return printed(format, values);
    }
    let said: Vec<&str> = texts.into_iter().skip_while(|text| ["-n", "-e", "-ne", "-en"].contains(text)).collect();
    Some(said.join(" ").trim_end_matches("\\n").to_owned())
}

/// `printf` uses the format again until every value is printed.
fn printed(format: &str, values: &[&str]) -> Option<String> {
    let (mut text, mut values) = (String::new(), values.iter().copied().peekable());
    loop {
        let (before, mut letters) = (values.len(), format.chars());
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => text.push(match letters.next()? {
                    'n' => '\n',
                    't' => '\t',
                    own @ ('\\' | '"' | '\'' | '%') => own,
                    _ => return None,
                }),
                '%' => match letters.next()? {
                    '%' => text.push('%'),
                    's' => text.push_str(values.next().unwrap_or_default()),
                    'b' => text.push_str(&values.next().unwrap_or_default().replace("\\n", "\n")),
                    'd' | 'i' | 'u' => text += &values.next().unwrap_or("0").parse::<i64>().ok()?.to_string(),
                    _ => return None,
                },
                letter => text.push(letter),
            }
        }
        if text.len() > PRINTED_BYTES_MAX {
            return None;
        }
        if values.peek().is_none() || values.len() == before {
            return Some(text.trim_end_matches('\n').to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::words::split;

    #[test]
    fn what_printf_prints() {
        for (line, expected) in [
            (r"printf '%s\n' madvise", Some("madvise")),
            (r#"printf "%d\n" 1"#, Some("1")),
            (r"printf 'a=%s\nb=%d\n' 1 2", Some("a=1\nb=2")),
            (r"printf '%s\n' a=1 b=2", Some("a=1\nb=2")),
            ("printf never", Some("never")),
            ("printf -- 100%%", Some("100%")),
            (r"printf '%d' x", None),
            (r"printf '%x' 10", None),
            ("printf", None),
            ("cat x", None),
            (r"echo -n 5", Some("5")),
        ] {
            assert_eq!(output(&split(line)).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn loops_that_count() {
        for (line, expected) in [
            ("for ((i=0;i<3;i++)); do", Some(("i", Some("0 1 2")))),
            ("for (( n = 1 ; n <= 2 ; ++n )) ; do", Some(("n", Some("1 2")))),
            ("for ((i=0;i<$N;i++)); do", Some(("i", None))),
            ("for ((i=0;i<9999;i++)); do", Some(("i", None))),
            ("for ((i=8;i>0;i--)); do", Some(("i", None))),
            ("for i in 1 2; do", None),
            ("for ((;;)); do", None),
        ] {
            let found = counted(&split(line));
            let found =
                found.as_ref().map(|found| (found.name.as_str(), found.numbers.as_ref().map(|all| all.join(" "))));
            assert_eq!(found, expected.map(|(name, all)| (name, all.map(str::to_owned))), "{line}");
        }
    }

    #[test]
    fn words_of_braces_and_sequences() {
        assert_eq!(braces("cpu{0..2}/x"), ["cpu0/x", "cpu1/x", "cpu2/x"]);
        assert_eq!(braces("sd{a,b}"), ["sda", "sdb"]);
        for whole in ["${x}", "a{b}", "a{", "{0..99999}"] {
            assert_eq!(braces(whole), [whole]);
        }
        let words = with_sequences(split("for i in $(seq 2 3) $(seq 2); do"));
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["for", "i", "in", "2", "3", "1", "2", ";", "do"]);
    }
}
