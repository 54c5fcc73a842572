//! The probing player: sends a ping, waits for its pong, sleeps, again. Its thread blocks as a real client's or proxy's
//! would, so the round trip holds two wake-ups from idle, which is what most knobs of a host act on.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client::Joined;
use crate::clock::{SECOND_NS, now_ns};
use crate::control::Quantiles;
use crate::server::is_quiet;
use crate::tally::Tally;
use crate::wire::{FromClient, FromServer, MAX_DATAGRAM_BYTES};

/// A pong later than this counts as lost.
const LOST_NS: u64 = SECOND_NS;

/// The probe's thread and what it has measured in this window.
#[derive(Debug)]
pub(crate) struct Probe {
    thread: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug)]
struct Seen {
    round_trip: Tally,
    lost: u64,
}

impl Probe {
    /// Starts probing with `gap` of sleep after every pong, until `stop` is set.
    pub(crate) fn start(joined: Joined, gap: Duration, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen { round_trip: Tally::new(), lost: 0 }));
        let pinger = Pinger { socket: joined.socket, session: joined.session, seen: Arc::clone(&seen), stop };
        let thread = thread::Builder::new().name("probe".into()).spawn(move || pinger.run(gap))?;
        Ok(Self { thread, seen })
    }

    /// Round trips and lost pings since the last call.
    pub(crate) fn take(&self) -> (Quantiles, u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.round_trip.take(), std::mem::take(&mut seen.lost))
    }

    /// Waits for the thread, once `stop` is set: at most a read timeout and a gap.
    pub(crate) fn join(self) {
        // A panic there has already been told on stderr.
        let _ = self.thread.join();
    }
}

struct Pinger {
    socket: UdpSocket,
    session: u64,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
}

impl Pinger {
    fn run(self, gap: Duration) {
        let mut bytes = Vec::with_capacity(MAX_DATAGRAM_BYTES);
        for sequence in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let sent_ns = now_ns();
            FromClient::Ping { session: self.session, sequence, sent_ns }.encode(&mut bytes);
            // A ping that could not be sent is a ping without pong.
            let _ = self.socket.send(&bytes);
            let arrived_ns = self.await_pong(sequence, sent_ns + LOST_NS);
            if !self.stop.load(Ordering::Relaxed) {
                self.record(arrived_ns.map(|ns| ns - sent_ns));
            }
            if !gap.is_zero() {
                thread::sleep(gap);
            }
        }
    }

    /// When the pong to `sequence` came, unless it did not by `give_up_ns`.
    fn await_pong(&self, sequence: u32, give_up_ns: u64) -> Option<u64> {
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        while !self.stop.load(Ordering::Relaxed) {
            let received = self.socket.recv(&mut buffer);
            let now_ns = now_ns();
            if now_ns >= give_up_ns {
                return None;
            }
            match received {
                Ok(length) => match FromServer::parse(&buffer[..length]) {
                    Ok(FromServer::Pong { sequence: s, .. }) if s == sequence => {
                        return Some(now_ns);
                    }
                    // Snapshots, and pongs given up.
                    _ => {}
                },
                Err(error) if is_quiet(error.kind()) => {}
                // Refused, because the server is gone: comes back at once.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        None
    }

    fn record(&self, round_trip_ns: Option<u64>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match round_trip_ns {
            Some(ns) => seen.round_trip.record_ns(ns),
            None => seen.lost += 1,
        }
    }
}
