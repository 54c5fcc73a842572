//! Runs this program as a command and reads its answer, with limits on size and time.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use evenkeel_sys::process;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::tools::Wanted;
use crate::args::{HostArgs, StateArgs};

/// The maximum length of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The maximum length of an error text.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// The time between SIGTERM and SIGKILL. In this time, a meter answers with its measurements so far.
const GRACE: Duration = Duration::from_secs(5);

/// This program, with the machine and the journal of the server.
pub(super) struct Program {
    path: PathBuf,
    host: Vec<OsString>,
    state: Vec<OsString>,
}

impl Program {
    pub(super) fn this(host: &HostArgs, state: &StateArgs) -> io::Result<Program> {
        let option = |name: &str, value: &Option<PathBuf>| -> Vec<OsString> {
            value.iter().flat_map(|value| [OsString::from(name), value.clone().into()]).collect()
        };
        let host = [option("--host", &host.host), option("--root", &host.root)].concat();
        Ok(Program { path: std::env::current_exe()?, host, state: option("--state", &state.state) })
    }

    /// Runs a command that only reads.
    /// The command ends with this program, at its time limit, or when the caller drops the future.
    pub(super) async fn read(&self, wanted: &Wanted) -> CallToolResult {
        let mut command = self.command(wanted);
        command.kill_on_drop(true);
        process::die_with_parent(command.as_std_mut());
        match command.spawn() {
            Ok(mut child) => {
                // If a command ends before it has read everything, its pipe closes.
                // Ignore that, because its answer gives the reason.
                let to = child.stdin.take();
                let write = async {
                    if let (Some(mut to), Some(text)) = (to, &wanted.input) {
                        let _ = to.write_all(text.as_bytes()).await;
                    }
                };
                tokio::join!(write, finish(child, wanted.limit)).1
            }
            Err(error) => not_run(&error),
        }
    }

    /// Runs a command that changes the machine. Nothing else ends the command.
    pub(super) async fn change(&self, wanted: &Wanted) -> CallToolResult {
        match self.command(wanted).spawn() {
            Ok(child) => finish(child, Duration::MAX).await,
            Err(error) => not_run(&error),
        }
    }

    fn command(&self, wanted: &Wanted) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--json").args(&wanted.words);
        if wanted.takes_host {
            command.args(&self.host);
        }
        if wanted.takes_state {
            command.args(&self.state);
        }
        command.args(&wanted.last);
        let input = if wanted.input.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn not_run(error: &io::Error) -> CallToolResult {
    failed(format!("failed to start the command: {error}"))
}

fn failed(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

async fn finish(mut child: Child, limit: Duration) -> CallToolResult {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = async {
        let (answer, error) = tokio::join!(capped(stdout, ANSWER_BYTES_MAX), capped(stderr, ERROR_BYTES_MAX));
        (answer, error)
    };
    tokio::pin!(answer);
    let (answer, error) = match timeout(limit, &mut answer).await {
        Ok(read) => read,
        Err(_) => {
            if let Some(id) = child.id() {
                process::ask_to_end(id);
            }
            match timeout(GRACE, &mut answer).await {
                Ok(read) => read,
                Err(_) => {
                    // If this fails, it has ended.
                    let _ = child.start_kill();
                    return failed(format!("the command did not end within {} s", limit.as_secs()));
                }
            }
        }
    };
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        let _ = child.start_kill();
        return failed(format!("the answer is longer than {} MiB", ANSWER_BYTES_MAX >> 20));
    }
    let ended = child.wait().await;
    match serde_json::from_slice::<Value>(&answer) {
        Ok(answer) if answer.get("error").is_some() => CallToolResult::structured_error(answer),
        Ok(answer) if answer.is_object() => CallToolResult::structured(answer),
        _ => {
            let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            failed(format!("the command gave no answer ({how}): {}", String::from_utf8_lossy(&error).trim()))
        }
    }
}

/// Reads a stream, up to one byte more than the limit.
async fn capped(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // If reading fails, use the bytes before the error.
        let _ = (&mut stream).take(limit + 1).read_to_end(&mut bytes).await;
        if bytes.len() as u64 <= limit {
            return bytes;
        }
        // A command must not wait for a reader, so read and discard everything beyond the limit.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    bytes
}
