//! The probe: sends a ping, waits for its pong, sleeps, and repeats. Its thread blocks like the thread of a real client or proxy.
//! So a round trip contains two wake-ups from idle, which most knobs of a host affect.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::control::Quantiles;
use crate::durations::DurationHistogram;
use crate::net::client::Joined;
use crate::net::is_quiet;
use crate::net::wire::{FromClient, FromServer, MAX_DATAGRAM_BYTES};
use crate::time::{SECOND_NS, now_ns};

/// A pong later than this counts as lost.
const LOST_NS: u64 = SECOND_NS;

/// The probe's thread, and its measurements in this window.
#[derive(Debug)]
pub(crate) struct Probe {
    thread: JoinHandle<()>,
    state: Arc<Mutex<ProbeState>>,
}

#[derive(Debug)]
struct ProbeState {
    round_trip: DurationHistogram,
    lost: u64,
    /// The server's clock by the shortest round trip so far.
    clock: Option<ClockSeen>,
}

/// How far ahead the server's clock is, by one round trip. The error is at most half of that round trip.
#[derive(Debug, Clone, Copy)]
struct ClockSeen {
    round_trip_ns: u64,
    ahead_ns: i64,
}

impl ClockSeen {
    /// The better of the known estimate and a new one. The known estimate gets worse with time, because clocks drift apart.
    fn better(known: Option<Self>, new: Self) -> Self {
        let aged =
            known.map(|known| Self { round_trip_ns: known.round_trip_ns + known.round_trip_ns / 1_000 + 1, ..known });
        aged.filter(|known| known.round_trip_ns < new.round_trip_ns).unwrap_or(new)
    }
}

/// One ping that came back.
#[derive(Debug, Clone, Copy)]
struct Pong {
    sent_ns: u64,
    arrived_ns: u64,
    server_ns: u64,
}

impl Probe {
    /// Starts probing, with `gap` of sleep after every pong, until `stop` is set.
    pub(crate) fn start(joined: Joined, gap: Duration, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(ProbeState { round_trip: DurationHistogram::new(), lost: 0, clock: None }));
        let pinger = Pinger { socket: joined.socket, session: joined.session, state: Arc::clone(&state), stop };
        let thread = thread::Builder::new().name("probe".into()).spawn(move || pinger.run(gap))?;
        Ok(Self { thread, state })
    }

    /// Round trips and lost pings since the last call.
    pub(crate) fn take(&self) -> (Quantiles, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.round_trip.take(), std::mem::take(&mut state.lost))
    }

    /// How far the server's clock is ahead of this machine's. None before the first answer.
    pub(crate) fn server_ahead_ns(&self) -> Option<i64> {
        // The lock is held only for a moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clock.map(|clock| clock.ahead_ns)
    }

    /// Waits for the thread after `stop` is set: at most a read timeout and a gap.
    pub(crate) fn join(self) {
        // If the thread panicked, the panic was already printed on stderr.
        let _ = self.thread.join();
    }
}

struct Pinger {
    socket: UdpSocket,
    session: u64,
    state: Arc<Mutex<ProbeState>>,
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
            // A ping that could not be sent is a ping without a pong.
            let _ = self.socket.send(&bytes);
            let pong = self.await_pong(sequence, sent_ns);
            if !self.stop.load(Ordering::Relaxed) {
                self.record(pong);
            }
            if !gap.is_zero() {
                thread::sleep(gap);
            }
        }
    }

    /// The pong for `sequence`. None if it does not arrive in time.
    fn await_pong(&self, sequence: u32, sent_ns: u64) -> Option<Pong> {
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        while !self.stop.load(Ordering::Relaxed) {
            let received = self.socket.recv(&mut buffer);
            let now_ns = now_ns();
            if now_ns >= sent_ns + LOST_NS {
                return None;
            }
            match received {
                Ok(length) => match FromServer::parse(&buffer[..length]) {
                    Ok(FromServer::Pong { sequence: s, server_ns, .. }) if s == sequence => {
                        return Some(Pong { sent_ns, arrived_ns: now_ns, server_ns });
                    }
                    // Ignore snapshots and late pongs.
                    _ => {}
                },
                Err(error) if is_quiet(error.kind()) => {}
                // If the server is gone, the receive is refused at once.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        None
    }

    fn record(&self, pong: Option<Pong>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Pong { sent_ns, arrived_ns, server_ns }) = pong else {
            state.lost += 1;
            return;
        };
        let round_trip_ns = arrived_ns - sent_ns;
        state.round_trip.record_ns(round_trip_ns);
        // The server read its clock half-way, with an error of at most half a round trip.
        let ahead_ns = server_ns.wrapping_sub(sent_ns + round_trip_ns / 2) as i64;
        state.clock = Some(ClockSeen::better(state.clock, ClockSeen { round_trip_ns, ahead_ns }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_sets_the_clock_until_it_is_old() {
        let state = |round_trip_ns, ahead_ns| ClockSeen { round_trip_ns, ahead_ns };
        let mut clock = ClockSeen::better(None, state(90_000, 5));
        clock = ClockSeen::better(Some(clock), state(40_000, 1));
        clock = ClockSeen::better(Some(clock), state(60_000, 9));
        assert_eq!(clock.ahead_ns, 1);
        let later = (0..2_000).fold(clock, |clock, _| ClockSeen::better(Some(clock), state(60_000, 7)));
        assert_eq!(later.ahead_ns, 7);
    }
}
