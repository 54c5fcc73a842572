//! Redis's protocol (RESP2): `GET` and `SET`. The load compares every returned value with the stored value.

use std::sync::Arc;

use super::{ANSWER_BYTES_MAX, Answer, Found, Kind, OddAnswer, Op, Protocol, line, number, said};
use crate::load::dataset::Dataset;

const LINE_BYTES_MAX: usize = 300;

/// Redis with the values of a data set.
#[derive(Debug)]
pub struct Redis {
    /// The keys and values.
    pub data: Arc<Dataset>,
}

impl Protocol for Redis {
    fn ask(&self, op: Op, _connection: u32, to: &mut Vec<u8>) {
        let length = |bytes: usize, to: &mut Vec<u8>| to.extend_from_slice(format!("${bytes}\r\n").as_bytes());
        match op.kind {
            Kind::Get => to.extend_from_slice(b"*2\r\n$3\r\nGET\r\n"),
            Kind::Set => to.extend_from_slice(b"*3\r\n$3\r\nSET\r\n"),
        }
        length(self.data.key_bytes(op.key), to);
        self.data.push_key(op.key, to);
        to.extend_from_slice(b"\r\n");
        if op.kind == Kind::Set {
            let value = self.data.value(op.key);
            length(value.len(), to);
            to.extend_from_slice(value);
            to.extend_from_slice(b"\r\n");
        }
    }

    fn parse_answer(&self, op: Op, _connection: u32, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer> {
        let Some((first, next)) = line(bytes, LINE_BYTES_MAX)? else { return Ok(None) };
        match (op.kind, first) {
            (Kind::Set, b"+OK") => Ok(Some(Answer { bytes: next, found: Found::Stored })),
            (Kind::Get, b"$-1") => Ok(Some(Answer { bytes: next, found: Found::Miss })),
            (Kind::Get, [b'$', digits @ ..]) => {
                let length = number(digits).filter(|length| *length <= ANSWER_BYTES_MAX);
                let Some(length) = length else { return Err(said(bytes).into()) };
                let Some(end) = bytes.get(next + length..next + length + 2) else { return Ok(None) };
                let value = bytes.get(next..next + length).unwrap_or_default();
                if end != b"\r\n" || value != self.data.value(op.key) {
                    return Err(format!("the value of key {} is not what was stored: {}", op.key, said(value)).into());
                }
                Ok(Some(Answer { bytes: next + length + 2, found: Found::Hit }))
            }
            _ => Err(said(bytes).into()),
        }
    }

    fn prefill(&self) -> u32 {
        self.data.keys()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::dataset::Sizes;

    const GET: Op = Op { key: 3, kind: Kind::Get };
    const SET: Op = Op { key: 3, kind: Kind::Set };

    fn ten_keys() -> Redis {
        Redis { data: Arc::new(Dataset::new(10, Sizes::Fixed(8), Sizes::Fixed(5), 1).unwrap()) }
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let value = String::from_utf8(ten_keys().data.value(3).to_vec()).unwrap();
        let mut bytes = Vec::new();
        ten_keys().ask(GET, 0, &mut bytes);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$8\r\nk0000003\r\n");
        bytes.clear();
        ten_keys().ask(SET, 0, &mut bytes);
        assert_eq!(bytes, format!("*3\r\n$3\r\nSET\r\n$8\r\nk0000003\r\n$5\r\n{value}\r\n").as_bytes());
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let server = ten_keys();
        let value = String::from_utf8(server.data.value(3).to_vec()).unwrap();
        let hit = format!("$5\r\n{value}\r\n");
        let table = [(GET, hit.as_str(), Found::Hit), (GET, "$-1\r\n", Found::Miss), (SET, "+OK\r\n", Found::Stored)];
        for (op, text, found) in table {
            let more = format!("{text}+OK\r\n");
            assert_eq!(server.parse_answer(op, 0, more.as_bytes()), Ok(Some(Answer { bytes: text.len(), found })));
            for part in 0..text.len() {
                assert_eq!(server.parse_answer(op, 0, &text.as_bytes()[..part]), Ok(None), "{:?}", &text[..part]);
            }
        }
    }

    #[test]
    fn invalid_answers_are_reported() {
        let table = [
            (SET, "-MISCONF Redis is configured to save\r\n", "got \"-MISCONF"),
            (GET, "+OK\r\n", "got \"+OK\\r\\n\""),
            (GET, "$5\r\nxxxxx\r\n", "the value of key 3 is not what was stored: got \"xxxxx\""),
            (GET, "$9999999999\r\n", "got"),
            (GET, "$-2\r\n", "got"),
        ];
        for (op, text, expected) in table {
            let message = ten_keys().parse_answer(op, 0, text.as_bytes()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), digits in "[$+-]?[0-9-]{0,12}\r?\n?.{0,9}") {
            for op in [GET, SET] {
                let _ = ten_keys().parse_answer(op, 0, &bytes);
                let _ = ten_keys().parse_answer(op, 0, digits.as_bytes());
            }
        }
    }
}
