//! A server or bots process for the tests. It exchanges lines within a time limit, and leaves no process behind.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

/// The time limit for a hang only: a busy machine may keep a program waiting for long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    pub(crate) fn start(path: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { stdin: child.stdin.take(), child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn next_text(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    pub(crate) fn next_line<T: DeserializeOwned>(&self) -> T {
        let line = self.next_text();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub(crate) fn ask<T: DeserializeOwned>(&mut self, line: &str) -> T {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.next_line()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until the program ends. The caller must have asked it to end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the program did not end");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program has usually ended already. Wait in any case, so that no zombie stays.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
