//! A match as a file: the inputs of each tick, and a hash of all output. A replay must give the same file.
//!
//! `EKMATCH` and the format (1); seed u64, ticks per second u16, slots u8.
//! Then for each tick: the number of acts u16, each act, the due time u32, the hash u64.
//! An act has its kind u8 (1 join, 2 leave, 3 input) and slot u8. An input also has sequence u32, ack u32 and 14 bytes as in a datagram.
//! Numbers are little-endian.

use thiserror::Error;

use crate::game::sim::{SimConfig, Slot};
use crate::net::wire::{Body, WireError, put_input, read_input};
use crate::room::{Act, ClientInput, Room};
use crate::worker_group::WorkerGroup;

const MAGIC: &[u8; 8] = b"EKMATCH\x01";

/// Why a file is not a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The magic number or the format is wrong.
    #[error("read the record: it is not a record of format 1")]
    Magic,
    /// The file ends in the middle, or a number is out of range.
    #[error("read the record at tick {tick}: {source}")]
    Broken {
        /// The ticks before the error.
        tick: u32,
        /// The error.
        source: WireError,
    },
}

/// Records a match. The caller takes the bytes from time to time.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    acts: Vec<u8>,
    count: u16,
}

impl Recorder {
    /// Records a match with these parameters.
    pub fn new(config: SimConfig) -> Self {
        let mut bytes = Vec::from(*MAGIC);
        bytes.extend(config.seed.to_le_bytes());
        bytes.extend(config.tick_hz.to_le_bytes());
        bytes.push(config.slots.min(usize::from(u8::MAX)) as u8);
        Self { bytes, acts: Vec::with_capacity(4_096), count: 0 }
    }

    /// Records an act before the next tick. Returns false if there are too many acts.
    /// Then the act is not recorded, and must not be applied.
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

    /// Ends the tick.
    pub fn tick(&mut self, room: &Room, due_us: u32) {
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.append(&mut self.acts);
        self.bytes.extend(due_us.to_le_bytes());
        self.bytes.extend(room.hash().to_le_bytes());
        self.count = 0;
    }

    /// Swaps the recorded bytes with an empty list.
    pub fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(&mut self.bytes, into);
    }

    /// The number of recorded bytes that were not taken yet.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }
}

/// The result of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Ticks that were played.
    pub ticks: u32,
    /// The first tick whose state or datagrams differ from the record. None if no tick differs.
    pub first_difference: Option<u32>,
}

/// Replays a recorded match.
///
/// # Errors
/// If the bytes are not a record. Any bytes give a result or an error.
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
