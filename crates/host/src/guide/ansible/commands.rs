//! Commands of tasks, of containers and of cloud-init: texts, and lists of words such as `sh`, `-c` and a script.

use super::super::line::{Content, Skip};
use super::super::shell::Script;
use super::super::shell_line::CONTINUED_MAX;
use super::super::{mentions, settings};
use super::lines::{Lines, NO_VALUE};
use super::yaml::{Kind, Node};

/// Keys of a container whose lists of words form its command. The order is the order in the command.
const WORDS: [&str; 3] = ["entrypoint", "command", "args"];

/// The maximum number of words before the name of the shell and with it.
const SHELL_MAX: usize = 16;

/// Commands of a shell: a text, or one for each line.
pub(super) fn script(value: &Node, lines: &mut Lines) {
    let mut script = Script::numbered(value.line + 1);
    match &value.kind {
        Kind::Text(text) => command_text(&mut script, value.line, text, lines),
        Kind::Lines(texts) => {
            let mut texts = texts.iter().map(|(line, text)| (*line, text.trim())).filter(|(_, text)| !text.is_empty());
            while let Some((line, text)) = texts.next() {
                let mut whole = text.to_owned();
                let mut more = texts.by_ref().take(CONTINUED_MAX);
                // The settings belong to the first line of their command.
                while let Some(open) = whole.strip_suffix('\\') {
                    let Some((next, text)) = more.next() else { break };
                    whole = format!("{} {text}", open.trim_end());
                    lines.done(next, Skip::Structure);
                }
                command_text(&mut script, line, &whole, lines);
            }
        }
        Kind::Map(_) => {
            if let Some(argv) = value.get("argv") {
                command(&argv.value, lines);
            }
        }
        Kind::List(_) => command(value, lines),
    }
}

fn command_text(script: &mut Script, line: usize, text: &str, lines: &mut Lines) {
    if lines.is_done(line) {
        return;
    }
    let content = match &script.here {
        Some(end) if text == end => {
            script.here = None;
            Content::NotASetting(Skip::Structure)
        }
        Some(_) => settings::line(text),
        None if text.contains("{{") && mentions::first(text).is_some() => Content::not(NO_VALUE),
        None => script.line(&as_variables(text)).unwrap_or(Content::NotASetting(Skip::Elsewhere)),
    };
    lines.add(line, content);
    lines.done(line, Skip::Command);
}

/// The text with each `{{ … }}` as the variable of a shell, which has no value: only Ansible knows it.
fn as_variables(text: &str) -> String {
    let mut parts = text.split("{{");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}") {
            Some((_, rest)) => found.extend(["${template}", rest]),
            None => found.extend(["{{", part]),
        }
    }
    found
}

/// The command of a container, whose words may be in several lists.
pub(super) fn words_of(node: &Node, lines: &mut Lines) {
    let of = |key: &&str| node.get(key).map(|pair| pair.value.items()).unwrap_or_default();
    let all: Vec<&Node> = WORDS.iter().flat_map(of).collect();
    let is_list = |key: &str| node.get(key).is_some_and(|pair| !pair.value.items().is_empty());
    let texts: Vec<String> = all.iter().map(|word| word.text().unwrap_or_default()).collect();
    if script_at(&texts).is_some() || is_list("command") || is_list("entrypoint") {
        words(&all, lines);
    }
}

/// A command as a text, or as a list of its words.
pub(super) fn command(item: &Node, lines: &mut Lines) {
    if item.items().is_empty() {
        return script(item, lines);
    }
    words(&item.items().iter().collect::<Vec<_>>(), lines);
}

/// The words of a command. The script after `sh -c` has its own lines.
fn words(words: &[&Node], lines: &mut Lines) {
    let Some(first) = words.first() else { return };
    let texts: Vec<String> = words.iter().map(|word| word.text().unwrap_or_default()).collect();
    if let Some(at) = script_at(&texts) {
        script(words[at], lines);
    } else {
        let quoted = |text: &String| format!("'{}'", text.replace('\'', "'\\''"));
        let whole = texts.iter().map(quoted).collect::<Vec<_>>().join(" ");
        command_text(&mut Script::numbered(first.line + 1), first.line, &whole, lines);
    }
    words.iter().for_each(|word| lines.done(word.line, Skip::Command));
}

/// The index of the script in the words `sh -c SCRIPT`. A list of arguments may lack the shell if the image names the shell.
fn script_at(words: &[String]) -> Option<usize> {
    let is_shell = |word: &String| ["sh", "bash", "ash", "dash"].contains(&word.rsplit('/').next().unwrap_or(word));
    // `nsenter -t 1 -m -- sh -c …` enters the host first.
    let shell = words.iter().take(SHELL_MAX).position(is_shell);
    let from = shell.map_or(0, |at| at + 1);
    let is_option = |word: &String| word.starts_with(['-', '+']);
    let options = words.get(from..)?.iter().take_while(|word| is_option(word)).count();
    let last = words.get(from..from + options)?.last().filter(|word| word.starts_with('-') && word.ends_with('c'))?;
    (shell.is_some() || last.len() == 2).then_some(from + options).filter(|at| *at < words.len())
}
