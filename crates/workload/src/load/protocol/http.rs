//! HTTP/1.1 over persistent connections: `GET` of files with known contents. The load compares every answer with the contents of the file.

use std::sync::Arc;

use evenkeel_sys::http::{Framing, Head};

use super::{ANSWER_BYTES_MAX, Answer, Found, OddAnswer, Op, Protocol, said};
use crate::load::dataset::Dataset;

/// A web server that serves the values of a data set as files under `/`, each named by its key.
#[derive(Debug)]
pub struct Http {
    /// The names and contents of the files.
    pub data: Arc<Dataset>,
}

impl Protocol for Http {
    fn ask(&self, op: Op, _connection: u32, to: &mut Vec<u8>) {
        to.extend_from_slice(b"GET /");
        self.data.push_key(op.key, to);
        to.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }

    fn parse_answer(&self, op: Op, _connection: u32, bytes: &[u8]) -> Result<Option<Answer>, OddAnswer> {
        let Some(head) = Head::parse(bytes).map_err(|error| format!("{error}: {}", said(bytes)))? else {
            return Ok(None);
        };
        if head.status != 200 {
            return Err(said(bytes).into());
        }
        if !head.keeps_open {
            return Err(format!("it does not keep the connection: {}", said(bytes)).into());
        }
        let length = match head.framing {
            Framing::Length(length) if length <= ANSWER_BYTES_MAX => length,
            _ => return Err(format!("without a length, {}", said(bytes)).into()),
        };
        let Some(content) = bytes.get(head.bytes..head.bytes + length) else { return Ok(None) };
        if content != self.data.value(op.key) {
            return Err(
                format!("the content of file {} differs from the stored file: {}", op.key, said(content)).into()
            );
        }
        Ok(Some(Answer { bytes: head.bytes + length, found: Found::Hit }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::dataset::Sizes;
    use crate::load::protocol::Kind;

    const GET: Op = Op { key: 3, kind: Kind::Get };

    fn files() -> Http {
        Http { data: Arc::new(Dataset::new(10, Sizes::Fixed(8), Sizes::Fixed(5), 1).unwrap()) }
    }

    #[test]
    fn an_answer_is_its_head_and_its_file() {
        let server = files();
        let mut asked = Vec::new();
        server.ask(GET, 0, &mut asked);
        assert_eq!(asked, b"GET /k0000003 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let value = String::from_utf8(server.data.value(3).to_vec()).unwrap();
        let head = "HTTP/1.1 200 OK\r\nServer: nginx\r\ncontent-length: 5\r\nConnection: keep-alive\r\n\r\n";
        let text = format!("{head}{value}");
        let whole = Answer { bytes: text.len(), found: Found::Hit };
        assert_eq!(server.parse_answer(GET, 0, format!("{text}HTTP").as_bytes()), Ok(Some(whole)));
        for part in 0..text.len() {
            assert_eq!(server.parse_answer(GET, 0, &text.as_bytes()[..part]), Ok(None), "{:?}", &text[..part]);
        }
    }

    #[test]
    fn invalid_answers_are_reported() {
        let table = [
            ("HTTP/1.1 404 Not Found\r\n\r\n", "got \"HTTP/1.1 404 Not Found"),
            ("HTTP/1.1 200 OK\r\n\r\n", "without a length, got"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "without a length, got"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "without a length, got"),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "it does not keep the connection"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP/1.x: got \"SSH-2.0"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxxxxx", "the content of file 3 differs from the stored file"),
        ];
        for (text, expected) in table {
            let message = files().parse_answer(GET, 0, text.as_bytes()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(200));
        let message = files().parse_answer(GET, 0, many.as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("the answer has more than 16 KiB or 100 lines of headers: got"), "{message}");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), text in "([a-zA-Z-]{0,16}:? ?[0-9]{0,11}\r?\n){0,6}.{0,9}") {
            let _ = files().parse_answer(GET, 0, &bytes);
            let _ = files().parse_answer(GET, 0, format!("HTTP/1.1 200 OK\r\n{text}").as_bytes());
        }
    }
}
