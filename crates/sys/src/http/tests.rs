//! Answers of normal and hostile servers, with clocks that a script controls.

use std::cell::Cell;
use std::net::TcpListener;

use proptest::prelude::*;
use rustix::net::{self, AddressFamily, SocketType};

use super::*;

const BODY_BYTES_MAX: usize = 256 << 10;

/// Reads the answer in pieces of this many bytes, followed by the end of the connection.
fn read(bytes: &[u8], piece: usize) -> Result<Answer, BadAnswer> {
    let mut reader = Reader::new(BODY_BYTES_MAX);
    for piece in bytes.chunks(piece) {
        if let Some(answer) = reader.push(piece)? {
            return Ok(answer);
        }
        assert!(reader.pending.len() < HEAD_BYTES_MAX);
    }
    reader.end()
}

#[test]
fn an_answer_ends_where_its_head_says() {
    let answer = |status, reason: &str, body: &str| {
        Ok(Answer { status, reason: reason.to_owned(), encoding: None, body: body.as_bytes().to_vec() })
    };
    let ok = |body| answer(200, "OK", body);
    let head = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
    let chunked = |rest: &str| head("Transfer-Encoding: Chunked\r\n") + rest;
    let interim = |times: usize| "HTTP/1.1 100 Continue\r\n\r\n".repeat(times) + "HTTP/1.1 204 None\r\n\r\n";
    let longest = "x".repeat(HEAD_BYTES_MAX - head("A: \r\n").len());
    let table = [
        (head("Content-Length: 2\r\n") + "{}", ok("{}")),
        (head("content-length:2 \r\n") + "{}more", ok("{}")),
        (head("Content-Length: 2\r\nContent-Length: 2\r\n") + "{}", ok("{}")),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n".into(), answer(200, "", "")),
        ("HTTP/1.0 404 Not Found\r\n\r\ngone".into(), answer(404, "Not Found", "gone")),
        ("HTTP/1.1 204 None\r\nContent-Length: 9\r\n\r\n".into(), answer(204, "None", "")),
        ("HTTP/1.1 304 Old\r\nTransfer-Encoding: chunked\r\n\r\n".into(), answer(304, "Old", "")),
        (interim(4), answer(204, "None", "")),
        (interim(5), Err(BadAnswer::HeadTooLong)),
        (head(&format!("A: {longest}\r\n")) + "x", ok("x")),
        (head(&format!("A: {longest}x\r\n")), Err(BadAnswer::HeadTooLong)),
        (head(&"A: b\r\n".repeat(HEADERS_MAX)) + "x", ok("x")),
        (head(&"A: b\r\n".repeat(HEADERS_MAX + 1)), Err(BadAnswer::HeadTooLong)),
        (head("") + &"x".repeat(BODY_BYTES_MAX), ok(&"x".repeat(BODY_BYTES_MAX))),
        (head("") + &"x".repeat(BODY_BYTES_MAX + 1), Err(BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX })),
        (head("Content-Length: 262145\r\n"), Err(BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX })),
        (head("Content-Length: 3\r\n") + "{}", Err(BadAnswer::Ended)),
        (head("Content-Length: +2\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Content-Length: -2\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Content-Length: 2, 2\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Content-Length:\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Content-Length: 99999999999999999999999\r\n"), Err(BadAnswer::Length)),
        (head("Content-Length: 2\r\nContent-Length: 3\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Err(BadAnswer::Length)),
        (head("Transfer-Encoding: gzip\r\n") + "{}", Err(BadAnswer::Length)),
        (head("Transfer-Encoding: gzip, chunked\r\n") + "{}", Err(BadAnswer::Length)),
        (chunked("2\r\n{\"\r\n3;a=b\r\na\":\r\n02 \r\n1}\r\n0\r\n\r\n"), ok("{\"a\":1}")),
        (chunked("A\r\n0123456789\r\n0\r\nDigest: 1\r\nOther: 2\r\n\r\nmore"), ok("0123456789")),
        (chunked("1\r\nxy\r\n0\r\n\r\n"), Err(BadAnswer::Chunk)),
        (chunked("\r\n"), Err(BadAnswer::Chunk)),
        (chunked(" \r\n"), Err(BadAnswer::Chunk)),
        (chunked(";a\r\n"), Err(BadAnswer::Chunk)),
        (chunked("+1\r\nx\r\n"), Err(BadAnswer::Chunk)),
        (chunked("1 1\r\nx\r\n"), Err(BadAnswer::Chunk)),
        (chunked("ffffffffffffffffff\r\n"), Err(BadAnswer::Chunk)),
        (chunked(&format!("1;{}", "x".repeat(HEAD_BYTES_MAX))), Err(BadAnswer::Chunk)),
        (chunked("ffffffffffffffff\r\n"), Err(BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX })),
        (chunked("7fffffff\r\n"), Err(BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX })),
        (
            chunked(&format!("1;{}\r\nx\r\n", "x".repeat(9 << 10)).repeat(99)),
            Err(BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX }),
        ),
        (chunked(&format!("0\r\nA: {}", "x".repeat(HEAD_BYTES_MAX))), Err(BadAnswer::HeadTooLong)),
        (chunked("0\r\nno trailer\r\n\r\n"), Err(BadAnswer::Header)),
        (chunked("1\r\nx\r\n0\r\n"), Err(BadAnswer::Ended)),
        (chunked("1\r\nx\r"), Err(BadAnswer::Ended)),
        (head("no header\r\n"), Err(BadAnswer::Header)),
        (head("A: b\r\n folded\r\n"), Err(BadAnswer::Header)),
        ("HTTP/1.1 2000 OK\r\n\r\n".into(), Err(BadAnswer::StatusLine)),
        ("HTTP/1.1 099 OK\r\n\r\n".into(), Err(BadAnswer::StatusLine)),
        ("HTTP/1.1 600 OK\r\n\r\n".into(), Err(BadAnswer::StatusLine)),
        ("HTTP/2 200 OK\r\n\r\n".into(), Err(BadAnswer::StatusLine)),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n".into(), Err(BadAnswer::StatusLine)),
        ("HTTP/1.1 200 OK\r\n".into(), Err(BadAnswer::Ended)),
        (String::new(), Err(BadAnswer::Ended)),
    ];
    for (text, expected) in table {
        for piece in [1, 2, 3, 7, 4096, usize::MAX] {
            let shown = &text[..text.len().min(80)];
            assert_eq!(read(text.as_bytes(), piece), expected, "in pieces of {piece}: {shown:?}");
        }
    }
    assert_eq!(read(&[0, 255, 13, 10, 13, 10, 7], 2), Err(BadAnswer::StatusLine));
}

#[test]
fn a_head_gives_the_framing_of_its_body() {
    let head = |text: &'static str| {
        let head = Head::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(head.bytes, text.len());
        (head.framing, head.keeps_open, head.encoding)
    };
    let table = [
        ("HTTP/1.1 200 OK\r\n\r\n", (Framing::Close, true, None)),
        ("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 7\r\n\r\n", (Framing::Length(7), false, None)),
        ("HTTP/1.1 200 OK\r\nConnection: te, close\r\n\r\n", (Framing::Close, false, None)),
        ("HTTP/1.0 200 OK\r\n\r\n", (Framing::Close, false, None)),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", (Framing::Close, true, None)),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\n\r\n", (Framing::Close, true, None)),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            (Framing::Chunks, true, Some(b"gzip".as_slice())),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(head(text), expected, "{text:?}");
    }
}

/// A connection that transfers one byte per millisecond of the script's clock.
struct Drip<'a> {
    clock_ms: &'a Cell<u64>,
    taken: Vec<u8>,
    answer: Box<dyn Iterator<Item = u8>>,
    timeout: Duration,
}

impl Drip<'_> {
    fn pass(&self) {
        assert!(!self.timeout.is_zero(), "a socket takes no time-out of zero");
        self.clock_ms.set(self.clock_ms.get() + 1);
    }
}

impl Read for Drip<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.pass();
        Ok(self.answer.next().map(|byte| to[0] = byte).into_iter().count())
    }
}

impl Write for Drip<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass();
        self.taken.push(bytes[0]);
        Ok(1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Drip<'_> {
    fn set_timeout(&mut self, left: Duration) -> io::Result<()> {
        self.timeout = left;
        Ok(())
    }
}

#[test]
fn no_server_is_slow_enough_to_outlive_the_deadline() {
    const DEADLINE_MS: u64 = 1000;
    let ask = |answer: Box<dyn Iterator<Item = u8>>, request: &[u8]| {
        let clock_ms = Cell::new(0);
        let left = || Duration::from_millis(DEADLINE_MS.saturating_sub(clock_ms.get()));
        let mut drip = Drip { clock_ms: &clock_ms, taken: Vec::new(), answer, timeout: Duration::ZERO };
        let answer = exchange_over(&mut drip, request, BODY_BYTES_MAX, left);
        assert!(drip.taken.len() == request.len() || clock_ms.get() == DEADLINE_MS);
        (answer.map_err(|error| error.to_string()), clock_ms.get())
    };
    let request = b"GET / HTTP/1.0\r\n\r\n";
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let (answer, at_ms) = ask(Box::new(whole.iter().copied()), request);
    assert_eq!((answer.unwrap().body, at_ms), (b"x".to_vec(), (request.len() + whole.len()) as u64));
    let endless: [(&str, &str); 5] = [
        ("", "HTTP/1.1 100 Go\r\nA: "),
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        ("HTTP/1.1 200 OK\r\n\r\n", "x"),
    ];
    for (start, forever) in endless {
        let answer = start.bytes().chain(forever.bytes().cycle());
        let (answer, at_ms) = ask(Box::new(answer), request);
        // Endless headers reach the limit of 100 lines before the deadline. Every other answer ends at the deadline.
        let expected =
            if forever == "A: b\r\n" { "the answer has more than 16 KiB or 100 lines of headers" } else { "timed out" };
        assert_eq!(answer, Err(expected.to_owned()), "{start:?}");
        assert!(at_ms <= DEADLINE_MS);
    }
    let (answer, at_ms) = ask(Box::new(whole.iter().copied()), &[b'x'; 2000]);
    assert_eq!((answer, at_ms), (Err("timed out".to_owned()), DEADLINE_MS), "a server that reads as slowly");
    let (answer, _) = ask(Box::new(std::iter::empty()), request);
    assert_eq!(answer, Err("the connection closed within the answer".to_owned()));
}

/// A server on loopback that keeps the connection open and sends the same piece until the other side closes.
fn endless(start: &'static str, piece: &'static str) -> Result<Answer, HttpError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        let mut sent = stream.write_all(start.as_bytes());
        while sent.is_ok() && !piece.is_empty() {
            sent = stream.write_all(piece.repeat(1000).as_bytes());
        }
        // Reading ends when the other side closes.
        let _ = stream.read(&mut [0]);
    });
    let deadline = Instant::now() + Duration::from_secs(600);
    let mut stream = connect([address], deadline).unwrap();
    let answer = exchange(&mut stream, b"ask\n", BODY_BYTES_MAX, deadline);
    drop(stream);
    server.join().unwrap();
    answer
}

#[test]
fn a_server_that_never_ends_is_left_after_a_bounded_number_of_bytes() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let answer = endless("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "").unwrap();
    assert_eq!((answer.status, answer.body), (200, b"x".to_vec()));
    for (start, piece, expected) in [
        (ok, "A: b\r\n", BadAnswer::HeadTooLong),
        (ok, "x", BadAnswer::HeadTooLong),
        ("", "HTTP/1.1 100 Go\r\n\r\n", BadAnswer::HeadTooLong),
        ("HTTP/1.1 200 OK\r\n\r\n", "x", BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX }),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\nx\r\n",
            BadAnswer::BodyTooLong { bytes_max: BODY_BYTES_MAX },
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n", BadAnswer::HeadTooLong),
    ] {
        match endless(start, piece) {
            Err(HttpError::BadAnswer(error)) => assert_eq!(error, expected, "{start:?} {piece:?}"),
            other => panic!("{start:?} {piece:?}: {other:?}"),
        }
    }
}

#[test]
fn a_connection_is_made_to_the_first_that_listens_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    // The test binds the socket but does not listen, so that no other program gets the port.
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let closed = net::getsockname(&socket).unwrap().try_into().unwrap();
    let kind = |addresses: &[SocketAddr], deadline| {
        connect(addresses.iter().copied(), deadline).map(drop).map_err(|error| error.kind())
    };
    let later = Instant::now() + Duration::from_secs(600);
    assert_eq!(kind(&[closed, open], later), Ok(()));
    assert_eq!(kind(&[closed, closed], later), Err(ErrorKind::ConnectionRefused));
    assert_eq!(kind(&[], later), Err(ErrorKind::AddrNotAvailable));
    assert_eq!(kind(&[open], Instant::now()), Err(ErrorKind::TimedOut));
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        text in "(HTTP/1\\.[01] [1-5][0-9][0-9] [a-z]{0,3}\r\n((Content-Length: [0-9]{1,2}|Transfer-Encoding: chunked|a:b)\r\n){0,2}\r\n)?([0-9a-f]{0,2}\r\n|.{0,9}|\r\n){0,8}",
        piece in 1_usize..9,
    ) {
        let whole = read(text.as_bytes(), usize::MAX);
        prop_assert_eq!(read(text.as_bytes(), piece), whole);
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..64) {
        if let Ok(answer) = read(&bytes, piece) {
            prop_assert!(answer.body.len() <= bytes.len());
        }
    }

    #[test]
    fn complete_answers_are_read_completely(status in 200_u16..600, body in prop::collection::vec(any::<u8>(), 0..99), piece in 1_usize..99) {
        prop_assume!(status != 204 && status != 304);
        let mut bytes = format!("HTTP/1.1 {status} X\r\ncontent-LENGTH:  {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(&body);
        prop_assert_eq!(read(&bytes, piece).unwrap().body, body.clone());
        let mut bytes = format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(piece) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        prop_assert_eq!(read(&bytes, piece).unwrap().body, body);
    }
}
