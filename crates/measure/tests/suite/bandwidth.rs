//! Tests the bandwidth meter. Both ends count the same in both directions, and a server sends only to clients that asked and still answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_measure::meters::bandwidth::{self, By, Direction, Report, ServeSettings, Settings};
use evenkeel_measure::meters::udp::server;
use evenkeel_measure::{MeterError, Watch};
use evenkeel_testkit::relay::{Play, Relay};
use evenkeel_testkit::{wait_for, wait_until};

/// The maximum bit rate at which the UDP server in these tests sends to a client on request.
const GIVEN_BITS_PER_S: u64 = 20_000_000;
/// The rate of two thousand packets of 200 bytes per second. The packets of 50 ms fit into any receive buffer.
const BITS_PER_S: f64 = 3.2e6;

fn stream(by: By) -> Settings {
    let bits_per_s = if by == By::Udp { Some(BITS_PER_S) } else { None };
    let bytes = if by == By::Udp { Some(200) } else { None };
    Settings { way: Direction::ToServer, to: None, by, streams: 2, seconds: 0.05, bytes, bits_per_s, cpu: None }
}

fn back(by: By) -> Settings {
    Settings { way: Direction::FromServer, ..stream(by) }
}

fn run(settings: &Settings) -> Result<Report, MeterError> {
    bandwidth::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {}))
}

/// Runs a UDP server during `body`. `report` receives its progress.
fn with_server<T>(report: &(dyn Fn(f64, &str) + Sync), run: impl FnOnce(SocketAddr) -> T) -> (T, server::Report) {
    let settings = server::Settings {
        at: "127.0.0.1:0".parse().unwrap(),
        seconds: 600.0,
        cpu: None,
        echoes_per_s_max: 100_000,
        give_bits_per_s_max: GIVEN_BITS_PER_S,
        receive_buffer_bytes: None,
    };
    let server = server::Server::bind(&settings).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&Watch::new(&stop, report)).unwrap());
        let done = run(server.address());
        stop.store(true, Ordering::Relaxed);
        (done, serving.join().unwrap())
    })
}

#[test]
fn bytes_over_tcp_are_counted_alike_at_both_ends() {
    for settings in [stream(By::Tcp), back(By::Tcp)] {
        let tcp = run(&settings).unwrap();
        assert_eq!((tcp.streams.len(), tcp.unreported, tcp.lost_share), (2, 0, None));
        for stream in &tcp.streams {
            assert_eq!(stream.arrived.map(|arrived| arrived.bytes), stream.sent_bytes, "{stream:?}");
            assert!(stream.sent_bytes > Some(0), "{stream:?}");
        }
    }
}

#[test]
fn packets_that_nobody_drops_all_arrive() {
    for settings in [stream(By::Udp), back(By::Udp)] {
        let udp = run(&settings).unwrap();
        assert_eq!((udp.unreported, udp.cut_to_bits_per_s, udp.lost_share), (0, None, Some(0.0)), "{udp:?}");
        for stream in &udp.streams {
            assert_eq!(stream.arrived.map(|arrived| arrived.bytes), stream.sent_bytes, "{stream:?}");
            assert!(stream.sent_bytes > Some(0), "{stream:?}");
        }
    }
}

#[test]
fn losses_in_a_relay_are_read_back() {
    // The meter asks for the count until it is stable for 20 ms. If the machine stalls longer, ask again.
    wait_for("the server's count of all that the relay let pass", || {
        let ((lossy, (there, _)), _) = with_server(&|_, _| {}, |at| {
            let relay = Relay::start(at, Play::Drop(10), Play::Pass);
            let report = run(&Settings { to: Some(relay.address()), streams: 1, ..stream(By::Udp) });
            (report.unwrap(), relay.end())
        });
        let arrived = lossy.streams[0].arrived.unwrap();
        println!("{arrived:?} {there:?}");
        let is_right = arrived.lost == Some(there.spoiled) && arrived.packets == Some(there.came - there.spoiled);
        (is_right && there.spoiled > 0).then_some(())
    });
    // Nothing else loses packets, because a hundred packets fit into our receive buffer.
    wait_for("our count of all that the relay let come back", || {
        let ((lossy, (_, back_did)), _) = with_server(&|_, _| {}, |at| {
            let relay = Relay::start(at, Play::Pass, Play::Drop(10));
            let report = run(&Settings { to: Some(relay.address()), streams: 1, ..back(By::Udp) });
            (report.unwrap(), relay.end())
        });
        let lost = lossy.streams[0].arrived.unwrap().lost.unwrap();
        println!("{lost} lost, {back_did:?}");
        (lost > 0 && lost == back_did.spoiled).then_some(())
    });
}

#[test]
fn a_server_sends_no_more_than_its_limit() {
    let (cut, served) = with_server(&|_, _| {}, |at| {
        let most = Settings { to: Some(at), streams: 1, bytes: None, bits_per_s: Some(1e9), ..back(By::Udp) };
        run(&most).unwrap()
    });
    assert!((cut.cut_to_bits_per_s.unwrap() / GIVEN_BITS_PER_S as f64 - 1.0).abs() < 0.01, "{cut:?}");
    // The server sends 50 ms of data, and the messages before and after it.
    assert!(served.bytes_out < GIVEN_BITS_PER_S / 8 / 20 + 20_000, "{served:?}");
}

#[test]
fn a_client_that_goes_away_gets_no_more() {
    const NONE: u64 = u64::MAX;
    let sessions = AtomicU64::new(NONE);
    let report = |_: f64, doing: &str| {
        let count = doing.strip_prefix("serving ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        sessions.store(count.unwrap_or(NONE), Ordering::Relaxed);
    };
    wait_for("a stream of which something came before its client went away", || {
        let (arrived_bytes, served) = with_server(&report, |at| {
            let stop = AtomicBool::new(false);
            let one = Settings { to: Some(at), streams: 1, seconds: 60.0, bytes: None, ..back(By::Udp) };
            // Stop after 0.3 s of the minute. At the first report, nothing may have arrived yet on a busy machine.
            let leave = |share: f64, _: &str| stop.store(share > 0.005, Ordering::Relaxed);
            let settings = Settings { bits_per_s: Some(10e6), ..one };
            let report = bandwidth::run(&settings, &Watch::new(&stop, &leave)).unwrap();
            sessions.store(NONE, Ordering::Relaxed);
            wait_until("the server to have no session", || sessions.load(Ordering::Relaxed) == 0);
            report.streams[0].arrived.unwrap().bytes
        });
        assert!(served.bytes_out < 60 * 10_000_000 / 8, "it did not send for its minute: {served:?}");
        (arrived_bytes > 0).then_some(())
    });
    let refused = run(&Settings { seconds: 61.0, ..back(By::Udp) });
    assert_eq!(refused.unwrap_err().to_string(), "seconds: 61; it takes 0.01 to 60 of what a server sends");
}

#[test]
fn a_server_that_sends_nothing_back_says_why() {
    let at = "127.0.0.1:0".parse().unwrap();
    let settings = ServeSettings { at, seconds: 600.0, cpu: None, reverse_bits_per_s_max: 0 };
    let server = bandwidth::Server::bind(&settings).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
        for (by, why) in
            [(By::Tcp, "it closed without a byte"), (By::Udp, "the server sends none: it serves another host now")]
        {
            let refused = run(&Settings { to: Some(server.address()), ..back(by) }).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_stream_of_a_stranger_costs_nothing() {
    let at = "127.0.0.1:0".parse().unwrap();
    let settings = ServeSettings { at, seconds: 600.0, cpu: None, reverse_bits_per_s_max: 1 };
    let server = bandwidth::Server::bind(&settings).unwrap();
    let stop = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut said = Vec::new();
        // The server closes with our bytes unread, which resets the connection. Either way the server sends nothing.
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said, b"");
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap()
    });
    assert_eq!((served.streams, served.refused, served.bytes), (0, 1, 0));
}
