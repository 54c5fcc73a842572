//! `Player`: one player without a socket. Its inputs are packets and the time; its outputs are packets and events.

use std::collections::VecDeque;

use super::keys::Keys;
use super::wire::{
    ACCEPT, CLOSE, CONNECT, CONNECT_ACCEPT, Chunk, KEEP_ALIVE, NO_TOKEN, Packet, SEQUENCES, TOKEN_MAGIC, Token, Writer,
    control, put_number, put_text, take_number,
};

/// The version of the protocol, which the server checks.
const VERSION: &str = "0.6 626fce9a778df4d4";
/// The number of nanoseconds after which unacknowledged data is sent again.
const RESEND_NS: u64 = 500_000_000;
/// The maximum number of reliable chunks that wait for an acknowledgement. Joining needs four.
const WAITING_MAX: usize = 8;
/// The maximum number of parts of a snapshot, because each part needs a bit of a word.
const PARTS_MAX: i32 = 64;
/// An input applies to the tick that follows the newest snapshot by this many ticks, as with a nearby server.
const AHEAD_TICKS: i32 = 2;

/// Numbers of engine messages.
mod system {
    pub(super) const EXTENDED: i32 = 0;
    pub(super) const INFO: i32 = 1;
    pub(super) const MAP_CHANGE: i32 = 2;
    pub(super) const CON_READY: i32 = 4;
    pub(super) const SNAP: i32 = 5;
    pub(super) const SNAP_EMPTY: i32 = 6;
    pub(super) const SNAP_SINGLE: i32 = 7;
    pub(super) const READY: i32 = 14;
    pub(super) const ENTER_GAME: i32 = 15;
    pub(super) const INPUT: i32 = 16;
    /// DDNet's own ping. The answer contains the same data.
    pub(super) const PING: [u8; 16] = 0xbcb4_3bf5_427c_36d8_b5b8_7975_c8c0_6aa1_u128.to_be_bytes();
    pub(super) const PONG: [u8; 16] = 0xd829_5530_14a7_3a0a_b02e_b2ce_e08d_2033_u128.to_be_bytes();
}

/// Numbers of game messages.
mod game {
    pub(super) const READY_TO_ENTER: i32 = 8;
    pub(super) const START_INFO: i32 = 20;
}

/// An event that a packet from the server caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A snapshot of the game is complete.
    Snapshot {
        /// The tick of the snapshot.
        tick: i32,
    },
    /// A ping was answered.
    Pong {
        /// When the ping was sent, on the clock that the caller passed.
        sent_ns: u64,
    },
    /// The server closed the connection.
    Closed {
        /// The server's reason, without characters that could harm a terminal.
        why: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The server has not answered yet.
    Connecting,
    /// The server is about to accept the player.
    Joining,
    Playing,
    Closed,
}

/// A chunk that is not acknowledged yet.
#[derive(Debug)]
struct Waiting {
    sequence: u16,
    message: Vec<u8>,
    sent_ns: u64,
}

/// A snapshot whose parts have not all arrived, with a bit for each received part.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    tick: i32,
    seen: u64,
}

/// One player.
#[derive(Debug)]
pub struct Player {
    name: String,
    state: State,
    token: Token,
    /// The number of the newest reliable chunk from the server.
    ack: u16,
    /// The number of this player's newest reliable chunk.
    sequence: u16,
    waiting: VecDeque<Waiting>,
    /// When the player sent the last packet that may have to be repeated.
    asked_ns: Option<u64>,
    /// The tick of the newest complete snapshot. None before the first snapshot.
    newest: Option<i32>,
    parts: Parts,
    pub(super) keys: Keys,
    /// A random number in this player's pings. It keeps the player from taking an answer to another player's ping for its own.
    mark: u64,
}

impl Player {
    /// A player that has sent nothing yet. The seed determines all of its random choices.
    pub fn new(number: u32, seed: u64) -> Player {
        let keys = Keys::new(seed, number);
        let mark = keys.mark();
        Player {
            name: format!("evenkeel {number}"),
            state: State::Connecting,
            token: NO_TOKEN,
            ack: 0,
            sequence: 0,
            waiting: VecDeque::new(),
            asked_ns: None,
            newest: None,
            parts: Parts::default(),
            keys,
            mark,
        }
    }

    /// Whether the player is in the game and has received a snapshot.
    pub fn is_playing(&self) -> bool {
        self.state == State::Playing && self.newest.is_some()
    }

    /// The packet, other than an input, that is due now. None if no packet is due. Call this function regularly.
    pub fn urge(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let is_due = |sent_ns: u64| now_ns.saturating_sub(sent_ns) >= RESEND_NS;
        match self.state {
            State::Connecting => {
                if self.asked_ns.is_some_and(|sent_ns| !is_due(sent_ns)) {
                    return None;
                }
                self.asked_ns = Some(now_ns);
                Some(control(CONNECT, TOKEN_MAGIC, 0, NO_TOKEN))
            }
            // Nothing has arrived yet. The server may not have received the player's accept message. It then does not know the player.
            State::Joining if self.ack == 0 && self.asked_ns.is_none_or(is_due) => {
                self.asked_ns = Some(now_ns);
                Some(control(ACCEPT, &[], 0, self.token))
            }
            State::Joining | State::Playing => {
                if !self.waiting.front().is_some_and(|oldest| is_due(oldest.sent_ns)) {
                    return None;
                }
                self.resend(now_ns)
            }
            State::Closed => None,
        }
    }

    /// The packet with the input and a ping of one tick. `None` unless the player is in the game.
    pub fn input(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let newest = self.newest.filter(|_| self.state == State::Playing)?;
        let mut writer = Writer::default();
        let mut message = begin(system::INPUT, true);
        let input = self.keys.next_input();
        let size = i32::try_from(size_of_val(&input)).unwrap_or_default();
        for number in [newest, newest.wrapping_add(AHEAD_TICKS), size].into_iter().chain(input) {
            put_number(number, &mut message);
        }
        writer.chunk(&message, None);
        let mut message = begin(system::EXTENDED, true);
        message.extend(system::PING);
        message.extend(now_ns.to_be_bytes());
        message.extend(self.mark.to_be_bytes());
        writer.chunk(&message, None);
        Some(writer.finish(self.ack, self.token))
    }

    /// The last packet of the player. A server that gets this packet removes the player at once.
    pub fn leave(&mut self) -> Option<Vec<u8>> {
        let was = std::mem::replace(&mut self.state, State::Closed);
        matches!(was, State::Joining | State::Playing).then(|| control(CLOSE, &[0], self.ack, self.token))
    }

    /// Handles a packet from the server's address. Immediate replies go into `answer`, and events into `events`.
    pub fn hear(&mut self, bytes: &[u8], now_ns: u64, answers: &mut Vec<Vec<u8>>, events: &mut Vec<Event>) {
        let Some(packet) = Packet::parse(bytes) else { return };
        if packet.is_control {
            return self.hear_control(&packet, now_ns, answers, events);
        }
        if packet.token != self.token || !matches!(self.state, State::Joining | State::Playing) {
            return;
        }
        self.acknowledged(packet.ack);
        for chunk in packet.chunks() {
            if self.is_next(&chunk) {
                self.hear_message(chunk.message, events);
            }
        }
        if packet.wants_resend {
            answers.extend(self.resend(now_ns));
        } else if self.waiting.iter().any(|waiting| waiting.sent_ns == 0) {
            answers.push(self.fresh(now_ns));
        } else if self.state == State::Joining && packet.chunks().any(|chunk| chunk.sequence.is_some()) {
            // While the player is in the game, its inputs acknowledge the received packets.
            answers.push(control(KEEP_ALIVE, &[], self.ack, self.token));
        }
    }

    fn hear_control(&mut self, packet: &Packet, now_ns: u64, answers: &mut Vec<Vec<u8>>, events: &mut Vec<Event>) {
        let Some((message, more)) = packet.payload.split_first() else { return };
        match (*message, self.state) {
            (CONNECT_ACCEPT, State::Connecting) if more.starts_with(TOKEN_MAGIC) && packet.token != NO_TOKEN => {
                self.token = packet.token;
                self.state = State::Joining;
                self.asked_ns = Some(now_ns);
                answers.push(control(ACCEPT, &[], 0, self.token));
                let mut info = begin(system::INFO, true);
                put_text(VERSION, &mut info);
                // The password is empty.
                put_text("", &mut info);
                self.queue(info);
                answers.push(self.fresh(now_ns));
            }
            // A server that is full or refuses the player may not use tokens.
            // Then the parser took the last bytes of its reason for the token.
            (CLOSE, State::Connecting) => self.closed(&[more, &packet.token].concat(), events),
            (CLOSE, State::Joining | State::Playing) if packet.token == self.token => self.closed(more, events),
            _ => {}
        }
    }

    fn closed(&mut self, why: &[u8], events: &mut Vec<Event>) {
        self.state = State::Closed;
        let why = why.split(|byte| *byte == 0).next().unwrap_or_default();
        let why = String::from_utf8_lossy(why).chars().filter(|letter| !letter.is_control()).take(120).collect();
        events.push(Event::Closed { why });
    }

    /// Whether a chunk is new. A reliable chunk counts only once, and only right after its predecessor.
    fn is_next(&mut self, chunk: &Chunk<'_>) -> bool {
        let Some(sequence) = chunk.sequence else { return true };
        let is_next = sequence == (self.ack + 1) % SEQUENCES;
        if is_next {
            self.ack = sequence;
        }
        is_next
    }

    fn hear_message(&mut self, mut message: &[u8], events: &mut Vec<Event>) {
        let Some(id) = take_number(&mut message) else { return };
        let is_system = id & 1 != 0;
        match (id >> 1, is_system) {
            (system::MAP_CHANGE, true) => {
                // The player does not request the map, because it can move without the map.
                self.newest = None;
                self.state = State::Joining;
                self.queue(begin(system::READY, true));
            }
            (system::CON_READY, true) => {
                let mut info = begin(game::START_INFO, false);
                put_text(&self.name, &mut info);
                put_text("", &mut info);
                put_number(-1, &mut info);
                put_text("default", &mut info);
                for colour in [0, 0, 0] {
                    put_number(colour, &mut info);
                }
                self.queue(info);
            }
            (game::READY_TO_ENTER, false) => {
                self.state = State::Playing;
                self.queue(begin(system::ENTER_GAME, true));
            }
            (system::SNAP | system::SNAP_EMPTY | system::SNAP_SINGLE, true) => {
                events.extend(self.snapshot(id >> 1, message).map(|tick| Event::Snapshot { tick }));
            }
            (system::EXTENDED, true) => {
                events.extend(self.pong(message));
            }
            _ => {}
        }
    }

    fn pong(&self, message: &[u8]) -> Option<Event> {
        let (sent, mark) = message.strip_prefix(&system::PONG)?.split_first_chunk::<8>()?;
        (mark == self.mark.to_be_bytes()).then(|| Event::Pong { sent_ns: u64::from_be_bytes(*sent) })
    }

    /// The tick of a snapshot, if this part completes the snapshot and the snapshot is newer than all earlier ones.
    fn snapshot(&mut self, kind: i32, mut message: &[u8]) -> Option<i32> {
        let tick = take_number(&mut message)?;
        // The tick of the base snapshot. The player does not need it, because the player unpacks nothing.
        take_number(&mut message)?;
        if kind == system::SNAP {
            let (parts, part) = (take_number(&mut message)?, take_number(&mut message)?);
            if !(1..=PARTS_MAX).contains(&parts) || !(0..parts).contains(&part) {
                return None;
            }
            if self.parts.tick != tick {
                self.parts = Parts { tick, seen: 0 };
            }
            self.parts.seen |= 1 << part;
            if self.parts.seen.count_ones() as i32 != parts {
                return None;
            }
        }
        if self.newest.is_some_and(|newest| newest >= tick) {
            return None;
        }
        self.newest = Some(tick);
        Some(tick)
    }

    fn acknowledged(&mut self, ack: u16) {
        if let Some(index) = self.waiting.iter().position(|waiting| waiting.sequence == ack) {
            self.waiting.drain(..=index);
        }
    }

    /// Queues a message for reliable delivery.
    fn queue(&mut self, message: Vec<u8>) {
        if self.waiting.len() < WAITING_MAX {
            self.sequence = (self.sequence + 1) % SEQUENCES;
            self.waiting.push_back(Waiting { sequence: self.sequence, message, sent_ns: 0 });
        }
    }

    /// A packet with the queued messages that have not been sent yet.
    fn fresh(&mut self, now_ns: u64) -> Vec<u8> {
        let mut writer = Writer::default();
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.sent_ns == 0) {
            if writer.chunk(&waiting.message, Some(waiting.sequence)) {
                waiting.sent_ns = now_ns;
            }
        }
        writer.finish(self.ack, self.token)
    }

    /// A packet with all messages that are not acknowledged yet. None if every message was acknowledged.
    fn resend(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        self.waiting.iter_mut().for_each(|waiting| waiting.sent_ns = 0);
        (!self.waiting.is_empty()).then(|| self.fresh(now_ns))
    }
}

/// The header of a message: its number, and whether it is a message of the engine.
fn begin(id: i32, is_system: bool) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    put_number(id << 1 | i32::from(is_system), &mut message);
    message
}
