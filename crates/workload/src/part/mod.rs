//! The built-in workloads' own processes: a server and its load, each started by `evenkeel part …`, which say where they
//! listen, and then take a line of JSON and answer with one. They are processes, not threads of the trial, so that they have
//! memory, scheduling and an end of their own as a user's server has.

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

/// The longest line that is heard, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// What a part is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Its numbers since it was asked last.
    Window,
    /// Stop what the socket is for, until it is opened anew.
    Close,
    /// A new socket; load is told where to.
    Open {
        /// Where the server listens.
        #[serde(default)]
        to: Option<SocketAddr>,
    },
    /// Sets the timer slack of the thread that waits, by itself, which needs no right.
    TimerSlackNs {
        /// In nanoseconds; none only asks.
        value: Option<u64>,
    },
}

only_shown! {
    /// What a part was asked for and did not do.
    PartError
}

/// One process of a workload.
pub trait Part {
    /// The first line: it serves.
    fn ready(&self) -> Value;

    /// Does as asked.
    ///
    /// # Errors
    /// Why not.
    fn answer(&mut self, command: Command) -> Result<Value, PartError>;
}

/// Says that it is ready, and answers until the input ends. A line that can't be understood gets an answer that says so.
///
/// # Errors
/// If it can't be read or answered any more: whoever asked has gone.
pub fn serve(part: &mut dyn Part, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut say = |value: &Value| writeln!(output, "{value}").and_then(|()| output.flush());
    say(&part.ready())?;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let command =
            serde_json::from_slice(&line).map_err(|error| PartError::from(format!("it is no command: {error}")));
        let answer = command.and_then(|command| part.answer(command));
        say(&answer.unwrap_or_else(|why| json!({ "error": why.to_string() })))?;
    }
}

/// Where a window began: the monotonic clock and the process's CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    at_ns: u64,
    cpu_ns: u64,
}

impl Since {
    /// A window begins now.
    pub fn now() -> Since {
        Since { at_ns: clock::monotonic_ns(), cpu_ns: clock::process_cpu_ns() }
    }

    /// How long it was and what CPU time it took, in microseconds; the next begins.
    pub fn turn(&mut self) -> Map<String, Value> {
        let before = std::mem::replace(self, Since::now());
        let us = |now: u64, before: u64| json!(now.saturating_sub(before) as f64 / 1e3);
        let spans = [("span_us", us(self.at_ns, before.at_ns)), ("cpu_us", us(self.cpu_ns, before.cpu_ns))];
        spans.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The quantiles of a histogram that every workload tells, in microseconds; an empty one tells none.
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

    impl Part for Parrot {
        fn ready(&self) -> Value {
            json!({ "event": "ready" })
        }

        fn answer(&mut self, command: Command) -> Result<Value, PartError> {
            match command {
                Command::Close => Err("there is nothing to close".into()),
                command => Ok(json!(format!("{command:?}"))),
            }
        }
    }

    fn told(input: &[u8]) -> Vec<String> {
        let mut output = Vec::new();
        serve(&mut Parrot, input, &mut output).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_gets_a_line() {
        let table = [
            (r#"{"cmd":"window"}"#, r#""Window""#),
            (r#"{"cmd":"open","to":"127.0.0.1:9"}"#, r#""Open { to: Some(127.0.0.1:9) }""#),
            (r#"{"cmd":"open"}"#, r#""Open { to: None }""#),
            (r#"{"cmd":"close"}"#, r#"{"error":"there is nothing to close"}"#),
        ];
        for (line, answer) in table {
            assert_eq!(told(line.as_bytes()), [r#"{"event":"ready"}"#, answer], "{line}");
        }
        let long = [b'x'; 3 * LINE_BYTES_MAX as usize];
        for odd in [&b"{"[..], b"\xff\n", b"{\"cmd\":\"fly\"}\n", b"\n", &long] {
            let lines = told(odd);
            assert!(lines.len() > 1 && lines[1].starts_with(r#"{"error":"it is no command: "#), "{lines:?}");
        }
    }
}
