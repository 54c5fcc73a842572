//! The protocol of a TCP stream: a request before the stream, and the server's count of received or sent bytes after it.
//! Numbers are big-endian.

use super::settings::{Direction, REVERSE_SECONDS_MAX, SECONDS_MAX};

/// The length of a request in bytes.
pub const REQUEST_BYTES: usize = 16;
/// The length of a result in bytes.
pub const RESULT_BYTES: usize = 32;

const SEND: [u8; 8] = *b"EKB1send";
const GIVE: [u8; 8] = *b"EKB1give";
const RESULT: [u8; 8] = *b"EKB1came";

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The direction.
    pub way: Direction,
    /// The duration in milliseconds.
    pub ms: u32,
}

/// The last bytes of a stream. They report how much the server received, or for a stream from the server how much the server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Result {
    /// The length of the stream in bytes, without this message.
    pub bytes: u64,
    /// The time from the request to the last byte, in nanoseconds.
    pub ns: u64,
    /// CPU time of the server's thread, in nanoseconds.
    pub cpu_ns: u64,
}

impl Request {
    /// Parses a request. None if the bytes are not a valid request, or exceed the limits.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let (name, rest) = bytes.split_first_chunk::<8>()?;
        let (ms, rest) = rest.split_first_chunk::<4>()?;
        let ms = u32::from_be_bytes(*ms);
        let (way, seconds_max) = match *name {
            SEND => (Direction::ToServer, SECONDS_MAX),
            GIVE => (Direction::FromServer, REVERSE_SECONDS_MAX),
            _ => return None,
        };
        let is_one = rest.iter().all(|byte| *byte == 0) && f64::from(ms) <= seconds_max * 1000.0;
        is_one.then_some(Request { way, ms })
    }

    /// Encodes the request.
    pub fn bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..8].copy_from_slice(if self.way == Direction::ToServer { &SEND } else { &GIVE });
        bytes[8..12].copy_from_slice(&self.ms.to_be_bytes());
        bytes
    }
}

impl Result {
    /// Parses a result. None if the bytes are not a result.
    pub fn parse(bytes: &[u8; RESULT_BYTES]) -> Option<Result> {
        let (name, rest) = bytes.split_first_chunk::<8>()?;
        let number = |at: usize| Some(u64::from_be_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        (*name == RESULT).then_some(())?;
        Some(Result { bytes: number(0)?, ns: number(8)?, cpu_ns: number(16)? })
    }

    /// Encodes the result.
    pub fn bytes(&self) -> [u8; RESULT_BYTES] {
        let mut bytes = [0; RESULT_BYTES];
        bytes[..8].copy_from_slice(&RESULT);
        for (at, number) in [self.bytes, self.ns, self.cpu_ns].into_iter().enumerate() {
            bytes[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_messages_are_read_back(ms in 0_u32..60_000, numbers: (u64, u64, u64), bytes: [u8; RESULT_BYTES]) {
            for way in [Direction::ToServer, Direction::FromServer] {
                prop_assert_eq!(Request::parse(&Request { way, ms }.bytes()), Some(Request { way, ms }));
            }
            let result = Result { bytes: numbers.0, ns: numbers.1, cpu_ns: numbers.2 };
            prop_assert_eq!(Result::parse(&result.bytes()), Some(result));
            prop_assert_eq!(Result::parse(&bytes), None, "chance does not make one");
        }

        #[test]
        fn a_changed_request_is_refused(at in 0_usize..8, by in 1_u8..) {
            let mut bytes = Request { way: Direction::ToServer, ms: 1000 }.bytes();
            bytes[at] ^= by;
            prop_assert_eq!(Request::parse(&bytes), None);
        }
    }

    #[test]
    fn a_request_for_too_long_is_none() {
        for (way, most) in [(Direction::ToServer, 3_600_000), (Direction::FromServer, 60_000)] {
            assert!(Request::parse(&Request { way, ms: most }.bytes()).is_some());
            assert_eq!(Request::parse(&Request { way, ms: most + 1 }.bytes()), None);
            assert_eq!(Request::parse(&Request { way, ms: u32::MAX }.bytes()), None);
        }
        let mut tail = Request { way: Direction::ToServer, ms: 1 }.bytes();
        tail[15] = 1;
        assert_eq!(Request::parse(&tail), None);
    }
}
