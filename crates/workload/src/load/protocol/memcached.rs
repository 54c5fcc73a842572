//! memcached's text protocol: `get` and `set`. The load compares every returned value with the stored value.

use std::sync::Arc;

use super::{ANSWER_BYTES_MAX, Answer, Found, Kind, OddAnswer, Op, Protocol, line, number, said};
use crate::load::dataset::Dataset;

/// The maximum length of a line: `VALUE`, a key of 250 bytes, and two numbers.
const LINE_BYTES_MAX: usize = 300;
const VALUE_END: &[u8] = b"\r\nEND\r\n";

/// memcached with the values of a data set.
#[derive(Debug)]
pub struct Memcached {
    /// The keys and values.
    pub data: Arc<Dataset>,
}

impl Protocol for Memcached {
    fn ask(&self, op: Op, _connection: u32, to: &mut Vec<u8>) {
        match op.kind {
            Kind::Get => {
                to.extend_from_slice(b"get ");
                self.data.push_key(op.key, to);
                to.extend_from_slice(b"\r\n");
            }
            Kind::Set => {
                let value = self.data.value(op.key);
                to.extend_from_slice(b"set ");
                self.data.push_key(op.key, to);
                to.extend_from_slice(b" 0 0 ");
                to.extend_from_slice(value.len().to_string().as_bytes());
                to.extend_from_slice(b"\r\n");
                to.extend_from_slice(value);
                to.extend_from_slice(b"\r\n");
            }
        }
    }

    fn parse_answer(&self, op: Op, _connection: u32, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer> {
        let Some((first, next)) = line(bytes, LINE_BYTES_MAX)? else { return Ok(None) };
        match (op.kind, first) {
            (Kind::Set, b"STORED") => Ok(Some(Answer { bytes: next, found: Found::Stored })),
            (Kind::Get, b"END") => Ok(Some(Answer { bytes: next, found: Found::Miss })),
            (Kind::Get, _) if first.starts_with(b"VALUE ") => self.parse_value(op.key, first, next, bytes),
            _ => Err(said(bytes).into()),
        }
    }

    fn prefill(&self) -> u32 {
        self.data.keys()
    }
}

impl Memcached {
    fn parse_value(&self, key: u32, first: &[u8], next: usize, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer> {
        let mut words = first.split(|byte| *byte == b' ').skip(1);
        let (name, flags, length) = (words.next(), words.next(), words.next().and_then(number));
        let Some(length) = length.filter(|length| *length <= ANSWER_BYTES_MAX) else { return Err(said(bytes).into()) };
        if !name.is_some_and(|name| self.data.is_key(key, name)) || flags != Some(b"0") || words.next().is_some() {
            return Err(format!("asked for another value, {}", said(bytes)).into());
        }
        let Some(value) = bytes.get(next..next + length) else { return Ok(None) };
        let Some(end) = bytes.get(next + length..next + length + VALUE_END.len()) else { return Ok(None) };
        if end != VALUE_END {
            return Err(format!("after a value {}", said(end)).into());
        }
        if value != self.data.value(key) {
            return Err(format!("the value of key {key} is not what was stored: {}", said(value)).into());
        }
        Ok(Some(Answer { bytes: next + length + VALUE_END.len(), found: Found::Hit }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::dataset::Sizes;

    fn ten_keys() -> Memcached {
        Memcached { data: Arc::new(Dataset::new(10, Sizes::Fixed(8), Sizes::Fixed(5), 1).unwrap()) }
    }

    fn asked(op: Op) -> Vec<u8> {
        let mut bytes = Vec::new();
        ten_keys().ask(op, 0, &mut bytes);
        bytes
    }

    const GET: Op = Op { key: 3, kind: Kind::Get };
    const SET: Op = Op { key: 3, kind: Kind::Set };

    #[test]
    fn requests_are_those_of_the_protocol() {
        let value = String::from_utf8(ten_keys().data.value(3).to_vec()).unwrap();
        assert_eq!(asked(GET), b"get k0000003\r\n");
        assert_eq!(asked(SET), format!("set k0000003 0 0 5\r\n{value}\r\n").as_bytes());
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let server = ten_keys();
        let value = String::from_utf8(server.data.value(3).to_vec()).unwrap();
        let hit = format!("VALUE k0000003 0 5\r\n{value}\r\nEND\r\n");
        let table =
            [(GET, hit.as_str(), Found::Hit), (GET, "END\r\n", Found::Miss), (SET, "STORED\r\n", Found::Stored)];
        for (op, text, found) in table {
            let more = format!("{text}END\r\n");
            assert_eq!(server.parse_answer(op, 0, more.as_bytes()), Ok(Some(Answer { bytes: text.len(), found })));
            for part in 0..text.len() {
                assert_eq!(server.parse_answer(op, 0, &text.as_bytes()[..part]), Ok(None), "{:?}", &text[..part]);
            }
        }
    }

    #[test]
    fn invalid_answers_are_reported() {
        let table = [
            (GET, "STORED\r\n", "got \"STORED\\r\\n\""),
            (SET, "SERVER_ERROR out of memory storing object\r\n", "got \"SERVER_ERROR out of memory"),
            (GET, "ERROR\r\n", "got \"ERROR\\r\\n\""),
            (GET, "VALUE k0000004 0 5\r\nxxxxx\r\nEND\r\n", "asked for another value, got \"VALUE k0000004"),
            (GET, "VALUE k0000003 0 5\r\nxxxxx\r\nEND\r\n", "the value of key 3 is not what was stored: got \"xxxxx\""),
            (GET, "VALUE k0000003 0 5\r\nxxxxx\r\nABC\r\n", "after a value got \"\\r\\nABC\\r\\n\""),
            (GET, "VALUE k0000003 0 99999999\r\n", "got"),
            (GET, "VALUE k0000003 0 -1\r\n", "got"),
            (GET, "VALUE k0000003 0 5 7\r\nxxxxx\r\nEND\r\n", "asked for another value"),
        ];
        for (op, text, expected) in table {
            let message = ten_keys().parse_answer(op, 0, text.as_bytes()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
        assert!(ten_keys().parse_answer(GET, 0, &[b'x'; 400]).is_err(), "no end of a line in observer");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), tail in ".{0,40}") {
            let server = ten_keys();
            for op in [GET, SET] {
                let _ = server.parse_answer(op, 0, &bytes);
                let mut text = b"VALUE k0000003 0 ".to_vec();
                text.extend_from_slice(tail.as_bytes());
                if let Ok(Some(answer)) = server.parse_answer(op, 0, &text) {
                    prop_assert!(answer.bytes <= text.len());
                }
            }
        }
    }
}
