//! The server: a tick thread that simulates and sends snapshots, and a receive thread that answers pings at once, so that
//! a round trip measures the machine and not the tick.
//!
//! The tick thread sleeps to absolute deadlines. If a tick is done only after the next deadline, the deadlines that have
//! passed are skipped and counted, never caught up: the game slows down rather than running late ticks in a burst.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::net::{SendFlags, sendto};
use rustix::thread::{current_timer_slack, gettid, set_current_timer_slack};
use thiserror::Error;

use crate::clock::{Rhythm, SECOND_NS, Schedule, now_ns, sleep_until};
use crate::console::{Request, answer_waiting};
use crate::control::{Answer, Command, FORMAT, ServerEvent};
use crate::gate::{Arrival, Event, Gate, GateConfig};
use crate::server::window::{Counters, TickTimes, Window};
use crate::sim::{Sim, SimConfig, Slot};
use crate::snapshot::Snapshot;
use crate::wire::{MAX_DATAGRAM_BYTES, encode_snapshot};
use crate::work::Work;

mod window;

/// Events between the threads; more than 255 players may send in one period at 10 Hz (the gate lets 200 a second each).
const QUEUE_EVENTS: usize = 8_192;
/// How often the receive thread looks for silent players and for the end, at the least.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);
const SWEEP_NS: u64 = SECOND_NS / 4;

/// What to serve.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Ticks a second, 10 to 500.
    pub tick_hz: u16,
    /// Most players at a time, 1 to 255.
    pub players: u8,
    /// Decides the ground and where players appear.
    pub seed: u64,
    /// Work a tick does beside the game, in microseconds of this machine undisturbed.
    pub work_us: u32,
}

/// Why the server cannot run.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The socket.
    #[error("listen on {address}: {source}")]
    Listen {
        /// Where it should.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The receive thread.
    #[error("start the receive thread: {0}")]
    Thread(io::Error),
    /// The clock refused, which it does only if it was asked wrongly.
    #[error("sleep until the next tick: {0}")]
    Sleep(rustix::io::Errno),
}

/// A server that is bound but does not tick yet.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    address: SocketAddr,
    socket: Arc<UdpSocket>,
    work: Work,
}

impl Server {
    /// Binds the socket and calibrates the work.
    pub fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let bound = || -> io::Result<_> {
            let socket = UdpSocket::bind(config.listen)?;
            socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
            Ok((socket.local_addr()?, socket))
        };
        let (address, socket) = bound().map_err(|source| ServerError::Listen { address: config.listen, source })?;
        Ok(Self { config, address, socket: Arc::new(socket), work: Work::calibrated() })
    }

    /// What to announce; to be called on the thread that will call [`Server::run`].
    pub fn ready(&self) -> ServerEvent {
        ServerEvent::Ready {
            addr: self.address,
            pid: std::process::id(),
            tick_tid: gettid().as_raw_pid(),
            tick_hz: self.config.tick_hz,
            work_units_per_us: self.work.units_per_us(),
            format: FORMAT,
        }
    }

    /// Serves until `stop` is set, with this thread as the tick thread. Commands are answered between ticks.
    pub fn run(self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), ServerError> {
        let counters = Arc::new(Counters::default());
        let (sender, events) = sync_channel(QUEUE_EVENTS);
        let receiver = Receive {
            socket: Arc::clone(&self.socket),
            gate: Gate::new(
                GateConfig { slots: usize::from(self.config.players), tick_hz: self.config.tick_hz },
                sender,
            ),
            counters: Arc::clone(&counters),
            stop: Arc::clone(stop),
        };
        // Before a datagram is received, so that the first window misses none.
        let tick = Tick::new(self, events, counters);
        let receive =
            thread::Builder::new().name("receive".into()).spawn(move || receiver.run()).map_err(ServerError::Thread)?;
        let ended = tick.run(requests, stop);
        stop.store(true, Ordering::Relaxed);
        // It sees the flag within its timeout; a panic there has already been told on stderr.
        let _ = receive.join();
        ended
    }
}

/// The receive thread.
struct Receive {
    socket: Arc<UdpSocket>,
    gate: Gate,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
}

impl Receive {
    fn run(mut self) {
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
                    self.answer(Arrival { from, now_ns, bytes }, &mut answer);
                }
                Err(error) if is_quiet(error.kind()) => {}
                // Out of memory, say: not a reason to end, but one not to spin.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
            if now_ns >= sweep_at_ns {
                self.gate.sweep(now_ns);
                sweep_at_ns = now_ns + SWEEP_NS;
            }
        }
    }

    fn answer(&mut self, arrival: Arrival<'_>, answer: &mut Vec<u8>) {
        self.counters.received();
        match self.gate.admit(arrival) {
            Ok(None) => {}
            Ok(Some(reply)) => {
                reply.encode(answer);
                send(&self.socket, &self.counters, answer, arrival.from);
            }
            Err(refusal) => self.counters.refused(refusal),
        }
    }
}

/// Nothing came, or a signal did.
pub(crate) fn is_quiet(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(kind, WouldBlock | TimedOut | Interrupted)
}

/// Sends without ever waiting: a full socket buffer costs a datagram, not a tick.
fn send(socket: &UdpSocket, counters: &Counters, bytes: &[u8], to: SocketAddr) {
    match sendto(socket, bytes, SendFlags::DONTWAIT, &to) {
        Ok(_) => counters.sent(),
        Err(_) => counters.send_failed(),
    }
}

/// The tick thread.
struct Tick {
    sim: Sim,
    work: Work,
    work_units: u64,
    delay_units: u64,
    period_ns: u64,
    events: mpsc::Receiver<Event>,
    addresses: Vec<Option<SocketAddr>>,
    socket: Arc<UdpSocket>,
    counters: Arc<Counters>,
    snapshot: Snapshot,
    datagram: Vec<u8>,
    window: Window,
}

impl Tick {
    fn new(server: Server, events: mpsc::Receiver<Event>, counters: Arc<Counters>) -> Self {
        let config = server.config;
        let slots = usize::from(config.players);
        let period_ns = SECOND_NS / u64::from(config.tick_hz.max(1));
        Self {
            sim: Sim::new(SimConfig { seed: config.seed, tick_hz: config.tick_hz, slots }),
            work_units: server.work.units(config.work_us),
            work: server.work,
            delay_units: 0,
            period_ns,
            events,
            addresses: vec![None; slots],
            socket: server.socket,
            window: Window::open(&counters, period_ns),
            counters,
            snapshot: Snapshot::default(),
            datagram: Vec::with_capacity(MAX_DATAGRAM_BYTES),
        }
    }

    fn run(mut self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), ServerError> {
        let mut schedule = Schedule::new(Rhythm { first_ns: now_ns() + self.period_ns, period_ns: self.period_ns });
        while !stop.load(Ordering::Relaxed) {
            let due_ns = schedule.deadline_ns();
            match sleep_until(due_ns) {
                Ok(()) => {}
                // A signal: it may have set `stop`.
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(ServerError::Sleep(error)),
            }
            let start_ns = now_ns();
            self.tick();
            let done_ns = now_ns();
            let missed = schedule.advance(done_ns);
            self.window.record(TickTimes { due_ns, start_ns, done_ns, missed });
            answer_waiting(requests, |command| self.answer(command));
        }
        Ok(())
    }

    fn tick(&mut self) {
        // As many as the queue can hold: what comes while it is drained waits for the next tick.
        for event in self.events.try_iter().take(QUEUE_EVENTS) {
            match event {
                Event::Join { slot, address } => {
                    self.sim.join(slot);
                    self.addresses[slot.0] = Some(address);
                }
                Event::Leave { slot } => {
                    self.sim.leave(slot);
                    self.addresses[slot.0] = None;
                }
                Event::Input { slot, sequence, input } => self.sim.set_input(slot, sequence, input),
            }
        }
        self.sim.step();
        self.work.run(self.work_units + self.delay_units);
        for slot in 0..self.addresses.len() {
            if let Some(address) = self.addresses[slot] {
                self.snapshot.take(&self.sim, Slot(slot));
                encode_snapshot(&self.snapshot, &mut self.datagram);
                send(&self.socket, &self.counters, &self.datagram, address);
            }
        }
    }

    fn answer(&mut self, command: Command) -> Answer {
        match command {
            Command::Window => {
                let players = self.addresses.iter().flatten().count();
                let window = self.window.close(&self.counters, players as u64);
                Answer::ServerWindow(Box::new(window))
            }
            Command::TimerSlackNs { value } => timer_slack(value),
            Command::DelayUs { value } => {
                self.delay_units = self.work.units(value);
                Answer::Delay { delay_us: value }
            }
            Command::Stop => Answer::Stopping { stopping: true },
        }
    }
}

/// Sets and reads back the slack of this thread's timers.
fn timer_slack(value: Option<u64>) -> Answer {
    let set = match value.and_then(NonZeroU64::new) {
        Some(value) => set_current_timer_slack(Some(value)),
        None => Ok(()),
    };
    match set.and_then(|()| current_timer_slack()) {
        Ok(timer_slack_ns) => Answer::TimerSlack { timer_slack_ns },
        Err(errno) => Answer::Error { error: format!("timer slack: {errno}") },
    }
}
