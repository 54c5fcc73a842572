//! Tests the UDP meter behind a relay.
//! The meter counts the packets that the relay drops, swaps and duplicates on purpose.
//! Delays never make an answer look faster, and strangers get nothing from the server.
//!
//! A run sends a hundred packets, which fit into any receive buffer. So no machine loses a packet because it is slow.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_measure::meters::udp::wire::{FromClient, FromServer, STRANGER_BYTES};
use evenkeel_measure::meters::udp::{self, Counted, Echo, Pace, Receive, Report, Settings, Split, UdpTest, server};
use evenkeel_measure::{MeterError, Samples, Watch};
use evenkeel_testkit::relay::{Did, Play, Relay};
use evenkeel_testkit::wait_for;

const PACKETS: u64 = 100;

fn settings(to: Option<SocketAddr>, parts: &[UdpTest]) -> Settings {
    Settings {
        to,
        rate_hz: 2000.0,
        bytes: 100,
        seconds: PACKETS as f64 / 2000.0,
        pace: Pace::Sleep,
        receive: Receive::Sleep,
        cpu: None,
        receive_buffer_bytes: None,
        parts: parts.to_vec(),
    }
}

fn run(settings: &Settings) -> Result<Report, MeterError> {
    udp::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {}))
}

/// Runs the meter until it has reported progress after its start, which takes a tenth of a second of packets.
fn run_for_a_moment(settings: &Settings) -> Report {
    let stop = AtomicBool::new(false);
    let progress = |share: f64, _: &str| stop.store(share > 0.0, Ordering::Relaxed);
    udp::run(settings, &Watch::new(&stop, &progress)).unwrap()
}

/// Runs `body` while a server runs, and returns what the server counted.
fn with_server<T>(run: impl FnOnce(SocketAddr) -> T) -> (T, server::Report) {
    let settings = server::Settings {
        at: "127.0.0.1:0".parse().unwrap(),
        seconds: 600.0,
        cpu: None,
        echoes_per_s_max: 100_000,
        give_bits_per_s_max: 20_000_000,
        receive_buffer_bytes: None,
    };
    let server = server::Server::bind(&settings).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
        let done = run(server.address());
        stop.store(true, Ordering::Relaxed);
        (done, serving.join().unwrap())
    })
}

/// Measures echoes through a relay. Repeats the run if another packet was lost too, as when the machine stalls for a second.
fn through(there: Play, back: Play, settings: &Settings) -> (Echo, Did, Did) {
    wait_for("a run in which only the relay lost packets", || {
        let ((report, (did_there, did_back)), _) = with_server(|at| {
            let relay = Relay::start(at, there, back);
            let report = run(&Settings { to: Some(relay.address()), ..settings.clone() });
            (report.unwrap(), relay.end())
        });
        let echo = report.echo.unwrap();
        let (way_there, way_back) = (echo.there?, echo.back?);
        let has_dropped = |dropped: Option<u64>| dropped.is_some_and(|count| count > 0);
        let is_whole = did_there.came == way_there.sent
            && did_back.came == way_back.sent
            && !has_dropped(way_there.dropped_at_socket)
            && !has_dropped(way_back.dropped_at_socket);
        is_whole.then_some((echo, did_there, did_back))
    })
}

/// Runs both paces at the same time, because each waits a second for a missing answer.
fn at_each_pace(check: impl Fn(Pace) + Sync) {
    std::thread::scope(|scope| {
        for pace in [Pace::Sleep, Pace::Awake] {
            let check = &check;
            scope.spawn(move || check(pace));
        }
    });
}

#[test]
fn losses_in_each_direction_are_read_back() {
    at_each_pace(|pace| {
        let (echo, there, back) =
            through(Play::Drop(10), Play::Drop(7), &Settings { pace, ..settings(None, &[UdpTest::Echo]) });
        let (way_there, way_back) = (echo.there.unwrap(), echo.back.unwrap());
        assert_eq!((way_there.sent, there.spoiled), (PACKETS, 10));
        assert_eq!(way_there.lost, there.spoiled);
        assert_eq!((way_back.sent, way_back.lost), (PACKETS - 10, back.spoiled));
        assert_eq!((way_there.counts.reordered, way_back.counts.reordered), (0, 0));
        assert_eq!(echo.from_due_ns.lost.count, there.spoiled + back.spoiled, "every lost round trip is counted");
        assert_eq!(echo.from_due_ns.histogram.count(), PACKETS - there.spoiled - back.spoiled);
    });
}

#[test]
fn reordering_is_read_back() {
    at_each_pace(|pace| {
        let echoes = Settings { pace, ..settings(None, &[UdpTest::Echo]) };
        let (echo, there, back) = through(Play::Swap(9), Play::Swap(7), &echoes);
        let (way_there, way_back) = (echo.there.unwrap(), echo.back.unwrap());
        assert_eq!((there.spoiled, back.spoiled), (11, 14));
        assert_eq!((way_there.counts.reordered, way_there.counts.extent_max, way_there.lost), (11, 1, 0));
        assert_eq!((way_back.counts.reordered, way_back.lost), (14, 0));
        assert_eq!(echo.from_due_ns.histogram.count(), PACKETS);
        // The relay holds the last packet for a later packet that never comes.
        let (echo, _, back) = through(Play::Pass, Play::Swap(5), &echoes);
        let way_back = echo.back.unwrap();
        assert_eq!((back.spoiled, way_back.counts.reordered, way_back.lost), (20, 19, 1));
    });
}

#[test]
fn duplicates_are_read_back_and_timed_once() {
    for pace in [Pace::Sleep, Pace::Awake] {
        let awake = Settings { pace, ..settings(None, &[UdpTest::Echo]) };
        let (echo, there, back) = through(Play::Double(4), Play::Double(10), &awake);
        let (way_there, way_back) = (echo.there.unwrap(), echo.back.unwrap());
        assert_eq!((way_there.counts.duplicates, way_there.lost), (there.spoiled, 0));
        assert_eq!((way_back.counts.duplicates, way_back.lost), (back.spoiled, 0));
        assert_eq!(
            (there.spoiled, back.spoiled, way_back.sent),
            (25, 12, 125),
            "a duplicated question is answered twice"
        );
        assert_eq!(echo.from_due_ns.histogram.count(), PACKETS, "and timed once");
    }
}

#[test]
fn no_answer_is_faster_than_the_delay() {
    const DELAY_NS: u64 = 4_000_000;
    let slow = Settings { rate_hz: 200.0, seconds: 0.05, ..settings(None, &[UdpTest::Echo]) };
    let (echo, there, _) = through(Play::Delay(Duration::from_nanos(DELAY_NS)), Play::Pass, &slow);
    assert_eq!(there.kept_ns.len() as u64, echo.from_send_ns.histogram.count());
    assert!(echo.from_send_ns.histogram.min() >= Some(DELAY_NS) && echo.from_due_ns.histogram.min() >= Some(DELAY_NS));
}

/// A client that waits for each answer before the next question would see one long time among short ones. This client does not wait.
/// Of a hundred packets at two thousand per second, 41 were due in the first 20 ms of a 40 ms stall. They waited 20 ms or more.
#[test]
fn a_stall_is_felt_by_all_that_were_due_in_it() {
    for pace in [Pace::Sleep, Pace::Awake] {
        let open = Settings { pace, ..settings(None, &[UdpTest::Echo]) };
        let (echo, ..) = through(Play::Stall(20, Duration::from_millis(40)), Play::Pass, &open);
        let slow_ns = echo.from_due_ns.histogram.quantile(0.61).unwrap();
        assert!(slow_ns >= 19_500_000, "{pace:?}: {slow_ns}");
        assert_eq!(echo.there.unwrap().lost, 0);
    }
}

fn sum(samples: &[&Samples]) -> f64 {
    samples.iter().map(|samples| samples.histogram.mean().unwrap_or(0.0) * samples.histogram.count() as f64).sum()
}

fn parts_make_the_whole(split: &Split) {
    let count = split.from_due_ns.histogram.count();
    assert!(count > 0, "{:?}", split.network_ns.lost);
    assert_eq!(split.network_ns.histogram.count(), count);
    assert_eq!(split.woken_ns.histogram.count() + split.queued_ns.histogram.count(), count);
    let parts = sum(&[
        &split.late_ns,
        &split.send_path_ns,
        &split.network_ns,
        &split.server_wait_ns,
        &split.server_turn_ns,
        &split.woken_ns,
        &split.queued_ns,
    ]);
    // A histogram counts a part of zero as one nanosecond.
    assert!((parts - sum(&[&split.from_due_ns])).abs() <= 7.0 * count as f64);
}

#[test]
fn the_parts_of_a_round_trip_make_the_whole_and_a_relays_delay_is_the_networks() {
    at_each_pace(|pace| {
        let split = Settings { rate_hz: 1000.0, pace, ..settings(None, &[UdpTest::Split]) };
        parts_make_the_whole(&run_for_a_moment(&split).split.unwrap());
        let (delayed, _) = with_server(|at| {
            let relay = Relay::start(at, Play::Delay(Duration::from_millis(3)), Play::Pass);
            let report = run_for_a_moment(&Settings { to: Some(relay.address()), rate_hz: 200.0, ..split.clone() });
            relay.end();
            report.split.unwrap()
        });
        parts_make_the_whole(&delayed);
        assert!(delayed.network_ns.histogram.min() >= Some(3_000_000));
    });
}

#[test]
fn every_packet_of_a_burst_fits_or_is_lost_at_a_known_place() {
    // Stop after the second size, because each may take a second.
    let fits = |bytes: u32| {
        let settings = Settings { receive_buffer_bytes: Some(bytes), ..settings(None, &[UdpTest::Burst]) };
        run_for_a_moment(&settings).burst.unwrap()
    };
    let (small, large) = std::thread::scope(|scope| {
        let small = scope.spawn(|| fits(16 * 1024));
        let large = fits(64 * 1024);
        (small.join().unwrap(), large)
    });
    assert_eq!(small.receive_buffer_bytes * 4, large.receive_buffer_bytes);
    for burst in [small, large] {
        assert_eq!(burst.fits.iter().map(|fit| fit.bytes).collect::<Vec<_>>(), [64, 100]);
        for fit in &burst.fits {
            let all = fit.fit + fit.dropped_at_socket.unwrap() + fit.lost_before.unwrap();
            assert_eq!(fit.sent, Some(all), "{fit:?}");
            assert!(fit.fit > 0 && fit.full == (fit.dropped_at_socket > Some(0)), "{fit:?}");
        }
    }
}

#[test]
fn packets_a_second_are_counted_at_both_ends() {
    let ceiling = run_for_a_moment(&settings(None, &[UdpTest::Ceiling])).ceiling.unwrap();
    let receive = ceiling.receive.unwrap();
    assert!(ceiling.send.packets > 0 && receive.packets > 0, "{ceiling:?}");
    assert_eq!(ceiling.send.packets, receive.packets + ceiling.lost.unwrap());
    assert!(ceiling.send.per_cpu_s >= ceiling.send.per_s * 0.99, "{ceiling:?}");
}

/// Packets of a stranger, of every kind and several lengths, with a session and a cookie that the server never issued.
fn hostile() -> Vec<Vec<u8>> {
    let mut hostile = vec![vec![], vec![0], b"hello".to_vec(), vec![0xff; 1500], b"EKU1".to_vec()];
    for kind in 0..=255_u8 {
        for length in [8, 24, 31, 32, 64, 65, 128, 1400] {
            let mut packet = vec![kind; length];
            packet[..8].copy_from_slice(&[b'E', b'K', b'U', b'1', kind, 0, 0, 0]);
            if !(kind == 1 && length == STRANGER_BYTES) {
                hostile.push(packet);
            }
        }
    }
    hostile
}

#[test]
fn strangers_get_nothing() {
    let hostile = hostile();
    let (challenges, served) = with_server(|at| {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.connect(at).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut bytes = [0; 2000];
        let mut nonce = 0;
        // Send batches that fit into the receive buffer. The server answers in order.
        // If the first answer after a batch is for the hello behind the batch, the batch got no answer.
        for lot in hostile.chunks(20) {
            for packet in lot {
                stranger.send(packet).unwrap();
            }
            let mut hello = [0; STRANGER_BYTES];
            FromClient::Hello { nonce }.write(&mut hello);
            stranger.send(&hello).unwrap();
            let length = stranger.recv(&mut bytes).unwrap();
            let answer = FromServer::parse(&bytes[..length]);
            assert!(length < STRANGER_BYTES, "a stranger gets no more than it sent");
            assert!(matches!(answer, Ok(FromServer::Challenge { nonce: of, .. }) if of == nonce), "{answer:?}");
            nonce += 1;
        }
        nonce
    });
    assert!(served.bytes_out < served.bytes_in, "{served:?}");
    let Counted { taken, malformed, unproven, sessions, .. } = served.packets;
    assert_eq!((taken, sessions, served.dropped_at_socket), (challenges, 0, Some(0)), "{served:?}");
    assert!(malformed > 1000 && unproven > 2, "{served:?}");
}

#[test]
fn a_server_ends_by_its_time_and_odd_settings_are_refused() {
    let settings_of = server::Settings {
        at: "127.0.0.1:0".parse().unwrap(),
        seconds: 0.05,
        cpu: None,
        echoes_per_s_max: 10,
        give_bits_per_s_max: 0,
        receive_buffer_bytes: None,
    };
    let server = server::Server::bind(&settings_of).unwrap();
    let report = server.run(&Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap();
    assert!(report.seconds >= 0.05);
    let wrong = run(&Settings { bytes: 20, ..settings(None, &[]) }).unwrap_err();
    assert_eq!(wrong.to_string(), "size: 20 bytes; it takes 48 to 8972");
}
