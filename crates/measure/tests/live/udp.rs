//! Checks the UDP meters with a disturber. They must report the delay of a relay.
//! The number of packets that fit must grow with the receive buffer, and packets must arrive at the requested rate.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::bandwidth::{self, By, Direction};
use evenkeel_measure::meters::udp::{self, Echo, Pace, Receive, Report, Settings, UdpTest, server};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::relay::{Did, Play, Relay};

/// Repeats until one run is right. A few wrong runs on a suitable machine fail the check.
fn one_of_some_runs(run: impl FnMut() -> Result<(), String>) {
    fitness::one_of(3, &Needs::on_last_cpu(), run);
}

fn ensure(is_so: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(why()) }
}

fn settings(to: Option<SocketAddr>, parts: &[UdpTest]) -> Settings {
    Settings {
        to,
        rate_hz: 1000.0,
        bytes: 100,
        seconds: 0.5,
        pace: Pace::Sleep,
        receive: Receive::Sleep,
        cpu: None,
        receive_buffer_bytes: None,
        parts: parts.to_vec(),
    }
}

fn run(settings: &Settings) -> Report {
    udp::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap()
}

/// Runs `body` while a server runs, and returns what the server counted.
fn with_server<T>(run: impl FnOnce(SocketAddr) -> T) -> (T, server::Report) {
    let settings = server::Settings {
        at: "127.0.0.1:0".parse().unwrap(),
        seconds: 60.0,
        cpu: None,
        echoes_per_s_max: 100_000,
        give_bits_per_s_max: GIVEN_BITS_PER_S,
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

/// Measures echoes through a relay. It is an error if another packet was lost too, as when the machine stalls for long.
fn through(there: Play, settings: &Settings) -> Result<(Echo, Did), String> {
    let ((report, (did_there, did_back)), _) = with_server(|at| {
        let relay = Relay::start(at, there, Play::Pass);
        let report = run(&Settings { to: Some(relay.address()), ..settings.clone() });
        (report, relay.end())
    });
    let echo = report.echo.unwrap();
    let (way_there, way_back) = echo.there.zip(echo.back).ok_or("the server did not report")?;
    let has_dropped = |dropped: Option<u64>| dropped.is_some_and(|count| count > 0);
    let is_whole = did_there.came == way_there.sent
        && did_back.came == way_back.sent
        && !has_dropped(way_there.dropped_at_socket)
        && !has_dropped(way_back.dropped_at_socket);
    ensure(is_whole, || format!("somebody else lost packets too: {way_there:?} {way_back:?}"))?;
    Ok((echo, did_there))
}

#[test]
fn a_delay_is_read_back() {
    let _host = HostLock::take();
    let slow = Settings { rate_hz: 100.0, seconds: 0.6, ..settings(None, &[UdpTest::Echo]) };
    one_of_some_runs(|| {
        let (plain, _) = through(Play::Pass, &slow)?;
        let (delayed, there) = through(Play::Delay(Duration::from_millis(4)), &slow)?;
        let mut kept_ns = there.kept_ns;
        kept_ns.sort_unstable();
        let kept_ns = kept_ns[kept_ns.len() / 2];
        let p50_ns = |echo: &Echo| echo.from_send_ns.histogram.quantile(0.5).unwrap();
        let read_ns = p50_ns(&delayed).saturating_sub(p50_ns(&plain));
        ensure(read_ns.abs_diff(kept_ns) * 10 < kept_ns, || format!("kept for {kept_ns} ns, read back as {read_ns} ns"))
    });
}

/// A client that stays awake between packets also follows the open loop: a lost answer does not delay later packets.
#[test]
fn staying_awake_holds_back_no_packet() {
    let _host = HostLock::take();
    let awake = Settings { pace: Pace::Awake, ..settings(None, &[UdpTest::Echo]) };
    let p90_ns = |echo: &Echo| echo.late_ns.histogram.quantile(0.9).unwrap();
    one_of_some_runs(|| {
        let whole = through(Play::Pass, &awake)?.0;
        let whole_ns = p90_ns(&whole);
        // The client sleeps while the newest packet has no answer. Otherwise it is as busy as a thread that only reads the clock.
        let answered_ns = whole.from_send_ns.histogram.quantile(0.5).unwrap() as f64;
        let awake_share = (1.0 - answered_ns * awake.rate_hz / 1e9).max(0.0) * fitness::spinning_share();
        ensure(whole.cpu_share >= awake_share * 0.6, || {
            format!("it stays awake for {} of {awake_share}", whole.cpu_share)
        })?;
        // If others take the CPU, a packet is late without waiting for an answer. It is then as late as without losses.
        let late_ns = p90_ns(&through(Play::Drop(5), &awake)?.0);
        ensure(late_ns < 200_000.max(whole_ns * 2), || {
            format!("with one in five lost, p90 of a packet's lateness is {late_ns} ns; with none, {whole_ns} ns")
        })
    });
}

#[test]
fn nearly_every_round_trip_is_split() {
    let _host = HostLock::take();
    for pace in [Pace::Sleep, Pace::Awake] {
        one_of_some_runs(|| {
            let split = run(&Settings { pace, ..settings(None, &[UdpTest::Split]) }).split.unwrap();
            let (count, lost) = (split.from_due_ns.histogram.count(), &split.network_ns.lost);
            assert_eq!(count + lost.count, 1000);
            ensure(count > 900, || format!("{count} of 1000, {lost:?}"))
        });
    }
}

#[test]
fn the_burst_that_fits_grows_with_the_receive_buffer() {
    let _host = HostLock::take();
    let fits = |bytes: Option<u32>| {
        let settings = Settings { receive_buffer_bytes: bytes, ..settings(None, &[UdpTest::Burst]) };
        run(&settings).burst.unwrap()
    };
    // If the server is stopped while it waits for the end of a burst, it reads some packets too early.
    // Then more packets fit than the buffer can hold.
    one_of_some_runs(|| {
        let (small, large) = (fits(Some(16 * 1024)), fits(Some(64 * 1024)));
        for (small, large) in small.fits.iter().zip(&large.fits) {
            ensure(small.full && large.full, || format!("the burst was not read as one: {small:?} {large:?}"))?;
            // The kernel accepts one more packet while any space is left, so small buffers hold slightly more than their share.
            let ratio = large.fit as f64 / small.fit as f64;
            ensure((2.8..=4.4).contains(&ratio), || format!("not in proportion: {small:?} {large:?}"))?;
        }
        ensure(large.fits.windows(2).all(|pair| pair[0].fit >= pair[1].fit), || format!("{large:?}"))?;
        let default = fits(None);
        let is_more = default.fits[0].fit > large.fits[0].fit;
        ensure(is_more || default.receive_buffer_bytes <= large.receive_buffer_bytes, || format!("{default:?}"))
    });
}

#[test]
fn packets_a_second_are_lost_at_the_socket_alone() {
    let _host = HostLock::take();
    one_of_some_runs(|| {
        let ceiling = run(&settings(None, &[UdpTest::Ceiling])).ceiling.unwrap();
        let receive = ceiling.receive.unwrap();
        // On loopback, a packet can only be lost at the socket. Requests that wait behind a full buffer may be dropped too.
        ensure(ceiling.lost == ceiling.dropped_at_socket && receive.packets > 1000, || format!("{ceiling:?}"))
    });
}

const BITS_PER_S: f64 = 20e6;
/// The maximum bit rate at which a server sends to a client that asks.
const GIVEN_BITS_PER_S: u64 = 20_000_000;

fn stream(way: Direction, by: By) -> bandwidth::Settings {
    let bits_per_s = Some(BITS_PER_S);
    // The run is long enough that a pause at one end is a small part of it.
    bandwidth::Settings { way, to: None, by, streams: 2, seconds: 1.5, bytes: None, bits_per_s, cpu: None }
}

fn streamed(settings: &bandwidth::Settings) -> bandwidth::Report {
    bandwidth::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap()
}

#[test]
fn the_requested_rate_arrives() {
    let _host = HostLock::take();
    for way in [Direction::ToServer, Direction::FromServer] {
        one_of_some_runs(|| {
            let udp = streamed(&stream(way, By::Udp));
            let arrived = udp.arrived_bits_per_s.unwrap();
            ensure(udp.lost_share == Some(0.0) && (arrived / BITS_PER_S - 1.0).abs() < 0.05, || {
                format!("{way:?}: asked for {BITS_PER_S}, arrived {arrived}, lost {:?}", udp.lost_share)
            })
        });
    }
}

#[test]
fn a_server_sends_as_much_as_requested() {
    let _host = HostLock::take();
    one_of_some_runs(|| {
        let (cut, served) = with_server(|at| {
            let most = bandwidth::Settings {
                to: Some(at),
                streams: 1,
                seconds: 1.0,
                ..stream(Direction::FromServer, By::Udp)
            };
            streamed(&bandwidth::Settings { bits_per_s: Some(1e9), ..most })
        });
        assert!((cut.cut_to_bits_per_s.unwrap() / GIVEN_BITS_PER_S as f64 - 1.0).abs() < 0.01);
        let given_bits = served.bytes_out as f64 * 8.0 / GIVEN_BITS_PER_S as f64;
        ensure((0.9..1.05).contains(&given_bits), || format!("it gave {given_bits} of it in a second"))
    });
}

/// Both ends agree on a stream that takes TCP some time.
#[test]
fn a_server_fills_a_stream_back() {
    let _host = HostLock::take();
    let tcp =
        streamed(&bandwidth::Settings { bits_per_s: None, seconds: 0.4, ..stream(Direction::FromServer, By::Tcp) });
    for stream in &tcp.streams {
        assert!(stream.sent_bytes > Some(1 << 20) && stream.cpu_ns > 0, "{stream:?}");
    }
}
