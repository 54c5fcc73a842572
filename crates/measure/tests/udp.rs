//! The UDP meters with a disturber under them: what a relay drops, swaps, doubles and delays on purpose is read back, what fits into a
//! receive buffer moves with it, and strangers get nothing out of the server.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

use evenkeel_testkit::fitness as machine;
mod relay;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_measure::meters::bandwidth;
use evenkeel_measure::meters::udp::wire::{FromClient, FromServer, STRANGER_BYTES};
use evenkeel_measure::meters::udp::{self, Counted, Pace, Part, Receive, Report, Settings, server};
use evenkeel_measure::{MeterError, Watch};
use machine::Needs;
use relay::{Did, Play, Relay};

/// How often a test may find the machine too busy to tell.
const TRIES: usize = 4;

/// What a server of these tests sends to who asks for it, at the most.
const GIVEN_BITS_PER_S: u64 = 20_000_000;

/// Whether one of some tries tells; or the machine can't, which is said.
fn one_tells(what: &str, mut one: impl FnMut() -> bool) {
    let tell = || if one() { Ok(()) } else { Err(what.to_owned()) };
    machine::one_of(TRIES, &Needs::on_last_cpu(), tell);
}

/// One at a time on this host: who measures must not be measured by another test.
fn alone() -> std::fs::File {
    let lock = std::fs::File::create("/tmp/evenkeel-tests-of-this-host.lock").unwrap();
    lock.lock().unwrap();
    lock
}

fn settings(to: Option<SocketAddr>, parts: &[Part]) -> Settings {
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

fn run(settings: &Settings) -> Result<Report, MeterError> {
    udp::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {}))
}

/// Does something while a server runs, and gives what that served.
fn with_server<T>(run: impl FnOnce(SocketAddr) -> T) -> (T, server::Report) {
    let at = "127.0.0.1:0".parse().unwrap();
    let settings = server::Settings {
        at,
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

/// Echoes through a relay. Comes back only with a run in which nothing but the relay lost anything: a machine that stops for long
/// enough overflows somebody's receive buffer.
fn through(there: Play, back: Play, settings: &Settings) -> (udp::Echo, Did, Did) {
    for _ in 0..TRIES {
        let ((report, (did_there, did_back)), _) = with_server(|at| {
            let relay = Relay::start(at, there, back);
            let report = run(&Settings { to: Some(relay.address()), ..settings.clone() });
            (report.unwrap(), relay.end())
        });
        let echo = report.echo.unwrap();
        let is_whole = echo.there.is_some_and(|way| way.dropped_at_socket.is_none_or(|count| count == 0))
            && did_there.came == echo.there.unwrap().sent
            && echo.back.is_some_and(|way| did_back.came == way.sent)
            && echo.back.is_some_and(|way| way.dropped_at_socket.is_none_or(|count| count == 0));
        if is_whole {
            return (echo, did_there, did_back);
        }
    }
    panic!("in {TRIES} runs somebody else lost packets too");
}

#[test]
fn what_is_dropped_each_way_is_read_back() {
    let _alone = alone();
    let (echo, there, back) = through(Play::Drop(10), Play::Drop(7), &settings(None, &[Part::Echo]));
    let (way_there, way_back) = (echo.there.unwrap(), echo.back.unwrap());
    assert_eq!((way_there.sent, there.spoiled), (500, 50));
    assert_eq!(way_there.lost, there.spoiled);
    assert_eq!((way_back.sent, way_back.lost), (450, back.spoiled));
    assert_eq!((way_there.counts.reordered, way_back.counts.reordered), (0, 0));
    assert_eq!(echo.from_due_ns.lost.count, there.spoiled + back.spoiled, "every lost round trip is told");
    assert_eq!(echo.from_due_ns.histogram.count(), 500 - there.spoiled - back.spoiled);
}

#[test]
fn what_is_swapped_and_doubled_is_read_back() {
    let _alone = alone();
    let (echo, there, back) = through(Play::Swap(9), Play::Swap(5), &settings(None, &[Part::Echo]));
    // The last packet of all is held with none behind it where the count divides: it is lost then.
    let (way_there, way_back) = (echo.there.unwrap(), echo.back.unwrap());
    assert_eq!((way_there.counts.reordered, way_there.counts.extent_max, way_there.lost), (there.spoiled, 1, 0));
    assert_eq!((way_back.counts.reordered, way_back.lost), (back.spoiled - 1, 1));
    let (echo, there, back) = through(Play::Double(4), Play::Double(10), &settings(None, &[Part::Echo]));
    let (way_there, way_back) = (echo.there.unwrap(), echo.back.unwrap());
    assert_eq!((way_there.counts.duplicates, way_there.lost), (there.spoiled, 0));
    assert_eq!((way_back.counts.duplicates, way_back.lost), (back.spoiled, 0));
    assert_eq!(way_back.sent, 625, "a doubled question is answered twice");
    assert_eq!(echo.from_due_ns.histogram.count(), 500, "and timed once");
}

#[test]
fn a_delay_is_read_back() {
    let _alone = alone();
    let slow = Settings { rate_hz: 100.0, seconds: 0.6, ..settings(None, &[Part::Echo]) };
    one_tells("a delay was not read back within a tenth", || {
        let (plain, ..) = through(Play::Pass, Play::Pass, &slow);
        let (delayed, there, _) = through(Play::Delay(Duration::from_millis(4)), Play::Pass, &slow);
        let mut kept_ns = there.kept_ns;
        kept_ns.sort_unstable();
        let kept_ns = kept_ns[kept_ns.len() / 2];
        let p50_ns = |echo: &udp::Echo| echo.from_send_ns.histogram.quantile(0.5).unwrap();
        let read_ns = p50_ns(&delayed).saturating_sub(p50_ns(&plain));
        assert!(delayed.from_send_ns.histogram.min() >= Some(4_000_000), "nothing was faster than it could be");
        println!("kept for {kept_ns} ns, read back as {read_ns} ns");
        read_ns.abs_diff(kept_ns) * 10 < kept_ns
    });
}

#[test]
fn a_stall_is_felt_by_all_that_were_due_in_it() {
    let _alone = alone();
    let stall = Duration::from_millis(200);
    let (echo, ..) = through(Play::Stall(100, stall), Play::Pass, &settings(None, &[Part::Echo]));
    // Who waits for an answer before the next question would have one long time among short ones. Of those that were due while the relay
    // stood still, at a thousand a second, 150 waited for 50 ms or more.
    let over = |ns: u64| {
        let share = (0..=1000).map(|at| f64::from(at) / 1000.0);
        let mut short = share.filter(|share| echo.from_due_ns.histogram.quantile(*share).unwrap() < ns);
        let short = short.next_back().unwrap_or(0.0);
        ((1.0 - short) * echo.from_due_ns.histogram.count() as f64).round() as u64
    };
    assert!(over(50_000_000) >= 140, "{}", over(50_000_000));
    assert_eq!(echo.there.unwrap().lost, 0);
}

/// Whoever stays awake between packets keeps to the open loop all the same: a stall and a lost answer hold back none that is due.
#[test]
fn staying_awake_holds_back_no_packet() {
    let _alone = alone();
    let awake = Settings { pace: Pace::Awake, ..settings(None, &[Part::Echo]) };
    let p90_ns = |echo: &udp::Echo| echo.late_ns.histogram.quantile(0.9).unwrap();
    // Where others take the CPU a packet is late that waits for nobody: as late as where nothing is lost.
    one_tells("a packet waited for an answer that was lost, or its sender slept", || {
        let whole = through(Play::Pass, Play::Pass, &awake).0;
        let whole_ns = p90_ns(&whole);
        // It sleeps while the newest packet has no answer, and is else as awake as a thread can be that does nothing but look at the clock.
        let answered_ns = whole.from_send_ns.histogram.quantile(0.5).unwrap() as f64;
        let awake_share = (1.0 - answered_ns * awake.rate_hz / 1e9).max(0.0) * machine::spinning_share();
        if whole.cpu_share < awake_share * 0.6 {
            println!("it stays awake for {} of {awake_share}", whole.cpu_share);
            return false;
        }
        let (echo, there, _) = through(Play::Drop(5), Play::Pass, &awake);
        assert_eq!(echo.from_due_ns.lost.count, there.spoiled);
        assert_eq!(echo.from_due_ns.histogram.count(), 500 - there.spoiled);
        let late_ns = p90_ns(&echo);
        println!("with one in five lost, p90 of a packet's lateness is {late_ns} ns; with none, {whole_ns} ns");
        late_ns < 200_000.max(whole_ns * 2)
    });
    let (echo, ..) = through(Play::Stall(100, Duration::from_millis(200)), Play::Pass, &awake);
    let slow_ns = echo.from_due_ns.histogram.quantile(0.75).unwrap();
    assert!(slow_ns > 40_000_000, "150 of 500 were due while the relay stood still: {slow_ns}");
    assert_eq!(echo.there.unwrap().lost, 0);
    let swapped = through(Play::Swap(9), Play::Double(4), &awake).0;
    assert_eq!((swapped.from_due_ns.histogram.count(), swapped.there.unwrap().lost), (500, 0));
}

#[test]
fn the_parts_of_a_round_trip_are_told() {
    let _alone = alone();
    the_parts_are_told(Pace::Sleep);
    the_parts_are_told(Pace::Awake);
}

fn the_parts_are_told(pace: Pace) {
    let split = run(&Settings { pace, ..settings(None, &[Part::Split]) }).unwrap().split.unwrap();
    let count = split.from_due_ns.histogram.count();
    assert!(count > 900, "{count} of 1000, {:?}", split.network_ns.lost);
    let held = split.woken_ns.histogram.count() + split.queued_ns.histogram.count();
    assert_eq!((held, split.network_ns.histogram.count() + split.network_ns.lost.count), (count, 1000));
    let sum = |samples: &[&evenkeel_measure::Samples]| -> f64 {
        samples.iter().map(|samples| samples.histogram.mean().unwrap_or(0.0) * samples.histogram.count() as f64).sum()
    };
    let parts = sum(&[
        &split.late_ns,
        &split.send_path_ns,
        &split.network_ns,
        &split.server_wait_ns,
        &split.server_turn_ns,
        &split.woken_ns,
        &split.queued_ns,
    ]);
    // A histogram takes a part of nothing for one nanosecond.
    assert!((parts - sum(&[&split.from_due_ns])).abs() <= 7.0 * count as f64, "the parts make the whole");
    // A relay's delay is the network's.
    let ((delayed, (there, _)), _) = with_server(|at| {
        let relay = Relay::start(at, Play::Delay(Duration::from_millis(3)), Play::Pass);
        let slow = Settings { to: Some(relay.address()), rate_hz: 100.0, pace, ..settings(None, &[Part::Split]) };
        (run(&slow).unwrap(), relay.end())
    });
    let delayed = delayed.split.unwrap();
    assert!(!there.kept_ns.is_empty() && delayed.network_ns.histogram.min() >= Some(3_000_000));
}

#[test]
fn what_fits_moves_with_the_receive_buffer() {
    let _alone = alone();
    let fits = |bytes: u32| {
        let settings = Settings { receive_buffer_bytes: Some(bytes), ..settings(None, &[Part::Burst]) };
        run(&settings).unwrap().burst.unwrap()
    };
    // A server that is stopped while it waits for the end of a burst reads some of it too soon: then more fits than there is room for.
    one_tells("what fits did not move with the buffer", || {
        let (small, large) = (fits(16 * 1024), fits(64 * 1024));
        assert_eq!(small.receive_buffer_bytes * 4, large.receive_buffer_bytes);
        let mut is_in_proportion = true;
        for (small, large) in small.fits.iter().zip(&large.fits) {
            if !(small.full && large.full) {
                println!("the burst was not read as one: {small:?} {large:?}");
                return false;
            }
            for fit in [small, large] {
                let all = fit.fit + fit.dropped_at_socket.unwrap() + fit.lost_before.unwrap();
                assert_eq!(fit.sent, Some(all), "{fit:?}");
            }
            // One packet more is taken as long as there is any room, so small buffers hold a little more than their share.
            is_in_proportion &= (2.8..=4.4).contains(&(large.fit as f64 / small.fit as f64));
        }
        let default = run(&settings(None, &[Part::Burst])).unwrap().burst.unwrap();
        println!("{small:?} {large:?} {default:?}");
        let is_more = default.fits[0].fit > large.fits[0].fit;
        is_in_proportion
            && large.fits.windows(2).all(|pair| pair[0].fit >= pair[1].fit)
            && (is_more || default.receive_buffer_bytes <= large.receive_buffer_bytes)
    });
}

#[test]
fn packets_a_second_are_counted_at_both_ends() {
    let _alone = alone();
    one_tells("more was lost than dropped, or less", || {
        let ceiling = run(&settings(None, &[Part::Ceiling])).unwrap().ceiling.unwrap();
        let receive = ceiling.receive.unwrap();
        assert_eq!(ceiling.send.packets, receive.packets + ceiling.lost.unwrap());
        assert!(ceiling.send.per_cpu_s >= ceiling.send.per_s * 0.99, "{ceiling:?}");
        println!("{ceiling:?}");
        // Over loopback there is no other place to lose one; of what is asked behind a full buffer some may be dropped too.
        ceiling.lost == ceiling.dropped_at_socket && receive.packets > 1000
    });
}

#[test]
fn strangers_get_nothing() {
    let _alone = alone();
    let ((answers, hello), served) = with_server(|at| {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.connect(at).unwrap();
        stranger.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut bytes = [0; 2000];
        let mut hostile = vec![vec![], vec![0], b"hello".to_vec(), vec![0xff; 1500], b"EKU1".to_vec()];
        for kind in 0..=255_u8 {
            // Of every kind and several lengths, with a session and a cookie that nobody gave.
            for length in [8, 24, 31, 32, 64, 65, 128, 1400] {
                let mut packet = vec![kind; length];
                packet[..8].copy_from_slice(&[b'E', b'K', b'U', b'1', kind, 0, 0, 0]);
                if !(kind == 1 && length == STRANGER_BYTES) {
                    hostile.push(packet);
                }
            }
        }
        // In small lots: what finds no room is not looked at.
        for lot in hostile.chunks(50) {
            lot.iter().for_each(|packet| drop(stranger.send(packet)));
            std::thread::sleep(Duration::from_millis(3));
        }
        let answers = std::iter::from_fn(|| stranger.recv(&mut bytes).ok()).count();
        let mut hello = [0; STRANGER_BYTES];
        FromClient::Hello { nonce: 3 }.write(&mut hello);
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stranger.send(&hello).unwrap();
        let length = stranger.recv(&mut bytes).unwrap();
        (answers, (length, FromServer::parse(&bytes[..length])))
    });
    assert_eq!(answers, 0);
    assert!(hello.0 < STRANGER_BYTES && matches!(hello.1, Ok(FromServer::Challenge { nonce: 3, .. })), "{hello:?}");
    assert!(served.bytes_out < served.bytes_in, "{served:?}");
    let Counted { taken, malformed, unproven, sessions, .. } = served.packets;
    assert_eq!((taken, sessions), (1, 0));
    assert!(malformed > 500 && unproven > 2, "{served:?}");
}

#[test]
fn a_server_ends_by_its_time_and_a_client_without_one_says_so() {
    let at = "127.0.0.1:0".parse().unwrap();
    let settings_of = server::Settings {
        at,
        seconds: 0.1,
        cpu: None,
        echoes_per_s_max: 10,
        give_bits_per_s_max: 0,
        receive_buffer_bytes: None,
    };
    let server = server::Server::bind(&settings_of).unwrap();
    let address = server.address();
    let report = server.run(&Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap();
    assert!(report.seconds >= 0.1);
    drop(server);
    let nobody = run(&settings(Some(address), &[Part::Echo])).unwrap_err();
    assert!(nobody.to_string().starts_with(&format!("reach {address}: nobody answers")), "{nobody}");
    let wrong = run(&Settings { bytes: 20, ..settings(None, &[]) }).unwrap_err();
    assert_eq!(wrong.to_string(), "size: 20 bytes; it takes 48 to 8972");
}

fn stream(by: bandwidth::By) -> bandwidth::Settings {
    let way = bandwidth::Way::ToServer;
    bandwidth::Settings { way, to: None, by, streams: 2, seconds: 0.4, bytes: None, bits_per_s: None, cpu: None }
}

#[test]
fn bandwidth_is_what_arrived() {
    let _alone = alone();
    let run = |settings: &bandwidth::Settings| {
        bandwidth::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap()
    };
    let tcp = run(&stream(bandwidth::By::Tcp));
    assert_eq!((tcp.streams.len(), tcp.untold, tcp.lost_share), (2, 0, None));
    for stream in &tcp.streams {
        assert_eq!(stream.arrived.map(|arrived| arrived.bytes), stream.sent_bytes);
        assert!(stream.sent_bytes > Some(0));
    }
    let rate = 20e6;
    // Long enough that a pause at one end is a small part of it.
    let steady = |by| bandwidth::Settings { bits_per_s: Some(rate), seconds: 1.5, ..stream(by) };
    one_tells("a rate was not read back within 5 %", || {
        let udp = run(&steady(bandwidth::By::Udp));
        let arrived = udp.arrived_bits_per_s.unwrap();
        println!("asked for {rate}, arrived {arrived}");
        udp.lost_share == Some(0.0) && (arrived / rate - 1.0).abs() < 0.05
    });
    one_tells("what a relay dropped was not read back", || {
        let ((lossy, (there, _)), _) = with_server(|at| {
            let relay = Relay::start(at, Play::Drop(10), Play::Pass);
            let one = bandwidth::Settings { to: Some(relay.address()), streams: 1, ..stream(bandwidth::By::Udp) };
            (run(&bandwidth::Settings { bits_per_s: Some(rate), ..one }), relay.end())
        });
        let arrived = lossy.streams[0].arrived.unwrap();
        arrived.lost == Some(there.spoiled) && arrived.packets == Some(there.came - there.spoiled)
    });
}

/// What a server sends is counted here, and what it says to have sent agrees.
#[test]
fn bandwidth_from_the_server_is_what_came() {
    let _alone = alone();
    let run = |settings: &bandwidth::Settings| {
        bandwidth::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap()
    };
    let back = |by| bandwidth::Settings { way: bandwidth::Way::FromServer, ..stream(by) };
    let tcp = run(&back(bandwidth::By::Tcp));
    assert_eq!((tcp.streams.len(), tcp.untold, tcp.lost_share), (2, 0, None));
    for stream in &tcp.streams {
        assert_eq!(stream.arrived.map(|arrived| arrived.bytes), stream.sent_bytes);
        assert!(stream.sent_bytes > Some(1 << 20) && stream.cpu_ns > 0, "{stream:?}");
    }
    let rate = 20e6;
    one_tells("a rate was not read back within 5 %", || {
        let udp = run(&bandwidth::Settings { bits_per_s: Some(rate), seconds: 1.5, ..back(bandwidth::By::Udp) });
        let arrived = udp.arrived_bits_per_s.unwrap();
        println!("asked for {rate}, arrived {arrived}");
        assert_eq!((udp.untold, udp.cut_to_bits_per_s), (0, None));
        udp.lost_share == Some(0.0) && (arrived / rate - 1.0).abs() < 0.05
    });
    // Through a relay that drops, from a server that gives no more than so much.
    one_tells("what a relay dropped was not read back", || {
        let ((cut, (_, back_did)), served) = with_server(|at| {
            let relay = Relay::start(at, Play::Pass, Play::Drop(10));
            let one =
                bandwidth::Settings { to: Some(relay.address()), streams: 1, seconds: 1.0, ..back(bandwidth::By::Udp) };
            (run(&bandwidth::Settings { bits_per_s: Some(1e9), ..one }), relay.end())
        });
        assert!((cut.cut_to_bits_per_s.unwrap() / GIVEN_BITS_PER_S as f64 - 1.0).abs() < 0.01, "{cut:?}");
        assert!(served.bytes_out as f64 * 8.0 < GIVEN_BITS_PER_S as f64 * 1.2, "a second of it and the talk around it");
        let lost = cut.streams[0].arrived.unwrap().lost.unwrap();
        println!("the relay dropped {}, of which answers; lost {lost}", back_did.spoiled);
        // The relay drops answers to questions too.
        lost <= back_did.spoiled && back_did.spoiled <= lost + 5
    });
}

#[test]
fn a_client_that_goes_away_gets_no_more() {
    let _alone = alone();
    let (bytes, served) = with_server(|at| {
        let stop = AtomicBool::new(false);
        let settings = bandwidth::Settings {
            way: bandwidth::Way::FromServer,
            to: Some(at),
            streams: 1,
            seconds: 30.0,
            bits_per_s: Some(10e6),
            ..stream(bandwidth::By::Udp)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                stop.store(true, Ordering::Relaxed);
            });
            let report = bandwidth::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            report.streams[0].arrived.unwrap().bytes
        })
    });
    assert!(bytes > 0 && served.bytes_out < 3_000_000, "{bytes} came, {served:?}");
    let refused = bandwidth::run(
        &bandwidth::Settings { way: bandwidth::Way::FromServer, seconds: 61.0, ..stream(bandwidth::By::Udp) },
        &Watch::new(&AtomicBool::new(false), &|_, _| {}),
    );
    assert_eq!(refused.unwrap_err().to_string(), "seconds: 61; it takes 0.01 to 60 of what a server sends");
}

#[test]
fn a_server_that_sends_nothing_back_says_why() {
    let at = "127.0.0.1:0".parse().unwrap();
    let settings = bandwidth::ServeSettings { at, seconds: 60.0, cpu: None, reverse_bits_per_s_max: 0 };
    let server = bandwidth::Server::bind(&settings).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
        for (by, why) in [
            (bandwidth::By::Tcp, "it closed without a byte"),
            (bandwidth::By::Udp, "the server sends none: it serves another host now"),
        ] {
            let to = Some(server.address());
            let settings = bandwidth::Settings { way: bandwidth::Way::FromServer, to, ..stream(by) };
            let refused = bandwidth::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_stream_of_a_stranger_costs_nothing() {
    use std::io::{Read, Write};
    let at = "127.0.0.1:0".parse().unwrap();
    let server =
        bandwidth::Server::bind(&bandwidth::ServeSettings { at, seconds: 60.0, cpu: None, reverse_bits_per_s_max: 1 })
            .unwrap();
    let stop = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})).unwrap());
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut said = Vec::new();
        // The server closes with our words unread, which resets the connection: either way nothing is said.
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said, b"");
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap()
    });
    assert_eq!((served.streams, served.refused, served.bytes), (0, 1, 0));
}
