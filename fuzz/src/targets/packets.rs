//! The targets of the network: everything that can reach the UDP meter, Agones' client, a game's player, and the kernel's records.

use evenkeel_measure::meters::bandwidth::wire as stream;
use evenkeel_measure::meters::ticks::wakes::Wakes;
use evenkeel_measure::meters::udp::wire::{FromClient, FromServer};
use evenkeel_measure::meters::udp::{Act, Arrival, Gate};
use evenkeel_rt::agones::GameServer;
use evenkeel_sys::http::{Answer, BadAnswer, Head, Reader};
use evenkeel_sys::packet_ring::{read_block, read_packet};
use evenkeel_sys::perf_thread::first_thread_record;
use evenkeel_workload::load::ddnet::{Event, Player};

/// The Agones sidecar's report of a game server.
pub(super) fn agones(text: &str) {
    let _ = GameServer::parse(text.as_bytes());
}

/// A server's answer over HTTP. Each character is a byte. It may arrive in any pieces, its body is not longer than the answer or its limit,
/// and the head alone gives the same result as the whole.
pub(super) fn http(text: &str) {
    const BODY_BYTES_MAX: usize = 1 << 10;
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    let read = |piece: usize| -> Result<Answer, BadAnswer> {
        let mut reader = Reader::new(BODY_BYTES_MAX);
        for piece in bytes.chunks(piece) {
            if let Some(answer) = reader.push(piece)? {
                return Ok(answer);
            }
        }
        reader.end()
    };
    let whole = read(usize::MAX);
    assert_eq!(read(1), whole);
    assert_eq!(read(7), whole);
    if let Ok(answer) = &whole {
        assert!(answer.body.len() <= bytes.len().min(BODY_BYTES_MAX));
    }
    match Head::parse(&bytes) {
        Ok(Some(head)) => {
            assert_eq!(Head::parse(&bytes[..head.bytes]), Ok(Some(head)));
            assert_eq!(Head::parse(&bytes[..head.bytes - 1]), Ok(None));
            let is_same = |answer: &Answer| {
                head.status < 200 || (answer.status, answer.reason.as_str()) == (head.status, head.reason)
            };
            assert!(whole.as_ref().map_or(true, is_same));
        }
        Ok(None) => assert_eq!(whole, Err(BadAnswer::Ended)),
        Err(_) => assert!(whole.is_err()),
    }
}

/// Packets from a DDNet server, or an impostor, to a connected player: each character is a byte, and characters above 255 separate packets.
/// Packets that end with `host` have the server's token. Whatever arrives, the player sends little, in packets that fit, and reports an end
/// once.
pub(super) fn ddnet(text: &str) {
    let mut player = Player::new(1, 1);
    let (mut answers, mut events) = (Vec::new(), Vec::new());
    assert!(player.urge(1).is_some());
    player.hear(b"\x10\0\0\x02TKENhost", 1, &mut answers, &mut events);
    let mut packets = 1;
    for packet in text.split(|c: char| u8::try_from(c).is_err()) {
        let bytes: Vec<u8> = packet.chars().map(|c| c as u8).collect();
        packets += 1;
        player.hear(&bytes, packets, &mut answers, &mut events);
        let said = [player.urge(packets * 1_000_000_000), player.input(packets)];
        assert!(said.iter().flatten().chain(&answers).all(|bytes| bytes.len() <= 1400));
    }
    assert!(answers.len() as u64 <= 2 * packets, "{} answers to {packets} packets", answers.len());
    assert!(events.iter().filter(|event| matches!(event, Event::Closed { .. })).count() <= 1);
}

/// Packets to either end of the UDP meter, and the head of a stream. Each character is a byte, and characters above 255 separate packets.
/// Some come from a proved address; each `S` in them is replaced by the secret of its session.
pub(super) fn udp_packets(text: &str) {
    let mut gate = Gate::new(1000).giving(1_000_000);
    let (known, stranger) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut admit = |from: [u8; 4], bytes: &[u8]| {
        let act = gate.admit(Arrival { from: (from, 7).into(), now_ns: 7, bytes });
        if let Ok(Act::Reply(answer)) = act {
            assert!(answer.bytes_min() < bytes.len(), "{answer:?}");
        }
        act
    };
    let mut say = |message: FromClient| {
        let mut packet = vec![0; message.bytes_min()];
        message.write(&mut packet);
        admit(known, &packet)
    };
    let Ok(Act::Reply(FromServer::Challenge { cookie, .. })) = say(FromClient::Hello { nonce: 1 }) else { panic!() };
    let opened = say(FromClient::Open { nonce: 1, cookie });
    let Ok(Act::Reply(FromServer::Welcome { session, .. })) = opened else { panic!() };
    for packet in text.split(|c: char| u8::try_from(c).is_err()) {
        let mut bytes: Vec<u8> = packet.chars().map(|c| c as u8).collect();
        let _ = FromServer::parse(&bytes);
        if let Some(head) = bytes.first_chunk() {
            let _ = stream::Request::parse(head);
        }
        if let Some(result) = bytes.first_chunk() {
            let _ = stream::Result::parse(result);
        }
        kernel_records(&bytes);
        assert!(matches!(admit(stranger, &bytes), Err(_) | Ok(Act::Reply(_))));
        if bytes.get(8..16) == Some(b"SSSSSSSS") {
            bytes[8..16].copy_from_slice(&session.to_be_bytes());
        }
        let _ = admit(known, &bytes);
    }
    assert!(gate.sessions() <= 1);
}

/// The kernel's output in shared memory: records of switches, and blocks of packets with arbitrary contents.
fn kernel_records(bytes: &[u8]) {
    let _ = read_packet(bytes);
    let mut packets = 0_u32;
    let unread = read_block(bytes, |_| packets += 1);
    assert!((packets + unread) as usize <= bytes.len() / 48);
    let (mut rest, mut wakes) = (bytes, Wakes::default());
    while let Some((record, length)) = first_thread_record(rest) {
        wakes.take(record);
        rest = &rest[length..];
    }
    assert!(wakes.list().len() <= bytes.len() / 32);
}
