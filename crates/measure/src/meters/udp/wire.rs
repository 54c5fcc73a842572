//! What the two ends of the UDP meter say to each other. A packet is taken only if it is exactly one of these; everything else is
//! dropped without an answer. Until an address has sent back a cookie, no answer is longer than its question.
//!
//! Numbers are big-endian. A packet begins with four bytes that name the protocol, one that names the message, and three zeros.

/// Bytes of what a stranger may send: longer than any answer to it, so that a forged address gains nobody anything.
pub const STRANGER_BYTES: usize = 64;
/// Bytes of [`FromClient::Count`] and of its answer.
pub const COUNT_BYTES: usize = 128;
/// Bytes of [`FromClient::Give`]: longer than its answer.
pub const GIVE_BYTES: usize = 64;
/// Bytes of [`FromClient::Burst`] and [`FromClient::Bye`].
pub const SHORT_BYTES: usize = 32;
/// The shortest echo: an answer has the same length, and says more than the question.
pub const ECHO_BYTES_MIN: usize = 48;
/// The shortest packet that is only counted, or only fills.
pub const FILLER_BYTES_MIN: usize = 24;
/// The longest packet: what an Ethernet with jumbo frames carries whole.
pub const PACKET_BYTES_MAX: usize = 8972;
/// Sequence numbers stay below this: at ten million packets a second, for most of a year.
pub const SEQUENCE_END: u64 = 1 << 48;
/// The most packets that one [`FromClient::Burst`] can ask for.
pub const BURST_PACKETS_MAX: u32 = 16_384;

/// The longest that one [`FromClient::Give`] can ask for, in milliseconds.
pub const GIVE_MS_MAX: u32 = 60_000;
/// The most streams that a [`FromClient::Give`] can be one of.
pub const GIVE_STREAMS_MAX: u16 = 32;

const MAGIC: [u8; 4] = *b"EKU1";
const HEADER_BYTES: usize = 8;
/// A time of this many nanoseconds or more, or one that nobody knows.
const UNKNOWN_NS: u32 = u32::MAX;

const HELLO: u8 = 1;
const OPEN: u8 = 2;
const ECHO: u8 = 3;
const SINK: u8 = 4;
const COUNT: u8 = 5;
const BURST: u8 = 6;
const BYE: u8 = 7;
const GIVE: u8 = 8;
const CHALLENGE: u8 = 65;
const WELCOME: u8 = 66;
const FULL: u8 = 67;
const ANSWER: u8 = 68;
const TALLY: u8 = 69;
const FILLER: u8 = 70;
const GIVEN: u8 = 71;

/// Not a packet of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// From the one who measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Wants a cookie.
    Hello {
        /// Chosen anew for each attempt.
        nonce: u64,
    },
    /// Opens a session with it.
    Open {
        /// As in the hello.
        nonce: u64,
        /// As in the challenge.
        cookie: u64,
    },
    /// Wants this packet back.
    Echo(Numbered),
    /// Is to be counted.
    Sink(Numbered),
    /// Asks what was counted.
    Count {
        /// The session's secret.
        session: u64,
        /// Tells this question from another.
        ask: u64,
    },
    /// Asks for packets, one after another and all at once.
    Burst {
        /// The session's secret.
        session: u64,
        /// How many, up to [`BURST_PACKETS_MAX`].
        packets: u32,
        /// How long each, in bytes.
        bytes: u16,
    },
    /// Ends the session.
    Bye {
        /// Its secret.
        session: u64,
    },
    /// Asks for packets at a rate for a while. Said again and again while they come: the server ends when it hears no more of it.
    Give(StreamRequest),
}

/// What a client wants to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// The session's secret.
    pub session: u64,
    /// Tells this request from another of the session: one that is said again is the same.
    pub ask: u64,
    /// For how long, in milliseconds, up to [`GIVE_MS_MAX`].
    pub ms: u32,
    /// How many packets a second; `u32::MAX` is as fast as it goes.
    pub packets_per_s: u32,
    /// How long each, in bytes.
    pub bytes: u16,
    /// How many streams there will be at once, this one included: they share what the server sends at the most.
    pub streams: u16,
}

/// A packet among many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The session's secret.
    pub session: u64,
    /// Its number, from 0.
    pub sequence: u64,
    /// When it was sent, on the sender's clock in nanoseconds; the other end only gives it back.
    pub sent_ns: u64,
}

/// From the one who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// Come back with this cookie.
    Challenge {
        /// As in the hello.
        nonce: u64,
        /// Proves that the client gets what is sent to its address.
        cookie: u64,
    },
    /// The session is open.
    Welcome {
        /// As in the hello.
        nonce: u64,
        /// The session's secret.
        session: u64,
    },
    /// There are as many sessions as there may be.
    Full {
        /// As in the hello.
        nonce: u64,
    },
    /// An echo.
    Answer(Answer),
    /// What was counted.
    SessionCounts {
        /// The session's secret.
        session: u64,
        /// As in the question.
        ask: u64,
        /// The numbers.
        tally: SessionCounts,
    },
    /// One of a burst.
    Filler {
        /// The session's secret.
        session: u64,
        /// Its number, from 0.
        at: u32,
        /// How many there are; of those of a [`FromClient::Give`] as many as can be.
        of: u32,
    },
    /// What of a [`FromClient::Give`] will be sent.
    Given {
        /// The session's secret.
        session: u64,
        /// As in the request.
        ask: u64,
        /// How many packets a second; none if the server sends none, because it serves another host, or never does such a thing.
        packets_per_s: Option<u32>,
    },
}

/// An echo that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The packet it answers.
    pub to: Numbered,
    /// How many answers the server had sent in this session before it.
    pub number: u64,
    /// From the server's kernel having the packet to its thread having read it, in nanoseconds; none where there was no stamp.
    pub waited_ns: Option<u32>,
    /// From there until it was sent back.
    pub turn_ns: Option<u32>,
}

/// What a server has counted of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Packets that came, each number once.
    pub arrived: u64,
    /// Packets whose number had come before.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// The furthest that one came too late, in numbers.
    pub extent_max: u64,
    /// Packets so late that it is not known whether they had come before.
    pub too_old: u64,
    /// What came, in bytes without headers.
    pub bytes: u64,
    /// From the first to the last of them, in nanoseconds.
    pub span_ns: u64,
    /// Answers, or fillers, that were sent.
    pub answered: u64,
    /// Packets that were not answered because there were too many in a second.
    pub refused: u64,
    /// Packets that the server's socket had no room for since it was made, whoever sent them; none where the kernel does not tell.
    pub dropped: Option<u32>,
    /// CPU time of the server's thread since it began, in nanoseconds.
    pub cpu_ns: u64,
    /// Sessions that are open now.
    pub sessions: u32,
}

impl FromClient {
    /// Reads a packet.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(bytes: &[u8]) -> Result<FromClient, Malformed> {
        let (kind, mut fields) = open(bytes)?;
        let exactly = |length: usize| if bytes.len() == length { Ok(()) } else { Err(Malformed) };
        let at_least = |length: usize| if bytes.len() >= length { Ok(()) } else { Err(Malformed) };
        match kind {
            HELLO => exactly(STRANGER_BYTES).and_then(|()| Ok(FromClient::Hello { nonce: fields.u64()? })),
            OPEN => {
                exactly(STRANGER_BYTES)?;
                Ok(FromClient::Open { nonce: fields.u64()?, cookie: fields.u64()? })
            }
            ECHO => at_least(ECHO_BYTES_MIN).and_then(|()| Ok(FromClient::Echo(fields.numbered()?))),
            SINK => {
                at_least(FILLER_BYTES_MIN)?;
                let (session, sequence) = (fields.u64()?, fields.sequence()?);
                Ok(FromClient::Sink(Numbered { session, sequence, sent_ns: 0 }))
            }
            COUNT => {
                exactly(COUNT_BYTES)?;
                Ok(FromClient::Count { session: fields.u64()?, ask: fields.u64()? })
            }
            BURST => {
                exactly(SHORT_BYTES)?;
                let (session, packets, bytes) = (fields.u64()?, fields.u32()?, fields.u16()?);
                let is_fit = (1..=BURST_PACKETS_MAX).contains(&packets)
                    && (FILLER_BYTES_MIN..=PACKET_BYTES_MAX).contains(&usize::from(bytes));
                is_fit.then_some(FromClient::Burst { session, packets, bytes }).ok_or(Malformed)
            }
            BYE => exactly(SHORT_BYTES).and_then(|()| Ok(FromClient::Bye { session: fields.u64()? })),
            GIVE => {
                exactly(GIVE_BYTES)?;
                let request = fields.request()?;
                let is_fit = (1..=GIVE_MS_MAX).contains(&request.ms)
                    && request.packets_per_s > 0
                    && (FILLER_BYTES_MIN..=PACKET_BYTES_MAX).contains(&usize::from(request.bytes))
                    && (1..=GIVE_STREAMS_MAX).contains(&request.streams);
                is_fit.then_some(FromClient::Give(request)).ok_or(Malformed)
            }
            _ => Err(Malformed),
        }
    }

    /// The shortest that this message can be, in bytes; all but echoes and counted packets are exactly so long.
    pub fn bytes_min(&self) -> usize {
        match self {
            FromClient::Hello { .. } | FromClient::Open { .. } => STRANGER_BYTES,
            FromClient::Echo(_) => ECHO_BYTES_MIN,
            FromClient::Sink(_) => FILLER_BYTES_MIN,
            FromClient::Count { .. } => COUNT_BYTES,
            FromClient::Burst { .. } | FromClient::Bye { .. } => SHORT_BYTES,
            FromClient::Give(_) => GIVE_BYTES,
        }
    }

    /// Writes it into the beginning of a packet; what follows there stays as it is.
    pub fn write(&self, packet: &mut [u8]) {
        match *self {
            FromClient::Hello { nonce } => Writer::begin(packet, HELLO).u64(nonce).end(),
            FromClient::Open { nonce, cookie } => Writer::begin(packet, OPEN).u64(nonce).u64(cookie).end(),
            FromClient::Echo(numbered) => Writer::begin(packet, ECHO).numbered(numbered).end(),
            FromClient::Sink(Numbered { session, sequence, .. }) => {
                Writer::begin(packet, SINK).u64(session).u64(sequence).end();
            }
            FromClient::Count { session, ask } => Writer::begin(packet, COUNT).u64(session).u64(ask).end(),
            FromClient::Burst { session, packets, bytes } => {
                Writer::begin(packet, BURST).u64(session).u32(packets).u16(bytes).end();
            }
            FromClient::Bye { session } => Writer::begin(packet, BYE).u64(session).end(),
            FromClient::Give(StreamRequest { session, ask, ms, packets_per_s, bytes, streams }) => {
                let written = Writer::begin(packet, GIVE).u64(session).u64(ask).u32(ms).u32(packets_per_s);
                written.u16(bytes).u16(streams).end();
            }
        }
    }
}

impl FromServer {
    /// Reads a packet.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(bytes: &[u8]) -> Result<FromServer, Malformed> {
        let (kind, mut fields) = open(bytes)?;
        match kind {
            CHALLENGE => Ok(FromServer::Challenge { nonce: fields.u64()?, cookie: fields.u64()? }),
            WELCOME => Ok(FromServer::Welcome { nonce: fields.u64()?, session: fields.u64()? }),
            FULL => Ok(FromServer::Full { nonce: fields.u64()? }),
            ANSWER => {
                let to = fields.numbered()?;
                let number = fields.u64()?;
                Ok(FromServer::Answer(Answer { to, number, waited_ns: fields.known()?, turn_ns: fields.known()? }))
            }
            TALLY => {
                Ok(FromServer::SessionCounts { session: fields.u64()?, ask: fields.u64()?, tally: fields.tally()? })
            }
            FILLER => Ok(FromServer::Filler { session: fields.u64()?, at: fields.u32()?, of: fields.u32()? }),
            GIVEN => {
                let (session, ask) = (fields.u64()?, fields.u64()?);
                Ok(FromServer::Given { session, ask, packets_per_s: Some(fields.u32()?).filter(|per_s| *per_s > 0) })
            }
            _ => Err(Malformed),
        }
    }

    /// How long this message is, in bytes; echoes and fillers may be longer.
    pub fn bytes_min(&self) -> usize {
        match self {
            FromServer::Challenge { .. } | FromServer::Welcome { .. } | FromServer::Filler { .. } => 24,
            FromServer::Full { .. } => 16,
            FromServer::Given { .. } => 28,
            FromServer::Answer(_) => ECHO_BYTES_MIN,
            FromServer::SessionCounts { .. } => COUNT_BYTES,
        }
    }

    /// Writes it into the beginning of a packet; what follows there stays as it is.
    pub fn write(&self, packet: &mut [u8]) {
        match *self {
            FromServer::Challenge { nonce, cookie } => Writer::begin(packet, CHALLENGE).u64(nonce).u64(cookie).end(),
            FromServer::Welcome { nonce, session } => Writer::begin(packet, WELCOME).u64(nonce).u64(session).end(),
            FromServer::Full { nonce } => Writer::begin(packet, FULL).u64(nonce).end(),
            FromServer::Answer(Answer { to, number, waited_ns, turn_ns }) => {
                let known = |ns: Option<u32>| ns.unwrap_or(UNKNOWN_NS);
                Writer::begin(packet, ANSWER).numbered(to).u64(number).u32(known(waited_ns)).u32(known(turn_ns)).end();
            }
            FromServer::SessionCounts { session, ask, tally } => {
                Writer::begin(packet, TALLY).u64(session).u64(ask).tally(&tally).end();
            }
            FromServer::Filler { session, at, of } => {
                Writer::begin(packet, FILLER).u64(session).u32(at).u32(of).end();
            }
            FromServer::Given { session, ask, packets_per_s } => {
                Writer::begin(packet, GIVEN).u64(session).u64(ask).u32(packets_per_s.unwrap_or(0)).end();
            }
        }
    }
}

/// The message's kind, and the rest.
fn open(bytes: &[u8]) -> Result<(u8, Reader<'_>), Malformed> {
    let header = bytes.get(..HEADER_BYTES).ok_or(Malformed)?;
    if bytes.len() > PACKET_BYTES_MAX || header[..4] != MAGIC || header[5..] != [0; 3] {
        return Err(Malformed);
    }
    Ok((header[4], Reader { rest: &bytes[HEADER_BYTES..] }))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    fn known(&mut self) -> Result<Option<u32>, Malformed> {
        Ok(Some(self.u32()?).filter(|ns| *ns != UNKNOWN_NS))
    }

    fn sequence(&mut self) -> Result<u64, Malformed> {
        Some(self.u64()?).filter(|sequence| *sequence < SEQUENCE_END).ok_or(Malformed)
    }

    fn numbered(&mut self) -> Result<Numbered, Malformed> {
        Ok(Numbered { session: self.u64()?, sequence: self.sequence()?, sent_ns: self.u64()? })
    }

    fn request(&mut self) -> Result<StreamRequest, Malformed> {
        Ok(StreamRequest {
            session: self.u64()?,
            ask: self.u64()?,
            ms: self.u32()?,
            packets_per_s: self.u32()?,
            bytes: self.u16()?,
            streams: self.u16()?,
        })
    }

    fn tally(&mut self) -> Result<SessionCounts, Malformed> {
        Ok(SessionCounts {
            arrived: self.u64()?,
            duplicates: self.u64()?,
            reordered: self.u64()?,
            extent_max: self.u64()?,
            too_old: self.u64()?,
            bytes: self.u64()?,
            span_ns: self.u64()?,
            answered: self.u64()?,
            refused: self.u64()?,
            dropped: self.known()?,
            cpu_ns: self.u64()?,
            sessions: self.u32()?,
        })
    }
}

/// Writes as much as there is room for: whoever writes a message gives it `bytes_min` bytes.
struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    fn begin(packet: &'a mut [u8], kind: u8) -> Writer<'a> {
        Writer { rest: packet }.put(MAGIC).put([kind, 0, 0, 0])
    }

    fn put<const N: usize>(self, bytes: [u8; N]) -> Writer<'a> {
        match self.rest.split_first_chunk_mut::<N>() {
            Some((first, rest)) => {
                *first = bytes;
                Writer { rest }
            }
            None => Writer { rest: &mut [] },
        }
    }

    fn u16(self, value: u16) -> Writer<'a> {
        self.put(value.to_be_bytes())
    }

    fn u32(self, value: u32) -> Writer<'a> {
        self.put(value.to_be_bytes())
    }

    fn u64(self, value: u64) -> Writer<'a> {
        self.put(value.to_be_bytes())
    }

    fn numbered(self, numbered: Numbered) -> Writer<'a> {
        self.u64(numbered.session).u64(numbered.sequence).u64(numbered.sent_ns)
    }

    fn tally(self, tally: &SessionCounts) -> Writer<'a> {
        self.u64(tally.arrived)
            .u64(tally.duplicates)
            .u64(tally.reordered)
            .u64(tally.extent_max)
            .u64(tally.too_old)
            .u64(tally.bytes)
            .u64(tally.span_ns)
            .u64(tally.answered)
            .u64(tally.refused)
            .u32(tally.dropped.unwrap_or(UNKNOWN_NS))
            .u64(tally.cpu_ns)
            .u32(tally.sessions)
    }

    fn end(self) {}
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
