//! The datagrams between client and server. Any bytes give a message or an error, never a panic.
//!
//! Every datagram starts with `E`, `K`, the format (2) and its kind; numbers are little-endian.
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 hello | client | nonce u64, zeros up to 64 bytes in all |
//! | 2 challenge | server | nonce u64, cookie u64 |
//! | 3 join | client | nonce u64, cookie u64, zeros up to 64 bytes in all |
//! | 4 welcome | server | nonce u64, session u64, player u8, tick rate in Hz u16, the map's seed u64 |
//! | 5 full | server | nonce u64 |
//! | 6 input | client | session u64, sequence u32, newest snapshot's tick u32, buttons u8, yaw u16, pitch i16, seen tick u32, part u8 |
//! | 7 ping | client | session u64, sequence u32, client's clock u64 |
//! | 8 pong | server | sequence u32, client's clock u64, server's clock u64 |
//! | 9 snapshot | server | see [`crate::net::snapshot`] |
//!
//! No answer is larger than its question, because hello and join are padded. So a forged source address gains an attacker nothing.
//! Snapshots go only to addresses that have returned a cookie.

use crate::game::history::View;
use crate::game::math::{Look, MAX_PITCH};
use crate::game::sim::{Buttons, PlayerInput};
use crate::net::snapshot::{Packed, Snapshot};

pub use crate::net::error::WireError;

/// The largest datagram of either side. It fits into an Ethernet frame with space for tunnels.
pub const MAX_DATAGRAM_BYTES: usize = 1_200;
/// The size of hello and join, including padding.
pub const HANDSHAKE_BYTES: usize = 64;

const HEADER: [u8; 3] = [b'E', b'K', 2];
const PING_BYTES: usize = 24;
const INPUT_BYTES: usize = 30;

/// A datagram from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromClient {
    /// Asks for a challenge.
    Hello {
        /// A number that the client chooses. Every answer of the handshake repeats it.
        nonce: u64,
    },
    /// Returns the challenge, and so proves the address.
    Join {
        /// The same as in the hello.
        nonce: u64,
        /// The same as in the challenge.
        cookie: u64,
    },
    /// A player's input.
    Input {
        /// The secret from the welcome.
        session: u64,
        /// The number of the input. Numbers count up from 0 or 1.
        sequence: u32,
        /// The tick of the newest snapshot that the client has. 0 for none.
        ack: u32,
        /// The actions.
        input: PlayerInput,
    },
    /// Asks for a pong at once.
    Ping {
        /// The secret from the welcome.
        session: u64,
        /// The number of the ping. Numbers count up, separately from those of inputs.
        sequence: u32,
        /// The client's clock in nanoseconds, which the server returns unchanged.
        sent_ns: u64,
    },
}

/// A datagram from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromServer<'a> {
    /// The cookie that the client must return to prove its address.
    Challenge {
        /// The client's nonce, repeated.
        nonce: u64,
        /// A keyed hash; see [`crate::net::cookie`].
        cookie: u64,
    },
    /// The client has joined.
    Welcome {
        /// The client's nonce, repeated.
        nonce: u64,
        /// The secret that inputs and pings must contain.
        session: u64,
        /// The player's number.
        player: u8,
        /// Ticks per second, and so snapshots per second; at least 1.
        tick_hz: u16,
        /// Seed of the map.
        seed: u64,
    },
    /// The server is full. Try again later.
    Full {
        /// The client's nonce, repeated.
        nonce: u64,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's number, repeated.
        sequence: u32,
        /// The client's clock in the ping, repeated.
        sent_ns: u64,
        /// The server's own clock, in nanoseconds.
        server_ns: u64,
    },
    /// The match as the player may see it.
    Snapshot(Packed<'a>),
}

impl FromClient {
    /// Replaces `out` with this datagram's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Hello { nonce } => {
                start(out, 1);
                out.extend(nonce.to_le_bytes());
                out.resize(HANDSHAKE_BYTES, 0);
            }
            Self::Join { nonce, cookie } => {
                start(out, 3);
                out.extend(nonce.to_le_bytes());
                out.extend(cookie.to_le_bytes());
                out.resize(HANDSHAKE_BYTES, 0);
            }
            Self::Input { session, sequence, ack, input } => {
                start(out, 6);
                out.extend(session.to_le_bytes());
                out.extend(sequence.to_le_bytes());
                out.extend(ack.to_le_bytes());
                put_input(&input, out);
            }
            Self::Ping { session, sequence, sent_ns } => {
                start(out, 7);
                out.extend(session.to_le_bytes());
                out.extend(sequence.to_le_bytes());
                out.extend(sent_ns.to_le_bytes());
            }
        }
    }

    /// Parses a client's datagram.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let (kind, mut body) = open(bytes)?;
        match (kind, bytes.len()) {
            (1, HANDSHAKE_BYTES) => Ok(Self::Hello { nonce: body.u64()? }),
            (3, HANDSHAKE_BYTES) => Ok(Self::Join { nonce: body.u64()?, cookie: body.u64()? }),
            (6, INPUT_BYTES) => Ok(Self::Input {
                session: body.u64()?,
                sequence: body.u32()?,
                ack: body.u32()?,
                input: read_input(&mut body)?,
            }),
            (7, PING_BYTES) => Ok(Self::Ping { session: body.u64()?, sequence: body.u32()?, sent_ns: body.u64()? }),
            (1 | 3 | 6 | 7, _) => Err(WireError::Length),
            (other, _) => Err(WireError::Kind(other)),
        }
    }
}

impl<'a> FromServer<'a> {
    /// Replaces `out` with this datagram's bytes.
    /// A snapshot needs a baseline, so [`encode_snapshot`] encodes it, and this writes nothing for it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Challenge { nonce, cookie } => {
                start(out, 2);
                out.extend(nonce.to_le_bytes());
                out.extend(cookie.to_le_bytes());
            }
            Self::Welcome { nonce, session, player, tick_hz, seed } => {
                start(out, 4);
                out.extend(nonce.to_le_bytes());
                out.extend(session.to_le_bytes());
                out.push(*player);
                out.extend(tick_hz.to_le_bytes());
                out.extend(seed.to_le_bytes());
            }
            Self::Full { nonce } => {
                start(out, 5);
                out.extend(nonce.to_le_bytes());
            }
            Self::Pong { sequence, sent_ns, server_ns } => {
                start(out, 8);
                out.extend(sequence.to_le_bytes());
                out.extend(sent_ns.to_le_bytes());
                out.extend(server_ns.to_le_bytes());
            }
            Self::Snapshot(_) => out.clear(),
        }
    }

    /// Parses a server's datagram.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (kind, mut body) = open(bytes)?;
        let message = match kind {
            2 => Self::Challenge { nonce: body.u64()?, cookie: body.u64()? },
            4 => Self::Welcome {
                nonce: body.u64()?,
                session: body.u64()?,
                player: body.u8()?,
                tick_hz: Some(body.u16()?).filter(|&hz| hz > 0).ok_or(WireError::Range)?,
                seed: body.u64()?,
            },
            5 => Self::Full { nonce: body.u64()? },
            8 => Self::Pong { sequence: body.u32()?, sent_ns: body.u64()?, server_ns: body.u64()? },
            9 => return Packed::read(body.0).map(Self::Snapshot),
            other => return Err(WireError::Kind(other)),
        };
        if body.0.is_empty() { Ok(message) } else { Err(WireError::Length) }
    }
}

/// Replaces `out` with a snapshot's bytes, as changes from `base` if that is usable. At most [`MAX_DATAGRAM_BYTES`].
pub fn encode_snapshot(snapshot: &Snapshot, base: Option<&Snapshot>, out: &mut Vec<u8>) {
    start(out, 9);
    snapshot.pack(base, out);
}

/// Appends an input's 14 bytes.
pub(crate) fn put_input(input: &PlayerInput, out: &mut Vec<u8>) {
    out.push(input.buttons.bits());
    out.extend(input.look.yaw.to_le_bytes());
    out.extend(input.look.pitch.to_le_bytes());
    out.extend(input.view.tick.to_le_bytes());
    out.push(input.view.part);
}

/// Parses what [`put_input`] wrote. The bytes come from a client, so they may be hostile.
pub(crate) fn read_input(body: &mut Body<'_>) -> Result<PlayerInput, WireError> {
    let bits = Some(body.u8()?).filter(|bits| bits & !Buttons::ALL == 0).ok_or(WireError::Range)?;
    let look = Look { yaw: body.u16()?, pitch: body.u16()? as i16 };
    if !(-MAX_PITCH..=MAX_PITCH).contains(&look.pitch) {
        return Err(WireError::Range);
    }
    let view = View { tick: body.u32()?, part: body.u8()? };
    Ok(PlayerInput { buttons: Buttons::from_bits(bits), look, view })
}

fn start(out: &mut Vec<u8>, kind: u8) {
    out.clear();
    out.extend(HEADER);
    out.push(kind);
}

fn open(bytes: &[u8]) -> Result<(u8, Body<'_>), WireError> {
    match bytes.split_first_chunk::<4>() {
        _ if bytes.len() > MAX_DATAGRAM_BYTES => Err(WireError::Length),
        Some(([a, b, c, kind], body)) if [*a, *b, *c] == HEADER => Ok((*kind, Body(body))),
        _ => Err(WireError::Header),
    }
}

/// The rest of a datagram, read from the front.
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl Body<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(WireError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
