//! Runs the commands of a plan. Each command has no input and runs to its end or its time limit.
//! The error contains the output.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_sys::{clock, process};

/// The time limit of a command. `update-grub` takes about a second, or most of a minute in an emulated machine.
const TIME_LIMIT_NS: u64 = 600_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An error repeats at most this many bytes from the end of the command's output.
const WORDS_MAX: u64 = 2000;

/// The search path for programs. We do not use the PATH of the user, because it must not choose what runs as root.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a command. The text of an error continues a sentence that begins with "run COMMAND: ".
pub(crate) fn run(argv: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let words = unnamed_file()?;
    let second = words.try_clone().map_err(|error| error.to_string())?;
    let again = words.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(second).stderr(again).current_dir("/");
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8");
    let mut child = process::die_with_parent(&mut command).spawn().map_err(|error| error.to_string())?;
    let deadline_ns = clock::monotonic_ns() + TIME_LIMIT_NS;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if clock::monotonic_ns() < deadline_ns => std::thread::sleep(LOOK_EVERY),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not finish within {} s", TIME_LIMIT_NS / 1_000_000_000));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() { Ok(()) } else { Err(format!("{status}{}", last_words(words))) }
}

fn unnamed_file() -> Result<File, String> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    rustix::fs::memfd_create("evenkeel-command", flags).map(File::from).map_err(|errno| errno.to_string())
}

fn last_words(mut words: File) -> String {
    let mut text = Vec::new();
    let length = words.metadata().map_or(0, |meta| meta.len());
    let start = length.saturating_sub(WORDS_MAX);
    if words.seek(SeekFrom::Start(start)).and_then(|_| words.take(WORDS_MAX).read_to_end(&mut text)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Result<(), String> {
        run(&["sh".to_owned(), "-c".to_owned(), script.to_owned()])
    }

    #[test]
    fn a_command_that_fails_says_why() {
        assert_eq!(sh("true"), Ok(()));
        assert_eq!(sh("echo no such disk >&2; exit 3"), Err("exit status: 3: no such disk".to_owned()));
        assert!(run(&["evenkeel-has-no-such-program".to_owned()]).is_err());
        assert!(run(&[]).is_err());
    }

    #[test]
    fn it_has_nothing_to_read_and_no_environment_of_ours() {
        assert_eq!(sh("! read line && test -z \"$HOME$USER\" && test \"$PWD\" = /"), Ok(()));
    }

    #[test]
    fn many_words_neither_hang_nor_flood() {
        let error = sh("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done; exit 1").unwrap_err();
        assert!(error.len() < 2100, "{}", error.len());
    }
}
