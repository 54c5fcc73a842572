//! The protocol between the two ends of the UDP meter.
//! An end accepts a packet only if it is exactly one of these messages. It drops everything else without an answer.
//! Until an address has returned a cookie, no answer is longer than its question.
//!
//! Numbers are big-endian. A packet begins with four bytes that name the protocol, one byte that names the message, and three zeros.

/// The size of a stranger's packet. It is longer than any answer to it, so that a forged address amplifies nothing.
pub const STRANGER_BYTES: usize = 64;
/// The size of [`FromClient::Count`] and of its answer, in bytes.
pub const COUNT_BYTES: usize = 128;
/// The size of [`FromClient::Give`] in bytes. It is longer than its answer.
pub const GIVE_BYTES: usize = 64;
/// The size of [`FromClient::Burst`] and [`FromClient::Bye`], in bytes.
pub const SHORT_BYTES: usize = 32;
/// The size of the shortest echo. The answer has the same length, and carries more fields than the question.
pub const ECHO_BYTES_MIN: usize = 48;
/// The size of the shortest packet that is only counted, or is only filler.
pub const FILLER_BYTES_MIN: usize = 24;
/// The size of the longest packet: the payload of a jumbo Ethernet frame.
pub const PACKET_BYTES_MAX: usize = 8972;
/// Sequence numbers stay below this limit. It suffices for most of a year at ten million packets per second.
pub const SEQUENCE_END: u64 = 1 << 48;
/// The maximum number of packets that one [`FromClient::Burst`] can ask for.
pub const BURST_PACKETS_MAX: u32 = 16_384;

/// The maximum time that one [`FromClient::Give`] can ask for, in milliseconds.
pub const GIVE_MS_MAX: u32 = 60_000;
/// The maximum number of streams that a [`FromClient::Give`] can announce.
pub const GIVE_STREAMS_MAX: u16 = 32;

const MAGIC: [u8; 4] = *b"EKU1";
const HEADER_BYTES: usize = 8;
/// This value means a time of this many nanoseconds or more, or an unknown time.
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

/// The packet does not belong to this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Messages from the measuring end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Asks for a cookie.
    Hello {
        /// A new random number for each attempt.
        nonce: u64,
    },
    /// Opens a session with a cookie.
    Open {
        /// The number from the hello.
        nonce: u64,
        /// The cookie from the challenge.
        cookie: u64,
    },
    /// Asks for this packet to be returned.
    Echo(Numbered),
    /// A packet to count.
    Sink(Numbered),
    /// Asks for the counts.
    Count {
        /// The session's secret.
        session: u64,
        /// A number that distinguishes this question from others.
        ask: u64,
    },
    /// Asks for a burst: packets one after another without a pause.
    Burst {
        /// The session's secret.
        session: u64,
        /// The number of packets, up to [`BURST_PACKETS_MAX`].
        packets: u32,
        /// The length of each packet in bytes.
        bytes: u16,
    },
    /// Ends the session.
    Bye {
        /// The session's secret.
        session: u64,
    },
    /// Asks for packets at a rate for a time. The client repeats this message while packets arrive. The server stops when the repeats stop.
    Give(StreamRequest),
}

/// The packets that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// The session's secret.
    pub session: u64,
    /// A number that distinguishes this request from other requests of the session. A repeat has the same number.
    pub ask: u64,
    /// The duration in milliseconds, up to [`GIVE_MS_MAX`].
    pub ms: u32,
    /// Packets per second; `u32::MAX` asks for the fastest rate.
    pub packets_per_s: u32,
    /// The length of each packet in bytes.
    pub bytes: u16,
    /// The number of simultaneous streams, including this one. They share the server's limit.
    pub streams: u16,
}

/// One packet of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The session's secret.
    pub session: u64,
    /// The packet's number, from 0.
    pub sequence: u64,
    /// When the packet was sent, on the sender's clock in nanoseconds. The other end only returns this time.
    pub sent_ns: u64,
}

/// Messages from the serving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// Asks the client to return with this cookie.
    Challenge {
        /// The number from the hello.
        nonce: u64,
        /// The cookie. It proves that the client receives packets at its address.
        cookie: u64,
    },
    /// The session is open.
    Welcome {
        /// The number from the hello.
        nonce: u64,
        /// The session's secret.
        session: u64,
    },
    /// The server has no free session.
    Full {
        /// The number from the hello.
        nonce: u64,
    },
    /// An echo.
    Answer(Answer),
    /// The counts.
    SessionCounts {
        /// The session's secret.
        session: u64,
        /// The number from the question.
        ask: u64,
        /// The counts of the session.
        tally: SessionCounts,
    },
    /// One packet of a burst.
    Filler {
        /// The session's secret.
        session: u64,
        /// The packet's number, from 0.
        at: u32,
        /// The number of packets in the burst. For a [`FromClient::Give`], this is the maximum number.
        of: u32,
    },
    /// The rate that the server will send for a [`FromClient::Give`].
    Given {
        /// The session's secret.
        session: u64,
        /// The number from the request.
        ask: u64,
        /// Packets per second. It is 0 if the server refuses, because it serves another host or never sends.
        packets_per_s: Option<u32>,
    },
}

/// A returned echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The packet that this message answers.
    pub to: Numbered,
    /// How many answers the server had sent in this session before this answer.
    pub number: u64,
    /// The time from the receipt by the server's kernel until the server's thread read the packet, in nanoseconds. None without a timestamp.
    pub waited_ns: Option<u32>,
    /// The time from that read until the answer was sent, in nanoseconds.
    pub turn_ns: Option<u32>,
}

/// The server's counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Packets that arrived. Each number counts once.
    pub arrived: u64,
    /// Packets whose number had arrived before.
    pub duplicates: u64,
    /// Packets that arrived after a packet with a higher number.
    pub reordered: u64,
    /// The maximum lateness of a packet: how much higher the highest earlier number was.
    pub extent_max: u64,
    /// Packets so late that we do not know whether they are duplicates.
    pub too_old: u64,
    /// The bytes that arrived, without headers.
    pub bytes: u64,
    /// The time from the first to the last packet, in nanoseconds.
    pub span_ns: u64,
    /// Answers, or fillers, that were sent.
    pub answered: u64,
    /// Packets without an answer because the rate limit was exceeded.
    pub refused: u64,
    /// Packets that the server's socket has dropped for lack of buffer since it was opened, from all senders.
    /// None if the kernel does not report this.
    pub dropped: Option<u32>,
    /// CPU time that the server's thread has used since its start, in nanoseconds.
    pub cpu_ns: u64,
    /// Sessions that are open now.
    pub sessions: u32,
}

impl FromClient {
    /// Reads a packet.
    ///
    /// # Errors
    /// Fails if the packet is not one of these messages.
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

    /// The smallest size of this message, in bytes. Only echoes and counted packets may be longer.
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

    /// Writes the message to the start of a packet. The rest of the packet is unchanged.
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
    /// Fails if the packet is not one of these messages.
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

    /// The minimum size of this message, in bytes. Echoes and fillers may be longer.
    pub fn bytes_min(&self) -> usize {
        match self {
            FromServer::Challenge { .. } | FromServer::Welcome { .. } | FromServer::Filler { .. } => 24,
            FromServer::Full { .. } => 16,
            FromServer::Given { .. } => 28,
            FromServer::Answer(_) => ECHO_BYTES_MIN,
            FromServer::SessionCounts { .. } => COUNT_BYTES,
        }
    }

    /// Writes the message to the start of a packet. The rest of the packet is unchanged.
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

/// The message's kind, and the remaining bytes.
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

/// Writes the fields one after another, as far as they fit. The caller provides `bytes_min` bytes.
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
