//! A child program that answers each line of JSON with another line.
//! All waits have a limit, because a trial must not hang if the child hangs.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use evenkeel_sys::{CpuSet, Errno, clock, process};
use serde_json::Value;

use crate::error::WorkloadError;
use crate::workload::Sample;

/// The maximum length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 256 << 10;
/// The maximum number of lines in the queue.
const LINES_WAITING_MAX: usize = 16;
/// How long a program may take to end after a request.
const END_TIME: Duration = Duration::from_secs(2);

/// A running child. The child is killed when this process ends, and when this value is dropped.
#[derive(Debug)]
pub(crate) struct Conversation {
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// How long the child may take to end after its input is closed, and again after SIGTERM.
    end_time: Duration,
}

/// A program to start.
pub(crate) struct Program<'a> {
    pub(crate) name: &'static str,
    pub(crate) path: &'a Path,
    pub(crate) arguments: Vec<String>,
    /// The CPUs on which the program may run. An empty set means all CPUs of this process.
    pub(crate) cpus: CpuSet,
}

impl Conversation {
    pub(crate) fn start(program: &Program<'_>) -> Result<Conversation, WorkloadError> {
        let failed = |why: String| WorkloadError::Start { program: program.path.display().to_string(), why };
        let mut command = Command::new(program.path);
        command.args(&program.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        process::die_with_parent(&mut command);
        if !program.cpus.is_empty() {
            process::run_on(&mut command, &program.cpus).map_err(|errno| failed(errno.to_string()))?;
        }
        let mut child = command.spawn().map_err(|error| failed(Errno::from(&error).to_string()))?;
        let stdin = child.stdin.take();
        let Some(stdout) = child.stdout.take() else { return Err(failed("it has no output".into())) };
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        // The thread ends with the child's output, or when the receiver is gone.
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = String::new();
            while reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Ok(Conversation { name: program.name, child, stdin, lines, end_time: END_TIME })
    }

    /// Returns the next line of the child. Waits at most `limit` for the line.
    pub(crate) fn hear(&mut self, limit: Duration) -> Result<Value, WorkloadError> {
        let line = match self.lines.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(self.error(format!("it printed nothing for {limit:?}"))),
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.wait(Duration::from_millis(500)).unwrap_or_else(|| "it closed its output".into());
                return Err(self.error(how));
            }
        };
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| self.error(format!("it printed {:?}, which is not JSON: {error}", shorten(&line))))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(self.error(format!("it answered {:?}", shorten(error)))),
            None => Ok(answer),
        }
    }

    pub(crate) fn ask(&mut self, command: &Value, limit: Duration) -> Result<Value, WorkloadError> {
        let line = format!("{command}\n");
        let written = self.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
        match written {
            Some(Ok(())) => self.hear(limit),
            // The child's last line, or its exit status, explains more than "broken pipe".
            _ => match self.hear(Duration::from_millis(500)) {
                Ok(answer) => Err(self.error(format!("it no longer reads commands; its last answer: {answer}"))),
                Err(error) => Err(error),
            },
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn error(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::Program { program: self.name.to_owned(), why: why.into() }
    }

    /// Closes the child's input, which makes the child end. If the child does not end, sends SIGTERM, and then SIGKILL.
    pub(crate) fn stop(&mut self) {
        drop(self.stdin.take());
        if self.wait(self.end_time).is_none() {
            process::ask_to_end(self.child.id());
            if self.wait(self.end_time).is_none() {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }

    /// Waits at most `limit` for the child to end. Returns how it ended.
    fn wait(&mut self, limit: Duration) -> Option<String> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(format!("it ended ({status})")),
                Ok(None) if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.stop();
    }
}

fn shorten(text: &str) -> String {
    text.trim().chars().take(200).collect()
}

/// Sleeps until an absolute time, so that signals and late starts do not lengthen the window.
pub(crate) fn sleep(duration: Duration) {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    clock::sleep_until_ns(clock::monotonic_ns().saturating_add(ns));
}

/// Adds every number of an answer to the sample, by name. A number in a nested object has both names, joined: `round_trip_us_p50`.
pub(crate) fn flatten(prefix: &str, answer: &Value, sample: &mut Sample) {
    for (name, value) in answer.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => flatten(&format!("{prefix}{name}_"), value, sample),
            _ => {
                if let Some(number) = value.as_f64() {
                    sample.insert(format!("{prefix}{name}"), number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A time limit, so that a failing test does not hang.
    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Conversation {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        let program = Program { name: "shell", path: Path::new("/bin/sh"), arguments, cpus: CpuSet::default() };
        let mut conversation = Conversation::start(&program).unwrap();
        conversation.end_time = Duration::from_millis(50);
        conversation
    }

    #[test]
    fn a_question_gets_its_answer() {
        let mut echo = shell("while read line; do echo \"$line\"; done");
        assert_eq!(echo.ask(&json!({"cmd": "window"}), LIMIT).unwrap(), json!({"cmd": "window"}));
        echo.stop();
    }

    #[test]
    fn errors_are_reported() {
        let table = [
            ("exit 3", "measure shell: it ended (exit status: 3)"),
            ("echo '{'; sleep 9", "measure shell: it printed \"{\", which is not JSON"),
            ("echo '{\"error\":\"no\"}'; sleep 9", "measure shell: it answered \"no\""),
            ("kill -9 $$", "measure shell: it ended (signal: 9 (SIGKILL))"),
        ];
        for (script, expected) in table {
            let message = shell(script).hear(LIMIT).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{script}: {message}");
        }
        let message = shell("sleep 9").hear(Duration::from_millis(20)).unwrap_err().to_string();
        assert_eq!(message, "measure shell: it printed nothing for 20ms");
    }

    #[test]
    fn a_server_that_ignores_signals_is_killed() {
        let mut deaf = shell("trap '' TERM; sleep 30 & wait; wait");
        let begun = Instant::now();
        deaf.stop();
        assert!(deaf.child.try_wait().unwrap().is_some(), "it has ended after {:?}", begun.elapsed());
    }

    #[test]
    fn a_missing_program_is_named() {
        let path = Path::new("/nowhere/evenkeel-arena");
        let program = Program { name: "arena", path, arguments: Vec::new(), cpus: CpuSet::default() };
        let message = Conversation::start(&program).err().map(|error| error.to_string());
        assert_eq!(message.as_deref(), Some("start /nowhere/evenkeel-arena: no such file or directory (ENOENT)"));
    }
}
