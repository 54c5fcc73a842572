//! One connection of the load, with at most one outstanding request.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use evenkeel_sys::clock;

use super::fault::Fault;
use super::protocol::{ANSWER_BYTES_MAX, Answer, Found, Kind, Op, Protocol, said};

/// The time limit for connecting and for the greeting.
const GREET_TIME: Duration = Duration::from_secs(5);
/// The time limit of a blocking read. When it expires, the thread checks whether the window is over.
pub(super) const TURN: Duration = Duration::from_millis(100);
const INPUT_BYTES: usize = 16 << 10;
/// The size of the input buffer. A complete answer with its header fits into the buffer.
const INPUT_BYTES_MAX: usize = ANSWER_BYTES_MAX + (64 << 10);

/// How a connection waits for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// The connection does not wait, because another call waits for all connections.
    Never,
    /// The connection waits in the read, for a limited time. This saves a system call if a thread has only one connection.
    InRead,
}

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) op: Op,
    /// The time from which the latency counts.
    pub(super) due_ns: u64,
    /// When the request was sent.
    pub(super) sent_ns: u64,
}

pub(super) struct Connection {
    number: u32,
    pub(super) stream: TcpStream,
    input: Vec<u8>,
    heard: usize,
    output: Vec<u8>,
    sent: usize,
    pub(super) flight: Option<Flight>,
}

impl Connection {
    /// Connects to the server, and exchanges the greeting.
    pub(super) fn open(address: SocketAddr, number: u32, protocol: &dyn Protocol) -> Result<Connection, Fault> {
        let failed = |error: std::io::Error| Fault::Connect { why: error.to_string() };
        let mut stream = TcpStream::connect_timeout(&address, GREET_TIME).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(GREET_TIME)).map_err(failed)?;
        stream.set_write_timeout(Some(GREET_TIME)).map_err(failed)?;
        protocol.greet(number, &mut stream).map_err(|odd| Fault::Connect { why: odd.to_string() })?;
        let (input, output) = (vec![0; INPUT_BYTES], Vec::with_capacity(1024));
        Ok(Connection { number, stream, input, heard: 0, output, sent: 0, flight: None })
    }

    pub(super) fn wait(&self, waits: Waits) -> Result<(), Fault> {
        match waits {
            Waits::Never => self.stream.set_nonblocking(true)?,
            Waits::InRead => {
                self.stream.set_nonblocking(false)?;
                self.stream.set_read_timeout(Some(TURN))?;
                self.stream.set_write_timeout(Some(TURN))?;
            }
        }
        Ok(())
    }

    /// Sends as much of a request as the socket accepts. [`flush`](Connection::flush) sends the rest.
    pub(super) fn ask(&mut self, flight: Flight, protocol: &dyn Protocol) -> Result<(), Fault> {
        self.output.clear();
        self.sent = 0;
        protocol.ask(flight.op, self.number, &mut self.output);
        self.flight = Some(flight);
        self.flush()
    }

    /// Whether part of a request is still unsent.
    pub(super) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(Fault::Closed),
                Ok(bytes) => self.sent += bytes,
                Err(error) if is_no_fault(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads once. Returns the request if the answer to it is now complete.
    pub(super) fn hear(&mut self, protocol: &dyn Protocol) -> Result<Option<(Flight, Found)>, Fault> {
        let room = self.input.get_mut(self.heard..).unwrap_or_default();
        match self.stream.read(room) {
            Ok(0) => return Err(Fault::Closed),
            Ok(bytes) => self.heard += bytes,
            Err(error) if is_no_fault(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let bytes = self.input.get(..self.heard).unwrap_or_default();
        let Some(flight) = self.flight else {
            return Err(Fault::Odd { why: format!("it sent bytes without a request: {}", said(bytes)) });
        };
        match protocol.parse_answer(flight.op, self.number, bytes).map_err(|odd| Fault::Odd { why: odd.to_string() })? {
            Some(Answer { bytes, found }) if bytes == self.heard => {
                self.heard = 0;
                self.flight = None;
                Ok(Some((flight, found)))
            }
            Some(Answer { bytes: taken, .. }) => {
                let more = bytes.get(taken..).unwrap_or_default();
                Err(Fault::Odd { why: format!("it sent more than the answer: {}", said(more)) })
            }
            None if self.heard < self.input.len() => Ok(None),
            None if self.input.len() < INPUT_BYTES_MAX => {
                self.input.resize((self.input.len() * 4).min(INPUT_BYTES_MAX), 0);
                Ok(None)
            }
            None => Err(Fault::Odd { why: format!("an answer longer than {INPUT_BYTES_MAX} bytes: {}", said(bytes)) }),
        }
    }

    /// Stores the values of these keys. Sends all requests at once, then waits for the answers.
    /// The maximum wait between two answers is `limit_ns`.
    pub(super) fn store(&mut self, keys: Range<u32>, protocol: &dyn Protocol, limit_ns: u64) -> Result<(), Fault> {
        self.output.clear();
        self.sent = 0;
        keys.clone().for_each(|key| protocol.ask(Op { key, kind: Kind::Set }, self.number, &mut self.output));
        let mut heard_ns = clock::monotonic_ns();
        for key in keys {
            loop {
                self.flush()?;
                let bytes = self.input.get(..self.heard).unwrap_or_default();
                let op = Op { key, kind: Kind::Set };
                let answer =
                    protocol.parse_answer(op, self.number, bytes).map_err(|odd| Fault::Odd { why: odd.to_string() })?;
                if let Some(answer) = answer {
                    self.input.copy_within(answer.bytes..self.heard, 0);
                    self.heard -= answer.bytes;
                    heard_ns = clock::monotonic_ns();
                    break;
                }
                match self.stream.read(self.input.get_mut(self.heard..).unwrap_or_default()) {
                    Ok(0) => return Err(Fault::Closed),
                    Ok(bytes) => self.heard += bytes,
                    Err(error) if is_no_fault(&error) => {}
                    Err(error) => return Err(error.into()),
                }
                let waited_ns = clock::monotonic_ns().saturating_sub(heard_ns);
                if waited_ns > limit_ns {
                    return Err(Fault::Silent { seconds: waited_ns / 1_000_000_000 });
                }
            }
        }
        Ok(())
    }
}

fn is_no_fault(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
