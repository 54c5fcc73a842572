//! Tests that the parser reads every written message back, and accepts nothing else.

use proptest::prelude::*;

use super::*;

fn numbered() -> impl Strategy<Value = Numbered> {
    (any::<u64>(), 0..SEQUENCE_END, any::<u64>()).prop_map(|(session, sequence, sent_ns)| Numbered {
        session,
        sequence,
        sent_ns,
    })
}

fn from_client() -> impl Strategy<Value = FromClient> {
    let sizes = (FILLER_BYTES_MIN as u16)..=(PACKET_BYTES_MAX as u16);
    prop_oneof![
        any::<u64>().prop_map(|nonce| FromClient::Hello { nonce }),
        (any::<u64>(), any::<u64>()).prop_map(|(nonce, cookie)| FromClient::Open { nonce, cookie }),
        numbered().prop_map(FromClient::Echo),
        numbered().prop_map(|numbered| FromClient::Sink(Numbered { sent_ns: 0, ..numbered })),
        (any::<u64>(), any::<u64>()).prop_map(|(session, ask)| FromClient::Count { session, ask }),
        (any::<u64>(), 1..=BURST_PACKETS_MAX, sizes).prop_map(|(session, packets, bytes)| FromClient::Burst {
            session,
            packets,
            bytes
        }),
        any::<u64>().prop_map(|session| FromClient::Bye { session }),
        request().prop_map(FromClient::Give),
    ]
}

fn request() -> impl Strategy<Value = StreamRequest> {
    let sizes = (FILLER_BYTES_MIN as u16)..=(PACKET_BYTES_MAX as u16);
    (any::<(u64, u64)>(), 1..=GIVE_MS_MAX, 1..=u32::MAX, sizes, 1..=GIVE_STREAMS_MAX).prop_map(
        |((session, ask), ms, packets_per_s, bytes, streams)| StreamRequest {
            session,
            ask,
            ms,
            packets_per_s,
            bytes,
            streams,
        },
    )
}

fn from_server() -> impl Strategy<Value = FromServer> {
    let known = || proptest::option::of(0..UNKNOWN_NS);
    let tally = (proptest::array::uniform10(any::<u64>()), known(), any::<u32>()).prop_map(|(n, dropped, sessions)| {
        SessionCounts {
            arrived: n[0],
            duplicates: n[1],
            reordered: n[2],
            extent_max: n[3],
            too_old: n[4],
            bytes: n[5],
            span_ns: n[6],
            answered: n[7],
            refused: n[8],
            dropped,
            cpu_ns: n[9],
            sessions,
        }
    });
    prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(nonce, cookie)| FromServer::Challenge { nonce, cookie }),
        (any::<u64>(), any::<u64>()).prop_map(|(nonce, session)| FromServer::Welcome { nonce, session }),
        any::<u64>().prop_map(|nonce| FromServer::Full { nonce }),
        (numbered(), any::<u64>(), known(), known()).prop_map(|(to, number, waited_ns, turn_ns)| {
            FromServer::Answer(Answer { to, number, waited_ns, turn_ns })
        }),
        (any::<u64>(), any::<u64>(), tally).prop_map(|(session, ask, tally)| FromServer::SessionCounts {
            session,
            ask,
            tally
        }),
        (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(session, at, of)| FromServer::Filler { session, at, of }),
        (any::<u64>(), any::<u64>(), proptest::option::of(1..=u32::MAX))
            .prop_map(|(session, ask, packets_per_s)| { FromServer::Given { session, ask, packets_per_s } }),
    ]
}

proptest! {
    #[test]
    fn messages_of_a_client_are_read_back(message in from_client()) {
        let mut packet = vec![0; message.bytes_min()];
        message.write(&mut packet);
        prop_assert_eq!(FromClient::parse(&packet), Ok(message));
        prop_assert_eq!(FromServer::parse(&packet), Err(Malformed));
        for shorter in 0..packet.len() {
            prop_assert_eq!(FromClient::parse(&packet[..shorter]), Err(Malformed), "{} bytes", shorter);
        }
    }

    #[test]
    fn messages_of_a_server_are_read_back(message in from_server()) {
        let mut packet = vec![0; message.bytes_min()];
        message.write(&mut packet);
        prop_assert_eq!(FromServer::parse(&packet), Ok(message));
        prop_assert_eq!(FromClient::parse(&packet), Err(Malformed));
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind: u8, ours: bool) {
        if ours && bytes.len() >= HEADER_BYTES {
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[4..HEADER_BYTES].copy_from_slice(&[kind, 0, 0, 0]);
        }
        let _ = (FromClient::parse(&bytes), FromServer::parse(&bytes));
    }

    #[test]
    fn a_message_fits_any_room(message in from_server(), length in 0_usize..200) {
        message.write(&mut vec![0; length]);
    }
}

#[test]
fn a_stranger_gets_no_more_than_it_sends() {
    let answers = [
        FromServer::Challenge { nonce: 1, cookie: 2 },
        FromServer::Welcome { nonce: 1, session: 2 },
        FromServer::Full { nonce: 1 },
    ];
    assert!(answers.iter().all(|answer| answer.bytes_min() < STRANGER_BYTES));
}

#[test]
fn a_request_over_the_limit_is_refused() {
    let least =
        StreamRequest { session: 1, ask: 2, ms: 1, packets_per_s: 1, bytes: FILLER_BYTES_MIN as u16, streams: 1 };
    let read = |request: StreamRequest| {
        let mut packet = [0; GIVE_BYTES];
        FromClient::Give(request).write(&mut packet);
        FromClient::parse(&packet)
    };
    assert_eq!(read(least), Ok(FromClient::Give(least)));
    for request in [
        StreamRequest { ms: 0, ..least },
        StreamRequest { ms: GIVE_MS_MAX + 1, ..least },
        StreamRequest { packets_per_s: 0, ..least },
        StreamRequest { bytes: FILLER_BYTES_MIN as u16 - 1, ..least },
        StreamRequest { bytes: PACKET_BYTES_MAX as u16 + 1, ..least },
        StreamRequest { streams: 0, ..least },
        StreamRequest { streams: GIVE_STREAMS_MAX + 1, ..least },
    ] {
        assert_eq!(read(request), Err(Malformed), "{request:?}");
    }
    assert!(FromServer::Given { session: 1, ask: 2, packets_per_s: None }.bytes_min() < GIVE_BYTES);
}

#[test]
fn near_packets_are_refused() {
    let mut hello = vec![0; STRANGER_BYTES];
    FromClient::Hello { nonce: 5 }.write(&mut hello);
    let changed = |at: usize, to: u8| {
        let mut packet = hello.clone();
        packet[at] = to;
        packet
    };
    let longer = [hello.clone(), vec![0]].concat();
    for packet in [changed(0, b'X'), changed(4, 99), changed(5, 1), longer, vec![0; PACKET_BYTES_MAX + 1]] {
        assert_eq!(FromClient::parse(&packet), Err(Malformed), "{packet:?}");
    }
    assert_eq!(FromClient::parse(&hello), Ok(FromClient::Hello { nonce: 5 }));
}
