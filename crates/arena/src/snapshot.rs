//! What one player is shown of the world each tick, packed into one datagram; the nearest players first if not all fit.
//!
//! Body: tick u32, input sequence u32, players u8, count u8, then `count` entries of 9 bytes: player u8, x and y in mm
//! u16 each, aim i8 i8, health u8, flags u8 (1 alive, 2 shooting).

use crate::sim::{Sim, Slot};
use crate::wire::{Body, MAX_DATAGRAM_BYTES, WireError};

const HEAD_BYTES: usize = 4 + 4 + 4 + 1 + 1;
const ENTRY_BYTES: usize = 9;
/// As many players as fit one datagram.
pub const MAX_SEEN: usize = (MAX_DATAGRAM_BYTES - HEAD_BYTES) / ENTRY_BYTES;

const ALIVE: u8 = 1;
const SHOOTING: u8 = 2;

/// The world at one tick, for one player.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Counts the ticks the server ran; a tick it had to skip has no number.
    pub tick: u32,
    /// Newest input of the receiver that the simulation has applied.
    pub input_sequence: u32,
    /// Players in the game, also those not shown.
    pub players: u8,
    /// At most [`MAX_SEEN`] players.
    pub seen: Vec<Seen>,
}

/// One player as shown to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub player: u8,
    /// Position, in millimetres from the west wall.
    pub x_mm: u16,
    /// Position, in millimetres from the south wall.
    pub y_mm: u16,
    /// Direction of its gun.
    pub aim: (i8, i8),
    /// 0 to 100.
    pub health: u8,
    /// False while it waits to return.
    pub alive: bool,
    /// Whether it fired during this tick.
    pub shooting: bool,
}

impl Snapshot {
    /// Replaces this snapshot by what `viewer` is shown of `sim`; reuses the memory it has.
    pub fn take(&mut self, sim: &Sim, viewer: Slot) {
        let viewer = viewer.0;
        self.tick = sim.tick();
        self.input_sequence = sim.player(viewer).map_or(0, |p| p.input_sequence);
        self.seen.clear();
        self.seen.extend(sim.players().map(|(number, player)| Seen {
            player: number as u8,
            x_mm: clamp_mm(player.x_mm),
            y_mm: clamp_mm(player.y_mm),
            aim: player.input.aim,
            health: player.health,
            alive: player.alive(),
            shooting: player.shot,
        }));
        self.players = u8::try_from(self.seen.len()).unwrap_or(u8::MAX);
        if self.seen.len() > MAX_SEEN
            && let Some(own) = sim.player(viewer)
        {
            let distance_mm2 = |seen: &Seen| {
                let dx = i64::from(seen.x_mm) - i64::from(own.x_mm);
                let dy = i64::from(seen.y_mm) - i64::from(own.y_mm);
                (dx * dx + dy * dy, seen.player)
            };
            self.seen.select_nth_unstable_by_key(MAX_SEEN, distance_mm2);
        }
        self.seen.truncate(MAX_SEEN);
    }

    /// Appends the body; at most [`MAX_SEEN`] entries, so that the datagram keeps its bound whatever the caller put in.
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        let seen = &self.seen[..self.seen.len().min(MAX_SEEN)];
        out.extend(self.tick.to_le_bytes());
        out.extend(self.input_sequence.to_le_bytes());
        out.extend([self.players, seen.len() as u8]);
        for entry in seen {
            let flags = u8::from(entry.alive) * ALIVE + u8::from(entry.shooting) * SHOOTING;
            let (aim_x, aim_y) = entry.aim;
            out.push(entry.player);
            out.extend(entry.x_mm.to_le_bytes());
            out.extend(entry.y_mm.to_le_bytes());
            out.extend([aim_x as u8, aim_y as u8, entry.health, flags]);
        }
    }
}

/// Reads the body; whoever calls checks that nothing is left over.
pub(crate) fn parse_body(body: &mut Body<'_>) -> Result<Snapshot, WireError> {
    let (tick, input_sequence) = (body.u32()?, body.u32()?);
    let (players, count) = (body.u8()?, usize::from(body.u8()?));
    if count > MAX_SEEN {
        return Err(WireError::Range);
    }
    let mut seen = Vec::with_capacity(count);
    for _ in 0..count {
        seen.push(parse_seen(body)?);
    }
    Ok(Snapshot { tick, input_sequence, players, seen })
}

fn parse_seen(body: &mut Body<'_>) -> Result<Seen, WireError> {
    let player = body.u8()?;
    let (x_mm, y_mm) = (body.u16()?, body.u16()?);
    let aim = (body.u8()? as i8, body.u8()? as i8);
    let (health, flags) = (body.u8()?, body.u8()?);
    if health > 100 || flags > (ALIVE | SHOOTING) {
        return Err(WireError::Range);
    }
    Ok(Seen { player, x_mm, y_mm, aim, health, alive: flags & ALIVE != 0, shooting: flags & SHOOTING != 0 })
}

/// The arena is 64 m wide, so a position fits; the clamp only says so to the type.
fn clamp_mm(mm: i32) -> u16 {
    mm.clamp(0, i32::from(u16::MAX)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimConfig;
    use crate::wire::FromServer;

    fn crowd(players: u8) -> Sim {
        let mut sim = Sim::new(SimConfig { seed: 3, tick_hz: 50, slots: usize::from(players) });
        for slot in 0..players {
            sim.join(Slot(usize::from(slot)));
        }
        sim
    }

    #[test]
    fn every_crowd_fits_a_datagram_and_decodes() {
        let mut snapshot = Snapshot::default();
        let mut bytes = Vec::new();
        for players in [1, 2, 32, 131, 132, 255] {
            snapshot.take(&crowd(players), Slot(0));
            assert_eq!(snapshot.players, players);
            assert_eq!(snapshot.seen.len(), MAX_SEEN.min(usize::from(players)));
            FromServer::Snapshot(snapshot.clone()).encode(&mut bytes);
            assert!(bytes.len() <= MAX_DATAGRAM_BYTES);
            assert_eq!(FromServer::parse(&bytes), Ok(FromServer::Snapshot(snapshot.clone())));
        }
    }

    #[test]
    fn of_too_many_the_nearest_are_shown() {
        let sim = crowd(255);
        let own = sim.player(7).unwrap();
        let distance_mm2 = |x: i64, y: i64| (x - i64::from(own.x_mm)).pow(2) + (y - i64::from(own.y_mm)).pow(2);
        let mut all: Vec<i64> = sim.players().map(|(_, p)| distance_mm2(p.x_mm.into(), p.y_mm.into())).collect();
        all.sort_unstable();
        let mut snapshot = Snapshot::default();
        snapshot.take(&sim, Slot(7));
        let mut shown: Vec<i64> = snapshot.seen.iter().map(|s| distance_mm2(s.x_mm.into(), s.y_mm.into())).collect();
        shown.sort_unstable();
        assert_eq!(shown, all[..MAX_SEEN]);
        assert!(snapshot.seen.iter().any(|s| s.player == 7), "itself");
    }
}
