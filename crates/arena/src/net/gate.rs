//! Decides what a datagram from any sender may do: the handshake, the list of players with proven addresses, replays and rates.
//! The gate has no sockets, and the time is an argument. Only its keys are random.
//!
//! Until an address has returned a cookie, it costs the server no memory and gets no answer larger than its question.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, TrySendError};

use crate::game::sim::{PlayerInput, Slot};
use crate::net::cookie::{Claim, Cookies};
use crate::net::limit::{Allowance, Strangers, TokenBucket};
use crate::net::seen::ReplayWindow;
use crate::net::wire::{FromClient, FromServer};
use crate::time::SECOND_NS;

/// A player that was silent for this long is gone.
/// A cookie expires earlier, so a recorded join that is sent again cannot bring a player back.
pub const SILENCE_NS: u64 = 3 * SECOND_NS;

const STRANGER: Allowance = Allowance { per_s: 1_000, burst: 1_000 };
/// The limit of challenges to all unknown senders together, so that a flood from forged addresses cannot cost the server too much.
/// An answer costs four times as much as a refusal. A join with a valid cookie is not delayed by this limit.
const CHALLENGES: Allowance = Allowance { per_s: 20_000, burst: 2_000 };
const INPUTS: Allowance = Allowance { per_s: 200, burst: 32 };
/// The limit of pings per player: enough for a probe that asks again as soon as it has its answer.
const PINGS: Allowance = Allowance { per_s: 50_000, burst: 1_000 };

/// An event for the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A player joined.
    Join {
        /// The player's place in the match.
        slot: Slot,
        /// The address for snapshots.
        address: SocketAddr,
    },
    /// A player has left.
    Leave {
        /// The player's place in the match.
        slot: Slot,
    },
    /// A player sent an input.
    Input {
        /// The player's place in the match.
        slot: Slot,
        /// The client's number of the input.
        sequence: u32,
        /// The tick of the newest snapshot that the client has. 0 for none.
        ack: u32,
        /// The actions.
        input: PlayerInput,
    },
}

/// Why a datagram was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not a datagram of a client.
    Malformed,
    /// The address has not joined, the session's secret is missing, or the cookie is invalid.
    Unproven,
    /// The sender sent more than it may send.
    RateLimited,
    /// The datagram was received before, or is too old to check.
    Replayed,
    /// The simulation is behind.
    QueueFull,
}

/// The facts about the game that the gate needs.
#[derive(Debug, Clone, Copy)]
pub struct GateConfig {
    /// The maximum number of players at a time.
    pub slots: usize,
    /// Ticks per second; sent to clients in the welcome.
    pub tick_hz: u16,
    /// The seed of the map; sent to clients in the welcome.
    pub seed: u64,
}

/// The state of the handshake and of every proven client.
#[derive(Debug)]
pub struct Gate {
    config: GateConfig,
    cookies: Cookies,
    session_key: RandomState,
    sessions: u64,
    strangers: Strangers,
    challenges: TokenBucket,
    by_address: HashMap<SocketAddr, Slot>,
    clients: Vec<Option<KnownClient>>,
    events: SyncSender<Event>,
}

#[derive(Debug)]
struct KnownClient {
    address: SocketAddr,
    nonce: u64,
    session: u64,
    heard_ns: u64,
    inputs: ReplayWindow,
    pings: ReplayWindow,
    input_tokens: TokenBucket,
    ping_tokens: TokenBucket,
}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The datagram's source address, which may be forged.
    pub from: SocketAddr,
    /// The time of arrival.
    pub now_ns: u64,
    /// The datagram's bytes.
    pub bytes: &'a [u8],
}

impl Gate {
    /// A gate without players. It puts events for the simulation into `events`.
    pub fn new(config: GateConfig, events: SyncSender<Event>) -> Self {
        Self {
            config,
            cookies: Cookies::default(),
            session_key: RandomState::new(),
            sessions: 0,
            strangers: Strangers::new(STRANGER),
            challenges: TokenBucket::default(),
            by_address: HashMap::with_capacity(config.slots),
            clients: (0..config.slots).map(|_| None).collect(),
            events,
        }
    }

    /// The number of players.
    pub fn players(&self) -> usize {
        self.by_address.len()
    }

    /// Handles one datagram. Returns an immediate answer, if there is one.
    pub fn admit(&mut self, arrival: Arrival<'_>) -> Result<Option<FromServer<'static>>, Refusal> {
        let message = FromClient::parse(arrival.bytes).map_err(|_| Refusal::Malformed)?;
        let Arrival { from, now_ns, .. } = arrival;
        match message {
            FromClient::Hello { nonce } => {
                self.limit_stranger(&arrival)?;
                take(&mut self.challenges, CHALLENGES, now_ns)?;
                let cookie = self.cookies.bake(Claim { from, nonce }, now_ns);
                Ok(Some(FromServer::Challenge { nonce, cookie }))
            }
            FromClient::Join { nonce, cookie } => {
                self.limit_stranger(&arrival)?;
                let claim = Claim { from, nonce };
                if !self.cookies.accepts(claim, now_ns, cookie) {
                    return Err(Refusal::Unproven);
                }
                self.join(claim, now_ns).map(Some)
            }
            FromClient::Input { session, sequence, ack, input } => {
                let (slot, client) = self.prove(from, session)?;
                // Check in this order, so that replayed datagrams do not use up the player's rate.
                fresh(&mut client.inputs, sequence)?;
                take(&mut client.input_tokens, INPUTS, now_ns)?;
                client.heard_ns = now_ns;
                self.send(Event::Input { slot, sequence, ack, input })?;
                Ok(None)
            }
            FromClient::Ping { session, sequence, sent_ns } => {
                let (_, client) = self.prove(from, session)?;
                fresh(&mut client.pings, sequence)?;
                take(&mut client.ping_tokens, PINGS, now_ns)?;
                client.heard_ns = now_ns;
                Ok(Some(FromServer::Pong { sequence, sent_ns, server_ns: now_ns }))
            }
        }
    }

    /// Removes players that have been silent for [`SILENCE_NS`]. If the simulation's queue is full, the player stays until the next sweep.
    pub fn sweep(&mut self, now_ns: u64) {
        for slot in 0..self.clients.len() {
            let Some(Some(client)) = self.clients.get(slot) else {
                continue;
            };
            let silent = now_ns.saturating_sub(client.heard_ns) >= SILENCE_NS;
            let address = client.address;
            if silent && self.send(Event::Leave { slot: Slot(slot) }).is_ok() {
                self.by_address.remove(&address);
                self.clients[slot] = None;
            }
        }
    }

    /// The cookie was valid: a new player, or a repeated welcome if the first one was lost.
    fn join(&mut self, claim: Claim, now_ns: u64) -> Result<FromServer<'static>, Refusal> {
        let Claim { from, nonce } = claim;
        if let Some(&slot) = self.by_address.get(&from) {
            // The address still has a player, and a different nonce means a new attempt to join.
            // The new attempt must wait until the old connection is silent. Otherwise a replayed join could throw a player out.
            return match &self.clients[slot.0] {
                Some(client) if client.nonce == nonce => Ok(self.welcome(slot, client)),
                _ => Err(Refusal::Replayed),
            };
        }
        let Some(free) = self.clients.iter().position(Option::is_none) else {
            return Ok(FromServer::Full { nonce });
        };
        let slot = Slot(free);
        self.send(Event::Join { slot, address: from })?;
        self.sessions += 1;
        let client = KnownClient {
            address: from,
            nonce,
            session: self.session_key.hash_one((from, nonce, self.sessions)),
            heard_ns: now_ns,
            inputs: ReplayWindow::default(),
            pings: ReplayWindow::default(),
            input_tokens: TokenBucket::default(),
            ping_tokens: TokenBucket::default(),
        };
        let welcome = self.welcome(slot, &client);
        self.by_address.insert(from, slot);
        self.clients[free] = Some(client);
        Ok(welcome)
    }

    fn welcome(&self, slot: Slot, client: &KnownClient) -> FromServer<'static> {
        FromServer::Welcome {
            nonce: client.nonce,
            session: client.session,
            player: slot.0 as u8,
            tick_hz: self.config.tick_hz,
            seed: self.config.seed,
        }
    }

    fn limit_stranger(&mut self, arrival: &Arrival<'_>) -> Result<(), Refusal> {
        if self.strangers.take(arrival.from.ip(), arrival.now_ns) { Ok(()) } else { Err(Refusal::RateLimited) }
    }

    /// The player at this address, if the sender knows its session's secret.
    fn prove(&mut self, from: SocketAddr, session: u64) -> Result<(Slot, &mut KnownClient), Refusal> {
        let slot = *self.by_address.get(&from).ok_or(Refusal::Unproven)?;
        match self.clients.get_mut(slot.0) {
            Some(Some(client)) if client.session == session => Ok((slot, client)),
            _ => Err(Refusal::Unproven),
        }
    }

    fn send(&self, event: Event) -> Result<(), Refusal> {
        match self.events.try_send(event) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Refusal::QueueFull),
        }
    }
}

fn take(tokens: &mut TokenBucket, allowance: Allowance, now_ns: u64) -> Result<(), Refusal> {
    tokens.take(allowance, now_ns).then_some(()).ok_or(Refusal::RateLimited)
}

fn fresh(window: &mut ReplayWindow, sequence: u32) -> Result<(), Refusal> {
    window.accept(sequence).then_some(()).ok_or(Refusal::Replayed)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
