//! The command to record. It starts when all events are open, and the recording ends when the command ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_sys::suspended_child::{Running, SuspendedChild};

use crate::exit;
use crate::failure::Failure;
use crate::show::Out;

/// The time from SIGTERM to SIGKILL.
const END_WITHIN: Duration = Duration::from_secs(5);
/// The size in bytes of the pieces in which evenkeel searches a longer line.
const LINE_BYTES: u64 = 1 << 16;

/// The recorded command.
pub(super) struct Child {
    name: String,
    state: State,
    status: Option<ExitStatus>,
    /// The text to look for in the output, and a flag. The flag is set if a line contains the text.
    watched: Option<(String, Arc<AtomicBool>)>,
    /// The destination of the output while evenkeel searches its lines.
    passes_to: fn() -> Box<dyn Write>,
    reader: Option<std::thread::JoinHandle<()>>,
}

enum State {
    SuspendedChild(SuspendedChild),
    Runs(Running),
    Over,
}

impl Child {
    /// Creates the process, which starts later.
    /// With --json, its output goes to standard error, so that standard output contains only the answer.
    pub(super) fn hold(
        words: &[String],
        line: Option<&str>,
        pulled: &Arc<AtomicBool>,
        out: &Out,
    ) -> Result<Child, Failure> {
        let (name, arguments) =
            words.split_first().ok_or_else(|| Failure::text(exit::WRONG_USE, "start the command", "none is given"))?;
        let mut command = Command::new(name);
        command.args(arguments);
        if line.is_some() {
            command.stdout(Stdio::piped());
        } else if out.is_json() {
            command.stdout(std::io::stderr());
        }
        let held = SuspendedChild::new(command).map_err(|error| not_started(name, &error))?;
        let watched = line.map(|line| (line.to_owned(), Arc::clone(pulled)));
        let passes_to: fn() -> Box<dyn Write> =
            if out.is_json() { || Box::new(std::io::stderr()) } else { || Box::new(std::io::stdout()) };
        Ok(Child {
            name: name.clone(),
            state: State::SuspendedChild(held),
            status: None,
            watched,
            passes_to,
            reader: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        match &self.state {
            State::SuspendedChild(held) => held.pid(),
            State::Runs(running) => running.pid(),
            State::Over => 0,
        }
    }

    /// Starts the command at the first call. Returns whether the command still runs.
    pub(super) fn goes_on(&mut self) -> Result<bool, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::SuspendedChild(held) => {
                let (running, stdout) = held.start().map_err(|error| not_started(&self.name, &error))?;
                self.state = State::Runs(running);
                if let Some((stdout, (text, pulled))) = stdout.zip(self.watched.take()) {
                    let to = self.passes_to;
                    self.reader = Some(std::thread::spawn(move || pass_on(stdout, &mut to(), &text, &pulled)));
                }
                Ok(true)
            }
            State::Runs(running) => match running.ended() {
                Some(status) => {
                    self.status = status.ok();
                    Ok(false)
                }
                None => {
                    self.state = State::Runs(running);
                    Ok(true)
                }
            },
            State::Over => Ok(false),
        }
    }

    /// Ends the command if it still runs. Returns its exit status.
    pub(super) fn finish(mut self) -> Option<ExitStatus> {
        if let State::Runs(running) = &self.state {
            self.status = running.end(END_WITHIN).and_then(Result::ok);
        }
        // Do not wait for the end of the output: a process that inherited the output may keep it open.
        if self.status.is_some()
            && let Some(reader) = self.reader.take_if(|reader| reader.is_finished())
        {
            let _ = reader.join();
        }
        self.status
    }
}

/// Copies the output, and looks for the text in each line.
fn pass_on(stdout: ChildStdout, to: &mut dyn Write, text: &str, pulled: &AtomicBool) {
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if String::from_utf8_lossy(&line).contains(text) {
            pulled.store(true, Ordering::Relaxed);
        }
        let _ = to.write_all(&line).and_then(|()| to.flush());
    }
}

fn not_started(name: &str, error: &std::io::Error) -> Failure {
    Failure::io(exit::WRONG_USE, format!("start {name}"), error)
}
