//! The server: a tick thread that plays the match and sends snapshots, and a receive thread that answers pings at once, so that
//! a round trip measures the machine and not the tick.
//!
//! The tick is kept by `evenkeel-rt`. If a tick is done only after the next deadline, the deadlines that have passed are skipped
//! and counted, never caught up: the match slows down rather than running late ticks in a burst.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::thread::gettid;
use thiserror::Error;

use crate::console::Request;
use crate::control::{FORMAT, ServerEvent};
use crate::game::sim::SimConfig;
use crate::net::gate::{Gate, GateConfig};
use crate::server::aside::{Aside, Flood};
use crate::server::receive::Receive;
use crate::server::scribe::Scribe;
use crate::server::tick::Tick;
use crate::server::window::Counters;
use crate::work::Work;

mod aside;
mod receive;
mod scribe;
mod tick;
mod window;

/// Events between the threads; more than 255 players may send in one period at 10 Hz (the gate lets 200 a second each).
const QUEUE_EVENTS: usize = 8_192;
/// How often the receive thread looks for silent players and for the end, at the least.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);

/// How the tick thread is treated by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keeping {
    /// As `evenkeel-rt` sets a tick thread up: a short slice, exact timers, a learned margin waited out awake where there is room.
    #[default]
    Steady,
    /// As any thread: what a server without such care has, and what knobs of a host act on.
    Plain,
}

/// What to serve.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Ticks a second, 10 to 500.
    pub tick_hz: u16,
    /// Most players at a time, 1 to 255.
    pub players: u8,
    /// Decides the ground and where players appear.
    pub seed: u64,
    /// Work a tick does beside the match, in microseconds of this machine undisturbed.
    pub work_us: u32,
    /// Threads beside the tick thread that share its work.
    pub workers: usize,
    /// How the tick thread is treated.
    pub keeping: Keeping,
    /// Real-time priority of the tick thread, 1 to 99.
    pub fifo: Option<u8>,
    /// Where to write the match down.
    pub record: Option<std::path::PathBuf>,
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
    /// The file of the record.
    #[error("record the match to {path}: {source}")]
    Record {
        /// Where to.
        path: std::path::PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A thread beside the tick's.
    #[error("start the {name} thread: {source}")]
    Thread {
        /// Which.
        name: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// A server that is bound but does not tick yet.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    address: SocketAddr,
    socket: Arc<UdpSocket>,
    scribe: Option<Scribe>,
    work: Work,
}

impl Server {
    /// Binds the socket, opens the record and calibrates the work.
    ///
    /// # Errors
    /// If the address or the file can't be had.
    pub fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let bound = || -> io::Result<_> {
            let socket = UdpSocket::bind(config.listen)?;
            socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
            Ok((socket.local_addr()?, socket))
        };
        let (address, socket) = bound().map_err(|source| ServerError::Listen { address: config.listen, source })?;
        let scribe = match &config.record {
            Some(path) => Some(Scribe::begin(path, sim_config(&config))?),
            None => None,
        };
        Ok(Self { config, address, socket: Arc::new(socket), scribe, work: Work::calibrated() })
    }

    /// What to announce; to be called on the thread that will call [`Server::run`].
    pub fn ready(&self) -> ServerEvent {
        ServerEvent::Ready {
            addr: self.address,
            pid: std::process::id(),
            tick_tid: gettid().as_raw_pid(),
            tick_hz: self.config.tick_hz,
            workers: self.config.workers,
            work_units_per_us: self.work.units_per_us(),
            format: FORMAT,
        }
    }

    /// Serves until `stop` is set, with this thread as the tick thread. Commands are answered between ticks.
    ///
    /// # Errors
    /// If the receive thread can't be started, or the record could not be written to its end.
    pub fn run(self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), ServerError> {
        let counters = Arc::new(Counters::default());
        let (sender, events) = sync_channel(QUEUE_EVENTS);
        let config = &self.config;
        let gate = GateConfig { slots: usize::from(config.players), tick_hz: config.tick_hz, seed: config.seed };
        let aside = Arc::new(Aside::new());
        let receiver = Receive {
            socket: Arc::clone(&self.socket),
            gate: Gate::new(gate, sender),
            counters: Arc::clone(&counters),
            aside: Arc::clone(&aside),
            flood: Flood::default(),
            stop: Arc::clone(stop),
        };
        // Before a datagram is received, so that the first window misses none; and before the tick thread is set up, which those
        // that it starts would inherit.
        let tick = Tick::new(self, events, counters, aside);
        let receive = thread::Builder::new()
            .name("receive".into())
            .spawn(move || receiver.run())
            .map_err(|source| ServerError::Thread { name: "receive", source })?;
        let ended = tick.run(requests, stop);
        stop.store(true, Ordering::Relaxed);
        // It sees the flag within its timeout; a panic there has already been told on stderr.
        let _ = receive.join();
        ended
    }
}

fn sim_config(config: &ServerConfig) -> SimConfig {
    SimConfig { seed: config.seed, tick_hz: config.tick_hz, slots: config.players.into() }
}
