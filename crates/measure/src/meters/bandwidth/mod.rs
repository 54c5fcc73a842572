//! Measures how many bytes per second arrive by TCP and by UDP, at the server or here.
//! The receiver counts: bandwidth means received bytes, not sent bytes.

mod packets;
mod report;
mod settings;
mod tcp;
pub mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_sys::clock;
use serde::Serialize;

use super::udp::{self, Between, server};
use crate::pinned::stay_on;
use crate::{MeterError, Watch};
pub use report::{Arrived, Report, Stream};
pub use settings::{By, Direction, REVERSE_SECONDS_MAX, SECONDS_MAX, STREAMS_MAX, Settings};

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The address for both TCP and UDP. With port 0 the kernel chooses a port.
    pub at: SocketAddr,
    /// How long to serve, in seconds.
    pub seconds: f64,
    /// The CPU to run on. With None, the kernel chooses the CPU.
    pub cpu: Option<usize>,
    /// The maximum number of bits per second that the server sends by UDP on request. With 0 it sends nothing, not even by TCP.
    pub reverse_bits_per_s_max: u64,
}

/// The totals of a server run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Served {
    /// TCP streams that arrived completely.
    pub streams: u64,
    /// Connections without a valid request, or beyond the limit.
    pub refused: u64,
    /// Bytes received by TCP.
    pub bytes: u64,
    /// Bytes sent by TCP.
    pub sent_bytes: u64,
    /// Packets received by UDP.
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
    /// Starts listening. Clients wait until the server runs.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn bind(settings: &ServeSettings) -> Result<Server, MeterError> {
        let refused = |error: &std::io::Error| MeterError::refused(format!("listen at {}", settings.at), error);
        let listener = TcpListener::bind(settings.at).map_err(|error| refused(&error))?;
        let at = listener.local_addr().map_err(|error| refused(&error))?;
        let udp = server::Settings {
            at,
            seconds: settings.seconds,
            cpu: settings.cpu,
            echoes_per_s_max: 1000,
            give_bits_per_s_max: settings.reverse_bits_per_s_max,
            receive_buffer_bytes: None,
        };
        Ok(Server { listener, udp: server::Server::bind(&udp)?, settings: settings.clone() })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.udp.address()
    }

    /// Serves until `seconds` of the settings have passed or the watch asks the server to stop.
    ///
    /// # Errors
    /// Fails if a thread may not run on its CPU, or a socket fails.
    pub fn run(&self, watch: &Watch<'_>) -> Result<Served, MeterError> {
        let until_ns = clock::monotonic_ns().saturating_add((self.settings.seconds * 1e9) as u64);
        std::thread::scope(|scope| {
            let streams = scope.spawn(|| {
                pin(self.settings.cpu)?;
                let is_refused = self.settings.reverse_bits_per_s_max == 0;
                let reverse = if is_refused { tcp::Reverse::Refused } else { tcp::Reverse::Allowed };
                tcp::serve(&self.listener, reverse, until_ns, watch)
            });
            let udp = scope.spawn(|| self.udp.run(watch));
            let died = |_| MeterError::not_possible("serve", "a thread of it died");
            let (streams, udp) = (streams.join().map_err(died)??, udp.join().map_err(died)??);
            let tcp::Served { streams, refused, bytes, sent_bytes } = streams;
            Ok(Served { streams, refused, bytes, sent_bytes, udp })
        })
    }
}

fn pin(cpu: Option<usize>) -> Result<(), MeterError> {
    cpu.map_or(Ok(()), stay_on)
}

/// Runs the measurement.
///
/// # Errors
/// Fails if the settings are invalid, the server does not answer, or the kernel refuses something that the measurement needs.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    check(settings)?;
    let Some(to) = settings.to else { return over_loopback(settings, watch) };
    measure(settings, to, watch)
}

fn check(settings: &Settings) -> Result<(), MeterError> {
    if !(1..=STREAMS_MAX).contains(&settings.streams) {
        return Err(MeterError::wrong_use("streams", format!("{}; it takes 1 to {STREAMS_MAX}", settings.streams)));
    }
    let seconds_max = if settings.way == Direction::ToServer { SECONDS_MAX } else { REVERSE_SECONDS_MAX };
    if !(0.01..=seconds_max).contains(&settings.seconds) {
        let from_server = if settings.way == Direction::ToServer { "" } else { " of what a server sends" };
        let why = format!("{}; it takes 0.01 to {seconds_max}{from_server}", settings.seconds);
        return Err(MeterError::wrong_use("seconds", why));
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
    let unbounded = ServeSettings { at, seconds: 1e6, cpu: Some(server_cpu), reverse_bits_per_s_max: u64::MAX };
    let server = Server::bind(&unbounded)?;
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
            By::Tcp if settings.way == Direction::ToServer => tcp_stream(settings, to, watch),
            By::Tcp => tcp_stream_back(settings, to, watch),
            By::Udp if settings.way == Direction::ToServer => packets::send(settings, to, watch),
            By::Udp => packets::fetch(settings, to, watch),
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
    let sent: Vec<f64> = streams.iter().filter_map(|stream| Some(rate(stream.sent_bytes?, stream.seconds))).collect();
    let longest = streams.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    let lost: Option<u64> = arrived.iter().map(|arrived| arrived.lost).sum();
    let packets: Option<u64> = arrived.iter().map(|arrived| arrived.packets).sum();
    let server_cpus = arrived.iter().filter_map(|arrived| arrived.cpu_ns);
    let server_cpu_ns = match settings.by {
        By::Tcp => server_cpus.reduce(|one, other| one + other),
        By::Udp => server_cpus.max(),
    };
    let share = |cpu_ns: u64| cpu_ns as f64 / 1e9 / longest.max(1e-9);
    let is_reported = !arrived.is_empty();
    let reported = if settings.way == Direction::ToServer { arrived.len() } else { sent.len() };
    Report {
        to,
        between: if to.ip().is_loopback() { Between::Loopback } else { Between::Network },
        by: settings.by,
        way: settings.way,
        arrived_bits_per_s: is_reported.then(|| arrived.iter().map(|came| rate(came.bytes, came.seconds)).sum()),
        sent_bits_per_s: (!sent.is_empty()).then(|| sent.iter().sum()),
        cut_to_bits_per_s: packets::cut_to(settings, &streams),
        lost_share: is_reported
            .then(|| lost.zip(packets).map(|(lost, packets)| lost as f64 / (lost + packets).max(1) as f64))
            .flatten(),
        cpu_share: share(streams.iter().map(|stream| stream.cpu_ns).sum()),
        server_cpu_share: server_cpu_ns.map(share),
        unreported: streams.len() - reported,
        streams,
    }
}

fn tcp_stream(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let sent = tcp::send(to, (settings.seconds * 1e9) as u64, settings.bytes, watch)?;
    let arrived = sent.counted.map(|counted| came(counted.bytes, counted.ns, Some(counted.cpu_ns)));
    Ok(Stream {
        sent_bytes: Some(sent.bytes),
        seconds: sent.ns as f64 / 1e9,
        granted_packets_per_s: None,
        arrived,
        not_sent: 0,
        cpu_ns: sent.cpu_ns,
    })
}

fn tcp_stream_back(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let got = tcp::fetch(to, (settings.seconds * 1e9) as u64, settings.bytes, watch)?;
    Ok(Stream {
        sent_bytes: got.sent.map(|sent| sent.bytes),
        seconds: got.sent.map_or(got.ns, |sent| sent.ns) as f64 / 1e9,
        granted_packets_per_s: None,
        arrived: Some(came(got.bytes, got.ns, got.sent.map(|sent| sent.cpu_ns))),
        not_sent: 0,
        cpu_ns: got.cpu_ns,
    })
}

/// The result of a TCP stream.
fn came(bytes: u64, ns: u64, server_cpu_ns: Option<u64>) -> Arrived {
    Arrived { bytes, seconds: ns as f64 / 1e9, packets: None, lost: None, reordered: None, cpu_ns: server_cpu_ns }
}
