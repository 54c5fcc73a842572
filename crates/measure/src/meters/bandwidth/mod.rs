//! How many bytes a second go from here to there, by TCP and by UDP, as the other end counts them: what was sent is no bandwidth, what came
//! is.

mod tcp;
pub mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_sys::clock;
use serde::Serialize;

use super::udp::{self, Between, Session, server};
use crate::pinned::stay_on;
use crate::{MeterError, Watch};

/// The most streams of one measurement, and of a server at a time.
pub const STREAMS_MAX: usize = 32;
/// The longest that one stream may last, in seconds.
pub const SECONDS_MAX: f64 = 3600.0;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where a server runs; none starts one here and goes over loopback.
    pub to: Option<SocketAddr>,
    /// By what.
    pub by: By,
    /// How many at once.
    pub streams: usize,
    /// For how long, in seconds.
    pub seconds: f64,
    /// Bytes of a UDP packet without headers, or of one write to a TCP stream; none is 1,400 and 128 KiB.
    pub bytes: Option<usize>,
    /// Bits a second of all UDP streams together; none is as fast as it goes.
    pub bits_per_s: Option<f64>,
    /// The CPU to run on; none leaves it to the kernel, or over loopback takes the last that is allowed.
    pub cpu: Option<usize>,
}

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Streams that the kernel paces.
    Tcp,
    /// Packets, at a rate or as fast as they go.
    Udp,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The server.
    pub to: SocketAddr,
    /// What lies between.
    pub between: Between,
    /// By what.
    pub by: By,
    /// Bits a second of all streams that came, by the server's count; none if it told nothing.
    pub arrived_bits_per_s: Option<f64>,
    /// Bits a second of all streams that were sent.
    pub sent_bits_per_s: f64,
    /// UDP packets that did not come, as a share of those sent; none for TCP, which sends again what is lost.
    pub lost_share: Option<f64>,
    /// CPU time of the sending threads, as a share of one CPU.
    pub cpu_share: f64,
    /// CPU time of the server's threads, as a share of one CPU; none if it told nothing.
    pub server_cpu_share: Option<f64>,
    /// Streams of which the server did not tell what came: they are not in `arrived_bits_per_s`.
    pub untold: usize,
    /// Each.
    pub streams: Vec<Stream>,
}

/// One stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stream {
    /// Sent, in bytes without headers.
    pub sent_bytes: u64,
    /// For so long, in seconds.
    pub seconds: f64,
    /// What the server counted; none if it told nothing.
    pub arrived: Option<Arrived>,
    /// UDP packets that the kernel here did not take.
    pub not_sent: u64,
    /// CPU time of the sending thread, in nanoseconds.
    pub cpu_ns: u64,
}

/// What came of a stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Arrived {
    /// In bytes without headers.
    pub bytes: u64,
    /// From the first to the last of them, in seconds.
    pub seconds: f64,
    /// UDP packets; none for TCP.
    pub packets: Option<u64>,
    /// UDP packets that were sent and did not come; none for TCP.
    pub lost: Option<u64>,
    /// UDP packets that were overtaken; none for TCP.
    pub reordered: Option<u64>,
    /// CPU time of the server's thread, in nanoseconds. UDP streams share one thread, whose time stands with each.
    pub cpu_ns: u64,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// Where to listen, by TCP and UDP both; port 0 has the kernel choose.
    pub at: SocketAddr,
    /// How long, in seconds.
    pub seconds: f64,
    /// The CPU to run on; none leaves it to the kernel.
    pub cpu: Option<usize>,
}

/// What was served.
#[derive(Clone, Debug, Serialize)]
pub struct Served {
    /// TCP streams that came whole.
    pub streams: u64,
    /// Connections that were none of ours, or too many.
    pub refused: u64,
    /// What came by TCP, in bytes.
    pub bytes: u64,
    /// What came by UDP.
    pub udp: server::Report,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    udp: server::Server,
    settings: ServeSettings,
}

impl Server {
    /// Listens; who comes waits until it runs.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn bind(settings: &ServeSettings) -> Result<Server, MeterError> {
        let refused = |error: &std::io::Error| MeterError::refused(format!("listen at {}", settings.at), error);
        let listener = TcpListener::bind(settings.at).map_err(|error| refused(&error))?;
        let at = listener.local_addr().map_err(|error| refused(&error))?;
        let udp = server::Settings {
            at,
            seconds: settings.seconds,
            cpu: settings.cpu,
            echoes_per_s_max: 1000,
            receive_buffer_bytes: None,
        };
        Ok(Server { listener, udp: server::Server::bind(&udp)?, settings: settings.clone() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.udp.address()
    }

    /// Serves until its time is over or the watch says so.
    ///
    /// # Errors
    /// If a thread may not run where it is told to, or a socket fails.
    pub fn run(&self, watch: &Watch<'_>) -> Result<Served, MeterError> {
        let until_ns = clock::monotonic_ns().saturating_add((self.settings.seconds * 1e9) as u64);
        std::thread::scope(|scope| {
            let streams = scope.spawn(|| {
                pin(self.settings.cpu)?;
                tcp::serve(&self.listener, until_ns, watch)
            });
            let udp = scope.spawn(|| self.udp.run(watch));
            let died = |_| MeterError::not_possible("serve", "a thread of it died");
            let (streams, udp) = (streams.join().map_err(died)??, udp.join().map_err(died)??);
            Ok(Served { streams: streams.streams, refused: streams.refused, bytes: streams.bytes, udp })
        })
    }
}

fn pin(cpu: Option<usize>) -> Result<(), MeterError> {
    cpu.map_or(Ok(()), stay_on)
}

/// Measures.
///
/// # Errors
/// If the settings make no sense, nobody answers, or the kernel refuses what it rests on.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    check(settings)?;
    let Some(to) = settings.to else { return over_loopback(settings, watch) };
    measure(settings, to, watch)
}

fn check(settings: &Settings) -> Result<(), MeterError> {
    if !(1..=STREAMS_MAX).contains(&settings.streams) {
        return Err(MeterError::wrong_use("streams", format!("{}; it takes 1 to {STREAMS_MAX}", settings.streams)));
    }
    if !(0.01..=SECONDS_MAX).contains(&settings.seconds) {
        return Err(MeterError::wrong_use("seconds", format!("{}; it takes 0.01 to {SECONDS_MAX}", settings.seconds)));
    }
    let most = match settings.by {
        By::Tcp => 1 << 24,
        By::Udp => udp::wire::PACKET_BYTES_MAX,
    };
    let sizes = udp::wire::FILLER_BYTES_MIN..=most;
    match settings.bytes.filter(|bytes| !sizes.contains(bytes)) {
        Some(bytes) => {
            let why = format!("{bytes} bytes; it takes {} to {}", sizes.start(), sizes.end());
            Err(MeterError::wrong_use("size", why))
        }
        None => Ok(()),
    }
}

fn over_loopback(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let (server_cpu, cpu) = udp::two_cpus()?;
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(&ServeSettings { at, seconds: 1e6, cpu: Some(server_cpu) })?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})));
        let settings = Settings { cpu: Some(settings.cpu.unwrap_or(cpu)), ..settings.clone() };
        let measured = measure(&settings, server.address(), watch);
        stop.store(true, Ordering::Relaxed);
        match serving.join() {
            Ok(served) => served.and(measured),
            Err(_) => Err(MeterError::not_possible("serve on loopback", "the server's thread died")),
        }
    })
}

fn measure(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let one = || -> Result<Stream, MeterError> {
        pin(settings.cpu)?;
        match settings.by {
            By::Tcp => tcp_stream(settings, to, watch),
            By::Udp => udp_stream(settings, to, watch),
        }
    };
    let streams = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.streams).map(|_| scope.spawn(one)).collect();
        let died = |_| MeterError::not_possible("send a stream", "its thread died");
        threads.into_iter().map(|thread| thread.join().map_err(died)?).collect::<Result<Vec<_>, MeterError>>()
    })?;
    Ok(summed(settings, to, streams))
}

fn summed(settings: &Settings, to: SocketAddr, streams: Vec<Stream>) -> Report {
    let rate = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds.max(1e-9);
    let arrived: Vec<_> = streams.iter().filter_map(|stream| stream.arrived).collect();
    let longest = streams.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    let lost: Option<u64> = arrived.iter().map(|arrived| arrived.lost).sum();
    let packets: Option<u64> = arrived.iter().map(|arrived| arrived.packets).sum();
    let server_cpu_ns = match settings.by {
        By::Tcp => arrived.iter().map(|arrived| arrived.cpu_ns).sum::<u64>(),
        By::Udp => arrived.iter().map(|arrived| arrived.cpu_ns).max().unwrap_or(0),
    };
    let share = |cpu_ns: u64| cpu_ns as f64 / 1e9 / longest.max(1e-9);
    let is_told = !arrived.is_empty();
    Report {
        to,
        between: if to.ip().is_loopback() { Between::Loopback } else { Between::Network },
        by: settings.by,
        arrived_bits_per_s: is_told.then(|| arrived.iter().map(|came| rate(came.bytes, came.seconds)).sum()),
        sent_bits_per_s: streams.iter().map(|stream| rate(stream.sent_bytes, stream.seconds)).sum(),
        lost_share: is_told
            .then(|| lost.zip(packets).map(|(lost, packets)| lost as f64 / (lost + packets).max(1) as f64))
            .flatten(),
        cpu_share: share(streams.iter().map(|stream| stream.cpu_ns).sum()),
        server_cpu_share: is_told.then(|| share(server_cpu_ns)),
        untold: streams.len() - arrived.len(),
        streams,
    }
}

fn tcp_stream(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let sent = tcp::send(to, (settings.seconds * 1e9) as u64, settings.bytes, watch)?;
    Ok(Stream {
        sent_bytes: sent.bytes,
        seconds: sent.ns as f64 / 1e9,
        arrived: sent.counted.map(|counted| Arrived {
            bytes: counted.bytes,
            seconds: counted.ns as f64 / 1e9,
            packets: None,
            lost: None,
            reordered: None,
            cpu_ns: counted.cpu_ns,
        }),
        not_sent: 0,
        cpu_ns: sent.cpu_ns,
    })
}

fn udp_stream(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let bytes = settings.bytes.unwrap_or(1400);
    let session = Session::open(to, None)?;
    let before = session.tally()?;
    let share = settings.bits_per_s.map(|bits| bits / settings.streams as f64);
    let limit =
        udp::Limit { ns: (settings.seconds * 1e9) as u64, packets_per_s: share.map(|bits| bits / 8.0 / bytes as f64) };
    let flood = udp::flood(&session, bytes, limit, watch);
    let after = udp::settled(&session)?;
    let arrived = before.zip(after).map(|(before, after)| Arrived {
        bytes: after.bytes,
        seconds: after.span_ns as f64 / 1e9,
        packets: Some(after.arrived),
        lost: Some(flood.sent.saturating_sub(after.arrived)),
        reordered: Some(after.reordered),
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
    });
    Ok(Stream {
        sent_bytes: flood.sent * bytes as u64,
        seconds: flood.ns as f64 / 1e9,
        arrived,
        not_sent: flood.not_sent,
        cpu_ns: flood.cpu_ns,
    })
}
