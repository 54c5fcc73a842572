//! `Protocol`: how to send requests to one kind of server, and how to recognize valid answers.
//! Parsers must accept any bytes, because the peer may be broken or may be another server.

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
    /// Why bytes are not a valid answer.
    OddAnswer
}

/// The maximum length of a valid answer, in bytes. Values have at most 512 KiB.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read a value.
    Get,
    /// Store a value.
    Set,
}

/// One request: an operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The number of the key.
    pub key: u32,
    /// The operation.
    pub kind: Kind,
}

/// The result of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The key has the expected value, compared byte by byte.
    Hit,
    /// The key has no value.
    Miss,
    /// The value was stored.
    Stored,
}

/// A complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The length of the answer in bytes.
    pub bytes: usize,
    /// The result of the answer.
    pub found: Found,
}

/// The format of requests and answers of one kind of server.
pub trait Protocol: Send + Sync {
    /// Appends the request to the bytes to send.
    fn ask(&self, op: Op, connection: u32, to: &mut Vec<u8>);

    /// Parses the answer to `op` at the start of the received bytes. `None` if the answer is incomplete.
    ///
    /// # Errors
    /// Returns why the bytes are not an answer to `op`.
    fn parse_answer(&self, op: Op, connection: u32, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer>;

    /// Exchanges the greeting of a new connection, before the first request. The stream is blocking and has time limits.
    ///
    /// # Errors
    /// Returns what went wrong.
    fn greet(&self, connection: u32, stream: &mut TcpStream) -> Result<(), OddAnswer> {
        let _ = (connection, stream);
        Ok(())
    }

    /// The number of values to store before the first window. It is 0 if the server already has the values.
    fn prefill(&self) -> u32 {
        0
    }
}

/// The first line of `bytes` without its end, and the start of the next line. `None` if the line is incomplete.
///
/// # Errors
/// Fails if no line ends within `longest` bytes.
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

/// Bytes from the server as text for an error message: short, and without control characters.
pub(crate) fn said(bytes: &[u8]) -> String {
    let start = bytes.get(..80.min(bytes.len())).unwrap_or_default();
    let text: String = start.escape_ascii().map(char::from).take(120).collect();
    format!("got \"{text}\"")
}

/// Parses a whole number that consists only of decimal digits. None otherwise.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}
