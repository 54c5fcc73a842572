//! Tests the grouping of arbitrary packets into messages: no packet is lost, doubled or changed.
//! Each peer's packets keep their order, and the kernel would accept every message.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const ROOM: usize = 300_000;

fn peer(number: u8) -> SocketAddr {
    match number % 2 {
        0 => SocketAddr::from(([10, 0, 0, number], 7000)),
        _ => SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)], 7000)),
    }
}

/// A packet that begins with its number. If the packet is too short, the number is cut off.
fn packet(number: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; length];
    bytes.iter_mut().zip((number as u32).to_le_bytes()).for_each(|(byte, of)| *byte = of);
    bytes
}

/// The packets into which the kernel splits a message.
fn taken_apart(batch: &Batch, group: &Group) -> Vec<Vec<u8>> {
    let whole: Vec<u8> = batch.pieces(group).flatten().copied().collect();
    assert_eq!(whole.len(), group.bytes as usize);
    match group.segment_bytes() {
        0 => vec![whole],
        bytes => whole.chunks(usize::from(bytes)).map(<[u8]>::to_vec).collect(),
    }
}

type Sent = BTreeMap<SocketAddr, Vec<Vec<u8>>>;

fn take(batch: &Batch, groups: usize, sent: &mut Sent) {
    for group in batch.waiting().iter().take(groups) {
        let packets = taken_apart(batch, group);
        assert_eq!(packets.len(), group.packets as usize, "{group:?}");
        assert_eq!(packets, batch.packets(group).map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert!(group.packets <= SEGMENTS_MAX && group.bytes as usize <= ROOM);
        assert!(group.packets == 1 || group.bytes as usize <= MESSAGE_BYTES_MAX);
        sent.entry(group.to).or_default().extend(packets);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { peer: u8, length: usize },
    Gone(usize),
    GoneOfFirst(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![Just(0), Just(100), Just(100), 0..200_usize, 1000..1500_usize, Just(20_000), Just(65_507)];
    let step = prop_oneof![
        12 => (0..6_u8, length).prop_map(|(peer, length)| Step::Push { peer, length }),
        1 => (0..5_usize).prop_map(Step::Gone),
        1 => (0..4_u32).prop_map(Step::GoneOfFirst),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_packet_goes_once_and_in_order(
        steps in steps(),
        segment_bytes_max in prop_oneof![Just(0_u16), 50..1400_u16, Just(u16::MAX)],
        is_alone in any::<bool>(),
        key in any::<u64>(),
    ) {
        let grouping = if is_alone { Grouping::Alone } else { Grouping::ByPeer { segment_bytes_max } };
        let mut batch = Batch::new(100, ROOM, grouping, key);
        let (mut wanted, mut sent) = (Sent::new(), Sent::new());
        let mut number = 0;
        for step in steps {
            match step {
                Step::Push { peer: to, length } => {
                    let bytes = packet(number, length);
                    if batch.push(peer(to), &bytes).is_ok() {
                        wanted.entry(peer(to)).or_default().push(bytes);
                    } else {
                        prop_assert!(batch.packets.len() == 100 || batch.used + length > ROOM);
                    }
                    number += 1;
                }
                Step::Gone(groups) => {
                    take(&batch, groups, &mut sent);
                    batch.gone(groups);
                }
                Step::GoneOfFirst(packets) => {
                    // Some packets at the front of a message were sent one by one.
                    let Some(group) = batch.waiting().first().copied() else { continue };
                    let packets = packets.min(group.packets - 1);
                    let apart = batch.packets(&group).take(packets as usize).map(<[u8]>::to_vec);
                    sent.entry(group.to).or_default().extend(apart);
                    batch.gone_of_first(packets);
                }
            }
            let waiting: usize = batch.waiting().iter().map(|group| group.packets as usize).sum();
            prop_assert_eq!(waiting, batch.packets_waiting());
        }
        take(&batch, usize::MAX, &mut sent);
        prop_assert_eq!(sent, wanted);
        batch.gone(usize::MAX);
        prop_assert_eq!((batch.packets_waiting(), batch.used), (0, 0));
    }
}

/// How many packets of these lengths, all to one peer, go into each message.
fn groups(lengths: &[usize]) -> Vec<u32> {
    let mut batch = Batch::new(1000, 1_000_000, Grouping::ByPeer { segment_bytes_max: u16::MAX }, 1);
    lengths.iter().for_each(|length| batch.push(peer(0), &vec![0; *length]).unwrap());
    batch.waiting().iter().map(|group| group.packets).collect()
}

#[test]
fn packets_are_grouped() {
    assert!(groups(&[]).is_empty());
    assert_eq!(groups(&[100]), [1]);
    assert_eq!(groups(&[100; 4]), [4]);
    assert_eq!(groups(&[100, 100, 50, 100]), [3, 1], "a shorter one is the last");
    assert_eq!(groups(&[100, 101]), [1, 1], "a longer one begins anew");
    assert_eq!(groups(&[0, 0, 100, 0, 100]), [1, 1, 1, 1, 1], "an empty one goes alone");
    assert_eq!(groups(&[100; 64]), [64]);
    assert_eq!(groups(&[100; 65]), [64, 1]);
    assert_eq!(groups(&[1400; 50]), [46, 4], "no message is longer than a packet can be");
}

#[test]
fn peers_in_turns_are_found_again() {
    let mut batch = Batch::new(256, 100_000, Grouping::ByPeer { segment_bytes_max: 1400 }, 0x9E37_79B9_7F4A_7C15);
    for round in 0..4_usize {
        for to in 0..64 {
            batch.push(peer(to), &packet(round, 100)).unwrap();
        }
    }
    assert_eq!(batch.push(peer(0), &[1]), Err(Full));
    assert_eq!(batch.waiting().len(), 64);
    assert!(batch.waiting().iter().all(|group| group.packets == 4));
    let first = batch.waiting()[0];
    assert_eq!(batch.common_segment_bytes(), 100);
    assert_eq!(batch.pieces(&first).count(), 4, "its packets lie apart");
    batch.regroup(Grouping::ByPeer { segment_bytes_max: 99 });
    batch.gone(64);
    batch.push(peer(0), &[0; 100]).unwrap();
    batch.push(peer(0), &[0; 100]).unwrap();
    assert_eq!(batch.common_segment_bytes(), 0);
    assert_eq!(batch.waiting().len(), 2, "a packet longer than the maximum segment is a message of its own");
}
