//! Packing and unpacking gives the same snapshot with any baseline, and it always fits into its datagram.

use proptest::prelude::*;

use super::*;
use crate::game::sim::SimConfig;
use crate::net::wire::{MAX_DATAGRAM_BYTES, encode_snapshot};
use crate::worker_group::WorkerGroup;

fn packed(snapshot: &Snapshot, base: Option<&Snapshot>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_snapshot(snapshot, base, &mut bytes);
    assert!(bytes.len() <= MAX_DATAGRAM_BYTES, "{} bytes", bytes.len());
    bytes
}

fn unpacked(bytes: &[u8], base: Option<&Snapshot>) -> Result<Snapshot, WireError> {
    let mut into = Snapshot::default();
    // Without the four bytes of the datagram's head.
    Packed::read(&bytes[4..])?.unpack(base, &mut into)?;
    Ok(into)
}

fn crowd(players: usize, ticks: u32) -> Sim {
    let mut sim = Sim::new(SimConfig { seed: 3, tick_hz: 50, slots: players });
    (0..players).for_each(|slot| sim.join(Slot(slot)));
    (0..ticks).for_each(|_| sim.step(&mut WorkerGroup::default()));
    sim
}

#[test]
fn every_crowd_fits_a_datagram_and_its_own_team_is_shown() {
    let mut snapshot = Snapshot::default();
    for players in [1, 2, 32, 64, 88, 200, 255] {
        let sim = crowd(players, 1);
        snapshot.take(&sim, Slot(0), 77);
        assert_eq!(usize::from(snapshot.head.players), players);
        let team = players.div_ceil(2).min(MAX_SEEN);
        assert!((team..=MAX_SEEN.min(players)).contains(&snapshot.entities.len()), "{players}");
        assert!(find(&snapshot.entities, 0).is_some(), "itself");
        assert_eq!(unpacked(&packed(&snapshot, None), None).as_ref(), Ok(&snapshot));
    }
}

#[test]
fn an_unchanged_value_costs_one_bit() {
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    let mut sim = crowd(64, 8);
    before.take(&sim, Slot(0), 1);
    sim.step(&mut WorkerGroup::default());
    after.take(&sim, Slot(0), 2);
    let (full, change) = (packed(&after, None).len(), packed(&after, Some(&before)).len());
    assert!(full > 8 * after.entities.len() && change < 30 + after.entities.len() / 8, "{full} and {change} bytes");
}

#[test]
fn the_wrong_baseline_is_an_error() {
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    let mut sim = crowd(8, 8);
    before.take(&sim, Slot(0), 1);
    sim.step(&mut WorkerGroup::default());
    after.take(&sim, Slot(0), 2);
    let bytes = packed(&after, Some(&before));
    assert_eq!(unpacked(&bytes, Some(&after)), Err(WireError::Baseline(8)));
    assert_eq!(unpacked(&bytes, None), Err(WireError::Baseline(8)));
    assert_eq!(unpacked(&bytes, Some(&before)), Ok(after.clone()));
    // The baseline is too old to be named, so the snapshot is complete.
    before.head.tick = after.head.tick.wrapping_sub(MAX_BASE_TICKS + 1);
    assert_eq!(unpacked(&packed(&after, Some(&before)), None), Ok(after));
}

prop_compose! {
    fn entity()(place in any::<(u16, u16)>(), yaw in 0u16..4_096, pitch in -64i8..64, legs in (any::<u8>(), 0u8..16, 0u8..16), health in 0u8..=100, shooting: bool) -> Entity {
        let (gait, stride, stance) = legs;
        Entity { player: 0, x_mm: place.0, y_mm: place.1, yaw, pitch, gait, stride, stance, health, shooting }
    }
}

fn shot() -> impl Strategy<Value = Option<Shot>> {
    prop::option::of((any::<u16>(), any::<bool>(), any::<bool>()).prop_map(|(rewound, too_old, hit)| Shot {
        rewound,
        too_old,
        hit,
    }))
}

prop_compose! {
    pub(crate) fn snapshot()(words in any::<(u32, u32, u32)>(), small in (any::<u8>(), 0u8..32, any::<u16>()), shot in shot(), shown in prop::collection::btree_map(any::<u8>(), entity(), 0..=MAX_SEEN)) -> Snapshot {
        let ((tick, due_us, input_sequence), (players, ammo, score)) = (words, small);
        let entities = shown.into_iter().map(|(player, entity)| Entity { player, ..entity }).collect();
        Snapshot { head: Head { tick, due_us, input_sequence, players, ammo, score, shot }, entities }
    }
}

/// Some changes of some players, like those of a tick.
fn nudged(snapshot: &Snapshot, nudges: &[(u8, i16, u8)], ticks: u32) -> Snapshot {
    let mut after = snapshot.clone();
    after.head.tick = after.head.tick.wrapping_add(ticks);
    for (at, by, what) in nudges {
        let count = after.entities.len();
        if count == 0 {
            break;
        }
        let entity = &mut after.entities[usize::from(*at) % count];
        match what % 6 {
            0 => entity.x_mm = entity.x_mm.saturating_add_signed(*by),
            1 => entity.y_mm = entity.y_mm.saturating_add_signed(*by / 100),
            2 => entity.yaw = entity.yaw.wrapping_add_signed(*by) & 4_095,
            3 => entity.gait = *at,
            4 => entity.health = *at % 101,
            _ => drop(after.entities.remove(usize::from(*at) % count)),
        }
    }
    after
}

proptest! {
    #[test]
    fn in_full_it_survives(snapshot in snapshot()) {
        prop_assert_eq!(unpacked(&packed(&snapshot, None), None), Ok(snapshot));
    }

    #[test]
    fn from_any_other_snapshot_it_survives(before in snapshot(), mut after in snapshot(), back in 1u32..=MAX_BASE_TICKS) {
        // The worst case: everything has changed.
        after.head.tick = before.head.tick.wrapping_add(back);
        prop_assert_eq!(unpacked(&packed(&after, Some(&before)), Some(&before)), Ok(after));
    }

    #[test]
    fn changes_survive_and_are_smaller(before in snapshot(), nudges in prop::collection::vec(any::<(u8, i16, u8)>(), 0..12), back in 1u32..=MAX_BASE_TICKS) {
        let after = nudged(&before, &nudges, back);
        let bytes = packed(&after, Some(&before));
        prop_assert!(bytes.len() <= packed(&after, None).len() + 12);
        prop_assert_eq!(unpacked(&bytes, Some(&before)), Ok(after));
    }

    #[test]
    fn any_bytes_are_a_snapshot_or_an_error(bytes in prop::collection::vec(any::<u8>(), 4..200), mut base in snapshot()) {
        if let Ok(packed) = Packed::read(&bytes[4..]) {
            base.head.tick = packed.base_tick.unwrap_or(0);
            if let Ok(read) = unpacked(&bytes, Some(&base)) {
                prop_assert!(read.entities.len() <= MAX_SEEN);
                prop_assert!(read.entities.windows(2).all(|pair| pair[0].player < pair[1].player));
            }
        }
    }
}
