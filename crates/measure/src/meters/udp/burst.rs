//! Finds how many packets of a size fit into a receive buffer while nobody reads, as when a server loses its CPU.
//! The server sends more packets than can fit.
//! We leave them unread, and then count the packets in the buffer. So the result is valid for this host and the real path of its packets.

use std::net::SocketAddr;

use evenkeel_sys::udp::{self, Inbox, Wait};
use evenkeel_sys::{Errno, clock};
use serde::Serialize;

use super::client::Session;
use super::settings::Settings;
use super::wire::{BURST_PACKETS_MAX, FILLER_BYTES_MIN, FromClient, FromServer, PACKET_BYTES_MAX};
use crate::{MeterError, Watch};

/// Sizes to try in addition to the size in the settings.
const SIZES: [usize; 5] = [64, 256, 512, 1024, 1400];
/// The least overhead that a kernel counts per packet.
const OVERHEAD_BYTES: u64 = 256;
/// A burst has ended when nothing arrived for this long.
const QUIET_NS: u64 = 30_000_000;
const BURST_NS_MAX: u64 = 1_000_000_000;

/// How much of a burst this host can hold.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Burst {
    /// The receive buffer, in bytes as the kernel counts them.
    pub receive_buffer_bytes: u64,
    /// The results, one for each packet size.
    pub fits: Vec<Fit>,
}

/// The results for one packet size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// The length of a packet, in bytes without headers.
    pub bytes: usize,
    /// How many packets the server sent at once. None if it did not report.
    pub sent: Option<u64>,
    /// How many packets were in the buffer when the meter began to read.
    pub fit: u64,
    /// How many packets the socket dropped for lack of buffer. None if the kernel does not report this.
    pub dropped_at_socket: Option<u64>,
    /// How many packets were lost before the socket: on the way, or in this host's queues. None if this is unknown.
    pub lost_before: Option<u64>,
    /// The receive buffer that a packet used, in bytes. None if the kernel does not report it.
    pub held_bytes_each: Option<f64>,
    /// Whether the buffer was full, so that `fit` is its limit. Otherwise more packets might have fitted.
    pub full: bool,
}

pub(super) fn run(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Burst, MeterError> {
    let session = Session::open(to, settings.receive_buffer_bytes)?;
    let receive_buffer_bytes = udp::receive_buffer_bytes(session.socket())
        .map_err(|errno| MeterError::refused("ask for the receive buffer", errno))?;
    let mut sizes = SIZES.to_vec();
    sizes.push(settings.bytes.max(FILLER_BYTES_MIN));
    sizes.sort_unstable();
    sizes.dedup();
    let mut fits = Vec::new();
    for (at, bytes) in sizes.iter().enumerate() {
        if watch.stopped() {
            break;
        }
        watch.progress(at as f64 / sizes.len() as f64, &format!("bursts of {bytes} bytes"));
        fits.push(fit(&session, *bytes, receive_buffer_bytes)?);
    }
    Ok(Burst { receive_buffer_bytes, fits })
}

fn fit(session: &Session, bytes: usize, buffer_bytes: u64) -> Result<Fit, MeterError> {
    let socket = session.socket();
    let packets = (buffer_bytes / (bytes as u64 + OVERHEAD_BYTES) + 64).min(BURST_PACKETS_MAX.into()) as u32;
    let mut inbox = Inbox::new(PACKET_BYTES_MAX);
    let answered_before = session.tally()?.map(|tally| tally.answered);
    while inbox.receive(socket, Wait::Not).is_ok() {}
    let dropped_before = udp::dropped(socket);
    let size = u16::try_from(bytes).unwrap_or(u16::MAX);
    session.notify(FromClient::Burst { session: session.secret(), packets, bytes: size });
    let held_bytes = let_lie(session);
    let dropped = dropped_before.zip(udp::dropped(socket)).map(|(before, after)| u64::from(after.wrapping_sub(before)));
    let mut fit = 0_u64;
    loop {
        match inbox.receive(socket, Wait::Not) {
            Ok(_) => {
                let said = inbox.packets().filter_map(|packet| FromServer::parse(packet.bytes).ok());
                fit += said.filter(|said| matches!(said, FromServer::Filler { .. })).count() as u64;
            }
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(MeterError::refused("read a burst", errno)),
        }
    }
    let answered = session.tally()?.map(|tally| tally.answered);
    let sent = answered_before.zip(answered).map(|(before, after)| after.saturating_sub(before));
    Ok(Fit {
        bytes,
        sent,
        fit,
        dropped_at_socket: dropped,
        lost_before: sent.zip(dropped).map(|(sent, dropped)| sent.saturating_sub(fit + dropped)),
        held_bytes_each: held_bytes.filter(|_| fit > 0).map(|held| f64::from(held) / fit as f64),
        full: dropped.is_some_and(|dropped| dropped > 0),
    })
}

/// Waits until no more packets arrive, without reading them, and returns how many bytes are buffered.
fn let_lie(session: &Session) -> Option<u32> {
    let start_ns = clock::monotonic_ns();
    let look = || (udp::held_bytes(session.socket()), udp::dropped(session.socket()));
    let empty = look();
    let (mut last, mut changed_ns) = (empty, start_ns);
    loop {
        let now_ns = clock::monotonic_ns();
        let has_come = last != empty;
        if (has_come && now_ns > changed_ns + QUIET_NS) || now_ns > start_ns + BURST_NS_MAX {
            return last.0;
        }
        clock::sleep_until_ns(now_ns + 2_000_000);
        let next = look();
        if next != last {
            (last, changed_ns) = (next, clock::monotonic_ns());
        }
    }
}
