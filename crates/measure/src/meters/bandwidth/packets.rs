//! UDP to the server and from the server at a set rate. Gaps in the packet numbers and the count of the other end show losses.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use evenkeel_sys::udp::{Inbox, Wait};
use evenkeel_sys::{Errno, clock};

use super::report::{Arrived, Stream};
use super::settings::{By, Direction, Settings};
use crate::meters::udp::wire::{FromClient, FromServer, GIVE_MS_MAX, PACKET_BYTES_MAX, StreamRequest};
use crate::meters::udp::{self, Order, Place, Session};
use crate::{MeterError, Watch};

/// The usual Ethernet packet, minus the headers of any network.
const BYTES: usize = 1400;
/// The maximum number of repeats of a request without an answer. All repeats together take three seconds.
const ASKS_MAX: u32 = 15;
/// When its requested time is over, a stream from the server ends after `QUIET_NS` without a packet, and at the latest after `GRACE_NS`.
const QUIET_NS: u64 = 200_000_000;
const GRACE_NS: u64 = 2_000_000_000;
/// How often to report progress.
const PROGRESS_NS: u64 = 100_000_000;

/// The packets per second of one stream, from the requested rate of all streams. None if no rate was requested.
fn packets_per_s(settings: &Settings) -> Option<f64> {
    let bytes = settings.bytes.unwrap_or(BYTES);
    settings.bits_per_s.map(|bits| bits / settings.streams as f64 / 8.0 / bytes as f64)
}

/// Sends one stream to the server.
pub(super) fn send(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let bytes = settings.bytes.unwrap_or(BYTES);
    let session = Session::open(to, None)?;
    let before = session.tally()?;
    let limit = udp::Limit { ns: (settings.seconds * 1e9) as u64, packets_per_s: packets_per_s(settings) };
    let flood = udp::flood(&session, bytes, limit, watch);
    let after = udp::settled(&session)?;
    let arrived = before.zip(after).map(|(before, after)| Arrived {
        bytes: after.bytes,
        seconds: after.span_ns as f64 / 1e9,
        packets: Some(after.arrived),
        lost: Some(flood.sent.saturating_sub(after.arrived)),
        reordered: Some(after.reordered),
        cpu_ns: Some(after.cpu_ns.saturating_sub(before.cpu_ns)),
    });
    Ok(Stream {
        sent_bytes: Some(flood.sent * bytes as u64),
        seconds: flood.ns as f64 / 1e9,
        granted_packets_per_s: None,
        arrived,
        not_sent: flood.not_sent,
        cpu_ns: flood.cpu_ns,
    })
}

/// The result of a stream from the server.
#[derive(Default)]
struct Coming {
    granted: Option<u32>,
    order: Order,
    bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Receives one stream from the server.
pub(super) fn fetch(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let bytes = settings.bytes.unwrap_or(BYTES) as u16;
    let session = Session::open(to, None)?;
    let before = session.tally()?;
    let request = StreamRequest {
        session: session.secret(),
        ask: RandomState::new().hash_one(clock::monotonic_ns()),
        ms: ((settings.seconds * 1e3) as u32).clamp(1, GIVE_MS_MAX),
        // A number out of range becomes the largest number, which means the fastest rate.
        packets_per_s: packets_per_s(settings).map_or(u32::MAX, |per_s| (per_s.round() as u32).max(1)),
        bytes,
        streams: settings.streams as u16,
    };
    let cpu_start_ns = clock::thread_cpu_ns();
    let coming = take(&session, request, to, watch)?;
    let cpu_ns = clock::thread_cpu_ns().saturating_sub(cpu_start_ns);
    let after = udp::settled(&session)?;
    let sent = before.zip(after).map(|(before, after)| after.answered.saturating_sub(before.answered));
    let (counts, span_ns) = (coming.order.counts(), coming.last_ns - coming.first_ns.unwrap_or(coming.last_ns));
    let arrived = Arrived {
        bytes: coming.bytes,
        seconds: span_ns as f64 / 1e9,
        packets: Some(counts.arrived),
        lost: sent.map(|sent| sent.saturating_sub(counts.arrived)),
        reordered: Some(counts.reordered),
        cpu_ns: before.zip(after).map(|(before, after)| after.cpu_ns.saturating_sub(before.cpu_ns)),
    };
    Ok(Stream {
        sent_bytes: sent.map(|sent| sent * u64::from(bytes)),
        seconds: f64::from(request.ms) / 1e3,
        granted_packets_per_s: coming.granted,
        arrived: Some(arrived),
        not_sent: 0,
        cpu_ns,
    })
}

/// Repeats the request and receives the packets until the stream is over.
fn take(session: &Session, request: StreamRequest, to: SocketAddr, watch: &Watch<'_>) -> Result<Coming, MeterError> {
    let doing = || format!("have packets sent by {to}");
    let mut inbox = Inbox::new(PACKET_BYTES_MAX);
    let mut coming = Coming::default();
    let (start_ns, length_ns) = (clock::monotonic_ns(), u64::from(request.ms) * 1_000_000);
    let (mut asked_ns, mut asks, mut reported_ns) = (0, 0, 0);
    while !watch.stopped() {
        let now_ns = clock::monotonic_ns();
        // The server began at most slightly before the first packet arrived here.
        let end_ns = coming.first_ns.unwrap_or(start_ns + u64::from(ASKS_MAX) * udp::ASK_AGAIN_NS) + length_ns;
        if now_ns > end_ns + GRACE_NS || now_ns > end_ns.max(coming.last_ns) + QUIET_NS {
            break;
        }
        if now_ns < end_ns && now_ns >= asked_ns + udp::ASK_AGAIN_NS {
            asks += 1;
            if asks > ASKS_MAX && coming.granted.is_none() {
                let why = "no answer came; the server may be too old to know of packets back";
                return Err(MeterError::not_possible(doing(), why));
            }
            session.notify(FromClient::Give(request));
            asked_ns = now_ns;
        }
        if now_ns >= reported_ns + PROGRESS_NS {
            reported_ns = now_ns;
            watch.progress((now_ns - start_ns) as f64 / length_ns as f64, "packets from the server");
        }
        let got = match inbox.receive(session.socket(), Wait::Not) {
            Err(Errno::AGAIN) => inbox.receive(session.socket(), Wait::Sleep),
            got => got,
        };
        match got {
            Ok(_) => coming.see(&inbox, &request).map_err(|why| MeterError::not_possible(doing(), why))?,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(MeterError::refused(doing(), errno)),
        }
    }
    Ok(coming)
}

impl Coming {
    /// Counts the packets of one call.
    ///
    /// # Errors
    /// Returns why no packets will arrive.
    fn see(&mut self, inbox: &Inbox, request: &StreamRequest) -> Result<(), &'static str> {
        let now_ns = clock::monotonic_ns();
        for packet in inbox.packets() {
            match FromServer::parse(packet.bytes) {
                Ok(FromServer::Filler { session, at, .. }) if session == request.session => {
                    self.first_ns.get_or_insert(now_ns);
                    self.last_ns = now_ns;
                    if !matches!(self.order.see(at.into()), Place::Again | Place::TooOld) {
                        self.bytes += packet.bytes.len() as u64;
                    }
                }
                Ok(FromServer::Given { session, ask, packets_per_s })
                    if session == request.session && ask == request.ask =>
                {
                    if self.granted.is_none() && packets_per_s.is_none() && self.first_ns.is_none() {
                        return Err(
                            "the server sends none: it serves another host now, or was started with --reverse-max 0",
                        );
                    }
                    self.granted = self.granted.or(packets_per_s);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The bits per second that the server agreed to send in all. None unless this is less than requested by more than one percent.
pub(super) fn cut_to(settings: &Settings, streams: &[Stream]) -> Option<f64> {
    if settings.by != By::Udp || settings.way != Direction::FromServer {
        return None;
    }
    let granted: Option<u64> = streams.iter().map(|stream| stream.granted_packets_per_s.map(u64::from)).sum();
    let requested = packets_per_s(settings).unwrap_or(f64::INFINITY) * streams.len() as f64;
    let granted = granted? as f64;
    let is_less = granted < requested * 0.99 && granted < f64::from(u32::MAX);
    is_less.then(|| granted * 8.0 * settings.bytes.unwrap_or(BYTES) as f64)
}
