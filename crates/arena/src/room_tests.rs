//! Plays a match of 64 bots over a network that loses and delays datagrams. A replay is equal byte for byte, with any number of workers.

use proptest::prelude::*;

use super::*;
use crate::game::bot::{Bot, BotSeed, Shown};
use crate::game::path::Paths;
use crate::net::mirror::Mirror;
use crate::net::wire::FromServer;
use crate::record::{RecordError, Recorder, Replayed, replay};

const PLAYERS: usize = 64;

/// The result of a match.
struct Played {
    record: Vec<u8>,
    shots: u32,
    rewound: u32,
    score: u32,
    bytes_max: usize,
    full: usize,
    changes: usize,
}

struct Client {
    bot: Bot,
    mirror: Mirror,
}

/// Plays this many ticks. One datagram in sixteen is lost, and inputs arrive a tick late.
fn played(seed: u64, ticks: u32, group: &mut WorkerGroup) -> Played {
    let config = SimConfig { seed, tick_hz: 50, slots: PLAYERS };
    let (mut room, mut recorder, mut paths) = (Room::new(config), Recorder::new(config), Paths::default());
    let client = |number| Client { bot: Bot::new(BotSeed { seed, number }), mirror: Mirror::default() };
    let mut clients: Vec<Client> = (0..PLAYERS as u32).map(client).collect();
    let mut acts: Vec<Act> = (0..PLAYERS).map(|slot| Act::Join(Slot(slot))).collect();
    let mut outcome = Played { record: Vec::new(), shots: 0, rewound: 0, score: 0, bytes_max: 0, full: 0, changes: 0 };
    for tick in 1..=ticks {
        for act in acts.drain(..) {
            assert!(recorder.act(&act));
            room.apply(act);
        }
        let inputs: Vec<Act> = clients
            .iter_mut()
            .enumerate()
            .map(|(slot, client)| {
                let (entities, view) =
                    client.mirror.shown().map_or((&[][..], Default::default()), |(s, v)| (&s.entities, v));
                let input =
                    client.bot.next_input(room.sim().map(), &mut paths, Shown { player: slot as u8, entities, view });
                Act::Input(Slot(slot), ClientInput { sequence: tick, ack: client.mirror.ack(), input })
            })
            .collect();
        room.tick(group, tick * 20_000);
        recorder.tick(&room, tick * 20_000);
        for (Slot(slot), bytes, is_full) in room.datagrams() {
            outcome.bytes_max = outcome.bytes_max.max(bytes.len());
            *(if is_full { &mut outcome.full } else { &mut outcome.changes }) += 1;
            if !(tick as usize * 31 + slot * 17).is_multiple_of(16) {
                let Ok(FromServer::Snapshot(packed)) = FromServer::parse(bytes) else { panic!("tick {tick}") };
                clients[slot].mirror.take_in(&packed).unwrap();
                let mut whole = Snapshot::default();
                whole.take(room.sim(), Slot(slot), tick * 20_000);
                assert_eq!(clients[slot].mirror.newest(), Some(&whole), "tick {tick}, client {slot}");
            }
        }
        for (_, body) in room.sim().players() {
            if let Some(fired) = body.shot {
                outcome.shots += 1;
                outcome.rewound += u32::from(fired.rewound >= 512);
            }
        }
        acts = inputs;
        if tick == ticks / 2 {
            // One player leaves, and another takes the slot.
            acts.extend([Act::Leave(Slot(5)), Act::Join(Slot(5))]);
            clients[5] = client(99);
        }
    }
    outcome.score = room.sim().players().map(|(_, body)| u32::from(body.score)).sum();
    recorder.take(&mut outcome.record);
    outcome
}

#[test]
fn a_match_of_64_bots_with_shots_is_replayed_byte_for_byte() {
    let outcome = played(7, 600, &mut WorkerGroup::default());
    assert!(outcome.shots > 1_000 && outcome.score > 20, "{} shots, {} out", outcome.shots, outcome.score);
    assert!(
        outcome.rewound > outcome.shots / 2,
        "{} of {} rewound by two ticks or more",
        outcome.rewound,
        outcome.shots
    );
    assert!(outcome.bytes_max <= MAX_DATAGRAM_BYTES && outcome.changes > 10 * outcome.full, "{} full", outcome.full);
    let same = Ok(Replayed { ticks: 600, first_difference: None });
    for workers in [0, 1, 3] {
        assert_eq!(replay(&outcome.record, &mut WorkerGroup::new(workers).unwrap()), same, "{workers} workers");
    }
    assert!(
        played(7, 100, &mut WorkerGroup::new(2).unwrap()).record == played(7, 100, &mut WorkerGroup::default()).record,
        "bots and all"
    );
    assert!(played(8, 100, &mut WorkerGroup::default()).record != played(7, 100, &mut WorkerGroup::default()).record);

    // If one bit of one input changes, the match differs from there on.
    let mut changed = outcome.record.clone();
    let at = changed.len() / 2;
    changed[at] ^= 1;
    assert_ne!(replay(&changed, &mut WorkerGroup::default()), same);
    assert!(matches!(replay(&outcome.record[..at], &mut WorkerGroup::default()), Err(RecordError::Broken { .. })));
    assert_eq!(replay(b"EKMATCH\x02", &mut WorkerGroup::default()), Err(RecordError::Magic));
}

/// The result is pinned, so that a difference on another machine or compiler is noticed.
#[test]
fn the_match_of_a_seed_is_known() {
    let record = played(7, 50, &mut WorkerGroup::default()).record;
    let mut hash = Fnv::default();
    hash.write(&record);
    expect_test::expect!["63571 bytes, 41019edea3b8bda0"].assert_eq(&format!(
        "{} bytes, {:016x}",
        record.len(),
        hash.0
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_are_a_match_or_an_error(body in prop::collection::vec(any::<u8>(), 0..300), slots in 1u8..9) {
        let mut bytes = b"EKMATCH\x01________".to_vec();
        bytes.extend([50, 0, slots]);
        bytes.extend(&body);
        let _ = replay(&bytes, &mut WorkerGroup::default());
        let _ = replay(&body, &mut WorkerGroup::default());
    }

    #[test]
    fn an_ack_of_what_was_never_sent_gets_all(ack: u32, ticks in 1u32..80) {
        let mut room = Room::new(SimConfig { seed: 1, tick_hz: 50, slots: 4 });
        (0..4).for_each(|slot| room.apply(Act::Join(Slot(slot))));
        (0..ticks).for_each(|tick| room.tick(&mut WorkerGroup::default(), tick));
        let outcome = ClientInput { sequence: 1, ack, input: PlayerInput::default() };
        room.apply(Act::Input(Slot(1), outcome));
        room.tick(&mut WorkerGroup::default(), 0);
        let known = ack > 0 && ack <= ticks && ticks + 1 - ack <= MAX_BASE_TICKS;
        let (_, bytes, is_full) = room.datagrams().nth(1).unwrap();
        prop_assert_eq!(is_full, !known);
        let Ok(FromServer::Snapshot(packed)) = FromServer::parse(bytes) else { panic!() };
        prop_assert_eq!(packed.base_tick, known.then_some(ack));
    }
}
