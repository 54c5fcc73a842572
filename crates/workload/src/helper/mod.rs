//! The helper processes of the built-in workloads: a server and its load, each started with `evenkeel helper …`.
//! A helper prints its address, and then answers each line of JSON with another line.
//! Helpers are separate processes, not threads of the trial. So each helper has its own memory, scheduling and end, like a user's server.

mod drain;
mod echo;

use std::io::{self, BufRead, Read, Write};
use std::net::SocketAddr;

use evenkeel_stats::Histogram;
use evenkeel_sys::clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::only_shown;

pub use drain::{DrainLoad, DrainServer, DrainSettings};
pub use echo::{EchoLoad, EchoServer, EchoSettings};

/// The maximum length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// A command to a helper process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Report the values since the last report.
    Window,
    /// Close the socket. Nothing is sent or served until another socket is opened.
    Close,
    /// Open a new socket.
    Open {
        /// The server's address. Only a load needs it.
        #[serde(default)]
        to: Option<SocketAddr>,
    },
    /// Set the timer slack of the waiting thread. The process sets its own slack, which needs no privilege.
    TimerSlackNs {
        /// The timer slack in nanoseconds. `None` reads it without changing it.
        value: Option<u64>,
    },
}

only_shown! {
    /// Why a helper did not carry out a command.
    HelperError
}

/// A helper process of a workload: a server, a load, or a loop of its own.
pub trait Helper {
    /// The first line that the helper prints, which shows that it is ready.
    fn ready(&self) -> Value {
        json!({ "event": "ready" })
    }

    /// The values since the last report.
    fn window(&mut self) -> Map<String, Value>;

    /// Closes the socket. Nothing is sent or served until another socket is opened.
    ///
    /// # Errors
    /// Fails if the helper has no socket.
    fn close(&mut self) -> Result<(), HelperError>;

    /// Opens a new socket. A load connects to the server at `to`. A server returns its new address.
    ///
    /// # Errors
    /// Fails if the socket cannot be opened, or if a load got no address.
    fn open(&mut self, to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError>;

    /// Sets the timer slack of the waiting thread, unless the value is None. Returns the slack that is in effect.
    ///
    /// # Errors
    /// Fails if the slack cannot be set, or if this helper does not support it.
    fn timer_slack_ns(&mut self, _value: Option<u64>) -> Result<u64, HelperError> {
        Err("it is set from outside".into())
    }

    /// Executes a command.
    ///
    /// # Errors
    /// Returns why the command failed.
    fn answer(&mut self, command: Command) -> Result<Value, HelperError> {
        match command {
            Command::Window => Ok(Value::Object(self.window())),
            Command::Close => self.close().map(|()| json!({})),
            Command::Open { to } => self.open(to).map(Value::Object),
            Command::TimerSlackNs { value } => Ok(json!({ "timer_slack_ns": self.timer_slack_ns(value)? })),
        }
    }
}

/// The answer with this address.
fn address(address: &SocketAddr) -> Map<String, Value> {
    Map::from_iter([("addr".to_owned(), json!(address))])
}

/// The address of the server, which a load must have.
fn target(to: Option<SocketAddr>) -> Result<SocketAddr, HelperError> {
    to.ok_or_else(|| "load needs to know where to".into())
}

/// The error for a socket that can't be opened.
fn no_socket(error: io::Error) -> HelperError {
    format!("open a socket: {error}").into()
}

/// Prints the first line of a helper, and then answers commands until the input ends. An invalid line gets an answer that says so.
///
/// # Errors
/// Fails if reading or answering fails, because the parent process has ended.
pub fn serve(helper: &mut dyn Helper, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut say = |value: &Value| writeln!(output, "{value}").and_then(|()| output.flush());
    say(&helper.ready())?;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let command =
            serde_json::from_slice(&line).map_err(|error| HelperError::from(format!("it is not a command: {error}")));
        let answer = command.and_then(|command| helper.answer(command));
        say(&answer.unwrap_or_else(|why| json!({ "error": why.to_string() })))?;
    }
}

/// The start of a window: the monotonic clock and the process's CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    at_ns: u64,
    cpu_ns: u64,
}

impl Since {
    /// A window that begins now.
    pub fn now() -> Since {
        Since { at_ns: clock::monotonic_ns(), cpu_ns: clock::process_cpu_ns() }
    }

    /// The length of the window and the CPU time in it, in microseconds. Also begins the next window.
    pub fn turn(&mut self) -> Map<String, Value> {
        let before = std::mem::replace(self, Since::now());
        let us = |now: u64, before: u64| json!(now.saturating_sub(before) as f64 / 1e3);
        let spans = [("span_us", us(self.at_ns, before.at_ns)), ("cpu_us", us(self.cpu_ns, before.cpu_ns))];
        spans.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The quantiles of a histogram that all workloads report, in microseconds. Null if the histogram is empty.
pub fn quantiles(histogram: &Histogram) -> Value {
    let us = |q| histogram.quantile(q).map(|ns| ns as f64 / 1e3);
    match (us(0.5), us(0.9), us(0.99)) {
        (Some(p50), Some(p90), Some(p99)) => json!({ "p50": p50, "p90": p90, "p99": p99 }),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Parrot;

    impl Helper for Parrot {
        fn window(&mut self) -> Map<String, Value> {
            Map::new()
        }

        fn close(&mut self) -> Result<(), HelperError> {
            Err("there is nothing to close".into())
        }

        fn open(&mut self, to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError> {
            target(to).map(|to| address(&to))
        }
    }

    fn answers_to(input: &[u8]) -> Vec<String> {
        let mut output = Vec::new();
        serve(&mut Parrot, input, &mut output).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_gets_a_line() {
        let table = [
            (r#"{"cmd":"window"}"#, "{}"),
            (r#"{"cmd":"open","to":"127.0.0.1:9"}"#, r#"{"addr":"127.0.0.1:9"}"#),
            (r#"{"cmd":"open"}"#, r#"{"error":"load needs to know where to"}"#),
            (r#"{"cmd":"timer_slack_ns","value":1}"#, r#"{"error":"it is set from outside"}"#),
            (r#"{"cmd":"close"}"#, r#"{"error":"there is nothing to close"}"#),
        ];
        for (line, answer) in table {
            assert_eq!(answers_to(line.as_bytes()), [r#"{"event":"ready"}"#, answer], "{line}");
        }
        let long = [b'x'; 3 * LINE_BYTES_MAX as usize];
        for odd in [&b"{"[..], b"\xff\n", b"{\"cmd\":\"fly\"}\n", b"\n", &long] {
            let lines = answers_to(odd);
            assert!(lines.len() > 1 && lines[1].starts_with(r#"{"error":"it is not a command: "#), "{lines:?}");
        }
    }
}
