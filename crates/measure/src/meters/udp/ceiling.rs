//! How many packets per second a core can send and receive.
//! The meter sends batches of 64 packets as fast as possible to a server that only counts them.

use std::net::SocketAddr;

use evenkeel_sys::clock;
use evenkeel_sys::udp::Outbox;
use serde::Serialize;

use super::client::Session;
use super::open_loop::settle;
use super::settings::Settings;
use super::wire::{FILLER_BYTES_MIN, FromClient, Numbered, SessionCounts};
use crate::{MeterError, Watch};

/// How long the meter sends.
const FLOOD_NS: u64 = 800_000_000;

/// How often to report progress.
const PROGRESS_NS: u64 = 100_000_000;

/// The limits of a core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// The length of a packet, in bytes without headers.
    pub bytes: usize,
    /// The rate at which the meter's thread sent.
    /// Over loopback or a veth pair, the same call also carries the packet up to the receiving socket.
    pub send: Rate,
    /// The rate at which the server's thread received. None if the server did not report.
    pub receive: Option<Rate>,
    /// Packets that the kernel here did not accept.
    pub not_sent: u64,
    /// Packets that were sent but not received. None if the server did not report.
    pub lost: Option<u64>,
    /// The part of `lost` that the server's socket dropped for lack of buffer.
    pub dropped_at_socket: Option<u64>,
}

/// A number of packets and the time that they took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate {
    /// The number of packets.
    pub packets: u64,
    /// Packets per second of time.
    pub per_s: f64,
    /// Packets per second of the thread's CPU time. A core that does nothing else has this rate.
    pub per_cpu_s: f64,
}

impl Rate {
    /// The rate for this many packets, which took this time and CPU time, both in nanoseconds.
    pub fn new(packets: u64, ns: u64, cpu_ns: u64) -> Rate {
        let per = |ns: u64| packets as f64 * 1e9 / ns.max(1) as f64;
        Rate { packets, per_s: per(ns), per_cpu_s: per(cpu_ns) }
    }
}

/// The result of a flood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flood {
    pub(crate) sent: u64,
    pub(crate) not_sent: u64,
    pub(crate) ns: u64,
    pub(crate) cpu_ns: u64,
}

pub(super) fn run(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Ceiling, MeterError> {
    let session = Session::open(to, None)?;
    let before = session.tally()?;
    let flood = || {
        settle(settings.cpu)?;
        Ok(flood(&session, settings.bytes, Limit { ns: FLOOD_NS, packets_per_s: None }, watch))
    };
    let flooded: Result<Flood, MeterError> = match std::thread::scope(|scope| scope.spawn(flood).join()) {
        Ok(flooded) => flooded,
        Err(_) => Err(MeterError::not_possible("send packets", "the thread died")),
    };
    let flooded = flooded?;
    let after = settled(&session)?;
    let both = before.zip(after);
    Ok(Ceiling {
        bytes: settings.bytes,
        not_sent: flooded.not_sent,
        send: Rate::new(flooded.sent, flooded.ns, flooded.cpu_ns),
        receive: both
            .map(|(before, after)| Rate::new(after.arrived, after.span_ns, after.cpu_ns.saturating_sub(before.cpu_ns))),
        lost: after.map(|after| flooded.sent.saturating_sub(after.arrived)),
        dropped_at_socket: both.and_then(|(before, after)| Some(after.dropped?.wrapping_sub(before.dropped?).into())),
    })
}

/// The counts of the session once no more packets arrive.
pub(crate) fn settled(session: &Session) -> Result<Option<SessionCounts>, MeterError> {
    let mut last = session.tally()?;
    for _ in 0..20 {
        clock::sleep_until_ns(clock::monotonic_ns() + 20_000_000);
        let next = session.tally()?;
        let (was, is) = (last.map(|tally| tally.arrived), next.map(|tally| tally.arrived));
        last = next;
        if was == is {
            break;
        }
    }
    Ok(last)
}

/// How much to send: for how long, and at which rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// The duration.
    pub(crate) ns: u64,
    /// The rate. With None, the meter sends as fast as possible.
    pub(crate) packets_per_s: Option<f64>,
}

/// Sends packets that need no answer.
pub(crate) fn flood(session: &Session, bytes: usize, limit: Limit, watch: &Watch<'_>) -> Flood {
    let bytes = bytes.max(FILLER_BYTES_MIN);
    let mut out = Outbox::new(bytes);
    let (cpu_start_ns, start_ns) = (clock::thread_cpu_ns(), clock::monotonic_ns());
    let (mut sequence, mut sent, mut not_sent, mut reported_ns) = (0_u64, 0, 0, 0);
    loop {
        let past_ns = clock::monotonic_ns() - start_ns;
        if past_ns >= limit.ns || watch.stopped() {
            return Flood { sent, not_sent, ns: past_ns, cpu_ns: clock::thread_cpu_ns() - cpu_start_ns };
        }
        if past_ns >= reported_ns + PROGRESS_NS {
            reported_ns = past_ns;
            watch.progress(past_ns as f64 / limit.ns as f64, "packets a second");
        }
        let due = limit.packets_per_s.map_or(u64::MAX, |per_s| (past_ns as f64 * per_s / 1e9) as u64 + 1);
        if due <= sequence {
            // Each batch covers a millisecond, as for any sender that sleeps to keep a rate.
            clock::sleep_until_ns(start_ns + past_ns + 1_000_000);
            continue;
        }
        while sequence < due {
            let Some(packet) = out.push(None, bytes) else { break };
            FromClient::Sink(Numbered { session: session.secret(), sequence, sent_ns: 0 }).write(packet);
            sequence += 1;
        }
        let said = out.send(session.socket());
        sent += said.sent as u64;
        not_sent += said.refused as u64;
    }
}
