//! Reads a page of metrics by one GET over plain HTTP, with a limit on bytes and time. Any answer of the server gives a page or an error.

use std::io::ErrorKind;
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use evenkeel_sys::http::{self, Answer, HttpError};

use crate::source::{InvalidMetric, NoNumber};

/// The usual time limit for connecting, sending and reading together.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum length of a page in bytes. The pages of the largest servers have some megabytes.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// The address of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    path: String,
}

impl Address {
    /// Parses `http://HOST[:PORT][/PATH]`. The default path is `/metrics`.
    ///
    /// # Errors
    /// Returns what is wrong with the address.
    pub fn parse(text: &str) -> Result<Address, InvalidMetric> {
        let wrong = |why: &str| Err(format!("{text}: {why}").into());
        let Some(rest) = text.strip_prefix("http://") else {
            return wrong("expected an address that begins with http://");
        };
        let (place, path) = rest.find('/').map_or((rest, "/metrics"), |at| rest.split_at(at));
        if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return wrong("it has characters that an address can't have");
        }
        if place.contains(['@', '?', '#']) || path.contains('#') {
            return wrong("it may have only host, port and path");
        }
        let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return wrong("behind ] only :PORT may stand"),
            },
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = match port.map(str::parse::<u16>) {
            None => 80,
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return wrong("its port is not valid"),
        };
        if host.is_empty() {
            return wrong("it has no host");
        }
        Ok(Address { host: host.to_owned(), port, path: if path == "/" { "/metrics".into() } else { path.into() } })
    }

    /// Reads the page.
    ///
    /// # Errors
    /// Returns what went wrong, as a text to append to the address in a sentence.
    pub fn get(&self) -> Result<String, NoNumber> {
        page(self.answer(PATIENCE)?)
    }

    /// Reads the answer, of whatever status. [`page`] is its text if it is a page. `patience` limits connecting, sending and reading together, but
    /// not the look-up of the host's name, which has the limits of the system's resolver.
    ///
    /// # Errors
    /// Why there is no answer, as a text that follows the address in a sentence.
    pub fn answer(&self, patience: Duration) -> Result<Answer, NoNumber> {
        let deadline = Instant::now() + patience;
        let Address { host, port, path } = self;
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let addresses = addresses.map_err(|error| format!("it has no address: {error}"))?;
        let mut stream =
            http::connect(addresses.take(4), deadline).map_err(|error| format!("no connection: {error}"))?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        // Use HTTP/1.0. The page then arrives in one piece, and the server closes the connection afterwards.
        let question = format!(
            "GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/plain;version=0.0.4, */*;q=0.1\r\n\
             Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
        );
        match http::exchange(&mut stream, question.as_bytes(), PAGE_BYTES_MAX, deadline) {
            Ok(answer) => Ok(answer),
            Err(HttpError::Io(error)) if error.kind() == ErrorKind::TimedOut => {
                Err(format!("no complete answer within {patience:?}").into())
            }
            Err(HttpError::Io(error)) => Err(format!("the connection broke: {error}").into()),
            Err(HttpError::BadAnswer(error)) => Err(error.to_string().into()),
        }
    }
}

/// The page in an answer.
///
/// # Errors
/// Returns why the answer contains no page, as a text to append to the address in a sentence.
pub fn page(answer: Answer) -> Result<String, NoNumber> {
    let Answer { status, reason, encoding, body } = answer;
    if status != 200 {
        let reason: String = reason.chars().take(76).collect();
        return Err(format!("it answered {:?}", format!("{status} {reason}").trim_end()).into());
    }
    if let Some(encoding) = encoding {
        return Err(format!(
            "its page is compressed ({}) although evenkeel asked for plain text",
            encoding.escape_debug()
        )
        .into());
    }
    String::from_utf8(body).map_err(|_| "its page is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read() {
        let address = |host: &str, port, path: &str| Ok(Address { host: host.into(), port, path: path.into() });
        let table = [
            ("http://127.0.0.1:9100/metrics", address("127.0.0.1", 9100, "/metrics")),
            ("http://localhost:9100", address("localhost", 9100, "/metrics")),
            ("http://[::1]:81/a?b=c", address("::1", 81, "/a?b=c")),
            ("http://[::1]/", address("::1", 80, "/metrics")),
            ("http://game", address("game", 80, "/metrics")),
        ];
        for (text, expected) in table {
            assert_eq!(Address::parse(text), expected);
        }
        for odd in [
            "",
            "127.0.0.1:9100",
            "https://x/",
            "http://",
            "http://:80/",
            "http://x:0/",
            "http://x:70000/",
            "http://u@x/",
            "http://x/a b",
            "http://x/\r\nA: b",
            "http://[::1]x/",
            "http://x/#a",
        ] {
            assert!(Address::parse(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_page_is_the_text_of_an_ok_answer() {
        let answer = |status, encoding: Option<&str>, body: &[u8]| {
            page(Answer { status, reason: "Why".into(), encoding: encoding.map(str::to_owned), body: body.to_vec() })
        };
        assert_eq!(answer(200, None, b"a 1\n"), Ok("a 1\n".into()));
        let wrong = [
            (answer(404, None, b""), "it answered \"404 Why\""),
            (answer(200, Some("gzip"), b"x"), "its page is compressed (gzip) although evenkeel asked for plain text"),
            (answer(200, None, b"\xff"), "its page is not UTF-8"),
            (page(Answer { status: 301, ..Answer::default() }), "it answered \"301\""),
        ];
        for (page, expected) in wrong {
            assert_eq!(page, Err(expected.into()));
        }
    }

    /// Reads a page from a server that gives this answer. The server then keeps the connection open (`keeps`) or closes it.
    fn asked(answer: &'static [u8], keeps: bool) -> Result<String, NoNumber> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&format!("http://{}/x", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 1024];
            let length = stream.read(&mut question).unwrap();
            let question = String::from_utf8_lossy(&question[..length]).into_owned();
            // The client may have closed the connection already.
            let _ = stream.write_all(answer);
            if keeps {
                let _ = stream.read(&mut [0; 1]);
            }
            question
        });
        let page = address.get();
        let question = server.join().unwrap();
        assert!(question.starts_with("GET /x HTTP/1.0\r\nHost: 127.0.0.1:"), "{question}");
        page
    }

    #[test]
    fn a_page_is_fetched() {
        assert_eq!(asked(b"HTTP/1.0 200 OK\r\n\r\na 1\n", false), Ok("a 1\n".into()));
        assert_eq!(asked(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n", true), Ok("a 1\n".into()));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n3\r\n1\r\n\r\n0\r\n\r\n";
        assert_eq!(asked(chunked, true), Ok("a 1\r\n".into()));
        assert_eq!(asked(b"SSH-2.0-OpenSSH_9.2\r\n", true), Err("the answer is not HTTP/1.x".into()));
        assert_eq!(asked(b"HTTP/1.1 200 OK\r\n", false), Err("the connection closed within the answer".into()));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let message = Address::parse(&format!("http://{closed}")).unwrap().get().unwrap_err().to_string();
        assert!(message.starts_with("no connection: Connection refused"), "{message}");
    }

    proptest! {
        #[test]
        fn no_address_is_a_panic(address in "(http://)?[\\[\\]a-z0-9:/@?.]{0,20}") {
            let _ = Address::parse(&address);
        }
    }
}
