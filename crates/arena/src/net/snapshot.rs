//! The part of the match that one player sees in a tick, packed bit by bit into one datagram.
//! A snapshot contains the changes since an earlier snapshot that the client is known to have.
//! Without an earlier snapshot, it is complete. If not all players fit, the nearest come first.
//!
//! Bits after the datagram's head: tick 32, due time 32, input sequence 32, players 8, ammo 5, score 16, `shot` 1, then if it shot:
//! rewound 16, too old 1, hit 1.
//! Then the age of the baseline in ticks, 6; 0 means no baseline.
//! With a baseline: the number of its players that are gone 7, and the number of each 8.
//! For each player that stays, in order of numbers: its changes.
//! In any case: the number of new players 7, and for each its number 8 and all of its fields.
//! The changes begin with a bit for each of place, look, legs and state. A place that moved by less than 256 mm is two numbers of 9 bits.

use crate::game::sim::{Fired, Sim, Slot};
use crate::game::visibility::Entity;
use crate::net::bits::{BitReader, BitWriter, fits};
use crate::net::error::WireError;

/// The maximum number of players that always fit into one datagram, even if all earlier ones are gone and all others are new.
pub const MAX_SEEN: usize = 88;
/// The maximum age of a baseline, in ticks.
pub const MAX_BASE_TICKS: u32 = 63;

const NUMBER_BITS: u32 = 8;
const COUNT_BITS: u32 = 7;
const BASE_BITS: u32 = 6;
const NEAR_BITS: u32 = 9;
const AMMO_BITS: u32 = 5;

/// The match at one tick, for one player.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Everything except the players.
    pub head: Head,
    /// At most [`MAX_SEEN`] players, by number.
    pub entities: Vec<Entity>,
}

/// Everything in a snapshot except the players.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of the tick. Only ticks that ran are counted, so a skipped tick has no number.
    pub tick: u32,
    /// When the tick was due: the low 32 bits of the server's clock in microseconds.
    pub due_us: u32,
    /// The receiver's newest input that the simulation has applied.
    pub input_sequence: u32,
    /// Players in the match, including hidden ones.
    pub players: u8,
    /// Shots left in the receiver's magazine.
    pub ammo: u8,
    /// Opponents that the receiver has put out of the game.
    pub score: u16,
    /// The receiver's shot in this tick.
    pub shot: Option<Shot>,
}

/// The result of a shot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shot {
    /// How far the match was rewound for the shot, in 256ths of a tick.
    pub rewound: u16,
    /// Whether the rewind would have exceeded what the server remembers.
    pub too_old: bool,
    /// Whether the shot hit a player.
    pub hit: bool,
}

impl Shot {
    fn from_fired(fired: &Fired) -> Self {
        let rewound = u16::try_from(fired.rewound).unwrap_or(u16::MAX);
        Self { rewound, too_old: fired.too_old, hit: fired.hit.is_some() }
    }
}

impl Snapshot {
    /// Replaces this snapshot with the part of `sim` that `viewer` sees. Reuses its memory.
    pub fn take(&mut self, sim: &Sim, viewer: Slot, due_us: u32) {
        let own = sim.player(viewer);
        self.head = Head {
            tick: sim.tick(),
            due_us,
            input_sequence: own.map_or(0, |body| body.input_sequence),
            players: u8::try_from(sim.players().count()).unwrap_or(u8::MAX),
            ammo: own.map_or(0, |body| body.ammo),
            score: own.map_or(0, |body| body.score),
            shot: own.and_then(|body| body.shot.as_ref()).map(Shot::from_fired),
        };
        self.entities.clear();
        let shown = sim.players().filter(|(slot, _)| sim.visibility().is_shown(viewer, *slot, sim.tick()));
        self.entities.extend(shown.map(|(slot, body)| Entity::from_body(slot, body)));
        if self.entities.len() > MAX_SEEN {
            let at = own.map_or((0, 0), |body| (body.pose.x_mm, body.pose.y_mm));
            let apart2 = |entity: &Entity| {
                let square = |d: i32| i64::from(d).pow(2);
                (square(i32::from(entity.x_mm) - at.0) + square(i32::from(entity.y_mm) - at.1), entity.player)
            };
            self.entities.select_nth_unstable_by_key(MAX_SEEN, apart2);
            self.entities.truncate(MAX_SEEN);
            self.entities.sort_unstable_by_key(|entity| entity.player);
        }
    }

    /// Appends this snapshot, as changes from `base` if that is usable.
    pub fn pack(&self, base: Option<&Snapshot>, out: &mut Vec<u8>) {
        let mut bits = BitWriter::new(out);
        self.head.pack(&mut bits);
        let back = |base: &Snapshot| self.head.tick.wrapping_sub(base.head.tick);
        let base = base.filter(|base| (1..=MAX_BASE_TICKS).contains(&back(base)));
        bits.put(base.map_or(0, back), BASE_BITS);
        let entities = &self.entities[..self.entities.len().min(MAX_SEEN)];
        let old = base.map_or(&[][..], |base| &base.entities);
        if base.is_some() {
            let gone = || old.iter().filter(|was| find(entities, was.player).is_none());
            bits.put(gone().count() as u32, COUNT_BITS);
            gone().for_each(|was| bits.put(was.player.into(), NUMBER_BITS));
            for was in old {
                if let Some(now) = find(entities, was.player) {
                    pack_change(&mut bits, was, now);
                }
            }
        }
        let new = || entities.iter().filter(|now| find(old, now.player).is_none());
        bits.put(new().count() as u32, COUNT_BITS);
        for now in new() {
            bits.put(now.player.into(), NUMBER_BITS);
            pack_place(&mut bits, now);
            pack_rest(&mut bits, now);
        }
        bits.end();
    }
}

impl Head {
    fn pack(&self, bits: &mut BitWriter<'_>) {
        bits.put(self.tick, 32);
        bits.put(self.due_us, 32);
        bits.put(self.input_sequence, 32);
        bits.put(self.players.into(), 8);
        bits.put(self.ammo.into(), AMMO_BITS);
        bits.put(self.score.into(), 16);
        bits.flag(self.shot.is_some());
        if let Some(shot) = self.shot {
            bits.put(shot.rewound.into(), 16);
            bits.flag(shot.too_old);
            bits.flag(shot.hit);
        }
    }

    fn read(bits: &mut BitReader<'_>) -> Result<Self, WireError> {
        let mut head = Self {
            tick: bits.get(32)?,
            due_us: bits.get(32)?,
            input_sequence: bits.get(32)?,
            players: bits.get(8)? as u8,
            ammo: bits.get(AMMO_BITS)? as u8,
            score: bits.get(16)? as u16,
            shot: None,
        };
        if bits.flag()? {
            head.shot = Some(Shot { rewound: bits.get(16)? as u16, too_old: bits.flag()?, hit: bits.flag()? });
        }
        Ok(head)
    }
}

/// A received snapshot with a parsed head. Unpacking the players needs the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed<'a> {
    /// Everything except the players.
    pub head: Head,
    /// The tick of the baseline. None if the snapshot is complete.
    pub base_tick: Option<u32>,
    rest: BitReader<'a>,
}

impl<'a> Packed<'a> {
    /// Parses the head.
    ///
    /// # Errors
    /// If the bytes end early.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut bits = BitReader::new(bytes);
        let head = Head::read(&mut bits)?;
        let back = bits.get(BASE_BITS)?;
        let base_tick = (back > 0).then(|| head.tick.wrapping_sub(back));
        Ok(Self { head, base_tick, rest: bits })
    }

    /// Replaces `into` with the whole snapshot. `base` is the snapshot of [`Packed::base_tick`]. After an error `into` has no players.
    ///
    /// # Errors
    /// If `base` is not the snapshot of [`Packed::base_tick`], or the rest is not a snapshot.
    pub fn unpack(&self, base: Option<&Snapshot>, into: &mut Snapshot) -> Result<(), WireError> {
        into.head = self.head;
        into.entities.clear();
        let done = self.entities(base, &mut into.entities);
        if done.is_err() {
            into.entities.clear();
        }
        done
    }

    fn entities(&self, base: Option<&Snapshot>, entities: &mut Vec<Entity>) -> Result<(), WireError> {
        let mut bits = self.rest;
        if let Some(tick) = self.base_tick {
            let base = base.filter(|base| base.head.tick == tick).ok_or(WireError::Baseline(tick))?;
            let count = bits.get(COUNT_BITS)?;
            let mut gone = [0_u64; 4];
            for _ in 0..count {
                let player = bits.get(NUMBER_BITS)?;
                find(&base.entities, player as u8).ok_or(WireError::Range)?;
                gone[player as usize / 64] |= 1 << (player % 64);
            }
            for was in &base.entities {
                if gone[usize::from(was.player) / 64] >> (was.player % 64) & 1 == 0 {
                    entities.push(read_change(&mut bits, was)?);
                }
            }
        }
        for _ in 0..bits.get(COUNT_BITS)? {
            let player = bits.get(NUMBER_BITS)? as u8;
            let entity = Entity { player, ..Entity::default() };
            let (x_mm, y_mm) = (bits.get(16)? as u16, bits.get(16)? as u16);
            entities.push(read_rest(&mut bits, Entity { x_mm, y_mm, ..entity })?);
        }
        entities.sort_unstable_by_key(|entity| entity.player);
        let is_twice = entities.windows(2).any(|pair| pair[0].player == pair[1].player);
        if is_twice || entities.len() > MAX_SEEN {
            return Err(WireError::Range);
        }
        bits.end()
    }
}

/// The entity with this number. The list is sorted by number.
pub fn find(entities: &[Entity], player: u8) -> Option<&Entity> {
    let at = entities.binary_search_by_key(&player, |entity| entity.player).ok()?;
    entities.get(at)
}

fn pack_place(bits: &mut BitWriter<'_>, now: &Entity) {
    bits.put(now.x_mm.into(), 16);
    bits.put(now.y_mm.into(), 16);
}

fn pack_rest(bits: &mut BitWriter<'_>, now: &Entity) {
    pack_look(bits, now);
    pack_legs(bits, now);
    pack_state(bits, now);
}

fn pack_look(bits: &mut BitWriter<'_>, now: &Entity) {
    bits.put(now.yaw.into(), 12);
    bits.signed(now.pitch.into(), 7);
}

fn pack_legs(bits: &mut BitWriter<'_>, now: &Entity) {
    bits.put(now.gait.into(), 8);
    bits.put(now.stride.into(), 4);
    bits.put(now.stance.into(), 4);
}

fn pack_state(bits: &mut BitWriter<'_>, now: &Entity) {
    bits.put(now.health.into(), 7);
    bits.flag(now.shooting);
}

fn pack_change(bits: &mut BitWriter<'_>, was: &Entity, now: &Entity) {
    bits.flag(was != now);
    if was == now {
        return;
    }
    let moved = (was.x_mm, was.y_mm) != (now.x_mm, now.y_mm);
    bits.flag(moved);
    if moved {
        let dx = i32::from(now.x_mm) - i32::from(was.x_mm);
        let dy = i32::from(now.y_mm) - i32::from(was.y_mm);
        let near = fits(dx, NEAR_BITS) && fits(dy, NEAR_BITS);
        bits.flag(near);
        if near {
            bits.signed(dx, NEAR_BITS);
            bits.signed(dy, NEAR_BITS);
        } else {
            pack_place(bits, now);
        }
    }
    let part = |bits: &mut BitWriter<'_>, changed: bool, pack: fn(&mut BitWriter<'_>, &Entity)| {
        bits.flag(changed);
        if changed {
            pack(bits, now);
        }
    };
    part(bits, (was.yaw, was.pitch) != (now.yaw, now.pitch), pack_look);
    part(bits, (was.gait, was.stride, was.stance) != (now.gait, now.stride, now.stance), pack_legs);
    part(bits, (was.health, was.shooting) != (now.health, now.shooting), pack_state);
}

fn read_change(bits: &mut BitReader<'_>, was: &Entity) -> Result<Entity, WireError> {
    let mut now = *was;
    if !bits.flag()? {
        return Ok(now);
    }
    if bits.flag()? {
        if bits.flag()? {
            let mut moved = |from: u16| {
                let to = i32::from(from) + bits.signed(NEAR_BITS)?;
                u16::try_from(to).map_err(|_| WireError::Range)
            };
            (now.x_mm, now.y_mm) = (moved(was.x_mm)?, moved(was.y_mm)?);
        } else {
            (now.x_mm, now.y_mm) = (bits.get(16)? as u16, bits.get(16)? as u16);
        }
    }
    for read in [read_look, read_legs, read_state] {
        if bits.flag()? {
            read(bits, &mut now)?;
        }
    }
    Ok(now)
}

fn read_rest(bits: &mut BitReader<'_>, mut now: Entity) -> Result<Entity, WireError> {
    for read in [read_look, read_legs, read_state] {
        read(bits, &mut now)?;
    }
    Ok(now)
}

fn read_look(bits: &mut BitReader<'_>, now: &mut Entity) -> Result<(), WireError> {
    (now.yaw, now.pitch) = (bits.get(12)? as u16, bits.signed(7)? as i8);
    Ok(())
}

fn read_legs(bits: &mut BitReader<'_>, now: &mut Entity) -> Result<(), WireError> {
    (now.gait, now.stride, now.stance) = (bits.get(8)? as u8, bits.get(4)? as u8, bits.get(4)? as u8);
    Ok(())
}

fn read_state(bits: &mut BitReader<'_>, now: &mut Entity) -> Result<(), WireError> {
    (now.health, now.shooting) = (bits.get(7)? as u8, bits.flag()?);
    if now.health > 100 { Err(WireError::Range) } else { Ok(()) }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
