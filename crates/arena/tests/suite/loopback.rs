//! The real server and the real bots on loopback.
//! Counts are compared with each other, never with the wall clock, because the machine may stall at any time.

use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use evenkeel_arena::control::{Answer, BotsEvent, BotsWindow, FORMAT, ServerEvent, ServerWindow};
use evenkeel_arena::game::math::Look;
use evenkeel_arena::game::sim::{Buttons, PlayerInput};
use evenkeel_arena::net::client::{Joined, join};
use evenkeel_arena::net::mirror::Mirror;
use evenkeel_arena::net::wire::{FromClient, FromServer};
use evenkeel_arena::time::{SECOND_NS, now_ns};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{PATIENCE, Program};

const WINDOW: &str = r#"{"cmd":"window"}"#;

fn server(arguments: &[&str]) -> (Program, SocketAddr) {
    let server = Program::start(env!("CARGO_BIN_EXE_evenkeel-arena"), arguments);
    let ServerEvent::Ready { addr, pid, tick_tid, format, .. } = server.next_line();
    assert_eq!((pid, format), (server.pid(), FORMAT));
    assert_eq!(tick_tid as u32, pid, "the tick is on the first thread");
    (server, addr)
}

fn bots(addr: SocketAddr, arguments: &[&str]) -> Program {
    let connect = addr.to_string();
    let arguments = [&["--connect", &connect], arguments].concat();
    Program::start(env!("CARGO_BIN_EXE_evenkeel-bots"), &arguments)
}

fn signal(program: &Program, signal: Signal) {
    let pid = Pid::from_raw(program.pid() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

fn window(server: &mut Program) -> ServerWindow {
    server.ask(WINDOW)
}

fn refused(program: &mut Program, line: &str) {
    match program.ask(line) {
        Answer::Error { .. } => {}
        other => panic!("{line}: {other:?}"),
    }
}

/// Repeats `ask` until `is_so` holds, or until it clearly never will.
fn until<T>(mut ask: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let asked = ask();
        if is_so(&asked) {
            return Some(asked);
        }
        sleep(Duration::from_millis(5));
    }
    None
}

/// The sums of the server's and the bots' figures over the windows since the last loss.
/// If a machine stalls for long enough, sockets and queues overflow.
#[derive(Debug, Default)]
struct Sums {
    ticks: u64,
    missed: u64,
    span_us: f64,
    packets_in: u64,
    snapshots: u64,
    sent: u64,
    round_trips: u64,
}

impl Sums {
    /// Eight bots get eight snapshots per tick, and what they send arrives. The windows of the two programs end one after the other.
    /// In the long run this difference is negligible.
    fn agree(&self) -> bool {
        let per_tick = self.snapshots as f64 / self.ticks as f64;
        let arrived = self.packets_in as f64 / self.sent as f64;
        let due = self.span_us / 20_000.0;
        let accounted = (self.ticks + self.missed) as f64 / due;
        (0.9..1.1).contains(&accounted)
            && self.ticks >= 20
            && self.round_trips > 20
            && (7.5..8.5).contains(&per_tick)
            && (0.9..1.1).contains(&arrived)
    }
}

#[test]
fn eight_bots_play_and_nothing_is_lost() {
    let (mut server, addr) = server(&["--work-us", "50"]);
    let mut bots = bots(addr, &["--bots", "8", "--probe-gap-us", "500"]);
    let ready: BotsEvent = bots.next_line();
    assert_eq!(ready, BotsEvent::Ready { pid: bots.pid(), bots: 8, tick_hz: 50, format: FORMAT });

    let (_, _): (ServerWindow, BotsWindow) = (window(&mut server), bots.ask(WINDOW));
    let mut sums = Sums::default();
    let agree = (0..500).any(|_| {
        sleep(Duration::from_millis(100));
        let (served, played): (ServerWindow, BotsWindow) = (window(&mut server), bots.ask(WINDOW));
        assert_eq!(served.players, 9, "eight bots and the probe");
        assert_eq!(served.tick_lateness_us.count, served.ticks);
        assert!(served.ticks == 0 || served.due_to_done_us.p50 >= served.work_us.p50, "{served:?}");
        assert_eq!(served.dropped_in, served.drops.queue_full, "{:?}", served.drops);
        if (served.dropped_in, served.dropped_out) != (0, 0)
            || (played.snapshots_lost, played.silent_bots, played.pings_lost) != (0, 0, 0)
        {
            sums = Sums::default();
            return false;
        }
        assert!(played.round_trip_us.count == 0 || played.round_trip_us.p50 > Some(0.0), "{played:?}");
        sums.ticks += served.ticks;
        sums.missed += served.missed_ticks;
        sums.span_us += served.span_us;
        sums.packets_in += served.packets_in;
        sums.snapshots += played.snapshots;
        sums.sent += played.inputs_sent + played.round_trip_us.count;
        sums.round_trips += played.round_trip_us.count;
        sums.agree()
    });
    assert!(agree, "{sums:?}");

    refused(&mut bots, r#"{"cmd":"delay_us","value":1}"#);
    refused(&mut bots, "rubbish");
    let stopping: Answer = bots.ask(r#"{"cmd":"stop"}"#);
    assert_eq!(stopping, Answer::Stopping { stopping: true });
    assert!(bots.ended().success());
    server.close_stdin();
    assert!(server.ended().success());
}

#[test]
fn the_server_takes_commands_and_survives_rubbish() {
    let (mut server, _) = server(&["--work-us", "0", "--tick-hz", "500"]);
    for line in ["", "rubbish", "{}", r#"{"cmd":"timer_slack_ns","value":0}"#, &"x".repeat(100_000)] {
        refused(&mut server, line);
    }
    let Answer::TimerSlack { timer_slack_ns: before } = server.ask(r#"{"cmd":"timer_slack_ns","value":null}"#) else {
        panic!("no slack");
    };
    assert!(before > 0);
    let slack = format!("/proc/{}/timerslack_ns", server.pid());
    let may_read = std::fs::read_to_string(&slack).is_ok();
    if !may_read {
        assert!(!rustix::process::geteuid().is_root());
        evenkeel_testkit::skipped("whether the kernel has the timer slack: to read another process's needs root");
    }
    for value in [1, 123_456, before] {
        let answer: Answer = server.ask(&format!(r#"{{"cmd":"timer_slack_ns","value":{value}}}"#));
        assert_eq!(answer, Answer::TimerSlack { timer_slack_ns: value });
        // The kernel's information about the tick thread, which is the first thread.
        if may_read {
            assert_eq!(std::fs::read_to_string(&slack).unwrap().trim(), value.to_string());
        }
    }

    // The server does the requested work in each tick. A live check measures how much longer the ticks take.
    for (line, answer) in [
        (r#"{"cmd":"delay_us","value":5000}"#, Answer::Delay { delay_us: 5_000 }),
        (r#"{"cmd":"delay_us","value":0}"#, Answer::Delay { delay_us: 0 }),
        (r#"{"cmd":"work_us","value":9000}"#, Answer::Work { work_us: 9_000 }),
        (r#"{"cmd":"work_us","value":0}"#, Answer::Work { work_us: 0 }),
        (r#"{"cmd":"tail_us","value":9000}"#, Answer::Tail { tail_us: 9_000 }),
    ] {
        assert_eq!(server.ask::<Answer>(line), answer);
    }
    // One tick in fifty has the tail: the 26th of a window.
    let mut wait = Duration::from_millis(60);
    let with_tail = || {
        sleep(wait);
        wait = wait.mul_f64(1.5);
        window(&mut server)
    };
    let works = |served: &ServerWindow| served.work_us.max.is_some_and(|us| us > 3_000.0);
    assert!(until(with_tail, works).is_some());
    assert_eq!(server.ask::<Answer>(r#"{"cmd":"work_us","value":9000}"#), Answer::Work { work_us: 9_000 });
    let works = |served: &ServerWindow| served.work_us.p50.is_some_and(|us| us > 3_000.0);
    assert!(until(|| window(&mut server), works).is_some());

    signal(&server, Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn without_control_it_prints_lines_for_people_until_a_signal() {
    let (mut server, _) = server(&["--no-control"]);
    server.close_stdin();
    let line = server.next_text();
    assert!(line.starts_with("0 players, ") && line.ends_with(" % CPU"), "{line}");
    signal(&server, Signal::INT);
    assert!(server.ended().success());
}

#[test]
fn bots_without_server_say_so_and_end() {
    // The socket is bound but never answers, so that no other server answers there.
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut bots = bots(mute.local_addr().unwrap(), &["--bots", "2", "--join-timeout-ms", "200"]);
    let BotsEvent::Failed { joined: 0, wanted: 3, format: FORMAT, .. } = bots.next_line() else {
        panic!("not failed");
    };
    assert!(!bots.ended().success());
}

#[test]
fn bots_that_do_not_all_fit_say_how_many_did() {
    // The join must take as long as three clients take here, which is unknown.
    // The join must end before they count as silent, after three seconds.
    let attempts = ["300", "1000", "2500"].into_iter().map(|timeout_ms| {
        let (_server, addr) = server(&["--players", "3"]);
        let mut bots = bots(addr, &["--bots", "5", "--join-timeout-ms", timeout_ms]);
        let BotsEvent::Failed { joined, wanted, error, .. } = bots.next_line() else {
            panic!("not failed");
        };
        assert_eq!(wanted, 6);
        assert!(joined <= 3 && !bots.ended().success());
        (joined, error)
    });
    let is_full = attempts
        .inspect(|attempt| println!("{attempt:?}"))
        .any(|(joined, error)| joined == 3 && error.contains("full"));
    assert!(is_full);
}

fn client(from: &str, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// The bytes of the next answer, which must arrive.
fn answered(socket: &UdpSocket, bytes: &[u8]) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(bytes).unwrap();
    let mut buffer = [0; 4_096];
    let length = socket.recv(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

/// Sends bytes that must get no answer. One thread answers everything in order, so the next answer is that to a hello.
fn unanswered(socket: &UdpSocket, bytes: &[u8], nonce: u64) {
    socket.send(bytes).unwrap();
    let answer = answered(socket, &encoded(FromClient::Hello { nonce }));
    let challenge = FromServer::parse(&answer);
    assert!(
        matches!(challenge, Ok(FromServer::Challenge { nonce: of, .. }) if of == nonce),
        "{bytes:?}: {challenge:?}"
    );
}

fn encoded(message: FromClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// The window by which the server has sent this many packets.
/// Several windows are added up, because a packet is counted a moment after it was sent.
fn window_of(server: &mut Program, packets_out: u64) -> ServerWindow {
    let mut whole = window(server);
    for _ in 0..100 {
        if whole.packets_out >= packets_out {
            break;
        }
        let next = window(server);
        whole.players = whole.players.max(next.players);
        whole.packets_in += next.packets_in;
        whole.packets_out += next.packets_out;
        whole.drops.unproven += next.drops.unproven;
        whole.drops.malformed += next.drops.malformed;
    }
    whole
}

#[test]
fn hostile_datagrams_make_no_player_and_get_no_larger_answer() {
    let (mut server, addr) = server(&[]);
    let attacker = client("127.0.0.1", addr);
    let hello = encoded(FromClient::Hello { nonce: 1 });
    let challenge = answered(&attacker, &hello);
    assert!(challenge.len() <= hello.len());
    let Ok(FromServer::Challenge { cookie, .. }) = FromServer::parse(&challenge) else {
        panic!("{challenge:?}");
    };

    // Sends the cookie from another host, and from another port.
    let join = encoded(FromClient::Join { nonce: 1, cookie });
    for thief in [client("127.0.0.2", addr), client("127.0.0.1", addr)] {
        unanswered(&thief, &join, 2);
    }
    let oversize: Vec<u8> = hello.iter().copied().cycle().take(4_000).collect();
    let input = FromClient::Input { session: 1, sequence: 1, ack: 0, input: PlayerInput::default() };
    let ping = FromClient::Ping { session: 1, sequence: 1, sent_ns: 1 };
    let silent = [oversize, vec![], hello[..63].to_vec(), encoded(input), encoded(ping)];
    for (bytes, nonce) in silent.iter().zip(3..) {
        unanswered(&attacker, bytes, nonce);
    }
    let mut noise = 0x2545_f491_4f6c_dd1d_u64;
    for length in 0..300 {
        let random = |_| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise as u8
        };
        attacker.send(&(0..length).map(random).collect::<Vec<u8>>()).unwrap();
        if length % 50 == 49 {
            // The answer comes after everything before it was handled, so the socket's buffer never overflows.
            let challenge = answered(&attacker, &hello);
            assert!(matches!(FromServer::parse(&challenge), Ok(FromServer::Challenge { .. })));
        }
    }

    let served = window_of(&mut server, 14);
    assert_eq!(served.players, 0);
    assert_eq!(served.packets_in, 1 + 2 * (2 + 5) + 300 + 6);
    assert_eq!(served.packets_out, 14, "the challenges");
    assert_eq!((served.drops.unproven, served.drops.malformed), (2 + 2, 3 + 300));
}

#[test]
fn an_input_is_applied_once_and_acknowledged() {
    let (mut server, addr) = server(&[]);
    let Joined { socket, session, player, .. } = join(addr, now_ns() + 60 * SECOND_NS).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let look = Look { yaw: 0x4000, pitch: 0 };
    let walk = PlayerInput { buttons: Buttons::from_bits(Buttons::FORWARD), look, ..PlayerInput::default() };
    let input = encoded(FromClient::Input { session, sequence: 9, ack: 0, input: walk });
    for _ in 0..3 {
        socket.send(&input).unwrap();
    }
    let mut buffer = [0; 2_048];
    let mut mirror = Mirror::default();
    let acknowledged = (0..100).any(|_| {
        let length = socket.recv(&mut buffer).unwrap();
        let Ok(FromServer::Snapshot(packed)) = FromServer::parse(&buffer[..length]) else { panic!() };
        assert_eq!((packed.base_tick, mirror.take_in(&packed)), (None, Ok(true)), "nothing is acknowledged yet");
        let own = mirror.newest().unwrap().entities[0];
        packed.head.input_sequence == 9 && (own.player, own.yaw) == (player, 0x400)
    });
    assert!(acknowledged);
    let mut replayed = 0;
    for _ in 0..100 {
        let served = window(&mut server);
        assert_eq!(served.players, 1);
        replayed += served.drops.replayed;
        if replayed == 2 {
            break;
        }
    }
    assert_eq!(replayed, 2);
}
