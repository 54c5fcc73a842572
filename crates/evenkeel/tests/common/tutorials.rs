//! Runs the tutorials. Blocks with the mark `console` have commands with their output.
//! Blocks with the mark `console,live` have commands that measure the reader's machine.
//! The suite runs the `console` blocks, and the live checks run both kinds.

#![allow(dead_code, reason = "each of the two programs uses its part")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// This character stands for any text in a line. Alone on a line, it stands for any number of lines.
const ANY: char = '…';

/// One command of a page, and the output that the page shows below it.
#[derive(Debug)]
pub(crate) struct Step {
    /// The command for the shell. It may have several lines.
    pub(crate) command: String,
    pub(crate) shown: Vec<String>,
    /// The line of the page on which the output begins, counted from 0.
    pub(crate) shown_at: usize,
    pub(crate) is_live: bool,
}

pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The commands of a page, in order.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block = None;
    for (at, line) in page.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            block = block.is_none().then_some(kind);
            continue;
        }
        let is_live = match block {
            Some("console") => false,
            Some("console,live") => true,
            _ => continue,
        };
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), shown: Vec::new(), shown_at: at + 1, is_live });
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("line {}: output without a command", at + 1));
        match line.strip_prefix("> ") {
            Some(more) if step.shown.is_empty() => {
                step.command = format!("{}\n{more}", step.command);
                step.shown_at = at + 1;
            }
            _ => step.shown.push(line.to_owned()),
        }
    }
    steps
}

/// A folder like a reader's: it contains the captured machines, and evenkeel is in its search path.
/// Its `sudo` only runs the command.
pub(crate) struct ReaderFolder {
    folder: tempfile::TempDir,
}

impl ReaderFolder {
    pub(crate) fn new() -> ReaderFolder {
        use std::os::unix::fs::PermissionsExt;
        let reader = ReaderFolder { folder: tempfile::tempdir().unwrap() };
        let programs = reader.folder.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap();
        for name in ["evenkeel", "evenkeel-arena", "evenkeel-bots"] {
            symlink(built.join(name), programs.join(name)).unwrap();
        }
        let sudo = programs.join("sudo");
        std::fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").unwrap();
        std::fs::set_permissions(&sudo, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(reader.folder.path().join("work")).unwrap();
        symlink(project().join("hosts"), reader.folder.path().join("work/hosts")).unwrap();
        reader
    }

    pub(crate) fn run(&self, step: &Step) -> Output {
        self.run_script(&step.command, &[])
    }

    /// Runs a script.
    /// The words of `around` come before the shell, for example a command that gives the shell separate namespaces.
    pub(crate) fn run_script(&self, script: &str, around: &[&str]) -> Output {
        let words: Vec<&str> = around.iter().copied().chain(["sh", "-c", script]).collect();
        let path = format!(
            "{}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            self.folder.path().display()
        );
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.folder.path().join("work")).stdin(Stdio::null()).env_clear();
        command.env("PATH", path).env("HOME", self.folder.path()).env("COLUMNS", "80").output().unwrap()
    }
}

/// Whether the output `shown` on a page matches `printed`, which the command printed now.
pub(crate) fn agrees(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if is_any(line) => (0..=printed.len()).any(|from| agrees(rest, &printed[from..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| line_agrees(line, first) && agrees(rest, others))
        }
    }
}

fn is_any(line: &str) -> bool {
    line.trim() == ANY.to_string()
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    if shown == printed {
        return true;
    }
    let Some((before, after)) = shown.split_once(ANY) else { return false };
    printed.strip_prefix(before).is_some_and(|rest| rest.ends_with(after))
}

/// The output that a page should show for the current output of the command.
/// It has the whole output, or as many lines at the start and the end as before.
pub(crate) fn shown_anew(shown: &[String], printed: &[String]) -> Vec<String> {
    let keep = |old: Option<&String>, new: &String| old.filter(|old| line_agrees(old, new)).unwrap_or(new).clone();
    let (Some(first), Some(last)) =
        (shown.iter().position(|line| is_any(line)), shown.iter().rposition(|line| is_any(line)))
    else {
        return printed.iter().enumerate().map(|(at, line)| keep(shown.get(at), line)).collect();
    };
    let head = first.min(printed.len());
    let tail = (shown.len() - last - 1).min(printed.len() - head);
    let mut lines: Vec<String> = (0..head).map(|at| keep(shown.get(at), &printed[at])).collect();
    lines.push(ANY.to_string());
    // A line between two gaps stays if the command still prints it.
    // Otherwise the line that begins with the same word replaces it.
    let middle = &shown[first + 1..last.max(first + 1)];
    let word = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let today = |line: &String| match printed.iter().any(|printed| line_agrees(line, printed)) {
        true => Some(line.clone()),
        false => printed.iter().find(|printed| word(printed) == word(line)).cloned(),
    };
    let still: Vec<String> = middle.iter().filter(|line| !is_any(line)).filter_map(today).collect();
    if !still.is_empty() {
        lines.extend(still);
        lines.push(ANY.to_string());
    }
    lines.extend(
        (printed.len() - tail..printed.len()).zip(last + 1..).map(|(new, old)| keep(shown.get(old), &printed[new])),
    );
    lines
}
