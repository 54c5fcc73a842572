//! The target of the reference game server: packets and records.

use evenkeel_arena::net::gate::{self, Event, Gate, GateConfig};
use evenkeel_arena::net::mirror::Mirror;
use evenkeel_arena::net::wire;
use evenkeel_arena::record::replay;
use evenkeel_arena::worker_group::WorkerGroup;

/// The most replays. Each makes a room of up to 255 players, and a text may hold thousands of records.
const REPLAYS_MAX: u32 = 16;

/// Everything that can reach the arena's server, its bots and its replay. Packets consist of characters up to 255, and any other character
/// separates them. A session of eight `S` belongs to the player. Nobody joins without a cookie, and no answer to an unknown sender is
/// longer than its question.
pub(super) fn arena(text: &str) {
    let (events, received) = std::sync::mpsc::sync_channel(64);
    let mut gate = Gate::new(GateConfig { slots: 4, tick_hz: 50, seed: 1 }, events);
    let (known, stranger) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut admit = |from: [u8; 4], bytes: &[u8]| {
        let answer = gate.admit(gate::Arrival { from: (from, 7).into(), now_ns: 7, bytes }).ok().flatten();
        let mut out = Vec::new();
        if let Some(answer) = answer {
            answer.encode(&mut out);
            assert!(out.len() <= bytes.len(), "{answer:?}");
        }
        answer
    };
    let mut say = |message: wire::FromClient| {
        let mut packet = Vec::new();
        message.encode(&mut packet);
        admit(known, &packet)
    };
    let hello = say(wire::FromClient::Hello { nonce: 1 });
    let Some(wire::FromServer::Challenge { cookie, .. }) = hello else { panic!() };
    let joined = say(wire::FromClient::Join { nonce: 1, cookie });
    let Some(wire::FromServer::Welcome { session, .. }) = joined else { panic!() };
    let mut mirror = Mirror::default();
    let mut replays = 0..REPLAYS_MAX;
    for packet in text.split(|c: char| u8::try_from(c).is_err()) {
        let mut bytes: Vec<u8> = packet.chars().map(|c| c as u8).collect();
        if let Ok(wire::FromServer::Snapshot(packed)) = wire::FromServer::parse(&bytes) {
            let _ = mirror.take_in(&packed);
        }
        // A long record of many players takes as long as the match did, by design.
        let is_record = bytes.starts_with(b"EKMATCH");
        if bytes.len() < 300 && (!is_record || replays.next().is_some()) {
            let _ = replay(&bytes, &mut WorkerGroup::default());
        }
        let answer = admit(stranger, &bytes);
        assert!(matches!(answer, None | Some(wire::FromServer::Challenge { .. })), "{answer:?}");
        if bytes.get(4..12) == Some(b"SSSSSSSS") {
            bytes[4..12].copy_from_slice(&session.to_le_bytes());
        }
        let _ = admit(known, &bytes);
    }
    let joins = received.try_iter().filter(|event| matches!(event, Event::Join { .. }));
    assert_eq!((joins.count(), gate.players()), (1, 1));
}
