//! Measures how packets travel through the network and the two hosts:
//! round trips on an open loop, loss and reordering in each direction, and a split of the time.
//! The meter also measures the packet rates that a core can send and receive,
//! and how many packets fit into a receive buffer while nobody reads.

mod burst;
mod ceiling;
mod client;
mod echo;
mod gate;
mod give;
mod limit;
mod lone;
mod open_loop;
mod order;
pub mod server;
mod settings;
mod split;
pub mod wire;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_sys::{thread, udp};
use serde::Serialize;

pub use burst::{Burst, Fit};
pub use ceiling::{Ceiling, Rate};
pub(crate) use ceiling::{Limit, flood, settled};
pub(crate) use client::Session;
pub use gate::{Act, Arrival, Counted, Gate};
pub(crate) use give::ASK_AGAIN_NS;
pub use order::{Counts, Order, Place};
pub use settings::{Pace, Receive, Settings, UdpTest};
pub use split::Split;

use crate::{Lost, MeterError, Samples, Watch};
use open_loop::{Done, Plan, Stamps};
use wire::SessionCounts;

/// The report of the UDP meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The server.
    pub to: SocketAddr,
    /// The path between the two ends.
    pub between: Between,
    /// Round trips, loss and order.
    pub echo: Option<Echo>,
    /// The parts of the time of a round trip.
    pub split: Option<Split>,
    /// Packets per second that a core can send and receive.
    pub ceiling: Option<Ceiling>,
    /// Packets that fit while nobody reads.
    pub burst: Option<Burst>,
    /// The parts that were not measured, because the measurement was stopped earlier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub not_measured: Vec<UdpTest>,
}

/// The path between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// Loopback: two threads of this host.
    Loopback,
    /// A network, real or virtual.
    Network,
}

/// Round trips on an open loop.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Echo {
    /// The requested number of packets per second.
    pub rate_hz: f64,
    /// The number of packets sent per second.
    pub sent_hz: f64,
    /// The length of each packet, in bytes without headers.
    pub bytes: usize,
    /// How long the meter sent packets, in seconds.
    pub seconds: f64,
    /// The time from a packet's due time until its answer was read. This is the latency that a client sees, without coordinated omission.
    pub from_due_ns: Samples,
    /// The time from sending a packet until its answer was read.
    pub from_send_ns: Samples,
    /// How late each packet was sent, because the sender woke late or this host stalled.
    pub late_ns: Samples,
    /// The packets to the server. None if the server did not report.
    pub there: Option<DirectionCounts>,
    /// The packets from the server. None if the server did not report.
    pub back: Option<DirectionCounts>,
    /// Packets that this host's kernel did not accept.
    pub not_sent: u64,
    /// The number of other sessions that the server had at the same time. None if the server did not report it.
    pub others: Option<u32>,
    /// CPU time of the meter's threads on this host, as a share of one CPU.
    pub cpu_share: f64,
    /// CPU time of the server's thread, as a share of one CPU. None if the server did not report.
    pub server_cpu_share: Option<f64>,
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionCounts {
    /// Packets that were sent in this direction.
    pub sent: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// The order of arrival.
    #[serde(flatten)]
    pub counts: Counts,
    /// Packets that the receiving socket dropped for lack of buffer, from all senders. None if its kernel does not report this.
    pub dropped_at_socket: Option<u64>,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if the settings are invalid, the server does not answer, or the kernel refuses something that the measurement needs.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    check(settings)?;
    match settings.to {
        Some(to) => measure(settings, to, watch),
        None => {
            let (server_cpu, cpu) = two_cpus()?;
            let settings = Settings { cpu: Some(settings.cpu.unwrap_or(cpu)), ..settings.clone() };
            with_server(server_cpu, settings.receive_buffer_bytes, |to| measure(&settings, to, watch))
        }
    }
}

fn check(settings: &Settings) -> Result<(), MeterError> {
    let wrong = |what: &str, why: String| Err(MeterError::wrong_use(what, why));
    let sizes = wire::ECHO_BYTES_MIN..=wire::PACKET_BYTES_MAX;
    if !sizes.contains(&settings.bytes) {
        return wrong("size", format!("{} bytes; it takes {} to {}", settings.bytes, sizes.start(), sizes.end()));
    }
    if !(1.0..=1e7).contains(&settings.rate_hz) {
        return wrong("rate", format!("{} packets a second; it takes 1 to 10,000,000", settings.rate_hz));
    }
    if !(0.01..=86_400.0).contains(&settings.seconds) {
        return wrong("seconds", format!("{}; it takes 0.01 to 86,400", settings.seconds));
    }
    Ok(())
}

/// The first and the last CPU that this process may use. They are the same if there is only one.
pub(crate) fn two_cpus() -> Result<(usize, usize), MeterError> {
    let allowed = thread::affinity().map_err(|errno| MeterError::refused("ask for our CPUs", errno))?;
    let (first, last) = (allowed.iter().next(), allowed.iter().last());
    first.zip(last).ok_or_else(|| MeterError::not_possible("choose two CPUs", "the kernel names none"))
}

/// Runs `body` while a server runs on loopback.
pub(crate) fn with_server<T>(
    cpu: usize,
    receive_buffer_bytes: Option<u32>,
    run: impl FnOnce(SocketAddr) -> Result<T, MeterError>,
) -> Result<T, MeterError> {
    let settings = server::Settings {
        at: SocketAddr::from(([127, 0, 0, 1], 0)),
        seconds: 1e6,
        cpu: Some(cpu),
        echoes_per_s_max: 10_000_000,
        give_bits_per_s_max: 0,
        receive_buffer_bytes,
    };
    let server = server::Server::bind(&settings)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&Watch::new(&stop, &|_, _| {})));
        let measured = run(server.address());
        stop.store(true, Ordering::Relaxed);
        match serving.join() {
            Ok(served) => served.and(measured),
            Err(_) => Err(MeterError::not_possible("serve on loopback", "the server's thread died")),
        }
    })
}

fn measure(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let between = if to.ip().is_loopback() { Between::Loopback } else { Between::Network };
    let mut report =
        Report { to, between, echo: None, split: None, ceiling: None, burst: None, not_measured: Vec::new() };
    let lengths =
        [(UdpTest::Echo, settings.seconds), (UdpTest::Split, 1.5), (UdpTest::Ceiling, 1.0), (UdpTest::Burst, 0.7)];
    let wanted = || lengths.iter().filter(|(part, _)| settings.parts.contains(part));
    let total: f64 = wanted().map(|(_, seconds)| seconds).sum();
    let mut from = 0.0;
    for (part, seconds) in wanted() {
        let upto = from + seconds / total.max(0.001);
        // A part without a packet has no rate, and a rate of 0 would be wrong.
        if watch.stopped() && from > 0.0 {
            report.not_measured.push(*part);
            continue;
        }
        watch.part(from, upto, |watch| -> Result<(), MeterError> {
            match part {
                UdpTest::Echo => match echo_part(settings, to, watch)? {
                    echo if echo.late_ns.histogram.count() == 0 && watch.stopped() => report.not_measured.push(*part),
                    echo => report.echo = Some(echo),
                },
                UdpTest::Split => report.split = Some(split::run(settings, to, watch)?),
                UdpTest::Ceiling => match ceiling::run(settings, to, watch)? {
                    ceiling if ceiling.send.packets == 0 && watch.stopped() => report.not_measured.push(*part),
                    ceiling => report.ceiling = Some(ceiling),
                },
                UdpTest::Burst => report.burst = Some(burst::run(settings, to, watch)?),
            }
            Ok(())
        })?;
        from = upto;
    }
    Ok(report)
}

fn echo_part(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Echo, MeterError> {
    let session = Session::open(to, settings.receive_buffer_bytes)?;
    let before = session.tally()?;
    let packets = ((settings.rate_hz * settings.seconds) as u64).max(1);
    let (mut from_due_ns, mut from_send_ns) = (settings.samples("from_due_ns"), settings.samples("from_send_ns"));
    let done = echo::run(&session, &Plan::new(settings, packets, Stamps::Received), watch, |seen| {
        from_due_ns.record(seen.read_ns.saturating_sub(seen.due_ns));
        from_send_ns.record(seen.read_ns.saturating_sub(seen.sent_ns));
    })?;
    let after = session.tally()?;
    let missing = done.sent.saturating_sub(from_due_ns.histogram.count());
    for samples in [&mut from_due_ns, &mut from_send_ns] {
        samples.lost = Lost::new(missing, "no answer came within a second of the last packet");
    }
    let mut late_ns = settings.samples("late_ns");
    late_ns.histogram = done.late_ns.clone();
    let seconds = done.lasted_ns as f64 / 1e9;
    let ways = before.zip(after).map(|(before, after)| ways(&session, &done, &before, &after));
    Ok(Echo {
        rate_hz: settings.rate_hz,
        sent_hz: done.sent as f64 / seconds.max(1e-9),
        bytes: settings.bytes,
        seconds,
        from_due_ns,
        from_send_ns,
        late_ns,
        there: ways.map(|(there, _)| there),
        back: ways.map(|(_, back)| back),
        not_sent: done.not_sent,
        others: after.map(|tally| tally.sessions.saturating_sub(1)),
        cpu_share: done.cpu_ns as f64 / done.lasted_ns.max(1) as f64,
        server_cpu_share: before
            .zip(after)
            .map(|(before, after)| after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / done.lasted_ns.max(1) as f64),
    })
}

/// Combines the counts of both ends.
fn ways(
    session: &Session,
    done: &Done,
    before: &SessionCounts,
    after: &SessionCounts,
) -> (DirectionCounts, DirectionCounts) {
    let dropped = before.dropped.zip(after.dropped).map(|(before, after)| u64::from(after.wrapping_sub(before)));
    let there = Counts {
        arrived: after.arrived,
        duplicates: after.duplicates,
        reordered: after.reordered,
        extent_max: after.extent_max,
        too_old: after.too_old,
    };
    let back = done.back.counts();
    let way = |sent: u64, counts: Counts, dropped_at_socket| DirectionCounts {
        sent,
        lost: sent.saturating_sub(counts.arrived),
        counts,
        dropped_at_socket,
    };
    let dropped_here = udp::dropped(session.socket()).map(u64::from);
    (way(done.sent, there, dropped), way(after.answered, back, dropped_here))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a part that was stopped before its first packet reported a rate of 0 packets per second.
    #[test]
    fn what_was_stopped_before_it_began_has_no_rate() {
        let parts = [UdpTest::Echo, UdpTest::Split, UdpTest::Ceiling, UdpTest::Burst];
        let settings = Settings {
            to: None,
            rate_hz: 100.0,
            bytes: 64,
            seconds: 1.0,
            pace: Pace::Sleep,
            receive: Receive::Sleep,
            cpu: None,
            receive_buffer_bytes: None,
            parts: parts.to_vec(),
        };
        let stopped = AtomicBool::new(true);
        let report = run(&settings, &Watch::new(&stopped, &|_, _| {})).unwrap();
        assert!(report.echo.is_none() && report.ceiling.is_none() && report.burst.is_none());
        assert_eq!(report.not_measured, parts);
    }
}
