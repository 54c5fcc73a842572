//! Tests the gate's rules: which clients get an answer, the answer's length, and how much a client may request.

use proptest::prelude::*;

use super::*;
use crate::meters::udp::wire::{COUNT_BYTES, ECHO_BYTES_MIN, STRANGER_BYTES};

const SECOND_NS: u64 = 1_000_000_000;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn packet(message: FromClient) -> Vec<u8> {
    let mut bytes = vec![0; message.bytes_min()];
    message.write(&mut bytes);
    bytes
}

fn ask(gate: &mut Gate, port: u16, now_ns: u64, message: FromClient) -> Result<Act, Refusal> {
    gate.admit(Arrival { from: address(port), now_ns, bytes: &packet(message) })
}

/// Opens a session and returns its secret.
fn join(gate: &mut Gate, port: u16, now_ns: u64) -> Option<u64> {
    let nonce = u64::from(port);
    let Ok(Act::Reply(FromServer::Challenge { cookie, .. })) = ask(gate, port, now_ns, FromClient::Hello { nonce })
    else {
        return None;
    };
    match ask(gate, port, now_ns, FromClient::Open { nonce, cookie }) {
        Ok(Act::Reply(FromServer::Welcome { session, .. })) => Some(session),
        _ => None,
    }
}

fn echo(session: u64, sequence: u64) -> FromClient {
    FromClient::Echo(Numbered { session, sequence, sent_ns: 9 })
}

#[test]
fn a_session_echoes_counts_and_ends() {
    let mut gate = Gate::new(1000);
    let session = join(&mut gate, 1, 5).unwrap();
    for sequence in [0, 2, 1, 1] {
        assert!(matches!(ask(&mut gate, 1, 10, echo(session, sequence)), Ok(Act::Echo(..))));
    }
    let sink = FromClient::Sink(Numbered { session, sequence: 5, sent_ns: 0 });
    assert_eq!(ask(&mut gate, 1, 20, sink), Ok(Act::Counted));
    let Ok(Act::Counts { tally, .. }) = ask(&mut gate, 1, 30, FromClient::Count { session, ask: 1 }) else { panic!() };
    assert_eq!((tally.arrived, tally.duplicates, tally.reordered, tally.answered), (4, 1, 1, 4));
    assert_eq!((tally.span_ns, tally.bytes, tally.sessions), (10, 4 * ECHO_BYTES_MIN as u64 + 24, 1));
    assert_eq!(ask(&mut gate, 1, 40, FromClient::Bye { session }), Ok(Act::Counted));
    assert_eq!(ask(&mut gate, 1, 50, echo(session, 6)), Err(Refusal::Unproven));
}

#[test]
fn strangers_get_no_echo_and_no_burst() {
    let mut gate = Gate::new(1000);
    let session = join(&mut gate, 1, 5).unwrap();
    let burst = FromClient::Burst { session, packets: 100, bytes: 1000 };
    for message in [echo(session, 0), burst, FromClient::Count { session, ask: 1 }, FromClient::Bye { session }] {
        assert_eq!(ask(&mut gate, 2, 10, message), Err(Refusal::Unproven), "another address, {message:?}");
    }
    assert_eq!(ask(&mut gate, 1, 10, echo(session ^ 1, 0)), Err(Refusal::Unproven), "another secret");
    let forged = FromClient::Open { nonce: 2, cookie: 12345 };
    assert_eq!(ask(&mut gate, 2, 10, forged), Err(Refusal::Unproven), "a guessed cookie");
    assert_eq!(gate.sessions(), 1, "they cost no memory");
    assert_eq!(gate.counted().unproven, 6);
}

#[test]
fn a_replayed_opening_ends_no_session() {
    let mut gate = Gate::new(1000);
    let session = join(&mut gate, 1, 5).unwrap();
    let cookie = gate.cookies.bake(address(1), 99, 5);
    assert_eq!(ask(&mut gate, 1, 5, FromClient::Open { nonce: 99, cookie }), Err(Refusal::Unproven));
    let cookie = gate.cookies.bake(address(1), 1, 5);
    let again = ask(&mut gate, 1, 5, FromClient::Open { nonce: 1, cookie });
    assert_eq!(again, Ok(Act::Reply(FromServer::Welcome { nonce: 1, session })), "the first welcome was lost");
}

#[test]
fn places_are_bounded_and_come_free_by_silence() {
    let mut gate = Gate::new(1000);
    for port in 0..SESSIONS_MAX as u16 {
        // The handshakes of one host are limited too, so this takes a second per hundred handshakes.
        assert!(join(&mut gate, port, u64::from(port) * SECOND_NS / 50).is_some(), "{port}");
    }
    let (full_ns, later_ns) = (2 * SECOND_NS, 2 * SECOND_NS + SILENCE_NS);
    let cookie = gate.cookies.bake(address(999), 1, full_ns);
    let full = ask(&mut gate, 999, full_ns, FromClient::Open { nonce: 1, cookie });
    assert_eq!(full, Ok(Act::Reply(FromServer::Full { nonce: 1 })));
    assert!(join(&mut gate, 999, later_ns).is_some());
    assert!(gate.sessions() < SESSIONS_MAX);
}

#[test]
fn rates_are_bounded() {
    let mut gate = Gate::new(1000);
    let session = join(&mut gate, 1, 5).unwrap();
    let answered = (0..5000).filter(|at| ask(&mut gate, 1, SECOND_NS, echo(session, *at)).is_ok()).count();
    assert_eq!(answered, 100, "a tenth of a second at once");
    let burst = FromClient::Burst { session, packets: 100, bytes: 1000 };
    assert_eq!((0..100).filter(|_| ask(&mut gate, 1, SECOND_NS, burst).is_ok()).count(), 10);
    let hellos = (0..1000).filter(|nonce| ask(&mut gate, 7, SECOND_NS, FromClient::Hello { nonce: *nonce }).is_ok());
    assert!(hellos.count() <= 200);
    let Ok(Act::Counts { tally, .. }) = ask(&mut gate, 1, SECOND_NS, FromClient::Count { session, ask: 1 }) else {
        panic!()
    };
    assert_eq!((tally.arrived, tally.answered, tally.refused), (5000, 100, 4900), "unanswered packets are counted");
}

fn request(session: u64) -> StreamRequest {
    StreamRequest { session, ask: 1, ms: 3000, packets_per_s: 1000, bytes: 1000, streams: 1 }
}

fn given(said: Result<Act, Refusal>) -> Option<u32> {
    match said {
        Ok(Act::Reply(FromServer::Given { packets_per_s, .. })) => packets_per_s,
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_go_to_who_proved_its_address_and_goes_on_asking() {
    let mut gate = Gate::new(1000).giving(16_000_000);
    let session = join(&mut gate, 1, 0).unwrap();
    let stranger = FromClient::Give(request(session));
    assert_eq!(ask(&mut gate, 2, 0, stranger), Err(Refusal::Unproven), "another address");
    assert_eq!(ask(&mut gate, 1, 0, FromClient::Give(request(session ^ 1))), Err(Refusal::Unproven), "another secret");
    assert_eq!(gate.parcels(0, 64), []);
    assert_eq!(given(ask(&mut gate, 1, 0, stranger)), Some(1000));
    let due = Due { at: 0, packets: 1, bytes: 1000 };
    assert_eq!(gate.parcels(0, 64), [Parcel { to: address(1), session, due }]);
    // A second stream of the same host shares the remaining rate. A stream of another host waits until both streams are done.
    let second = join(&mut gate, 2, 0).unwrap();
    let fast = StreamRequest { packets_per_s: u32::MAX, ..request(second) };
    assert_eq!(given(ask(&mut gate, 2, 0, FromClient::Give(fast))), Some(1000));
    let elsewhere = SocketAddr::from(([10, 0, 0, 2], 1));
    let say =
        |gate: &mut Gate, now_ns, message| gate.admit(Arrival { from: elsewhere, now_ns, bytes: &packet(message) });
    let Ok(Act::Reply(FromServer::Challenge { cookie, .. })) = say(&mut gate, 0, FromClient::Hello { nonce: 9 }) else {
        panic!()
    };
    let Ok(Act::Reply(FromServer::Welcome { session: third, .. })) =
        say(&mut gate, 0, FromClient::Open { nonce: 9, cookie })
    else {
        panic!()
    };
    assert_eq!(given(say(&mut gate, 0, FromClient::Give(request(third)))), None);
    // The client does not repeat the request. So the request ends after a second, long before its requested time.
    assert!(gate.gives(SECOND_NS - 1) && !gate.gives(SECOND_NS));
    assert_eq!(gate.parcels(SECOND_NS, 64), []);
    assert_eq!(given(say(&mut gate, SECOND_NS, FromClient::Give(request(third)))), Some(1000));
    assert_eq!(given(ask(&mut gate, 1, SECOND_NS, stranger)), None, "said too late");
    assert_eq!(given(ask(&mut gate, 1, 4 * SECOND_NS, stranger)), None, "a request begins once in a session");
    assert_eq!(gate.parcels(4 * SECOND_NS, 64), []);
}

#[test]
fn a_server_that_sends_nothing_reports_it() {
    let mut gate = Gate::new(1000);
    let session = join(&mut gate, 1, 0).unwrap();
    assert_eq!(given(ask(&mut gate, 1, 0, FromClient::Give(request(session)))), None);
    assert!(!gate.gives(0));
    let tries = (0..1000).filter(|_| ask(&mut gate, 1, 0, FromClient::Give(request(session))).is_ok()).count();
    assert!(tries < 20, "{tries}");
}

proptest! {
    /// Whatever packets strangers send, they get no more bytes back than they sent, and leave no state behind.
    #[test]
    fn strangers_gain_nothing(
        packets in proptest::collection::vec((0_u16..4, proptest::collection::vec(any::<u8>(), 0..150), 0_u8..10), 1..50)
    ) {
        let mut gate = Gate::new(1000).giving(u64::MAX);
        for (port, mut bytes, kind) in packets {
            if kind < 9 && bytes.len() >= STRANGER_BYTES {
                // Most packets are nearly valid: the header is right, and often the length too.
                bytes[..8].copy_from_slice(&[b'E', b'K', b'U', b'1', kind, 0, 0, 0]);
                bytes.truncate(if kind == 5 { COUNT_BYTES } else { STRANGER_BYTES });
            }
            match gate.admit(Arrival { from: address(port), now_ns: 7, bytes: &bytes }) {
                Ok(Act::Reply(answer)) => prop_assert!(answer.bytes_min() < bytes.len()),
                Ok(other) => prop_assert!(false, "{:?}", other),
                Err(_) => {}
            }
            prop_assert_eq!(gate.sessions(), 0);
        }
    }
}
