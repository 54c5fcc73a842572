//! The receive thread: every datagram goes through the gate, and answers are sent at once.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_rt::telemetry::{Count, Counters as Page};
use evenkeel_rt::udp::Incoming;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, sendto};

use crate::net::gate::{Arrival, Gate};
use crate::net::wire::{FromServer, MAX_DATAGRAM_BYTES};
use crate::server::tick_gate::{Flood, TickGate};
use crate::server::window::Counters;
use crate::time::{SECOND_NS, now_ns, to_timespec};

const SWEEP_NS: u64 = SECOND_NS / 4;
/// The maximum time between two checks for silent players and for the end.
const WAIT_NS: u64 = SECOND_NS / 10;
/// The maximum number of datagrams between two checks of the clock and of the tick.
const BATCH: usize = 64;

/// The state of the thread.
pub(super) struct Receive<'a> {
    pub(super) socket: OwnedFd,
    pub(super) incoming: &'a mut Incoming,
    pub(super) gate: Gate,
    pub(super) counters: &'a Counters,
    pub(super) page: Option<Page>,
    pub(super) tick_gate: &'a TickGate,
    pub(super) flood: Flood,
    pub(super) stop: &'a AtomicBool,
}

impl Receive<'_> {
    pub(super) fn run(self) {
        let Self { socket, incoming, mut gate, counters, page, tick_gate, mut flood, stop } = self;
        let mut answer = Vec::with_capacity(MAX_DATAGRAM_BYTES);
        let mut sweep_at_ns = 0;
        let mut may_hold_more = false;
        while !stop.load(Ordering::Relaxed) {
            if !may_hold_more && !wait(&socket) {
                flood.quiet();
            }
            let now_ns = now_ns();
            let mut is_flood = false;
            let counts = incoming.receive_at_most(BATCH, |packet| {
                counters.received();
                let arrival = Arrival { from: packet.from, now_ns, bytes: packet.bytes };
                let is_stranger = match gate.admit(arrival) {
                    Ok(None) => false,
                    Ok(Some(reply)) => {
                        reply.encode(&mut answer);
                        send(&socket, counters, &answer, packet.from);
                        !matches!(reply, FromServer::Pong { .. })
                    }
                    Err(refusal) => {
                        counters.refused(refusal);
                        true
                    }
                };
                is_flood = flood.saw(is_stranger, now_ns);
            });
            may_hold_more = counts.is_bound_reached;
            if let Some(page) = &page {
                page.add(Count::PacketsIn, counts.packets as u64);
                page.add(Count::BytesIn, counts.bytes);
            }
            if counts.errors > 0 && counts.packets == 0 {
                // This is an error such as a lack of memory. Continue, but sleep first, so that the thread does not spin.
                thread::sleep(Duration::from_millis(10));
            }
            if is_flood {
                tick_gate.wait();
            }
            if now_ns >= sweep_at_ns {
                gate.sweep(now_ns);
                counters.overflowed(incoming.counters().dropped);
                sweep_at_ns = now_ns + SWEEP_NS;
            }
        }
    }
}

/// Waits until a datagram arrives, for at most [`WAIT_NS`]. False if no datagram arrived.
fn wait(socket: &OwnedFd) -> bool {
    let mut waiting = [PollFd::new(socket, PollFlags::IN)];
    // After a signal, the wait ends as if nothing had arrived.
    poll(&mut waiting, Some(&to_timespec(WAIT_NS))).is_ok_and(|ready| ready > 0)
}

/// Sends without waiting. If the socket buffer is full, only this answer is lost.
fn send(socket: &OwnedFd, counters: &Counters, bytes: &[u8], to: SocketAddr) {
    match sendto(socket, bytes, SendFlags::DONTWAIT, &to) {
        Ok(_) => counters.sent(1, bytes.len() as u64),
        Err(_) => counters.send_failed(1),
    }
}
