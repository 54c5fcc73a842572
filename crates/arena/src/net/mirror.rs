//! The snapshots that a client keeps: as the base of changes, and to show the game slightly behind the newest one.

use crate::game::history::View;
use crate::net::error::WireError;
use crate::net::snapshot::{MAX_BASE_TICKS, Packed, Snapshot};

/// A client shows the match this many ticks behind its newest snapshot, so that one lost snapshot does not stop all players.
pub const SHOWN_BEHIND: u32 = 2;

const HELD: usize = MAX_BASE_TICKS as usize + 1;

/// The last snapshots of one client.
#[derive(Debug)]
pub struct Mirror {
    held: Vec<Snapshot>,
    newest: u32,
    spare: Snapshot,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { held: vec![Snapshot::default(); HELD], newest: 0, spare: Snapshot::default() }
    }
}

impl Mirror {
    /// Adds a snapshot. Returns true if it is newer than all earlier ones.
    ///
    /// # Errors
    /// If the datagram is not a snapshot, or has changes from a snapshot that is not stored.
    pub fn take_in(&mut self, packed: &Packed<'_>) -> Result<bool, WireError> {
        let tick = packed.head.tick;
        // Unpack into a spare snapshot first: a broken snapshot must not replace a good one.
        let mut spare = std::mem::take(&mut self.spare);
        let base = packed.base_tick.and_then(|tick| self.at(tick));
        let done = packed.unpack(base, &mut spare);
        let is_newer = self.newest == 0 || (tick.wrapping_sub(self.newest) as i32) > 0;
        if done.is_ok() && is_newer {
            let slot = &mut self.held[tick as usize % HELD];
            std::mem::swap(slot, &mut spare);
            self.newest = tick;
        }
        self.spare = spare;
        done.map(|()| is_newer)
    }

    /// Tick of the newest snapshot, which the client acknowledges; 0 before the first.
    pub fn ack(&self) -> u32 {
        self.newest
    }

    /// The newest snapshot.
    pub fn newest(&self) -> Option<&Snapshot> {
        self.at(self.newest)
    }

    /// The snapshot to show: the one [`SHOWN_BEHIND`] ticks behind the newest. If it did not arrive, the next snapshot that did.
    pub fn shown(&self) -> Option<(&Snapshot, View)> {
        let behind = (0..=SHOWN_BEHIND).rev().find_map(|back| self.at(self.newest.wrapping_sub(back)))?;
        Some((behind, View { tick: behind.head.tick, part: 0 }))
    }

    fn at(&self, tick: u32) -> Option<&Snapshot> {
        let held = &self.held[tick as usize % HELD];
        (tick != 0 && held.head.tick == tick).then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::snapshot::Head;
    use crate::net::wire::{FromServer, encode_snapshot};

    fn at(tick: u32) -> Snapshot {
        Snapshot { head: Head { tick, score: tick as u16, ..Head::default() }, entities: Vec::new() }
    }

    fn send(mirror: &mut Mirror, tick: u32, base: Option<u32>) -> Result<bool, WireError> {
        let mut bytes = Vec::new();
        encode_snapshot(&at(tick), base.map(at).as_ref(), &mut bytes);
        let Ok(FromServer::Snapshot(packed)) = FromServer::parse(&bytes) else { panic!("{bytes:?}") };
        mirror.take_in(&packed)
    }

    #[test]
    fn the_shown_snapshot_is_slightly_behind_and_never_missing() {
        let mut mirror = Mirror::default();
        assert!(mirror.shown().is_none() && mirror.newest().is_none() && mirror.ack() == 0);
        let shown = |mirror: &Mirror| mirror.shown().unwrap().1.tick;
        for (tick, base, newer, shows) in [
            (5, None, Ok(true), 5),
            (6, Some(5), Ok(true), 5),
            (7, Some(5), Ok(true), 5),
            (9, Some(7), Ok(true), 7),  // 8 was lost
            (8, Some(7), Ok(false), 7), // and comes late: of no use any more
            (10, Some(8), Err(WireError::Baseline(8)), 7),
            (10, Some(9), Ok(true), 9),
            (200, Some(150), Err(WireError::Baseline(150)), 9),
            (200, None, Ok(true), 200),
        ] {
            assert_eq!(send(&mut mirror, tick, base), newer, "{tick} from {base:?}");
            assert_eq!(shown(&mirror), shows, "{tick} from {base:?}");
        }
        assert_eq!(mirror.newest().unwrap().head.score, 200);
    }
}
