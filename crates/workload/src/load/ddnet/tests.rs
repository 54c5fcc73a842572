//! Tests the players with a simulated server: without a socket, and on loopback.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use evenkeel_sys::{CpuSet, clock};
use proptest::prelude::*;

use super::crowd::Patience;
use super::player::{Event, Player};
use super::wire::{
    ACCEPT, CLOSE, CONNECT, CONNECT_ACCEPT, KEEP_ALIVE, NO_TOKEN, Packet, TOKEN_MAGIC, Token, Writer, control,
    put_number, put_text, take_number,
};
use super::{Crowd, TICK_NS};
use crate::load::Fault;

const TOKEN: Token = *b"host";

/// The state that a simulated server has for one player.
#[derive(Debug)]
struct Host {
    ack: u16,
    sequence: u16,
    /// Whether the player has sent the right token. Until then, the server accepts no other message.
    is_accepted: bool,
    is_joined: bool,
    inputs: u32,
    names: Vec<String>,
}

impl Host {
    fn new() -> Host {
        Host { ack: 0, sequence: 0, is_accepted: false, is_joined: false, inputs: 0, names: Vec::new() }
    }

    fn vital(&mut self, message: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let mut writer = Writer::default();
        assert!(writer.chunk(message, Some(self.sequence)));
        writer.finish(self.ack, TOKEN)
    }

    /// The server's answers to one packet.
    fn hear(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let packet = Packet::parse(bytes).unwrap();
        if packet.is_control {
            return match packet.payload[0] {
                CONNECT => {
                    assert_eq!((packet.token, &packet.payload[1..]), (NO_TOKEN, TOKEN_MAGIC));
                    vec![control(CONNECT_ACCEPT, TOKEN_MAGIC, 0, TOKEN)]
                }
                ACCEPT => {
                    self.is_accepted = true;
                    Vec::new()
                }
                KEEP_ALIVE | CLOSE => Vec::new(),
                other => panic!("control {other}"),
            };
        }
        assert_eq!(packet.token, TOKEN);
        if !self.is_accepted {
            return Vec::new();
        }
        let mut answers = Vec::new();
        for chunk in packet.chunks() {
            if let Some(sequence) = chunk.sequence {
                if sequence != self.ack + 1 {
                    continue;
                }
                self.ack = sequence;
            }
            answers.extend(self.message(chunk.message));
        }
        answers
    }

    fn message(&mut self, mut message: &[u8]) -> Option<Vec<u8>> {
        let id = take_number(&mut message).unwrap();
        match (id >> 1, id & 1 != 0) {
            (1, true) => {
                assert!(message.starts_with(b"0.6 626fce9a778df4d4\0"));
                Some(self.vital(&said(2, true, |to| put_text("dm1", to))))
            }
            (14, true) => Some(self.vital(&said(4, true, |_| ()))),
            (20, false) => {
                self.names.push(String::from_utf8_lossy(message.split(|byte| *byte == 0).next().unwrap()).into_owned());
                Some(self.vital(&said(8, false, |_| ())))
            }
            (15, true) => {
                self.is_joined = true;
                None
            }
            (16, true) => {
                self.inputs += 1;
                let numbers: Vec<i32> = std::iter::from_fn(|| take_number(&mut message)).collect();
                // The numbers are the acknowledged snapshot, the tick of the input,
                // the size of the input in bytes, and the ten numbers of the input.
                assert_eq!((numbers.len(), numbers[2]), (13, 40), "{numbers:?}");
                assert_eq!(numbers[1], numbers[0] + 2);
                None
            }
            (0, true) => {
                let id = message.strip_prefix(&0xbcb4_3bf5_427c_36d8_b5b8_7975_c8c0_6aa1_u128.to_be_bytes()).unwrap();
                let pong = said(0, true, |to| {
                    to.extend(0xd829_5530_14a7_3a0a_b02e_b2ce_e08d_2033_u128.to_be_bytes());
                    to.extend(id);
                });
                let mut writer = Writer::default();
                assert!(writer.chunk(&pong, None));
                Some(writer.finish(self.ack, TOKEN))
            }
            other => panic!("message {other:?}"),
        }
    }

    /// The packets of a snapshot with this many parts.
    fn snapshot(&self, tick: i32, parts: i32) -> Vec<Vec<u8>> {
        let whole = |part: i32| {
            let message = said(if parts == 1 { 7 } else { 5 }, true, |to| {
                put_number(tick, to);
                put_number(-1, to);
                if parts > 1 {
                    put_number(parts, to);
                    put_number(part, to);
                }
                [7, 3].into_iter().for_each(|number| put_number(number, to));
                to.extend([1, 2, 3]);
            });
            let mut writer = Writer::default();
            assert!(writer.chunk(&message, None));
            writer.finish(self.ack, TOKEN)
        };
        (0..parts).map(whole).collect()
    }
}

fn said(id: i32, is_system: bool, more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Vec::new();
    put_number(id << 1 | i32::from(is_system), &mut message);
    more(&mut message);
    message
}

/// Exchanges packets until both sides have no more packets to send.
fn converse(player: &mut Player, host: &mut Host, from: Vec<Vec<u8>>, now_ns: u64) -> Vec<Event> {
    let (mut to_host, mut events) = (from, Vec::new());
    for _ in 0..20 {
        let mut answers = Vec::new();
        for bytes in to_host.drain(..).flat_map(|bytes| host.hear(&bytes)) {
            player.hear(&bytes, now_ns, &mut answers, &mut events);
        }
        to_host = answers;
    }
    events
}

fn joined() -> (Player, Host) {
    let (mut player, mut host) = (Player::new(7, 1), Host::new());
    let first = player.urge(1).unwrap();
    assert_eq!(player.urge(2), None, "it is asked again only after a while");
    assert!(player.urge(600_000_000).is_some());
    let events = converse(&mut player, &mut host, vec![first], 1);
    assert_eq!((events, host.is_joined, host.names.as_slice()), (Vec::new(), true, &["evenkeel 7".to_owned()][..]));
    (player, host)
}

#[test]
fn a_player_joins_plays_and_gets_ticks_and_pings() {
    let (mut player, mut host) = joined();
    assert!(!player.is_playing() && player.input(5).is_none(), "nothing was seen of the game");
    let mut events = Vec::new();
    // One snapshot comes in one packet, one in three parts (the second part comes last and twice), and one is old.
    let mut packets = host.snapshot(100, 1);
    let parts = host.snapshot(102, 3);
    packets.extend([0, 2, 0, 1, 1].map(|part: usize| parts[part].clone()));
    packets.extend(host.snapshot(101, 1));
    packets.iter().for_each(|bytes| player.hear(bytes, 9, &mut Vec::new(), &mut events));
    assert_eq!(events, [Event::Snapshot { tick: 100 }, Event::Snapshot { tick: 102 }]);
    assert!(player.is_playing());
    let input = player.input(1_000).unwrap();
    let events = converse(&mut player, &mut host, vec![input], 2_000);
    assert_eq!((events, host.inputs), (vec![Event::Pong { sent_ns: 1_000 }], 1));
    assert!(player.leave().is_some() && player.leave().is_none() && player.input(3_000).is_none());
}

#[test]
fn lost_chunks_are_repeated_and_duplicates_count_once() {
    let (mut player, mut host) = (Player::new(1, 1), Host::new());
    let mut answers = Vec::new();
    let hello = player.urge(1).unwrap();
    player.hear(&host.hear(&hello)[0], 10, &mut answers, &mut Vec::new());
    // The server's first packets, including its accept message, are lost. The repeated packets arrive.
    assert_eq!(player.urge(400_000_000), None);
    assert!(host.hear(&player.urge(600_000_000).unwrap()).is_empty());
    let again = player.urge(600_000_000).unwrap();
    let map = host.hear(&again).remove(0);
    answers.clear();
    for _ in 0..2 {
        player.hear(&map, 600_000_001, &mut answers, &mut Vec::new());
    }
    let ready: Vec<_> = answers.iter().filter(|bytes| !Packet::parse(bytes).unwrap().is_control).collect();
    assert_eq!(ready.len(), 1, "a repeated map message is taken once");
    // The server reports a missing chunk.
    let mut wants = Writer::default().finish(1, TOKEN);
    wants[0] |= 1 << 6;
    answers.clear();
    player.hear(&wants, 600_000_002, &mut answers, &mut Vec::new());
    assert_eq!(answers.len(), 1);
    let events = converse(&mut player, &mut host, answers, 600_000_003);
    assert!(events.is_empty() && host.is_joined);
}

#[test]
fn forged_packets_and_full_servers_are_handled() {
    let (mut player, host) = joined();
    let mut events = Vec::new();
    let mut hear = |player: &mut Player, bytes: &[u8]| player.hear(bytes, 9, &mut Vec::new(), &mut events);
    // Send a packet and a close message, both with a wrong token.
    let mut snapshot = host.snapshot(100, 1).remove(0);
    let last = snapshot.len() - 1;
    snapshot[last] ^= 1;
    hear(&mut player, &snapshot);
    hear(&mut player, &control(CLOSE, b"bye\0", 0, *b"evil"));
    hear(&mut player, &control(CLOSE, b"too\x1b[31m bad\0", 0, TOKEN));
    assert_eq!(events, [Event::Closed { why: "too[31m bad".to_owned() }]);
    // The server does not use tokens, and is full.
    let mut outside = Player::new(1, 1);
    drop(outside.urge(1));
    let mut events = Vec::new();
    outside.hear(&[&[0x10, 0, 0, CLOSE][..], b"This server is full\0"].concat(), 2, &mut Vec::new(), &mut events);
    assert_eq!(events, [Event::Closed { why: "This server is full".to_owned() }]);
}

#[test]
fn parts_that_can_not_be_make_no_snapshot() {
    for (parts, part) in [(0, 0), (-1, 0), (65, 0), (3, 3), (3, -1), (i32::MAX, i32::MAX)] {
        let (mut player, _host) = joined();
        let message =
            said(5, true, |to| [100, 1, parts, part, 0, 0].into_iter().for_each(|number| put_number(number, to)));
        let mut writer = Writer::default();
        assert!(writer.chunk(&message, None));
        let mut events = Vec::new();
        player.hear(&writer.finish(0, TOKEN), 9, &mut Vec::new(), &mut events);
        assert_eq!(events, [], "{parts} {part}");
    }
}

proptest! {
    #[test]
    fn no_packet_harms_a_player(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..40)) {
        let (mut player, _host) = joined();
        let (mut answers, mut events) = (Vec::new(), Vec::new());
        for (index, mut bytes) in packets.into_iter().enumerate() {
            if index % 2 == 0 {
                // This is the server's packet, but not compressed.
                bytes.extend(TOKEN);
                bytes[0] &= 0x4f;
            }
            player.hear(&bytes, index as u64, &mut answers, &mut events);
            let _ = (player.urge(index as u64 * 1_000_000_000), player.input(index as u64));
        }
        prop_assert!(answers.iter().all(|bytes| bytes.len() <= 1400) && answers.len() <= 80);
    }
}

/// How the server on loopback behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Good,
    /// The server accepts nobody.
    Full,
    /// The server hangs on request.
    Hangs,
    /// The server kicks players on request.
    Kicks,
    /// The server sends random bytes in addition to valid packets.
    Raves,
}

/// A server on loopback with its own thread, until it is dropped.
struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// If set, the server kicks or hangs.
    is_over: Arc<AtomicBool>,
    players_left: Arc<AtomicU32>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn start(mood: Mood) -> Served {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, players_left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (to_stop, left) = (Arc::clone(&stop), Arc::clone(&players_left));
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || serve(&socket, mood, &over, &to_stop, &left));
        Served { address, stop, is_over, players_left, thread: Some(thread) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

fn serve(socket: &UdpSocket, mood: Mood, is_over: &AtomicBool, stop: &AtomicBool, left: &AtomicU32) {
    let mut hosts: std::collections::BTreeMap<SocketAddr, Host> = std::collections::BTreeMap::new();
    let (begun, mut tick) = (Instant::now(), 0);
    let mut room = [0; 2000];
    while !stop.load(Ordering::Relaxed) {
        let is_over = is_over.load(Ordering::Relaxed);
        if let Ok((bytes, from)) = socket.recv_from(&mut room) {
            let bytes = &room[..bytes];
            if Packet::parse(bytes).is_some_and(|packet| packet.is_control && packet.payload.first() == Some(&CLOSE)) {
                left.fetch_add(1, Ordering::Relaxed);
            }
            let answers = match mood {
                Mood::Full => vec![control(CLOSE, b"This server is full\0", 0, TOKEN)],
                Mood::Hangs if is_over => Vec::new(),
                Mood::Kicks if is_over => vec![control(CLOSE, b"Kicked for (nothing)\0", 0, TOKEN)],
                _ => hosts.entry(from).or_insert_with(Host::new).hear(bytes),
            };
            for answer in answers {
                socket.send_to(&answer, from).unwrap();
            }
        }
        while begun.elapsed() > Duration::from_nanos(TICK_NS) * tick {
            tick += 1;
            for (to, host) in hosts.iter().filter(|(_, host)| host.is_joined && !(mood == Mood::Hangs && is_over)) {
                for part in host.snapshot(tick as i32, 1 + tick as i32 % 2) {
                    socket.send_to(&part, to).unwrap();
                }
                if mood == Mood::Raves {
                    for rubbish in [&[][..], &[0xff; 1400], &[0x80, 0, 200, 1, 2, 3], &[0; 7]] {
                        socket.send_to(rubbish, to).unwrap();
                    }
                }
            }
        }
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn window(crowd: &mut Crowd, ms: u64) -> Result<crate::workload::Sample, Fault> {
    crowd.window(Duration::from_millis(20), Duration::from_millis(ms), &mut || (), &mut || ())
}

#[test]
fn a_crowd_plays_window_by_window_and_leaves() {
    for mood in [Mood::Good, Mood::Raves] {
        let served = Served::start(mood);
        let mut crowd = Crowd::join(served.address, 6, 1, &CpuSet::default(), &AtomicBool::new(false)).unwrap();
        for _ in 0..2 {
            until(|| {
                let (mut begun_ns, mut ended_ns) = (0, 0);
                let (settle, length) = (Duration::from_millis(20), Duration::from_millis(100));
                let begin = &mut || begun_ns = clock::monotonic_ns();
                let sample = crowd.window(settle, length, begin, &mut || ended_ns = clock::monotonic_ns()).unwrap();
                assert!(begun_ns > 0 && ended_ns > begun_ns);
                // Each snapshot and each ping is counted once. Their number depends on the machine, which may stall for a window.
                let share = |name: &str| sample.get(name).copied().unwrap_or(0.0);
                assert!(share("snapshots_share") <= 1.0 && share("unanswered_share") <= 1.0, "{mood:?}: {sample:?}");
                [
                    "snapshots_share",
                    "round_trip_us_p50",
                    "round_trip_us_p99",
                    "snapshot_lateness_us_p99",
                    "load_cpu_share",
                ]
                .iter()
                .all(|name| share(name) > 0.0)
            });
        }
        drop(crowd);
        // When players leave, each player informs the server.
        until(|| served.players_left.load(Ordering::Relaxed) == 6);
    }
}

#[test]
fn a_server_that_is_full_kicks_or_hangs_is_reported() {
    let served = Served::start(Mood::Full);
    let error = Crowd::join(served.address, 2, 1, &CpuSet::default(), &AtomicBool::new(false)).unwrap_err();
    assert_eq!(error.to_string(), "it sent a player away: This server is full");
    for (mood, expected) in [
        (Mood::Kicks, "it sent a player away: Kicked for (nothing)"),
        (Mood::Hangs, "it has not answered a request for 0 s"),
    ] {
        let served = Served::start(mood);
        let patience = Patience { join_ns: 60_000_000_000, silence_ns: 300_000_000 };
        let never = AtomicBool::new(false);
        let mut joined = None;
        // If the machine stalls, the server may seem to hang too early. Then try again.
        until(|| {
            joined = Crowd::join_within(patience, served.address, 2, 1, &CpuSet::default(), &never).ok();
            joined.is_some()
        });
        let mut crowd = joined.unwrap();
        served.is_over.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let error = loop {
            match window(&mut crowd, 50) {
                Ok(_) => assert!(begun.elapsed() < Duration::from_secs(60), "{mood:?}"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().starts_with(expected), "{mood:?}: {error}");
    }
}

#[test]
fn a_missing_server_is_reported() {
    // No program listens at this port.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let patience = Patience { join_ns: 100_000_000, silence_ns: 60_000_000_000 };
    let never = AtomicBool::new(false);
    let error = Crowd::join_within(patience, address, 3, 1, &CpuSet::default(), &never).unwrap_err();
    assert_eq!(error.to_string(), "no connection: 0 of 3 players joined within 0 s");
}
