//! The receive thread: every datagram goes through the gate, and what is to be answered is answered at once.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{SendFlags, sendto};

use crate::net::gate::{Arrival, Gate};
use crate::net::is_quiet;
use crate::net::wire::{FromServer, MAX_DATAGRAM_BYTES};
use crate::server::aside::{Aside, Flood};
use crate::server::window::Counters;
use crate::time::{SECOND_NS, now_ns};

const SWEEP_NS: u64 = SECOND_NS / 4;

/// What the thread works with.
pub(super) struct Receive {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) gate: Gate,
    pub(super) counters: Arc<Counters>,
    pub(super) aside: Arc<Aside>,
    pub(super) flood: Flood,
    pub(super) stop: Arc<AtomicBool>,
}

impl Receive {
    pub(super) fn run(mut self) {
        // One byte more than allowed, so that what is too long shows.
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        let mut answer = Vec::with_capacity(MAX_DATAGRAM_BYTES);
        let mut sweep_at_ns = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let received = self.socket.recv_from(&mut buffer);
            let now_ns = now_ns();
            match received {
                Ok((length, from)) => {
                    let bytes = &buffer[..length];
                    let is_stranger = self.answer(Arrival { from, now_ns, bytes }, &mut answer);
                    if self.flood.saw(is_stranger, now_ns) {
                        self.aside.wait();
                    }
                }
                Err(error) if is_quiet(error.kind()) => self.flood.quiet(),
                // Out of memory, say: not a reason to end, but one not to spin.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
            if now_ns >= sweep_at_ns {
                self.gate.sweep(now_ns);
                sweep_at_ns = now_ns + SWEEP_NS;
            }
        }
    }

    /// Deals with one datagram. Whether it came from somebody who does not play.
    fn answer(&mut self, arrival: Arrival<'_>, answer: &mut Vec<u8>) -> bool {
        self.counters.received();
        match self.gate.admit(arrival) {
            Ok(None) => false,
            Ok(Some(reply)) => {
                reply.encode(answer);
                send(&self.socket, &self.counters, answer, arrival.from);
                !matches!(reply, FromServer::Pong { .. })
            }
            Err(refusal) => {
                self.counters.refused(refusal);
                true
            }
        }
    }
}

/// Sends without ever waiting: a full socket buffer costs a datagram, not a tick.
pub(super) fn send(socket: &UdpSocket, counters: &Counters, bytes: &[u8], to: SocketAddr) {
    let sent: io::Result<usize> = sendto(socket, bytes, SendFlags::DONTWAIT, &to).map_err(Into::into);
    match sent {
        Ok(_) => counters.sent(bytes.len()),
        Err(_) => counters.send_failed(),
    }
}
