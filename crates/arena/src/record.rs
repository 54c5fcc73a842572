//! A match as a file: what came in at each tick, and a number that stands for all that came out. Played again, it must give the
//! same file.
//!
//! `EKMATCH` and the format (1); seed u64, ticks a second u16, slots u8; then for each tick: acts u16, each act, when the tick was due
//! u32, hash u64. An act is its kind u8 (1 join, 2 leave, 3 input) and slot u8; an input also sequence u32, ack u32 and 14 bytes as
//! in a datagram. Numbers are little-endian.

use thiserror::Error;

use crate::game::sim::{SimConfig, Slot};
use crate::net::wire::{Body, WireError, put_input, read_input};
use crate::room::{Act, ClientInput, Room};
use crate::worker_group::WorkerGroup;

const MAGIC: &[u8; 8] = b"EKMATCH\x01";

/// Why a file is no match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Not our magic number and format.
    #[error("read the record: it does not begin like one of format 1")]
    Magic,
    /// It ends in the middle, or a number is out of range.
    #[error("read the record at tick {tick}: {source}")]
    Broken {
        /// Ticks read before.
        tick: u32,
        /// What is wrong.
        source: WireError,
    },
}

/// Writes a match down. The bytes are taken from it now and then.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    acts: Vec<u8>,
    count: u16,
}

impl Recorder {
    /// Of a match made from this.
    pub fn new(config: SimConfig) -> Self {
        let mut bytes = Vec::from(*MAGIC);
        bytes.extend(config.seed.to_le_bytes());
        bytes.extend(config.tick_hz.to_le_bytes());
        bytes.push(config.slots.min(usize::from(u8::MAX)) as u8);
        Self { bytes, acts: Vec::with_capacity(4_096), count: 0 }
    }

    /// Something happened before the next tick. False if so much did that it is not written down, and must not be applied.
    pub fn act(&mut self, act: &Act) -> bool {
        if self.count == u16::MAX {
            return false;
        }
        self.count += 1;
        match act {
            Act::Join(slot) => self.acts.extend([1, slot.0 as u8]),
            Act::Leave(slot) => self.acts.extend([2, slot.0 as u8]),
            Act::Input(slot, input) => {
                self.acts.extend([3, slot.0 as u8]);
                self.acts.extend(input.sequence.to_le_bytes());
                self.acts.extend(input.ack.to_le_bytes());
                put_input(&input.input, &mut self.acts);
            }
        }
        true
    }

    /// The tick is done.
    pub fn tick(&mut self, room: &Room, due_us: u32) {
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.append(&mut self.acts);
        self.bytes.extend(due_us.to_le_bytes());
        self.bytes.extend(room.hash().to_le_bytes());
        self.count = 0;
    }

    /// Swaps what was written so far for an empty list.
    pub fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(&mut self.bytes, into);
    }

    /// Bytes written and not taken.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }
}

/// What a match played again came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Ticks played.
    pub ticks: u32,
    /// The first tick whose state or datagrams were not those of the record.
    pub first_difference: Option<u32>,
}

/// Plays a recorded match again.
///
/// # Errors
/// If the bytes are no record. Any bytes give an answer or an error.
pub fn replay(bytes: &[u8], group: &mut WorkerGroup) -> Result<Replayed, RecordError> {
    let mut body = Body(bytes.strip_prefix(MAGIC).ok_or(RecordError::Magic)?);
    let broken = |tick| move |source| RecordError::Broken { tick, source };
    let config = head(&mut body).map_err(broken(0))?;
    let mut room = Room::new(config);
    let mut replayed = Replayed { ticks: 0, first_difference: None };
    while !body.0.is_empty() {
        let broken = broken(replayed.ticks);
        for _ in 0..body.u16().map_err(broken)? {
            room.apply(act(&mut body).map_err(broken)?);
        }
        room.tick(group, body.u32().map_err(broken)?);
        replayed.ticks += 1;
        if room.hash() != body.u64().map_err(broken)? && replayed.first_difference.is_none() {
            replayed.first_difference = Some(replayed.ticks);
        }
    }
    Ok(replayed)
}

fn head(body: &mut Body<'_>) -> Result<SimConfig, WireError> {
    let (seed, tick_hz, slots) = (body.u64()?, body.u16()?, usize::from(body.u8()?));
    if (10..=500).contains(&tick_hz) && slots > 0 {
        Ok(SimConfig { seed, tick_hz, slots })
    } else {
        Err(WireError::Range)
    }
}

fn act(body: &mut Body<'_>) -> Result<Act, WireError> {
    let (kind, slot) = (body.u8()?, Slot(body.u8()?.into()));
    match kind {
        1 => Ok(Act::Join(slot)),
        2 => Ok(Act::Leave(slot)),
        3 => {
            let (sequence, ack) = (body.u32()?, body.u32()?);
            Ok(Act::Input(slot, ClientInput { sequence, ack, input: read_input(body)? }))
        }
        other => Err(WireError::Kind(other)),
    }
}
