//! `Protocol`: how one kind of server is asked and how its answers are told from what is none. Parsers take any bytes: what stands at the other
//! end may be broken, another server, or none.

use std::net::TcpStream;

use crate::error::only_shown;

mod http;
mod memcached;
mod mqtt;
mod redis;

pub use http::Http;
pub use memcached::Memcached;
pub use mqtt::Mqtt;
pub use redis::Redis;

only_shown! {
    /// What came instead of an answer.
    OddAnswer
}

/// An answer longer than this is none, in bytes: values have 512 KiB at the most.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value.
    Get,
    /// To store one.
    Set,
}

/// One request: what of which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Which key, by its number.
    pub key: u32,
    /// What of it.
    pub kind: Kind,
}

/// What an answer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The value that was stored, looked at byte by byte.
    Hit,
    /// There is no such value.
    Miss,
    /// It was stored.
    Stored,
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How many bytes of what was received it took.
    pub bytes: usize,
    /// What it said.
    pub found: Found,
}

/// What a kind of server is asked, and what it answers.
pub trait Protocol: Send + Sync {
    /// Appends the request to what a connection sends.
    fn ask(&self, op: Op, connection: u32, to: &mut Vec<u8>);

    /// Reads the answer to `op` at the start of what a connection received. `None` if it is not whole yet.
    ///
    /// # Errors
    /// Why it is no answer to that.
    fn parse_answer(&self, op: Op, connection: u32, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer>;

    /// What a new connection must say and hear before the first request. The stream blocks, with limits of time.
    ///
    /// # Errors
    /// What went wrong.
    fn greet(&self, connection: u32, stream: &mut TcpStream) -> Result<(), OddAnswer> {
        let _ = (connection, stream);
        Ok(())
    }

    /// How many values there are to be stored before the first window; 0 for a server that brings its own.
    fn prefill(&self) -> u32 {
        0
    }
}

/// The first line of `bytes`, without its end, and where the next one starts; `None` if its end is not there yet.
///
/// # Errors
/// If it has no end within `longest` bytes.
pub(crate) fn line(bytes: &[u8], longest: usize) -> Result<Option<(&[u8], usize)>, OddAnswer> {
    let near = bytes.get(..longest.min(bytes.len())).unwrap_or(bytes);
    match near.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let text = near.get(..end).unwrap_or_default();
            Ok(Some((text.strip_suffix(b"\r").unwrap_or(text), end + 1)))
        }
        None if bytes.len() >= longest => Err(said(bytes).into()),
        None => Ok(None),
    }
}

/// What a server said instead of an answer, fit for an error: short, and without control characters.
pub(crate) fn said(bytes: &[u8]) -> String {
    let start = bytes.get(..80.min(bytes.len())).unwrap_or_default();
    let text: String = start.escape_ascii().map(char::from).take(120).collect();
    format!("got \"{text}\"")
}

/// A whole number in decimal digits and nothing else.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}
