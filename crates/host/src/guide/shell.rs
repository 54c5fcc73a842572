//! Commands of a shell, read as text: what `sysctl`, `echo`, `tee`, `ethtool`, `cpupower` and `grubby` would set. Nothing is run.

use std::collections::BTreeMap;

use super::line::{Ask, Content, Skip};
use super::words::{Word, split};
use super::{names, settings, tools};
use crate::finding::shown;

/// How deep `sh -c` may be nested.
const DEPTH_MAX: usize = 3;
/// The most variables of a script.
const VARIABLES_MAX: usize = 1000;

/// The longest word after its variables are replaced. If it would get longer, its variables stay, and evenkeel does not understand it.
const EXPANDED_BYTES_MAX: usize = 4096;

/// Words before the command itself.
const BEFORE: [&str; 12] = ["sudo", "doas", "do", "then", "else", "if", "while", "time", "nohup", "exec", "!", "{"];
/// Words of a shell that are no command.
const OF_SHELL: [&str; 18] = [
    "done", "fi", "esac", "case", "function", "return", "exit", "set", "export", "local", "shift", "trap", "}",
    "source", ".", "true", "false", "break",
];
/// Commands that change no setting, or whose effect is a matter of packages, services and files.
const HARMLESS: [&str; 46] = [
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

/// What a script has said so far.
#[derive(Default)]
pub(super) struct Script {
    variables: BTreeMap<String, String>,
    /// The word that ends the text which a command reads.
    pub(super) here: Option<String>,
}

/// What one command is.
enum Found {
    Asks(Vec<Ask>),
    Skip(Skip),
    Unclear(String),
    /// A command that is not known here, by its name.
    Stranger(String),
}

impl Script {
    /// One line of commands. `None` if its first word is no known command.
    pub(super) fn line(&mut self, line: &str) -> Option<Content> {
        self.nested(line, 0)
    }

    fn nested(&mut self, line: &str, depth: usize) -> Option<Content> {
        let words = split(line);
        self.here = here(&words);
        let (mut asks, mut unclear, mut skip) = (Vec::new(), Vec::new(), None);
        let mut said: Option<String> = None;
        let mut strangers = Vec::new();
        for command in commands(&words) {
            let found = self.command(&command, said.take(), depth);
            match found {
                Found::Asks(found) => asks.extend(found),
                Found::Skip(why) => skip = Some(why),
                Found::Unclear(why) => unclear.push(why),
                Found::Stranger(name) => strangers.push(format!("evenkeel does not know the command {}", shown(&name))),
            }
            said = output(&self.expanded(command.words));
        }
        if asks.is_empty() && unclear.is_empty() && skip.is_none() {
            return None;
        }
        unclear.extend(strangers);
        match (asks.is_empty(), unclear.is_empty(), skip) {
            (false, _, _) => {
                asks.extend(unclear.into_iter().map(Ask::not_understood));
                Some(Content::settings(asks))
            }
            (true, true, Some(skip)) => Some(Content::NotASetting(skip)),
            (true, ..) => Some(Content::not(unclear.join("; "))),
        }
    }

    /// The words of a command with the variables that the script has set.
    fn expanded(&self, words: &[Word]) -> Vec<Word> {
        let one = |word: &Word| {
            if !word.is_expanded {
                return word.clone();
            }
            let text = self.expand(&word.text);
            let is_expanded = text.contains(['$', '`']);
            Word { text, is_operator: false, is_expanded }
        };
        words.iter().map(one).collect()
    }

    /// A text with the variables that are known: `$NAME` and `${NAME}`.
    fn expand(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let (name, rest) = match part.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some(braced) => braced,
                None => part.split_at(part.find(|letter| !is_name(letter)).unwrap_or(part.len())),
            };
            match self.variables.get(name) {
                Some(value) => expanded.extend([value.as_str(), rest]),
                None => expanded.extend(["$", part]),
            }
            if expanded.len() > EXPANDED_BYTES_MAX {
                return text.to_owned();
            }
        }
        expanded
    }

    fn command(&mut self, command: &Command<'_>, said: Option<String>, depth: usize) -> Found {
        let words = self.expanded(command.words);
        let mut words: &[Word] = &words;
        while let Some((first, rest)) = words.split_first() {
            let is_option =
                first.text.starts_with('-') && command.words.first().is_some_and(|word| word.text == "sudo");
            if !BEFORE.contains(&first.text.as_str()) && !is_option {
                break;
            }
            words = rest;
        }
        let Some((name, arguments)) = words.split_first() else { return Found::Skip(Skip::Structure) };
        let name = name.text.rsplit('/').next().unwrap_or_default();
        let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
        match name {
            "for" => self.remember_loop(&texts),
            "sh" | "bash" => match texts.iter().position(|text| text.starts_with('-') && text.ends_with('c')) {
                Some(at) if depth < DEPTH_MAX => {
                    match texts.get(at + 1).and_then(|text| self.nested(text, depth + 1)) {
                        Some(Content::Settings(asks)) => Found::Asks(asks),
                        Some(Content::NotASetting(skip)) => Found::Skip(skip),
                        Some(Content::NotUnderstood(why)) => Found::Unclear(why),
                        None => Found::Skip(Skip::Command),
                    }
                }
                _ => Found::Skip(Skip::Command),
            },
            "echo" | "printf" => match &command.file {
                Some(file) => {
                    let file = self.expanded(std::slice::from_ref(file)).swap_remove(0);
                    self.written(&file, &output(words).unwrap_or_default())
                }
                None => Found::Skip(Skip::Command),
            },
            "tee" => match (said, arguments.iter().find(|word| !word.text.starts_with('-'))) {
                (Some(said), Some(file)) => self.written(file, &said),
                (None, Some(_)) if self.here.is_some() => Found::Skip(Skip::Structure),
                _ => Found::Unclear("the text that `tee` writes is not on this line".to_owned()),
            },
            "sysctl" => sysctl(arguments),
            _ if name.contains('=') && !name.starts_with('=') && is_variable(name) => self.assign(&words[0]),
            name if OF_SHELL.contains(&name) => Found::Skip(Skip::Structure),
            name if HARMLESS.contains(&name) => Found::Skip(Skip::Command),
            name => match tools::asks(name, &texts) {
                Some(_) if arguments.iter().any(|word| word.is_expanded) && !tools::takes_any_device(name) => unclear(),
                Some(found) => found.map_or_else(Found::Skip, Found::Asks),
                None => Found::Stranger(name.to_owned()),
            },
        }
    }

    /// `for NAME in WORD`: the word, which may be a pattern of files. Of several words none stands for the others.
    fn remember_loop(&mut self, words: &[&str]) -> Found {
        match words {
            [name, "in", value] | [name, "in", value, "do"] if self.variables.len() < VARIABLES_MAX => {
                self.variables.insert((*name).to_owned(), value.chars().take(EXPANDED_BYTES_MAX).collect());
            }
            [name, "in", ..] => _ = self.variables.remove(*name),
            _ => {}
        }
        Found::Skip(Skip::Structure)
    }

    /// `NAME=VALUE`: kernel arguments, or a variable.
    fn assign(&mut self, word: &Word) -> Found {
        let Some((name, value)) = word.text.split_once('=') else { return Found::Stranger(word.text.clone()) };
        if name.starts_with("GRUB_CMDLINE") {
            return match settings::arguments(&word.text) {
                Content::Settings(asks) => Found::Asks(asks),
                Content::NotASetting(skip) => Found::Skip(skip),
                Content::NotUnderstood(why) => Found::Unclear(why),
            };
        }
        if self.variables.len() < VARIABLES_MAX && !word.is_expanded {
            self.variables.insert(name.to_owned(), value.chars().take(EXPANDED_BYTES_MAX).collect());
        }
        Found::Skip(Skip::Structure)
    }

    /// A text that is written to a file.
    fn written(&self, file: &Word, text: &str) -> Found {
        let path = file.text.as_str();
        // A variable in the name of a device stands for every device.
        if text.contains(['$', '`'])
            || file.is_expanded && !path.starts_with("/sys/") && !path.starts_with("/proc/irq/")
        {
            return unclear();
        }
        if path.starts_with("/proc/") || path.starts_with("/sys/") {
            return match names::by_file(path, text.trim()) {
                Some(ask) => Found::Asks(vec![ask]),
                None => Found::Unclear(format!("evenkeel does not know {path}")),
            };
        }
        if path.contains("sysctl") {
            let lines = text.split("\\n").map(|line| (line, settings::line(line)));
            let asks = lines.map(|(line, content)| match content {
                Content::Settings(asks) => asks,
                Content::NotUnderstood(_) => vec![Ask::not_understood(format!("{line:?} in a file of sysctls"))],
                Content::NotASetting(_) => Vec::new(),
            });
            let asks: Vec<Ask> = asks.flatten().collect();
            return if asks.is_empty() {
                Found::Unclear(format!("no setting is written to {path}"))
            } else {
                Found::Asks(asks)
            };
        }
        Found::Skip(Skip::Command)
    }
}

/// The word that ends the text which a command of this line reads. A shift of numbers, as in `$((1 << 3))`, reads none.
fn here(words: &[Word]) -> Option<String> {
    let at = words.iter().position(|word| word.is_operator && word.text == "<<")?;
    if words[..at].iter().any(|word| word.is_operator && word.text == "((") {
        return None;
    }
    let end = words.get(at + 1).filter(|word| !word.is_operator)?.text.trim_start_matches('-');
    let is_name = !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| end.to_owned())
}

fn unclear() -> Found {
    Found::Unclear("only a shell could expand it, and evenkeel runs nothing".to_owned())
}

/// Whether a word begins with the name of a variable and `=`.
fn is_variable(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A command with the file that its output goes to.
struct Command<'a> {
    words: &'a [Word],
    file: Option<Word>,
}

/// The commands of a line, in order.
fn commands(words: &[Word]) -> Vec<Command<'_>> {
    let is_end = |word: &Word| word.is_operator && !word.text.starts_with(['>', '<']);
    let one = |words| {
        let is_redirection = |word: &Word| word.is_operator && word.text.starts_with(['>', '<']);
        let first = <[Word]>::iter(words).position(is_redirection);
        let files = words.windows(2).filter(|pair| pair[0].text.starts_with('>') && pair[0].is_operator);
        let file = files.map(|pair| &pair[1]).find(|file| file.text != "/dev/null" && !file.is_operator).cloned();
        Command { words: &words[..first.unwrap_or(words.len())], file }
    };
    words.split(is_end).filter(|words| !words.is_empty()).map(one).collect()
}

/// What `echo` or `printf` would print.
fn output(words: &[Word]) -> Option<String> {
    let at = words.iter().position(|word| word.text == "echo" || word.text == "printf")?;
    let texts = words.get(at + 1..)?.iter().map(|word| word.text.as_str());
    let said: Vec<&str> = texts.skip_while(|text| ["-n", "-e", "-ne", "-en"].contains(text)).collect();
    Some(said.join(" ").trim_end_matches("\\n").to_owned())
}

/// `sysctl -w KEY=VALUE …`.
fn sysctl(arguments: &[Word]) -> Found {
    let named: Vec<&Word> = arguments.iter().filter(|word| !word.text.starts_with('-')).collect();
    if !named.iter().any(|word| word.text.contains('=')) {
        return Found::Skip(Skip::Command);
    }
    if named.iter().any(|word| word.is_expanded) {
        return unclear();
    }
    let each: Vec<Option<Ask>> = named.iter().map(|word| settings::assignment(&word.text)).collect();
    if each.iter().all(Option::is_some) {
        return Found::Asks(each.into_iter().flatten().collect());
    }
    // With spaces around the `=`, or around the numbers of one value.
    let whole = named.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    match settings::assignment(&whole).filter(|_| whole.matches('=').count() == 1) {
        Some(ask) => Found::Asks(vec![ask]),
        None => Found::Unclear("`sysctl` has an argument that is no key=value of a sysctl".to_owned()),
    }
}
