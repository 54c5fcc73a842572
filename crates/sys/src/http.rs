//! The reader of HTTP/1.x answers. It limits the bytes and the time of an answer, because any program may listen at the other end.
//!
//! [`Head`] and [`Reader`] are pure: bytes in, an answer or an error out. [`exchange`] drives them over a connection until a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::{self, MaybeUninit};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use httparse::{ParserConfig, Status};

/// The maximum number of bytes of a head, of the trailer of a chunked body, or of the line before a chunk.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// The maximum number of headers in a head or trailer.
const HEADERS_MAX: usize = 100;

/// The maximum number of interim answers (1xx) before the final answer.
const INTERIM_MAX: u32 = 4;

/// What is wrong with an answer.
///
/// ```
/// use evenkeel_sys::http::BadAnswer;
///
/// assert_eq!(BadAnswer::BodyTooLong { bytes_max: 256 << 10 }.to_string(), "the answer has more than 256 KiB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// The answer does not start with `HTTP/1.0 NNN` or `HTTP/1.1 NNN`.
    #[error("the answer is not HTTP/1.x")]
    StatusLine,
    /// A header or trailer that RFC 9112 does not allow.
    #[error("the answer has an invalid header")]
    Header,
    /// The head or trailer is too long, or too many interim answers came first.
    #[error("the answer has more than {} KiB or {HEADERS_MAX} lines of headers", HEAD_BYTES_MAX >> 10)]
    HeadTooLong,
    /// The length of the body is not a number, appears twice, or depends on an unknown coding.
    #[error("the answer does not give one valid length of its body")]
    Length,
    /// A body that is longer than the caller accepts.
    #[error("the answer has more than {} KiB", bytes_max >> 10)]
    BodyTooLong {
        /// The maximum length that the caller accepts, in bytes.
        bytes_max: usize,
    },
    /// The size of a chunk is not a number, or the chunk does not end where its size says.
    #[error("the answer has an invalid chunk")]
    Chunk,
    /// The connection closed before the answer was complete.
    #[error("the connection closed within the answer")]
    Ended,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection failed. The kind is `TimedOut` if the deadline passed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server's bytes are not a valid answer.
    #[error(transparent)]
    BadAnswer(#[from] BadAnswer),
}

/// How a head says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body ends after this many bytes.
    Length(usize),
    /// The body ends with the last chunk.
    Chunks,
    /// The body ends when the connection closes.
    Close,
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The status, from 100 to 599.
    pub status: u16,
    /// The reason phrase, often empty.
    pub reason: &'a str,
    /// Where the body ends.
    pub framing: Framing,
    /// Whether the server accepts another request on this connection.
    pub keeps_open: bool,
    /// The `Content-Encoding`, if it is not `identity`.
    pub encoding: Option<&'a [u8]>,
    /// The length of the head itself, in bytes.
    pub bytes: usize,
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status, from 200 to 599.
    pub status: u16,
    /// The reason phrase, often empty.
    pub reason: String,
    /// The `Content-Encoding`, if it is not `identity`.
    pub encoding: Option<String>,
    /// The body, without the lines of chunks.
    pub body: Vec<u8>,
}

/// Parses one answer from pieces of any length.
#[derive(Debug)]
pub struct Reader {
    body_bytes_max: usize,
    /// Received bytes that are too few to parse: fewer than [`HEAD_BYTES_MAX`].
    pending: Vec<u8>,
    used: usize,
    interim: u32,
    next: Next,
    answer: Answer,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Head,
    Body { left: usize },
    ChunkSize,
    Chunk { left: usize },
    ChunkEnd,
    Trailer,
    UntilClose,
    Nothing,
}

impl Head<'_> {
    /// Parses the head at the start of `bytes`. `None` if the head is incomplete.
    ///
    /// # Errors
    /// If the bytes cannot become a valid head, whatever bytes follow.
    pub fn parse(bytes: &[u8]) -> Result<Option<Head<'_>>, BadAnswer> {
        let near = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parser = ParserConfig::default();
        let bytes = match parser.parse_response_with_uninit_headers(&mut response, near, &mut headers)? {
            Status::Complete(bytes) => bytes,
            Status::Partial if near.len() < HEAD_BYTES_MAX => return Ok(None),
            Status::Partial => return Err(BadAnswer::HeadTooLong),
        };
        let status = response.code.filter(|status| (100..600).contains(status)).ok_or(BadAnswer::StatusLine)?;
        let mut framing = None;
        let mut keeps_open = response.version == Some(1);
        let mut encoding = None;
        for header in response.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") || is("transfer-encoding") {
                let this = if is("content-length") { parse_length(header.value) } else { parse_coding(header.value) };
                // If an answer has two different lengths, another reader may use the length that this reader ignores. So refuse the answer.
                if framing.is_some_and(|other| this != Some(other) || other == Framing::Chunks) {
                    return Err(BadAnswer::Length);
                }
                framing = Some(this.ok_or(BadAnswer::Length)?);
            } else if is("connection") {
                for option in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    keeps_open |= option.eq_ignore_ascii_case(b"keep-alive");
                    keeps_open &= !option.eq_ignore_ascii_case(b"close");
                }
            } else if is("content-encoding") && !header.value.eq_ignore_ascii_case(b"identity") {
                encoding = Some(header.value);
            }
        }
        // Answers with these statuses never have a body, regardless of the headers.
        let framing = match status {
            100..200 | 204 | 304 => Framing::Length(0),
            _ => framing.unwrap_or(Framing::Close),
        };
        Ok(Some(Head { status, reason: response.reason.unwrap_or_default(), framing, keeps_open, encoding, bytes }))
    }
}

fn parse_length(value: &[u8]) -> Option<Framing> {
    // Check the digits first, because `usize` also parses a sign.
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(Framing::Length)
}

fn parse_coding(value: &[u8]) -> Option<Framing> {
    value.eq_ignore_ascii_case(b"chunked").then_some(Framing::Chunks)
}

impl From<httparse::Error> for BadAnswer {
    fn from(error: httparse::Error) -> BadAnswer {
        use httparse::Error;
        match error {
            Error::HeaderName | Error::HeaderValue => BadAnswer::Header,
            Error::TooManyHeaders => BadAnswer::HeadTooLong,
            Error::NewLine | Error::Status | Error::Token | Error::Version => BadAnswer::StatusLine,
        }
    }
}

impl Reader {
    /// A reader that accepts a body of at most `body_bytes_max`.
    pub fn new(body_bytes_max: usize) -> Reader {
        Reader { body_bytes_max, pending: Vec::new(), used: 0, interim: 0, next: Next::Head, answer: Answer::default() }
    }

    /// Takes the next bytes, and returns the answer once it is complete. Ignores bytes after the end of the answer.
    ///
    /// # Errors
    /// If the bytes are not a valid answer, or exceed a limit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Answer>, BadAnswer> {
        let is_line = !self.pending.is_empty() && self.next != Next::ChunkEnd;
        if is_line && !bytes.contains(&b'\n') && self.pending.len() + bytes.len() < HEAD_BYTES_MAX {
            // Wait for the end of the line. Otherwise a server that sends single bytes would make us parse its head again for each byte.
            self.pending.extend_from_slice(bytes);
            return Ok(None);
        }
        let mut joined = mem::take(&mut self.pending);
        let mut rest = bytes;
        if !joined.is_empty() {
            joined.extend_from_slice(bytes);
            rest = &joined;
        }
        while self.next != Next::Nothing {
            let Some(used) = self.step(rest)? else {
                self.pending = rest.to_vec();
                return Ok(None);
            };
            rest = &rest[used..];
            // Lines between chunks count too. Otherwise a body of tiny chunks would cost far more than its limit.
            self.used += used;
            if self.used > 2 * (HEAD_BYTES_MAX + self.body_bytes_max) {
                return Err(self.too_long());
            }
        }
        Ok(Some(mem::take(&mut self.answer)))
    }

    /// Handles the end of the connection, which completes an answer only if its head gives no length.
    ///
    /// # Errors
    /// If the answer is not complete.
    pub fn end(self) -> Result<Answer, BadAnswer> {
        if self.next == Next::UntilClose { Ok(self.answer) } else { Err(BadAnswer::Ended) }
    }

    /// Parses one part and returns its length, or `None` if it needs more bytes. If a step consumes no bytes, the next step does.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadAnswer> {
        match self.next {
            Next::Head => self.head(bytes),
            Next::Body { left: 0 } => Ok(self.go_on(Next::Nothing, 0)),
            Next::Body { left } => self.body(bytes, left, |left| Next::Body { left }),
            Next::ChunkSize => self.chunk_size(bytes),
            Next::Chunk { left: 0 } => Ok(self.go_on(Next::ChunkEnd, 0)),
            Next::Chunk { left } => self.body(bytes, left, |left| Next::Chunk { left }),
            Next::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => Ok(self.go_on(Next::ChunkSize, 2)),
                [] | [b'\r'] => Ok(None),
                _ => Err(BadAnswer::Chunk),
            },
            Next::Trailer => match httparse::parse_headers(lines(bytes), &mut [httparse::EMPTY_HEADER; HEADERS_MAX])? {
                Status::Complete((used, _)) => Ok(self.go_on(Next::Nothing, used)),
                Status::Partial => more(bytes, BadAnswer::HeadTooLong),
            },
            Next::UntilClose => self.body(bytes, usize::MAX, |_| Next::UntilClose),
            Next::Nothing => Ok(Some(0)),
        }
    }

    fn go_on(&mut self, next: Next, used: usize) -> Option<usize> {
        self.next = next;
        Some(used)
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadAnswer> {
        let Some(head) = Head::parse(lines(bytes))? else { return more(bytes, BadAnswer::HeadTooLong) };
        if head.status < 200 {
            self.interim += 1;
            return if self.interim > INTERIM_MAX { Err(BadAnswer::HeadTooLong) } else { Ok(Some(head.bytes)) };
        }
        self.answer.status = head.status;
        self.answer.reason = head.reason.to_owned();
        self.answer.encoding = head.encoding.map(|value| String::from_utf8_lossy(value).into_owned());
        let next = match head.framing {
            Framing::Length(left) if left > self.body_bytes_max => return Err(self.too_long()),
            Framing::Length(left) => Next::Body { left },
            Framing::Chunks => Next::ChunkSize,
            Framing::Close => Next::UntilClose,
        };
        Ok(self.go_on(next, head.bytes))
    }

    fn chunk_size(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadAnswer> {
        let line = lines(bytes);
        // The parser would treat a line without a digit as the last chunk, so refuse such a line.
        if line.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
            return Err(BadAnswer::Chunk);
        }
        let (used, left) = match httparse::parse_chunk_size(line).map_err(|_| BadAnswer::Chunk)? {
            Status::Complete(size) => size,
            Status::Partial => return more(bytes, BadAnswer::Chunk),
        };
        let room = self.body_bytes_max - self.answer.body.len();
        let left = usize::try_from(left).ok().filter(|left| *left <= room).ok_or_else(|| self.too_long())?;
        Ok(self.go_on(if left == 0 { Next::Trailer } else { Next::Chunk { left } }, used))
    }

    fn body(&mut self, bytes: &[u8], left: usize, next: fn(usize) -> Next) -> Result<Option<usize>, BadAnswer> {
        let count = bytes.len().min(left);
        if count == 0 {
            return Ok(None);
        }
        if count > self.body_bytes_max - self.answer.body.len() {
            return Err(self.too_long());
        }
        self.answer.body.extend_from_slice(&bytes[..count]);
        Ok(self.go_on(next(left - count), count))
    }

    fn too_long(&self) -> BadAnswer {
        BadAnswer::BodyTooLong { bytes_max: self.body_bytes_max }
    }
}

/// Returns the complete lines of the next bytes.
fn lines(bytes: &[u8]) -> &[u8] {
    let near = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    &near[..near.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)]
}

/// If the lines are incomplete, asks for more bytes, unless there are too many already.
fn more(bytes: &[u8], too_long: BadAnswer) -> Result<Option<usize>, BadAnswer> {
    if bytes.len() < HEAD_BYTES_MAX { Ok(None) } else { Err(too_long) }
}

/// Connects to the first of `addresses` that accepts before the deadline.
///
/// # Errors
/// If no address accepts: the error of the first address.
pub fn connect(addresses: impl IntoIterator<Item = SocketAddr>, deadline: Instant) -> io::Result<TcpStream> {
    let mut first = None;
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would cause a different error.
        let connected = if left.is_zero() { timed_out() } else { TcpStream::connect_timeout(&address, left) };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| ErrorKind::AddrNotAvailable.into()))
}

/// Sends `request` and reads the answer. Both end by the deadline, however slowly the bytes arrive.
///
/// # Errors
/// If the connection fails, the deadline passes, or the server's bytes are not a valid answer.
pub fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    body_bytes_max: usize,
    deadline: Instant,
) -> Result<Answer, HttpError> {
    exchange_over(stream, request, body_bytes_max, || deadline.saturating_duration_since(Instant::now()))
}

/// A connection whose calls have time limits.
trait Wire: Read + Write {
    fn set_timeout(&mut self, left: Duration) -> io::Result<()>;
}

impl Wire for TcpStream {
    fn set_timeout(&mut self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

fn exchange_over(
    wire: &mut impl Wire,
    request: &[u8],
    body_bytes_max: usize,
    left: impl Fn() -> Duration,
) -> Result<Answer, HttpError> {
    let mut rest = request;
    while !rest.is_empty() {
        match within(wire, &left, |wire| wire.write(rest))? {
            0 => return Err(io::Error::from(ErrorKind::WriteZero).into()),
            count => rest = &rest[count..],
        }
    }
    let mut reader = Reader::new(body_bytes_max);
    let mut piece = [0; 16 << 10];
    // Each round reads at least one byte, and the reader limits the number of bytes.
    loop {
        match within(wire, &left, |wire| wire.read(&mut piece))? {
            0 => return Ok(reader.end()?),
            count => {
                if let Some(answer) = reader.push(&piece[..count])? {
                    return Ok(answer);
                }
            }
        }
    }
}

/// Makes one call that ends within the remaining time.
fn within<W: Wire>(
    wire: &mut W,
    left: &impl Fn() -> Duration,
    mut call: impl FnMut(&mut W) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        let left = left();
        if left.is_zero() {
            return timed_out();
        }
        wire.set_timeout(left)?;
        match call(wire) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // This is how a socket reports a timeout.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return timed_out(),
            done => return done,
        }
    }
}

fn timed_out<T>() -> io::Result<T> {
    Err(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests;
