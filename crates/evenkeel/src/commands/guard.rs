//! `guard`: a process that undoes the temporary changes of a command, whatever ends that command.
//! The guard reads from a pipe.
//! When the command ends or is killed, the pipe closes, and the guard undoes the changes on its list.
//!
//! The guard reads one change per line from standard input:
//! `restore PATH VALUE`, `remove-cgroup PATH`, `restore-cpus PID START OURS BEFORE` or `end-servers-of PID`.
//! It answers `ok`, or `no` with the reason. The command makes a change only after `ok`.
//! The line `forget PATH` cancels a `restore`:
//! another program has set the file since, and the value of that program should stay.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use evenkeel_change::ProcessCpus;
use evenkeel_hostfs::cgroup;
use evenkeel_measure::{Keeper, MeterError};
use evenkeel_sys::{CpuSet, Errno, clock, process};
use evenkeel_workload::command::end_left_by;

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// The maximum length of a line, and the maximum number of changes.
const LINE_BYTES_MAX: u64 = 4096;
const LINES_MAX: usize = 1024;

/// How long the command waits for the guard's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The time limit for the processes of a control group to end after SIGKILL.
const EMPTY_LIMIT: Duration = Duration::from_secs(20);

/// How many times to write a value again if the file does not have it
/// after the write, and the time between two attempts.
const RESTORE_TRIES: u32 = 20;
const RESTORE_PAUSE_NS: u64 = 50_000_000;

const YES: &[u8] = b"ok\n";

/// Restore the changes of a command when it ends; the command starts this process
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// An action that undoes one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Writes the earlier value of a kernel file.
    Restore { path: PathBuf, value: String },
    /// Kills the remaining processes in a control group of evenkeel, and removes the group.
    RemoveGroup(PathBuf),
    /// Restores the CPUs of a process's threads, if the threads still have the CPUs that evenkeel set.
    RestoreCpus { process: ProcessCpus, placed: CpuSet },
    /// Ends the servers that the process with this pid started for its user. The servers would outlive that process.
    EndServersOf(u32),
}

impl Undo {
    /// The line that registers this action.
    fn line(&self) -> String {
        match self {
            Undo::Restore { path, value } => format!("restore {} {value}\n", path.display()),
            Undo::RemoveGroup(path) => format!("remove-cgroup {}\n", path.display()),
            Undo::RestoreCpus { process: ProcessCpus { pid, start_ticks, cpus }, placed } => {
                format!("restore-cpus {pid} {start_ticks} {placed} {cpus}\n")
            }
            Undo::EndServersOf(pid) => format!("end-servers-of {pid}\n"),
        }
    }

    /// Parses a line. The guard accepts only actions of a known kind.
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
            "restore-cpus" => restore_cpus(rest).ok_or("a process, its start, and two lists of CPUs are wanted"),
            "end-servers-of" => rest.parse().map(Undo::EndServersOf).map_err(|_| "the number of a process is wanted"),
            _ => Err("unknown verb"),
        }
    }

    /// Undoes the change.
    fn run(&self) -> Result<(), Failure> {
        match self {
            Undo::Restore { path, value } => restore(path, value),
            Undo::RemoveGroup(path) => cgroup::remove(path, EMPTY_LIMIT)
                .map_err(|errno| not_undone(format!("remove the control group {}", path.display()), errno)),
            Undo::RestoreCpus { process, placed } => {
                process.put_back(placed).map_err(|error| Failure::new(exit::NOT_UNDONE, error))
            }
            Undo::EndServersOf(pid) => end_left_by(*pid, EMPTY_LIMIT).map_err(|left| {
                let why = format!("processes {left:?} still run");
                Failure::text(exit::NOT_UNDONE, "end the servers that were started", why)
            }),
        }
    }
}

/// Parses `PID START OURS BEFORE`. Both CPU lists need at least one CPU.
fn restore_cpus(text: &str) -> Option<Undo> {
    let mut words = text.split(' ');
    let (pid, start_ticks) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut list = || CpuSet::parse_list(words.next()?).filter(|cpus| !cpus.is_empty());
    let (placed, cpus) = (list()?, list()?);
    let process = ProcessCpus { pid, start_ticks, cpus };
    words.next().is_none().then_some(Undo::RestoreCpus { process, placed })
}

fn restore(path: &Path, value: &str) -> Result<(), Failure> {
    let tried = || format!("write {value:?} back to {}", path.display());
    let mut why = "the kernel accepted it, but reads back another value".to_owned();
    for turn in 0..RESTORE_TRIES {
        if turn > 0 {
            clock::sleep_until_ns(clock::monotonic_ns() + RESTORE_PAUSE_NS);
        }
        // Open the file without creating it.
        // If the file is gone, for example because its CPU was removed, a plain file must not replace it.
        let written =
            std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
        match written {
            Ok(()) if reads(path, value) => return Ok(()),
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(not_undone(tried(), Errno::from(&error)));
            }
            Err(error) => why = Errno::from(&error).to_string(),
        }
    }
    Err(Failure::text(exit::NOT_UNDONE, tried(), why))
}

/// Whether the file has the value: as its only text,
/// as the bracketed word among several words, or with other white space between words.
/// Also true if the file can't be read.
fn reads(path: &Path, value: &str) -> bool {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LINE_BYTES_MAX).read_to_string(&mut text));
    let bracketed = format!("[{value}]");
    read.is_err()
        || text.split_whitespace().eq(value.split_whitespace())
        || text.split_whitespace().any(|word| word == bracketed)
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

/// Reads the changes to undo, until the command closes the pipe or ends.
fn listen(input: impl BufRead, mut answers: impl Write) -> Vec<Undo> {
    let mut undos = Vec::new();
    let mut input = input;
    loop {
        let mut line = String::new();
        match input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
            // The command was killed while it wrote an incomplete line.
            // It never received the answer, so it has not made that change.
            Ok(_) if !line.ends_with('\n') => return undos,
            Err(_) => return undos,
            Ok(_) => {}
        }
        let answer = match take(line.trim_end_matches('\n'), &mut undos) {
            Ok(()) => String::from_utf8_lossy(YES).into_owned(),
            Err(why) => format!("no: {why}\n"),
        };
        // If the command no longer reads, it is about to end.
        // The next read of the guard then returns the end of the pipe.
        let _ = answers.write_all(answer.as_bytes()).and_then(|()| answers.flush());
    }
}

/// Handles one line, which adds or removes a change to undo.
fn take(line: &str, undos: &mut Vec<Undo>) -> Result<(), &'static str> {
    if let Some(forgotten) = line.strip_prefix("forget ") {
        undos.retain(|undo| !matches!(undo, Undo::Restore { path, .. } if path == Path::new(forgotten)));
        return Ok(());
    }
    if undos.len() >= LINES_MAX {
        return Err("too many");
    }
    undos.push(Undo::parse(line)?);
    Ok(())
}

/// The command's handle of a running guard. Dropping it undoes the changes.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    line: Option<ChildStdin>,
    answers: ChildStdout,
}

impl Guard {
    /// Starts a guard.
    pub(crate) fn start() -> Result<Guard, Failure> {
        let failed = |why: String| Failure::text(exit::NOT_POSSIBLE, "start the process that puts things back", why);
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("guard").current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::detach(&mut command).spawn().map_err(|error| failed(error.to_string()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(line), Some(answers)) => Ok(Guard { child, line: Some(line), answers }),
            _ => Err(failed("it has no standard input or output".to_owned())),
        }
    }

    /// Registers an undo action with the guard. The command may make the change only after this call returns.
    pub(crate) fn hold(&mut self, undo: &Undo) -> Result<(), Failure> {
        self.send(&undo.line())
    }

    fn send(&mut self, line: &str) -> Result<(), Failure> {
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

    /// Ends the guard, and returns when the guard has restored everything.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        match self.finish() {
            Some(true) | None => Ok(()),
            Some(false) => {
                let error = anyhow::anyhow!("restore everything: the guard lists above what is left");
                Err(Failure::new(exit::NOT_UNDONE, error))
            }
        }
    }

    /// Whether the guard undid everything; `None` if it had ended before.
    fn finish(&mut self) -> Option<bool> {
        drop(self.line.take()?);
        Some(self.child.wait().is_ok_and(|status| status.success()))
    }
}

/// Lets a meter register its changes with the guard.
impl Keeper for Guard {
    fn keep(&mut self, path: &str, value: &str) -> Result<(), MeterError> {
        let undo = Undo::Restore { path: path.into(), value: value.to_owned() };
        self.hold(&undo)
            .map_err(|failure| MeterError::not_possible("register a value to restore", format!("{:#}", failure.error)))
    }

    fn forget(&mut self, path: &str) -> Result<(), MeterError> {
        let sent = self.send(&format!("forget {path}\n"));
        sent.map_err(|failure| {
            MeterError::not_possible("cancel the restore of a value", format!("{:#}", failure.error))
        })
    }

    fn end(self: Box<Self>) -> Result<(), MeterError> {
        let left = |failure: Failure| format!("{:#}", failure.error);
        Guard::end(*self)
            .map_err(|failure| MeterError::NotUndone { what: "undo what was changed".to_owned(), why: left(failure) })
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
            Undo::RestoreCpus {
                process: ProcessCpus { pid: 7, start_ticks: 99, cpus: CpuSet::from_iter(0..8) },
                placed: CpuSet::from_iter([0, 2]),
            },
            Undo::EndServersOf(4711),
        ];
        for undo in undos {
            assert_eq!(Undo::parse(undo.line().trim_end()), Ok(undo));
        }
    }

    #[test]
    fn forbidden_actions_are_refused() {
        let table = [
            "",
            "restore",
            "restore /proc/sys/vm/swappiness",
            "restore /etc/passwd root",
            "restore /proc/../etc/passwd root",
            "remove-cgroup /sys/fs/cgroup/cpu/docker",
            "remove-cgroup /home",
            "frobnicate /sys/x y",
            "end-servers-of init",
            "restore-cpus 7 99 0",
            "restore-cpus 7 99 0 ",
            "restore-cpus 7 99 0 0-1 2",
            "restore-cpus x 99 0 0-1",
        ];
        for line in table {
            assert!(Undo::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn forgotten_changes_are_not_restored() {
        let said = "restore /proc/sys/a 1\nrestore /proc/sys/b 2\nforget /proc/sys/a\n";
        let mut answers = Vec::new();
        let undos = listen(said.as_bytes(), &mut answers);
        assert_eq!(undos, [Undo::Restore { path: "/proc/sys/b".into(), value: "2".into() }]);
        assert_eq!(String::from_utf8(answers).unwrap(), "ok\nok\nok\n");
    }

    #[test]
    fn a_value_is_put_back_only_when_it_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("value");
        std::fs::write(&file, "always [madvise] never\n").unwrap();
        assert!(reads(&file, "madvise") && !reads(&file, "never"));
        std::fs::write(&file, "1\t2  3\n").unwrap();
        assert!(reads(&file, "1 2 3") && !reads(&file, "1 2"));
        std::fs::write(&file, "old\n").unwrap();
        restore(&file, "tsc").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "tsc\n");
        assert!(restore(&dir.path().join("gone"), "tsc").is_err());
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
