//! One GET over plain HTTP, bounded in bytes and time: all that reading a page of metrics takes. Whatever answers, it ends with a page
//! or an error.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::source::{InvalidMetric, NoNumber};

/// For the whole of it, from the name's address to the last byte.
const PATIENCE: Duration = Duration::from_secs(5);
/// A page that is longer is none of ours; the largest servers have some megabytes.
const PAGE_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    path: String,
}

impl Address {
    /// `http://HOST[:PORT][/PATH]`; without a path, `/metrics`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Address, InvalidMetric> {
        let wrong = |why: &str| Err(format!("{text}: {why}").into());
        let Some(rest) = text.strip_prefix("http://") else {
            return wrong("an address that begins with http:// is wanted; others are not spoken");
        };
        let (place, path) = rest.find('/').map_or((rest, "/metrics"), |at| rest.split_at(at));
        if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return wrong("it has letters that an address has not");
        }
        if place.contains(['@', '?', '#']) || path.contains('#') {
            return wrong("host, port and path are all that it may have");
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
            Some(_) => return wrong("its port is none"),
        };
        if host.is_empty() {
            return wrong("it has no host");
        }
        Ok(Address { host: host.to_owned(), port, path: if path == "/" { "/metrics".into() } else { path.into() } })
    }

    /// The page.
    ///
    /// # Errors
    /// What went wrong, in words that read well after the address.
    pub fn get(&self) -> Result<String, NoNumber> {
        let deadline = Instant::now() + PATIENCE;
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| format!("it has no address: {error}"))?;
        let mut refused = NoNumber::from("it has no address");
        for address in addresses.take(4) {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(stream) => return self.ask(stream, deadline),
                Err(error) => refused = format!("no connection: {error}").into(),
            }
        }
        Err(refused)
    }

    fn ask(&self, mut stream: TcpStream, deadline: Instant) -> Result<String, NoNumber> {
        let Address { host, port, path } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        // HTTP/1.0, so that the page comes whole and the connection ends with it.
        let question = format!(
            "GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/plain;version=0.0.4, */*;q=0.1\r\n\
             Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
        );
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                NoNumber::from(format!("no whole answer within {PATIENCE:?}"))
            }
            _ => format!("the connection broke: {error}").into(),
        };
        stream.set_write_timeout(Some(left(deadline)?)).map_err(failed)?;
        stream.write_all(question.as_bytes()).map_err(failed)?;
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            stream.set_read_timeout(Some(left(deadline)?)).map_err(failed)?;
            let count = match stream.read(&mut piece) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            bytes.extend_from_slice(&piece[..count]);
            if bytes.len() > PAGE_BYTES_MAX {
                return Err(format!("its page has more than {} MiB", PAGE_BYTES_MAX >> 20).into());
            }
            if count == 0 || is_whole(&bytes) {
                return parse_answer(&bytes);
            }
        }
    }
}

fn left(deadline: Instant) -> Result<Duration, NoNumber> {
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    left.ok_or_else(|| format!("no whole answer within {PATIENCE:?}").into())
}

/// Head and body, where the head has come to its end.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let searched = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let at = searched.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((&bytes[..at], &bytes[at + 4..]))
}

/// A server may keep the connection open although it was asked not to: the length, or the last chunk, says then that nothing more comes.
fn is_whole(bytes: &[u8]) -> bool {
    let whole = || {
        let (head, body) = cut(bytes)?;
        let head = std::str::from_utf8(head).ok()?;
        if is_chunked(head) {
            // Whatever ends otherwise is not worth going through.
            return Some(body.ends_with(b"\r\n") && join_chunks(body).is_some());
        }
        let length: usize = header(head, "content-length")?.parse().ok()?;
        Some(body.len() >= length)
    };
    whole().unwrap_or(false)
}

fn is_chunked(head: &str) -> bool {
    header(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
}

/// The value of a header; names are the same in any case.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The page of a whole answer.
///
/// # Errors
/// If it is no answer, one that says no, or one that is not whole.
pub fn parse_answer(bytes: &[u8]) -> Result<String, NoNumber> {
    let (head, body) = cut(bytes).ok_or("it answered something that is no HTTP")?;
    let head = std::str::from_utf8(head).map_err(|_| "it answered something that is no HTTP")?;
    let status_line = head.split("\r\n").next().unwrap_or_default();
    let status = status_line.strip_prefix("HTTP/1.").and_then(|rest| Some(rest.split_once(' ')?.1));
    let status = status.ok_or("it answered something that is no HTTP")?;
    if !(status == "200" || status.starts_with("200 ")) {
        return Err(format!("it answered {:?}", status.chars().take(80).collect::<String>()).into());
    }
    if let Some(coding) = header(head, "content-encoding").filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(format!("its page is packed ({coding}), which it was asked not to do").into());
    }
    let page = match header(head, "content-length").map(str::parse::<usize>) {
        _ if is_chunked(head) => join_chunks(body).ok_or("its page came in chunks that are none")?,
        Some(Ok(length)) => body.get(..length).ok_or("its page broke off")?.to_vec(),
        Some(Err(_)) => return Err("it does not say how long its page is".into()),
        None => body.to_vec(),
    };
    String::from_utf8(page).map_err(|_| "its page is no text".into())
}

fn join_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut page = Vec::new();
    // Each turn takes a chunk's line away, so it ends.
    loop {
        let line_end = body.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&body[..line_end]).ok()?;
        let digits = line.split(';').next()?.trim();
        let length = usize::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        body = &body[line_end + 2..];
        if length == 0 {
            return Some(page);
        }
        page.extend_from_slice(body.get(..length)?);
        body = body[length..].strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
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
    fn answers_are_read() {
        let table: [(&str, Result<&str, &str>); 12] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na 1 and more", Ok("a 1")),
            ("HTTP/1.0 200 OK\r\n\r\na 1\n", Ok("a 1\n")),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n1;x=y\r\n1\r\n0\r\n\r\n", Ok("a 1")),
            ("HTTP/1.1 404 Not Found\r\n\r\n", Err("it answered \"404 Not Found\"")),
            ("HTTP/1.1 2000\r\n\r\n", Err("it answered \"2000\"")),
            ("SSH-2.0-OpenSSH_9.2\r\n\r\n", Err("it answered something that is no HTTP")),
            ("", Err("it answered something that is no HTTP")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na 1", Err("its page broke off")),
            ("HTTP/1.1 200 OK\r\nContent-Length: -9\r\n\r\na 1", Err("it does not say how long its page is")),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na",
                Err("its page came in chunks that are none"),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx",
                Err("its page is packed (gzip), which it was asked not to do"),
            ),
            ("HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\n\r\nx", Ok("x")),
        ];
        for (answer, expected) in table {
            let page = parse_answer(answer.as_bytes());
            assert_eq!(page, expected.map(str::to_owned).map_err(NoNumber::from), "{answer:?}");
        }
        assert_eq!(parse_answer(b"HTTP/1.1 200 OK\r\n\r\n\xff"), Err("its page is no text".into()));
    }

    /// What one server that gives this answer and then closes, or keeps the connection, is understood to say.
    fn asked(answer: &'static [u8], keeps: bool) -> Result<String, NoNumber> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&format!("http://{}/x", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 1024];
            let length = stream.read(&mut question).unwrap();
            let question = String::from_utf8_lossy(&question[..length]).into_owned();
            // The other side may have had enough.
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
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let message = Address::parse(&format!("http://{closed}")).unwrap().get().unwrap_err().to_string();
        assert!(message.starts_with("no connection: Connection refused"), "{message}");
    }

    proptest! {
        #[test]
        fn no_answer_is_a_panic(text in "(HTTP/1.[01] 200 ?\r\n)?([a-z]{0,3}(Content-Length|Transfer-Encoding):[ -~]{0,8}\r\n){0,2}(\r\n)?[0-9a-f+]{0,17}(\r\n)?.{0,9}", address in "(http://)?[\\[\\]a-z0-9:/@?.]{0,20}") {
            let _ = (parse_answer(text.as_bytes()), is_whole(text.as_bytes()), Address::parse(&address));
        }
    }
}
