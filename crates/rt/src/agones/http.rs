//! What a sidecar answers, as HTTP/1.1 has it: whatever comes, the answer is bounded, or it is an error. Pure: the bytes come in.

/// A head or a chunk's line that is longer is no answer.
const HEAD_MAX: usize = 16 << 10;
/// A body that is longer is none either: a game server's description has some thousand bytes.
const BODY_MAX: usize = 256 << 10;
/// Interim answers (1xx) before the real one.
const INTERIM_MAX: u32 = 4;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// No `HTTP/1.x NNN`.
    #[error("no HTTP status line")]
    StatusLine,
    /// A head without an end, or one that cannot be read.
    #[error("a head that is too long or no text")]
    Head,
    /// A length that is no number, or two that do not agree.
    #[error("no telling how long the body is")]
    Length,
    /// A body that is too long.
    #[error("a body of more than 256 KiB")]
    Body,
    /// A chunk that is none.
    #[error("a chunk that is none")]
    Chunk,
    /// The connection ended before the answer did.
    #[error("the connection ended within the answer")]
    Ended,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Such as 200.
    pub status: u16,
    /// Without the marks between chunks.
    pub body: Vec<u8>,
}

/// Takes the bytes of one answer as they come.
#[derive(Debug, Default)]
pub struct Reader {
    /// What came and is not done with.
    bytes: Vec<u8>,
    /// So many of them were looked through for the end of a head or line already.
    searched: usize,
    /// How many came at all.
    taken: usize,
    state: State,
    interim: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Length {
        status: u16,
        bytes: usize,
    },
    /// The line with a chunk's length.
    ChunkLine {
        status: u16,
        body: Vec<u8>,
    },
    Chunk {
        status: u16,
        body: Vec<u8>,
        bytes: usize,
    },
    /// The lines after the last chunk.
    Trailer {
        status: u16,
        body: Vec<u8>,
    },
    ToEnd {
        status: u16,
    },
}

/// How a head says that its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunks,
    ToEnd,
}

impl Reader {
    /// The next bytes. Gives the answer as soon as it is whole; what comes behind it is no part of it.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Answer>, BadAnswer> {
        // Lines between and behind chunks count too, so that a peer can neither make us hold nor read more than this.
        self.taken = self.taken.saturating_add(bytes.len());
        if self.taken > 2 * (HEAD_MAX + BODY_MAX) {
            return Err(BadAnswer::Body);
        }
        self.bytes.extend_from_slice(bytes);
        // Each step takes bytes away or is the last, so it ends.
        loop {
            match self.step()? {
                Step::Again => {}
                Step::More => return Ok(None),
                Step::Whole(answer) => return Ok(Some(answer)),
            }
        }
    }

    /// The connection ended: an answer is whole then only if it says that it ends so.
    pub fn end(self) -> Result<Answer, BadAnswer> {
        match self.state {
            State::ToEnd { status } => Ok(Answer { status, body: self.bytes }),
            _ => Err(BadAnswer::Ended),
        }
    }

    fn step(&mut self) -> Result<Step, BadAnswer> {
        match std::mem::take(&mut self.state) {
            State::Head => self.head(),
            State::Length { status, bytes } if self.bytes.len() >= bytes => {
                self.bytes.truncate(bytes);
                Ok(Step::Whole(Answer { status, body: std::mem::take(&mut self.bytes) }))
            }
            State::ChunkLine { status, body } => self.chunk_line(status, body),
            State::Chunk { status, mut body, bytes } if self.bytes.len() >= bytes + 2 => {
                if &self.bytes[bytes..bytes + 2] != b"\r\n" {
                    return Err(BadAnswer::Chunk);
                }
                body.extend(self.bytes.drain(..bytes + 2).take(bytes));
                self.state = State::ChunkLine { status, body };
                Ok(Step::Again)
            }
            State::Trailer { status, body } => match self.line()? {
                Some(line) if line.is_empty() => Ok(Step::Whole(Answer { status, body })),
                Some(_) => {
                    self.state = State::Trailer { status, body };
                    Ok(Step::Again)
                }
                None => self.wait(State::Trailer { status, body }),
            },
            State::ToEnd { status } if self.bytes.len() > BODY_MAX => {
                self.state = State::ToEnd { status };
                Err(BadAnswer::Body)
            }
            not_yet => self.wait(not_yet),
        }
    }

    fn wait(&mut self, state: State) -> Result<Step, BadAnswer> {
        self.state = state;
        Ok(Step::More)
    }

    fn head(&mut self) -> Result<Step, BadAnswer> {
        let from = self.searched.saturating_sub(3);
        let Some(at) = self.bytes[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
            self.searched = self.bytes.len();
            return if self.searched > HEAD_MAX + 3 { Err(BadAnswer::Head) } else { self.wait(State::Head) };
        };
        let end = from + at;
        if end > HEAD_MAX {
            return Err(BadAnswer::Head);
        }
        let head = std::str::from_utf8(&self.bytes[..end]).map_err(|_| BadAnswer::Head)?;
        let (status, framing) = parse_head(head)?;
        self.bytes.drain(..end + 4);
        self.searched = 0;
        self.state = match (status, framing) {
            (100..200, _) => {
                self.interim += 1;
                if self.interim > INTERIM_MAX { return Err(BadAnswer::Head) } else { State::Head }
            }
            // These have no body, whatever they say.
            (204 | 304, _) => State::Length { status, bytes: 0 },
            (_, Framing::Length(bytes)) => State::Length { status, bytes },
            (_, Framing::Chunks) => State::ChunkLine { status, body: Vec::new() },
            (_, Framing::ToEnd) => State::ToEnd { status },
        };
        Ok(Step::Again)
    }

    fn chunk_line(&mut self, status: u16, body: Vec<u8>) -> Result<Step, BadAnswer> {
        let Some(line) = self.line()? else { return self.wait(State::ChunkLine { status, body }) };
        let bytes = parse_chunk_length(&line).ok_or(BadAnswer::Chunk)?;
        if bytes > BODY_MAX - body.len() {
            return Err(BadAnswer::Body);
        }
        self.state = match bytes {
            0 => State::Trailer { status, body },
            bytes => State::Chunk { status, body, bytes },
        };
        Ok(Step::Again)
    }

    /// Takes a line without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, BadAnswer> {
        let from = self.searched.saturating_sub(1).min(self.bytes.len());
        let Some(at) = self.bytes[from..].windows(2).position(|two| two == b"\r\n") else {
            self.searched = self.bytes.len();
            return if self.searched > HEAD_MAX + 1 { Err(BadAnswer::Chunk) } else { Ok(None) };
        };
        if from + at > HEAD_MAX {
            return Err(BadAnswer::Chunk);
        }
        self.searched = 0;
        let mut line: Vec<u8> = self.bytes.drain(..from + at + 2).collect();
        line.truncate(from + at);
        Ok(Some(line))
    }
}

enum Step {
    Again,
    More,
    Whole(Answer),
}

/// The status, and how the body ends.
fn parse_head(head: &str) -> Result<(u16, Framing), BadAnswer> {
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let mut words = status_line.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().filter(|word| word.len() == 3).and_then(|word| word.parse::<u16>().ok());
    let status = status.filter(|status| (100..600).contains(status)).ok_or(BadAnswer::StatusLine)?;
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(BadAnswer::StatusLine);
    }
    let (mut length, mut is_chunked) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(BadAnswer::Head)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let bytes = value.parse::<usize>().ok().filter(|_| is_number).ok_or(BadAnswer::Length)?;
            if bytes > BODY_MAX {
                return Err(BadAnswer::Body);
            }
            if length.is_some_and(|other| other != bytes) {
                return Err(BadAnswer::Length);
            }
            length = Some(bytes);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // Nothing else is asked for.
            if !value.eq_ignore_ascii_case("chunked") || is_chunked {
                return Err(BadAnswer::Length);
            }
            is_chunked = true;
        }
    }
    match (length, is_chunked) {
        // Two ways to tell the length are one too many: readers differ in which they believe.
        (Some(_), true) => Err(BadAnswer::Length),
        (Some(bytes), false) => Ok((status, Framing::Length(bytes))),
        (None, true) => Ok((status, Framing::Chunks)),
        (None, false) => Ok((status, Framing::ToEnd)),
    }
}

/// `1f` or `1f;name=value`.
fn parse_chunk_length(line: &[u8]) -> Option<usize> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_number = (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    usize::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_number)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As it comes in pieces of so many bytes, and then the connection ends.
    fn read(bytes: &[u8], piece: usize) -> Result<Answer, BadAnswer> {
        let mut reader = Reader::default();
        for piece in bytes.chunks(piece) {
            if let Some(answer) = reader.push(piece)? {
                return Ok(answer);
            }
        }
        reader.end()
    }

    #[test]
    fn answers_end_where_they_say() {
        let ok = |status, body: &str| Ok(Answer { status, body: body.as_bytes().to_vec() });
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(HEAD_MAX));
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(BODY_MAX + 1));
        let interim =
            |times: usize| format!("{}HTTP/1.1 204 None\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n".repeat(times));
        let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n{rest}");
        let table = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned(), ok(200, "{}")),
            ("HTTP/1.1 200 OK\r\ncontent-length:2 \r\n\r\n{}more".to_owned(), ok(200, "{}")),
            ("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n".to_owned(), ok(200, "")),
            ("HTTP/1.0 404 Not Found\r\n\r\ngone".to_owned(), ok(404, "gone")),
            ("HTTP/1.1 204 None\r\nContent-Length: 9\r\n\r\n".to_owned(), ok(204, "")),
            (interim(4), ok(204, "")),
            (interim(5), Err(BadAnswer::Head)),
            (chunked("2\r\n{\"\r\n3;a=b\r\na\":\r\n02 \r\n1}\r\n0\r\n\r\n"), ok(200, "{\"a\":1}")),
            (chunked("1\r\nx\r\n0\r\nDigest: 1\r\nOther: 2\r\n\r\n"), ok(200, "x")),
            (chunked("1\r\nxy\r\n0\r\n\r\n"), Err(BadAnswer::Chunk)),
            (chunked("\r\n"), Err(BadAnswer::Chunk)),
            (chunked("+1\r\nx\r\n"), Err(BadAnswer::Chunk)),
            (chunked("ffffffffffffffffff\r\n"), Err(BadAnswer::Chunk)),
            (chunked("7fffffff\r\n"), Err(BadAnswer::Body)),
            (chunked("1\r\nx\r\n0\r\n"), Err(BadAnswer::Ended)),
            (chunked(&"x".repeat(HEAD_MAX + 2)), Err(BadAnswer::Chunk)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}".to_owned(), Err(BadAnswer::Ended)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}".to_owned(), Err(BadAnswer::Length)),
            ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}".to_owned(), Err(BadAnswer::Length)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}".to_owned(), Err(BadAnswer::Body)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}".to_owned(),
                Err(BadAnswer::Length),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}".to_owned(), Err(BadAnswer::Length)),
            ("HTTP/1.1 2000 OK\r\n\r\n".to_owned(), Err(BadAnswer::StatusLine)),
            ("HTTP/2 200 OK\r\n\r\n".to_owned(), Err(BadAnswer::StatusLine)),
            ("SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned(), Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 200 OK\r\nno header\r\n\r\n".to_owned(), Err(BadAnswer::Head)),
            ("HTTP/1.1 200 OK\r\n".to_owned(), Err(BadAnswer::Ended)),
            (String::new(), Err(BadAnswer::Ended)),
            (long, Err(BadAnswer::Head)),
            (endless, Err(BadAnswer::Body)),
        ];
        for (text, expected) in table {
            for piece in [1, 2, 3, 7, 4096, usize::MAX] {
                let shown = &text[..text.len().min(80)];
                assert_eq!(read(text.as_bytes(), piece), expected, "in pieces of {piece}: {shown:?}");
            }
        }
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
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..64) {
            if let Ok(answer) = read(&bytes, piece) {
                prop_assert!(answer.body.len() <= bytes.len());
            }
        }
    }
}
