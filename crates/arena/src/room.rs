//! The match with its clients, but without sockets and clocks. Acts go in, and a datagram for each client comes out.
//! Everything follows from the acts, so a recorded match can be replayed byte for byte.

use crate::game::sim::{Fnv, PlayerInput, Sim, SimConfig, Slot};
use crate::net::snapshot::{MAX_BASE_TICKS, MAX_SEEN, Snapshot};
use crate::net::wire::{MAX_DATAGRAM_BYTES, encode_snapshot};
use crate::worker_group::WorkerGroup;

const KEPT: usize = MAX_BASE_TICKS as usize + 1;

/// An outside event that changes a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A player joined.
    Join(Slot),
    /// A player has left.
    Leave(Slot),
    /// A player sent an input.
    Input(Slot, ClientInput),
}

/// An input of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientInput {
    /// The client's number of the input.
    pub sequence: u32,
    /// The tick of the newest snapshot that the client has. 0 for none.
    pub ack: u32,
    /// The actions.
    pub input: PlayerInput,
}

/// The match and its clients.
#[derive(Debug)]
pub struct Room {
    sim: Sim,
    clients: Vec<ClientState>,
}

/// The server's state of one client.
#[derive(Debug)]
struct ClientState {
    taken: bool,
    ack: u32,
    /// The snapshots that were sent to the client, in a ring by tick.
    sent: Vec<Snapshot>,
    datagram: Vec<u8>,
    is_full: bool,
}

impl ClientState {
    fn new(slots: usize) -> Self {
        let empty = || Snapshot { entities: Vec::with_capacity(slots.max(MAX_SEEN)), ..Snapshot::default() };
        Self {
            taken: false,
            ack: 0,
            sent: (0..KEPT).map(|_| empty()).collect(),
            datagram: Vec::with_capacity(MAX_DATAGRAM_BYTES),
            is_full: true,
        }
    }

    /// Makes this client's snapshot of the tick, as changes from the newest one that it acknowledged.
    fn write(&mut self, sim: &Sim, slot: Slot, due_us: u32) {
        let mut now = std::mem::take(&mut self.sent[sim.tick() as usize % KEPT]);
        now.take(sim, slot, due_us);
        // A client can only acknowledge a snapshot that it was sent. Otherwise it gets a complete one.
        let base = &self.sent[self.ack as usize % KEPT];
        let base = (self.ack != 0 && base.head.tick == self.ack).then_some(base);
        let is_recent = |base: &Snapshot| sim.tick().wrapping_sub(base.head.tick) <= MAX_BASE_TICKS;
        let base = base.filter(|base| is_recent(base));
        self.is_full = base.is_none();
        encode_snapshot(&now, base, &mut self.datagram);
        self.sent[sim.tick() as usize % KEPT] = now;
    }

    fn forget(&mut self, taken: bool) {
        (self.taken, self.ack) = (taken, 0);
        for sent in &mut self.sent {
            sent.head.tick = 0;
        }
    }
}

impl Room {
    /// An empty match. This allocates all memory.
    pub fn new(config: SimConfig) -> Self {
        let sim = Sim::new(config);
        let slots = config.slots.min(usize::from(u8::MAX));
        Self { sim, clients: (0..slots).map(|_| ClientState::new(slots)).collect() }
    }

    /// The match itself.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Applies an event since the last tick. Invalid slots are ignored.
    pub fn apply(&mut self, act: Act) {
        match act {
            Act::Join(slot) => {
                self.sim.join(slot);
                if let Some(client) = self.clients.get_mut(slot.0) {
                    client.forget(true);
                }
            }
            Act::Leave(slot) => {
                self.sim.leave(slot);
                if let Some(client) = self.clients.get_mut(slot.0) {
                    client.forget(false);
                }
            }
            Act::Input(slot, ClientInput { sequence, ack, input }) => {
                let newest = self.sim.player(slot).map_or(0, |body| body.input_sequence);
                self.sim.set_input(slot, sequence, input);
                if let Some(client) = self.clients.get_mut(slot.0).filter(|_| sequence >= newest) {
                    client.ack = ack;
                }
            }
        }
    }

    /// Runs one tick of the match, and makes its snapshots.
    pub fn tick(&mut self, group: &mut WorkerGroup, due_us: u32) {
        self.sim.step(group);
        let sim = &self.sim;
        group.each_mut(&mut self.clients, |slot, client| {
            if client.taken {
                client.write(sim, Slot(slot), due_us);
            }
        });
    }

    /// The datagram for each client, and whether its snapshot is complete rather than changes.
    pub fn datagrams(&self) -> impl Iterator<Item = (Slot, &[u8], bool)> {
        let clients = self.clients.iter().enumerate().filter(|(_, client)| client.taken);
        clients.map(|(slot, client)| (Slot(slot), &client.datagram[..], client.is_full))
    }

    /// A hash of the state and of every datagram.
    pub fn hash(&self) -> u64 {
        let mut hash = Fnv(self.sim.state_hash());
        self.datagrams().for_each(|(_, bytes, _)| hash.write(bytes));
        hash.0
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
