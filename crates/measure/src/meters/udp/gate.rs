//! `Gate`: decides what a server does with a packet from any sender.
//! The gate has no sockets and receives the time as an argument, so every rule can be tested.
//! An address that has not returned a cookie uses no memory and gets no answer longer than its question.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use serde::Serialize;

use super::give::{Due, Give, grant};
use super::limit::{Allowance, Bucket, Cookies, Strangers};
use super::order::Order;
use super::wire::{FromClient, FromServer, Numbered, SessionCounts, StreamRequest};

/// A session that was silent for this long is closed. A cookie expires earlier, so nobody can replay a recorded opening.
pub(super) const SILENCE_NS: u64 = 5_000_000_000;

/// The maximum number of simultaneous sessions.
pub(super) const SESSIONS_MAX: usize = 64;

/// The limit of handshakes per host.
const STRANGER: Allowance = Allowance { per_s: 200, burst: 200 };
/// The limit of bursts per session.
const BURSTS: Allowance = Allowance { per_s: 10, burst: 10 };
/// The limit of requests per session. A client repeats its request as long as it wants packets.
const REQUESTS: Allowance = Allowance { per_s: 20, burst: 20 };
/// The limit per session of questions for the counts.
const COUNTS: Allowance = Allowance { per_s: 100, burst: 100 };

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send this message.
    Reply(FromServer),
    /// Return the packet as the answer of the session with this number.
    Echo(Numbered, u64),
    /// Do nothing, because the gate has counted the packet.
    Counted,
    /// Send the counts, together with numbers that only the owner of the socket knows.
    Counts {
        /// The session's secret.
        session: u64,
        /// The number of the question, which the answer repeats.
        ask: u64,
        /// The counts that the gate has.
        tally: SessionCounts,
    },
    /// Send this many packets of this size.
    Burst {
        /// The session's secret.
        session: u64,
        /// The number of packets.
        packets: u32,
        /// The length of each packet, in bytes.
        bytes: u16,
    },
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not a packet of this protocol.
    Malformed,
    /// The sender has no session with this address and secret, or no valid cookie.
    Unproven,
    /// The packet exceeds the sender's limit.
    TooMany,
}

/// Counts of packets by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// Packets that were answered, or counted for a session.
    pub taken: u64,
    /// Packets that are not of this protocol.
    pub malformed: u64,
    /// Packets without a session or a valid cookie.
    pub unproven: u64,
    /// Packets beyond the sender's limit.
    pub too_many: u64,
    /// Sessions that were opened.
    pub sessions: u64,
}

/// The sessions, and the rules for opening one.
#[derive(Debug)]
pub struct Gate {
    echoes: Allowance,
    give_bits_per_s_max: u64,
    cookies: Cookies,
    secrets: RandomState,
    strangers: Strangers,
    sessions: HashMap<SocketAddr, Session>,
    counted: Counted,
}

#[derive(Debug)]
struct Session {
    nonce: u64,
    secret: u64,
    heard_ns: u64,
    first_ns: u64,
    last_ns: u64,
    bytes: u64,
    answered: u64,
    refused: u64,
    order: Order,
    echoes: Bucket,
    bursts: Bucket,
    counts: Bucket,
    requests: Bucket,
    /// The last request of the session. A delayed request must not restart an old one.
    give: Option<Give>,
}

/// Requested packets that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) to: SocketAddr,
    pub(super) session: u64,
    pub(super) due: Due,
}

/// A packet as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The packet's source address, which may be forged.
    pub from: SocketAddr,
    /// When the packet arrived, in nanoseconds on a clock that never goes back.
    pub now_ns: u64,
    /// The packet's payload.
    pub bytes: &'a [u8],
}

impl Gate {
    /// A gate without sessions. Each session gets this many echoes per second.
    pub fn new(echoes_per_s_max: u64) -> Gate {
        Gate {
            // Allow a tenth of a second of packets at once, because a sender that lost its CPU catches up.
            echoes: Allowance { per_s: echoes_per_s_max, burst: (echoes_per_s_max / 10).max(64) },
            give_bits_per_s_max: 0,
            cookies: Cookies::default(),
            secrets: RandomState::new(),
            strangers: Strangers::new(STRANGER),
            sessions: HashMap::with_capacity(SESSIONS_MAX),
            counted: Counted::default(),
        }
    }

    /// A gate that also sends packets to clients that request them. It serves one host at a time, with this many bits per second in all.
    pub fn giving(self, bits_per_s_max: u64) -> Gate {
        Gate { give_bits_per_s_max: bits_per_s_max, ..self }
    }

    /// The counts of all packets.
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// The open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Decides what to do with a packet.
    ///
    /// # Errors
    /// Fails if the packet must be dropped without an answer.
    pub fn admit(&mut self, arrival: Arrival<'_>) -> Result<Act, Refusal> {
        let decided = self.decide(arrival);
        match decided {
            Ok(_) => self.counted.taken += 1,
            Err(Refusal::Malformed) => self.counted.malformed += 1,
            Err(Refusal::Unproven) => self.counted.unproven += 1,
            Err(Refusal::TooMany) => self.counted.too_many += 1,
        }
        decided
    }

    fn decide(&mut self, arrival: Arrival<'_>) -> Result<Act, Refusal> {
        let Arrival { from, now_ns, bytes } = arrival;
        match FromClient::parse(bytes).map_err(|_| Refusal::Malformed)? {
            FromClient::Hello { nonce } => {
                self.limit(arrival)?;
                Ok(Act::Reply(FromServer::Challenge { nonce, cookie: self.cookies.bake(from, nonce, now_ns) }))
            }
            FromClient::Open { nonce, cookie } => {
                self.limit(arrival)?;
                if !self.cookies.accepts(from, nonce, now_ns, cookie) {
                    return Err(Refusal::Unproven);
                }
                self.open(from, nonce, now_ns).map(Act::Reply)
            }
            FromClient::Echo(numbered) => {
                let echoes = self.echoes;
                let session = self.prove(from, numbered.session, now_ns)?;
                session.count(numbered.sequence, &arrival);
                if !session.echoes.take(echoes, now_ns) {
                    session.refused += 1;
                    return Err(Refusal::TooMany);
                }
                session.answered += 1;
                Ok(Act::Echo(numbered, session.answered - 1))
            }
            FromClient::Sink(numbered) => {
                self.prove(from, numbered.session, now_ns)?.count(numbered.sequence, &arrival);
                Ok(Act::Counted)
            }
            FromClient::Count { session: secret, ask } => {
                let sessions = self.sessions.len() as u32;
                let session = self.prove(from, secret, now_ns)?;
                if !session.counts.take(COUNTS, now_ns) {
                    return Err(Refusal::TooMany);
                }
                Ok(Act::Counts { session: secret, ask, tally: SessionCounts { sessions, ..session.tally() } })
            }
            FromClient::Burst { session: secret, packets, bytes } => {
                let session = self.prove(from, secret, now_ns)?;
                if !session.bursts.take(BURSTS, now_ns) {
                    return Err(Refusal::TooMany);
                }
                Ok(Act::Burst { session: secret, packets, bytes })
            }
            FromClient::Give(request) => {
                let session = self.prove(from, request.session, now_ns)?;
                if !session.requests.take(REQUESTS, now_ns) {
                    return Err(Refusal::TooMany);
                }
                let packets_per_s = self.give(from, request, now_ns);
                Ok(Act::Reply(FromServer::Given { session: request.session, ask: request.ask, packets_per_s }))
            }
            FromClient::Bye { session } => {
                self.prove(from, session, now_ns)?;
                self.sessions.remove(&from);
                Ok(Act::Counted)
            }
        }
    }

    /// Counts the fillers that were sent.
    pub fn filled(&mut self, to: SocketAddr, packets: u64) {
        if let Some(session) = self.sessions.get_mut(&to) {
            session.answered += packets;
        }
    }

    /// Starts or continues a request of a session with a proved address. Returns the granted rate.
    fn give(&mut self, from: SocketAddr, request: StreamRequest, now_ns: u64) -> Option<u32> {
        if let Some(give) = self.sessions.get_mut(&from)?.give.as_mut() {
            return give.again(request, now_ns);
        }
        let mut running_bits_per_s = 0_u64;
        for (to, give) in self.running(now_ns) {
            if to.ip() != from.ip() {
                return None;
            }
            running_bits_per_s = running_bits_per_s.saturating_add(give.bits_per_s());
        }
        let packets_per_s = grant(&request, self.give_bits_per_s_max, running_bits_per_s)?;
        self.sessions.get_mut(&from)?.give = Some(Give::new(request, packets_per_s, now_ns));
        Some(packets_per_s)
    }

    fn running(&self, now_ns: u64) -> impl Iterator<Item = (&SocketAddr, &Give)> {
        let gives = self.sessions.iter().filter_map(|(to, session)| Some((to, session.give.as_ref()?)));
        gives.filter(move |(_, give)| give.is_running(now_ns))
    }

    /// Whether a session has an active request.
    pub(super) fn gives(&self, now_ns: u64) -> bool {
        self.running(now_ns).next().is_some()
    }

    /// The requested packets that are due, at most this many per session.
    pub(super) fn parcels(&mut self, now_ns: u64, most: u32) -> Vec<Parcel> {
        let due = self.sessions.iter_mut().filter_map(|(to, session)| {
            let due = session.give.as_mut()?.due(now_ns, most)?;
            Some(Parcel { to: *to, session: session.secret, due })
        });
        due.collect()
    }

    /// The cookie was valid: open a session, or repeat the welcome if the first welcome was lost.
    fn open(&mut self, from: SocketAddr, nonce: u64, now_ns: u64) -> Result<FromServer, Refusal> {
        self.sessions.retain(|_, session| now_ns.saturating_sub(session.heard_ns) < SILENCE_NS);
        if let Some(session) = self.sessions.get(&from) {
            // A second attempt from an active address waits until that address is silent, because a replayed opening must not end a session.
            let is_same = session.nonce == nonce;
            return is_same.then_some(FromServer::Welcome { nonce, session: session.secret }).ok_or(Refusal::Unproven);
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Ok(FromServer::Full { nonce });
        }
        self.counted.sessions += 1;
        let secret = self.secrets.hash_one((from, nonce, self.counted.sessions));
        self.sessions.insert(from, Session::new(nonce, secret, now_ns));
        Ok(FromServer::Welcome { nonce, session: secret })
    }

    fn limit(&mut self, arrival: Arrival<'_>) -> Result<(), Refusal> {
        self.strangers.take(arrival.from.ip(), arrival.now_ns).then_some(()).ok_or(Refusal::TooMany)
    }

    /// The session at this address, if the sender knows its secret.
    fn prove(&mut self, from: SocketAddr, secret: u64, now_ns: u64) -> Result<&mut Session, Refusal> {
        let session = self.sessions.get_mut(&from).filter(|session| session.secret == secret);
        let session = session.ok_or(Refusal::Unproven)?;
        session.heard_ns = now_ns;
        Ok(session)
    }
}

impl Session {
    fn new(nonce: u64, secret: u64, now_ns: u64) -> Session {
        Session {
            nonce,
            secret,
            heard_ns: now_ns,
            first_ns: 0,
            last_ns: 0,
            bytes: 0,
            answered: 0,
            refused: 0,
            order: Order::default(),
            echoes: Bucket::default(),
            bursts: Bucket::default(),
            counts: Bucket::default(),
            requests: Bucket::default(),
            give: None,
        }
    }

    fn count(&mut self, sequence: u64, arrival: &Arrival<'_>) {
        if self.bytes == 0 {
            self.first_ns = arrival.now_ns;
        }
        self.last_ns = arrival.now_ns;
        self.bytes += arrival.bytes.len() as u64;
        self.order.see(sequence);
    }

    fn tally(&self) -> SessionCounts {
        let counts = self.order.counts();
        SessionCounts {
            arrived: counts.arrived,
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            extent_max: counts.extent_max,
            too_old: counts.too_old,
            bytes: self.bytes,
            span_ns: self.last_ns.saturating_sub(self.first_ns),
            answered: self.answered,
            refused: self.refused,
            dropped: None,
            cpu_ns: 0,
            sessions: 0,
        }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
