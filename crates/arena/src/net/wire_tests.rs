//! Every encoded message is parsed back, all other bytes are an error, and no answer is larger than its question.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// Pads `hex` with zeros to `length` bytes.
fn check(hex: &str, length: usize, want: Expect) {
    let mut bytes = from_hex(hex);
    bytes.resize(bytes.len().max(length), 0);
    want.assert_eq(&format!("{:?}", FromClient::parse(&bytes)));
}

#[test]
fn client_datagrams() {
    let hello = "454b02 01 0100000000000000";
    check(hello, 64, expect!["Ok(Hello { nonce: 1 })"]);
    check(hello, 63, expect!["Err(Length)"]);
    check(hello, 65, expect!["Err(Length)"]);
    check("454b02 03 0100000000000000 0200000000000000", 64, expect!["Ok(Join { nonce: 1, cookie: 2 })"]);
    check(
        "454b02 06 0500000000000000 07000000 03000000 11 0040 ffff 02000000 80",
        0,
        expect![
            "Ok(Input { session: 5, sequence: 7, ack: 3, input: PlayerInput { buttons: Buttons(17), look: Look { yaw: 16384, pitch: -1 }, view: View { tick: 2, part: 128 } } })"
        ],
    );
    check("454b02 06 0500000000000000 07000000 03000000 80 0040 ffff 02000000 80", 0, expect!["Err(Range)"]);
    check("454b02 06 0500000000000000 07000000 03000000 11 0040 0080 02000000 80", 0, expect!["Err(Range)"]);
    check(
        "454b02 07 0500000000000000 07000000 0900000000000000",
        0,
        expect!["Ok(Ping { session: 5, sequence: 7, sent_ns: 9 })"],
    );
    check("454b02 07 0500000000000000 07000000 09000000000000", 0, expect!["Err(Length)"]);
    check("454b02 08 00", 0, expect!["Err(Kind(8))"]);
    check("454b01 01", 64, expect!["Err(Header)"]);
    check("454b02", 0, expect!["Err(Header)"]);
    check("", 0, expect!["Err(Header)"]);
    check(hello, MAX_DATAGRAM_BYTES + 1, expect!["Err(Length)"]);
}

#[test]
fn no_answer_is_larger_than_its_question() {
    let (mut ask, mut answer) = (Vec::new(), Vec::new());
    let pairs = [
        (FromClient::Hello { nonce: 1 }, FromServer::Challenge { nonce: 1, cookie: u64::MAX }),
        (
            FromClient::Join { nonce: 1, cookie: 1 },
            FromServer::Welcome { nonce: 1, session: 1, player: 1, tick_hz: 50, seed: u64::MAX },
        ),
        (FromClient::Join { nonce: 1, cookie: 1 }, FromServer::Full { nonce: 1 }),
        (
            FromClient::Ping { session: 1, sequence: 1, sent_ns: 1 },
            FromServer::Pong { sequence: 1, sent_ns: 1, server_ns: 1 },
        ),
    ];
    for (question, reply) in pairs {
        question.encode(&mut ask);
        reply.encode(&mut answer);
        assert!(answer.len() <= ask.len(), "{question:?} -> {reply:?}");
    }
}

fn client_message() -> impl Strategy<Value = FromClient> {
    let look = (any::<u16>(), -MAX_PITCH..=MAX_PITCH).prop_map(|(yaw, pitch)| Look { yaw, pitch });
    let view = any::<(u32, u8)>().prop_map(|(tick, part)| View { tick, part });
    let input = (0u8..128, look, view).prop_map(|(bits, look, view)| {
        let buttons = Buttons::from_bits(bits);
        PlayerInput { buttons, look, view }
    });
    prop_oneof![
        any::<u64>().prop_map(|nonce| FromClient::Hello { nonce }),
        any::<(u64, u64)>().prop_map(|(nonce, cookie)| FromClient::Join { nonce, cookie }),
        (any::<(u64, u32, u32)>(), input).prop_map(|((session, sequence, ack), input)| FromClient::Input {
            session,
            sequence,
            ack,
            input
        }),
        any::<(u64, u32, u64)>().prop_map(|(session, sequence, sent_ns)| FromClient::Ping {
            session,
            sequence,
            sent_ns
        }),
    ]
}

/// All messages except snapshots, which have their own tests.
fn server_message() -> impl Strategy<Value = FromServer<'static>> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(nonce, cookie)| FromServer::Challenge { nonce, cookie }),
        (any::<(u64, u64, u8, u64)>(), 1u16..).prop_map(|((nonce, session, player, seed), tick_hz)| {
            FromServer::Welcome { nonce, session, player, tick_hz, seed }
        }),
        any::<u64>().prop_map(|nonce| FromServer::Full { nonce }),
        any::<(u32, u64, u64)>().prop_map(|(sequence, sent_ns, server_ns)| FromServer::Pong {
            sequence,
            sent_ns,
            server_ns
        }),
    ]
}

/// Arbitrary bytes after a valid header, so that they pass the first check.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..1300);
    (any::<bool>(), 0u8..12, body).prop_map(|(ours, kind, body)| {
        let mut bytes = if ours { vec![b'E', b'K', 2, kind] } else { Vec::new() };
        bytes.extend(body);
        bytes
    })
}

proptest! {
    #[test]
    fn client_round_trip(message in client_message()) {
        let mut bytes = vec![1, 2, 3];
        message.encode(&mut bytes);
        prop_assert_eq!(FromClient::parse(&bytes), Ok(message));
    }

    #[test]
    fn server_round_trip(message in server_message()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert!(bytes.len() <= MAX_DATAGRAM_BYTES);
        prop_assert_eq!(FromServer::parse(&bytes), Ok(message));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in hostile()) {
        let mut again = Vec::new();
        if let Ok(message) = FromClient::parse(&bytes) {
            message.encode(&mut again);
            prop_assert_eq!(again.len(), bytes.len());
        }
        match FromServer::parse(&bytes) {
            Ok(FromServer::Snapshot(packed)) => drop(packed.unpack(None, &mut Snapshot::default())),
            Ok(message) => {
                message.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
            Err(_) => {}
        }
    }
}
