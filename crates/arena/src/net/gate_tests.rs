//! Nobody joins, gets an answer or causes an action without the required proof.

use std::sync::mpsc::{Receiver, sync_channel};

use proptest::prelude::*;

use super::*;
use crate::net::cookie::COOKIE_BUCKET_NS;

struct Fixture {
    gate: Gate,
    events: Receiver<Event>,
    now_ns: u64,
}

fn fixture(slots: usize, queue: usize) -> Fixture {
    let (sender, events) = sync_channel(queue);
    let config = GateConfig { slots, tick_hz: 50, seed: 1 };
    Fixture { gate: Gate::new(config, sender), events, now_ns: 100 * SECOND_NS }
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

type Outcome = Result<Option<FromServer<'static>>, Refusal>;

impl Fixture {
    /// Sends a message. No answer may be larger than the message.
    fn send(&mut self, port: u16, message: FromClient) -> Outcome {
        let (mut bytes, mut answer) = (Vec::new(), Vec::new());
        message.encode(&mut bytes);
        let outcome = self.gate.admit(Arrival { from: at(port), now_ns: self.now_ns, bytes: &bytes });
        if let Ok(Some(reply)) = &outcome {
            reply.encode(&mut answer);
            assert!(answer.len() <= bytes.len(), "{message:?} -> {reply:?}");
        }
        outcome
    }

    fn cookie(&mut self, port: u16, nonce: u64) -> u64 {
        match self.send(port, FromClient::Hello { nonce }) {
            Ok(Some(FromServer::Challenge { cookie, .. })) => cookie,
            other => panic!("{other:?}"),
        }
    }

    fn enter(&mut self, port: u16, nonce: u64) -> u64 {
        let cookie = self.cookie(port, nonce);
        match self.send(port, FromClient::Join { nonce, cookie }) {
            Ok(Some(FromServer::Welcome { session, .. })) => session,
            other => panic!("{other:?}"),
        }
    }

    fn input(&mut self, port: u16, session: u64, sequence: u32) -> Outcome {
        let input = PlayerInput::default();
        self.send(port, FromClient::Input { session, sequence, ack: 0, input })
    }

    fn ping(&mut self, port: u16, session: u64, sequence: u32) -> Outcome {
        self.send(port, FromClient::Ping { session, sequence, sent_ns: 9 })
    }

    fn events(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }
}

#[test]
fn a_hello_makes_no_player() {
    let mut f = fixture(4, 16);
    for nonce in 0..100 {
        f.cookie(1, nonce);
    }
    assert_eq!((f.gate.players(), f.events()), (0, vec![]));
}

#[test]
fn a_good_cookie_makes_one_player_and_a_repeat_no_second() {
    let mut f = fixture(4, 16);
    let cookie = f.cookie(1, 7);
    let join = FromClient::Join { nonce: 7, cookie };
    let first = f.send(1, join);
    assert!(matches!(first, Ok(Some(FromServer::Welcome { .. }))));
    assert_eq!(f.send(1, join), first, "the lost welcome again");
    let slot = Slot(0);
    let address = at(1);
    assert_eq!(f.events(), [Event::Join { slot, address }]);
    assert_eq!(f.gate.players(), 1);
}

#[test]
fn a_cookie_is_no_good_elsewhere_or_later_or_changed() {
    let mut f = fixture(4, 16);
    let cookie = f.cookie(1, 7);
    let join = |nonce, cookie| FromClient::Join { nonce, cookie };
    assert_eq!(f.send(2, join(7, cookie)), Err(Refusal::Unproven));
    assert_eq!(f.send(1, join(8, cookie)), Err(Refusal::Unproven));
    assert_eq!(f.send(1, join(7, cookie ^ 1)), Err(Refusal::Unproven));
    f.now_ns += 2 * COOKIE_BUCKET_NS;
    assert_eq!(f.send(1, join(7, cookie)), Err(Refusal::Unproven));
    assert_eq!((f.gate.players(), f.events()), (0, vec![]));
}

#[test]
fn a_second_attempt_from_a_held_address_waits() {
    let mut f = fixture(4, 16);
    f.enter(1, 7);
    let cookie = f.cookie(1, 8);
    let join = FromClient::Join { nonce: 8, cookie };
    assert_eq!(f.send(1, join), Err(Refusal::Replayed));
}

#[test]
fn full_is_said_and_a_silent_player_makes_room() {
    let mut f = fixture(2, 16);
    f.enter(1, 1);
    let kept = f.enter(2, 2);
    let cookie = f.cookie(3, 3);
    let join = FromClient::Join { nonce: 3, cookie };
    assert_eq!(f.send(3, join), Ok(Some(FromServer::Full { nonce: 3 })));
    f.now_ns += SILENCE_NS - 1;
    f.gate.sweep(f.now_ns);
    assert_eq!(f.ping(2, kept, 1).map(|pong| pong.is_some()), Ok(true));
    assert_eq!(f.gate.players(), 2);
    f.now_ns += 1;
    f.gate.sweep(f.now_ns);
    assert_eq!(f.gate.players(), 1);
    assert_eq!(f.events().last(), Some(&Event::Leave { slot: Slot(0) }));
    f.enter(3, 4);
}

#[test]
fn inputs_need_the_secret_a_new_number_and_patience() {
    let mut f = fixture(4, 64);
    let session = f.enter(1, 1);
    let other = f.enter(2, 2);
    assert_eq!(f.input(1, session, 5), Ok(None));
    assert_eq!(f.input(1, session, 5), Err(Refusal::Replayed));
    assert_eq!(f.input(1, session, 4), Ok(None), "late but new");
    assert_eq!(f.input(1, other, 6), Err(Refusal::Unproven));
    assert_eq!(f.input(3, session, 6), Err(Refusal::Unproven));
    // Pings are counted separately from inputs.
    let pong = FromServer::Pong { sequence: 5, sent_ns: 9, server_ns: f.now_ns };
    assert_eq!(f.ping(1, session, 5), Ok(Some(pong)));
    assert_eq!(f.ping(1, session, 5), Err(Refusal::Replayed));
    let accepted = (10..1_000).filter(|&n| f.input(1, session, n).is_ok());
    assert_eq!(accepted.count(), 30, "what is left of the burst");
    assert_eq!(f.input(1, session, 2_000), Err(Refusal::RateLimited));
}

#[test]
fn one_host_is_limited_before_it_has_proved_anything() {
    let mut f = fixture(4, 16);
    let refused =
        (0..2_000).filter(|&nonce| f.send(nonce as u16, FromClient::Hello { nonce }) == Err(Refusal::RateLimited));
    assert_eq!(refused.count(), 1_000);
}

#[test]
fn a_flood_from_everywhere_is_answered_at_a_bounded_rate_and_players_play_on() {
    let mut f = fixture(4, 1_000);
    let session = f.enter(1, 1);
    let cookie = f.cookie(2, 2);
    let mut challenges = 0;
    for n in 0..100_000_u32 {
        let [a, b, c, d] = n.wrapping_mul(2_654_435_761).to_be_bytes();
        let mut bytes = Vec::new();
        FromClient::Hello { nonce: n.into() }.encode(&mut bytes);
        let from = SocketAddr::from(([a, b, c, d], n as u16));
        f.now_ns += 2_000;
        challenges += usize::from(f.gate.admit(Arrival { from, now_ns: f.now_ns, bytes: &bytes }).is_ok());
        if n % 5_000 == 0 {
            assert_eq!(f.input(1, session, n + 1), Ok(None));
        }
    }
    // 0.2 s at 20,000 per second, plus the burst.
    assert!((4_000..=6_100).contains(&challenges), "{challenges}");
    assert_eq!(f.gate.players(), 1);
    let join = FromClient::Join { nonce: 2, cookie };
    assert!(matches!(f.send(2, join), Ok(Some(FromServer::Welcome { .. }))), "a proven address gets in all the same");
}

#[test]
fn a_full_queue_lets_nobody_half_in_or_half_out() {
    let mut f = fixture(4, 1);
    f.enter(1, 1);
    let cookie = f.cookie(2, 2);
    let join = FromClient::Join { nonce: 2, cookie };
    assert_eq!(f.send(2, join), Err(Refusal::QueueFull));
    assert_eq!(f.gate.players(), 1);
    f.now_ns += SILENCE_NS;
    f.gate.sweep(f.now_ns);
    assert_eq!(f.gate.players(), 1, "its leaving could not be reported");
    assert_eq!(f.events().len(), 1);
    f.gate.sweep(f.now_ns);
    assert_eq!(f.gate.players(), 0);
    assert_eq!(f.events(), [Event::Leave { slot: Slot(0) }]);
}

proptest! {
    #[test]
    fn random_bytes_make_no_player_and_no_larger_answer(
        datagrams in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..100), 0u8..10), 1..20)
    ) {
        let mut f = fixture(4, 16);
        for (port, body, kind) in datagrams {
            let mut bytes = vec![b'E', b'K', 2, kind];
            bytes.extend(body);
            bytes.resize(if kind % 2 == 1 { 64 } else { bytes.len() }, 0);
            let arrival = Arrival { from: at(port), now_ns: f.now_ns, bytes: &bytes };
            if let Ok(Some(reply)) = f.gate.admit(arrival) {
                let mut answer = Vec::new();
                reply.encode(&mut answer);
                prop_assert!(answer.len() <= bytes.len());
            }
        }
        prop_assert_eq!(f.gate.players(), 0);
    }
}
