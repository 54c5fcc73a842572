//! `guard`: the process that puts back what a command changes for as long as it runs, however that command ends. It holds the other end of
//! a pipe: when the pipe closes, because the command is done or because it was killed, the guard undoes what it was told to.
//!
//! One line each on its standard input, `restore PATH VALUE` or `remove-cgroup PATH`; it answers `ok`, or `no` and why. The change
//! itself is made by the command, and only after the guard has said `ok`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use evenkeel_sys::{Errno, cgroup, process};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// The longest line, and how many lines it takes.
const LINE_BYTES_MAX: u64 = 4096;
const LINES_MAX: usize = 1024;

/// How long its parent waits for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long what runs in a control group may take to end after SIGKILL.
const EMPTY_LIMIT: Duration = Duration::from_secs(20);

const YES: &[u8] = b"ok\n";

/// Put back what a command changes while it runs; started by it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// How one change is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Write the value that a file of the kernel's had.
    #[allow(dead_code)]
    Restore { path: PathBuf, value: String },
    /// Kill what is left in a control group of ours, and remove it.
    RemoveGroup(PathBuf),
}

impl Undo {
    /// The line that tells the guard.
    fn line(&self) -> String {
        match self {
            Undo::Restore { path, value } => format!("restore {} {value}\n", path.display()),
            Undo::RemoveGroup(path) => format!("remove-cgroup {}\n", path.display()),
        }
    }

    /// Reads a line; what it says must be something that a guard may do.
    fn parse(line: &str) -> Result<Undo, &'static str> {
        let (verb, rest) = line.split_once(' ').ok_or("a verb and a path are wanted")?;
        match verb {
            "restore" => {
                let (path, value) = rest.split_once(' ').ok_or("a path and a value are wanted")?;
                let path = Path::new(path);
                let plain = path.components().all(|part| part != std::path::Component::ParentDir);
                if !plain || !(path.starts_with("/proc") || path.starts_with("/sys")) {
                    return Err("only files below /proc and /sys are restored");
                }
                Ok(Undo::Restore { path: path.to_owned(), value: value.to_owned() })
            }
            "remove-cgroup" => match cgroup::is_ours(Path::new(rest)) {
                true => Ok(Undo::RemoveGroup(PathBuf::from(rest))),
                false => Err("only control groups that evenkeel made are removed"),
            },
            _ => Err("unknown verb"),
        }
    }

    /// Undoes it.
    fn run(&self) -> Result<(), Failure> {
        match self {
            Undo::Restore { path, value } => restore(path, value),
            Undo::RemoveGroup(path) => cgroup::remove(path, EMPTY_LIMIT)
                .map_err(|errno| not_undone(format!("remove the control group {}", path.display()), errno)),
        }
    }
}

fn restore(path: &Path, value: &str) -> Result<(), Failure> {
    let tried = || format!("write {value:?} back to {}", path.display());
    // Opened without making it: a file that is gone, as with a CPU that was taken away, is not to be replaced by a plain one.
    let written =
        std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|error| not_undone(tried(), Errno::from(&error)))
}

fn not_undone(tried: String, errno: Errno) -> Failure {
    Failure::text(exit::NOT_UNDONE, tried, errno)
}

pub(crate) fn run(_: &Args, out: &Out) -> Outcome {
    process::leave_session_group();
    let undos = listen(std::io::stdin().lock(), std::io::stdout());
    let mut outcome = exit::WELL;
    for undo in undos.iter().rev() {
        if let Err(failure) = undo.run() {
            outcome = out.failure(&failure);
        }
    }
    Ok(outcome)
}

/// Takes what is to be undone until its parent has no more to say, or is no more.
fn listen(input: impl BufRead, mut answers: impl Write) -> Vec<Undo> {
    let mut undos = Vec::new();
    let mut input = input;
    loop {
        let mut line = String::new();
        match input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
            // A half line is from a parent that was killed while it spoke: it had no answer, so it has changed nothing.
            Ok(_) if !line.ends_with('\n') => return undos,
            Err(_) => return undos,
            Ok(_) => {}
        }
        let undo = if undos.len() < LINES_MAX { Undo::parse(line.trim_end_matches('\n')) } else { Err("too many") };
        let answer = match undo {
            Ok(undo) => {
                undos.push(undo);
                String::from_utf8_lossy(YES).into_owned()
            }
            Err(why) => format!("no: {why}\n"),
        };
        // A parent that does not read any more is about to end, which the next read tells.
        let _ = answers.write_all(answer.as_bytes()).and_then(|()| answers.flush());
    }
}

/// A guard at its post, seen from the command that it guards. What it was told is undone when this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    line: Option<ChildStdin>,
    answers: ChildStdout,
}

impl Guard {
    /// Starts one.
    pub(crate) fn start() -> Result<Guard, Failure> {
        let failed = |why: String| Failure::text(exit::NOT_POSSIBLE, "start the process that puts things back", why);
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("guard").current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::detach(&mut command).spawn().map_err(|error| failed(error.to_string()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(line), Some(answers)) => Ok(Guard { child, line: Some(line), answers }),
            _ => Err(failed("it has no voice".to_owned())),
        }
    }

    /// Has it hold what is about to be changed. Only after this may the change be made.
    pub(crate) fn hold(&mut self, undo: &Undo) -> Result<(), Failure> {
        let line = undo.line();
        let failed =
            |why: String| Failure::text(exit::NOT_POSSIBLE, format!("guard a change ({})", line.trim_end()), why);
        let Some(pipe) = self.line.as_mut() else { return Err(failed("the guard has ended".to_owned())) };
        pipe.write_all(line.as_bytes()).map_err(|error| failed(error.to_string()))?;
        match process::read_within(&mut self.answers, YES.len(), ANSWER_LIMIT) {
            Ok(answer) if answer == YES => Ok(()),
            Ok(answer) if answer.is_empty() => Err(failed("the guard has ended".to_owned())),
            Ok(answer) => {
                let mut why = String::from_utf8_lossy(&answer).into_owned();
                let _ = BufReader::new(&mut self.answers).read_line(&mut why);
                Err(failed(why.trim_end().to_owned()))
            }
            Err(errno) => Err(failed(errno.to_string())),
        }
    }

    /// Everything is put back when this returns.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        match self.finish() {
            Some(true) | None => Ok(()),
            Some(false) => {
                let error = anyhow::anyhow!("put everything back: its guard says above what is left");
                Err(Failure::new(exit::NOT_UNDONE, error))
            }
        }
    }

    /// Whether all was undone; none if it was asked before.
    fn finish(&mut self) -> Option<bool> {
        drop(self.line.take()?);
        Some(self.child.wait().is_ok_and(|status| status.success()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let undos = [
            Undo::Restore {
                path: "/sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
                value: "tsc".into(),
            },
            Undo::Restore { path: "/proc/sys/net/ipv4/udp_mem".into(), value: "1 2 3".into() },
            Undo::RemoveGroup("/sys/fs/cgroup/cpu/evenkeel-7".into()),
        ];
        for undo in undos {
            assert_eq!(Undo::parse(undo.line().trim_end()), Ok(undo));
        }
    }

    #[test]
    fn what_a_guard_may_not_do_is_refused() {
        let table = [
            "",
            "restore",
            "restore /proc/sys/vm/swappiness",
            "restore /etc/passwd root",
            "restore /proc/../etc/passwd root",
            "remove-cgroup /sys/fs/cgroup/cpu/docker",
            "remove-cgroup /home",
            "frobnicate /sys/x y",
        ];
        for line in table {
            assert!(Undo::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn each_line_has_its_answer_and_half_a_line_none() {
        let mut answers = Vec::new();
        let said =
            "restore /proc/sys/a 1\nrestore /etc/b 2\nremove-cgroup /sys/fs/cgroup/evenkeel-1\nrestore /proc/sys/c 3";
        let undos = listen(said.as_bytes(), &mut answers);
        assert_eq!(undos.len(), 2, "{undos:?}");
        let answers = String::from_utf8(answers).unwrap();
        assert_eq!(answers, "ok\nno: only files below /proc and /sys are restored\nok\n");
    }
}
