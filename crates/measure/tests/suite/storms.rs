//! Tests storms of packets. Every counted packet arrives. A peer that does not consent, or goes away, gets no packets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_measure::Watch;
use evenkeel_measure::disturb::storm::packets;
use evenkeel_measure::meters::udp::{self, server};
use evenkeel_sys::clock;
use evenkeel_testkit::{wait_for, wait_until};

use crate::disturbers::{in_ms, last_cpu, threads_named};

/// The length of a storm. A minute ends a hanging test.
const LONG_MS: u64 = 60_000;

/// Runs storms one at a time. A test that looks for the threads of its own storm must not find those of another storm.
fn one_at_a_time<T>(run: impl FnOnce() -> T) -> T {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run()
}

fn settings(to: packets::To, rate_per_s: u64, size_bytes: usize) -> packets::Settings {
    packets::Settings { cpus: last_cpu(), to, rate_per_s, size_bytes }
}

fn own_port() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

fn willing_peer() -> server::Server {
    server::Server::bind(&server::Settings {
        at: "127.0.0.1:0".parse().unwrap(),
        seconds: 600.0,
        cpu: None,
        echoes_per_s_max: 10,
        give_bits_per_s_max: 0,
        receive_buffer_bytes: None,
    })
    .unwrap()
}

#[test]
fn packets_arrive_as_they_are_counted() {
    one_at_a_time(|| {
        let (heard, at) = own_port();
        let running = packets::start(&settings(packets::To::Own(at), 1000, 77), in_ms(LONG_MS)).unwrap();
        let (mut count, mut bytes) = (0_u64, [0; 2048]);
        let mut take = || match heard.recv(&mut bytes) {
            Ok(length) => {
                assert_eq!(length, 77);
                true
            }
            Err(_) => false,
        };
        let start_ns = clock::monotonic_ns();
        wait_until("fifty packets", || {
            count += u64::from(take());
            count >= 50
        });
        let report = running.stop();
        let ran_ns = clock::monotonic_ns() - start_ns;
        while take() {
            count += 1;
        }
        let cpu = &report.cpus[0];
        assert_eq!((report.sent, cpu.sent, cpu.unheard, cpu.refused), (count, count, 0, 0), "{report:?}");
        assert!(cpu.sent + cpu.missed <= ran_ns / 1_000_000 + 100, "no more than a thousand a second: {report:?}");
    });
}

#[test]
fn a_peer_that_agrees_counts_the_same_packets() {
    one_at_a_time(|| {
        let (server, stop) = (willing_peer(), AtomicBool::new(false));
        let to = packets::To::Peer { peer: server.address() };
        let served = std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
            wait_for("a storm that had its CPU", || {
                // Send only as many packets as fit into the peer's receive buffer, because the peer may not read in the meantime.
                let running = packets::start(&settings(to, 1000, 77), in_ms(100)).unwrap();
                wait_until("the storm's end", || threads_named("evenkeel-packet") == 0);
                let report = running.stop();
                let cpu = &report.cpus[0];
                assert!(!cpu.peer_went_away && cpu.unheard == 0 && cpu.arrived == Some(report.sent), "{report:?}");
                (report.sent > 10).then_some(())
            });
            stop.store(true, Ordering::Relaxed);
            serving.join().unwrap()
        });
        assert_eq!((served.packets.malformed, served.packets.unproven), (0, 0), "{served:?}");
    });
}

/// This test takes three seconds, mostly asleep, because both ends ask fifteen times.
#[test]
fn a_peer_that_does_not_answer_gets_nothing_and_a_meter_says_that_nobody_answers() {
    let (heard, peer) = own_port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let closed = own_port().1;
            let settings = udp::Settings {
                to: Some(closed),
                rate_hz: 1000.0,
                bytes: 100,
                seconds: 1.0,
                pace: udp::Pace::Sleep,
                receive: udp::Receive::Sleep,
                cpu: None,
                receive_buffer_bytes: None,
                parts: vec![udp::UdpTest::Echo],
            };
            let nobody = udp::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap_err();
            assert!(nobody.to_string().starts_with(&format!("reach {closed}: nobody answers")), "{nobody}");
        });
        let storm = settings(packets::To::Peer { peer }, 100_000, 100);
        let refused = packets::start(&storm, in_ms(LONG_MS)).unwrap_err().to_string();
        assert!(refused.contains("nobody answers"), "{refused}");
        let mut bytes = [0; 2048];
        let came = std::iter::from_fn(|| heard.recv(&mut bytes).ok()).count();
        assert!(came < 50, "{came} packets, all of them requests for consent");
    });
}

#[test]
fn a_peer_that_goes_away_ends_the_storm() {
    one_at_a_time(|| {
        let (server, stop) = (willing_peer(), AtomicBool::new(false));
        let to = packets::To::Peer { peer: server.address() };
        let running = std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
            let running = packets::start(&settings(to, 2000, 100), in_ms(LONG_MS)).unwrap();
            stop.store(true, Ordering::Relaxed);
            serving.join().unwrap();
            running
        });
        // The port closes when the server is dropped.
        drop(server);
        wait_until("the storm's end", || threads_named("evenkeel-packet") == 0);
        let report = running.stop();
        let cpu = &report.cpus[0];
        assert!(cpu.peer_went_away && cpu.arrived.is_none(), "{report:?}");
        assert!(cpu.elapsed_ns < LONG_MS * 1_000_000, "{report:?}");
    });
}

#[test]
fn a_port_that_nobody_reads_is_reported() {
    one_at_a_time(|| {
        let closed = own_port().1;
        wait_for("two packets", || {
            let running = packets::start(&settings(packets::To::Own(closed), 1000, 10), in_ms(20)).unwrap();
            wait_until("the storm's end", || threads_named("evenkeel-packet") == 0);
            let report = running.stop();
            (report.cpus[0].unheard > 0).then_some(())
        });
    });
}

#[test]
fn a_storm_ends_by_its_time_and_not_before() {
    one_at_a_time(|| {
        let until_ns = in_ms(50);
        let running = packets::start(&settings(packets::To::Sink, 1000, 10), until_ns).unwrap();
        let is_at_work = || threads_named("evenkeel-packet") > 0;
        // A thread gets its name when it first runs.
        wait_until("the storm's begin", || is_at_work() || clock::monotonic_ns() > until_ns);
        wait_until("the storm's end", || !is_at_work());
        assert!(clock::monotonic_ns() >= until_ns);
        let cpu = running.stop().cpus.remove(0);
        assert!(cpu.sent + cpu.missed <= 51, "{cpu:?}");
    });
}
