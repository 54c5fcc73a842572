//! What a server is asked to serve, and why it cannot.

use std::io;
use std::net::SocketAddr;

use evenkeel_rt::TickError;
use evenkeel_rt::jobs::JobsError;
use evenkeel_rt::telemetry::PageError;
use evenkeel_rt::udp::UdpError;
use thiserror::Error;

use crate::game::sim::SimConfig;

/// Events between the threads; more than 255 players may send in one period at 10 Hz (the gate lets 200 a second each).
pub(super) const QUEUE_EVENTS: usize = 8_192;

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
    /// Seed of the map and of the places where players appear.
    pub seed: u64,
    /// Extra work of each tick, in microseconds on this machine when undisturbed.
    pub work_us: u32,
    /// Further work of one tick in fifty, in microseconds: a planted tail.
    pub tail_us: u32,
    /// Extra threads that share the work of the tick thread.
    pub workers: usize,
    /// How the tick thread is treated.
    pub keeping: Keeping,
    /// Real-time priority of the tick thread, 1 to 99.
    pub fifo: Option<u8>,
    /// Name of the page of figures in shared memory.
    pub session: Option<String>,
    /// Where to write the match down.
    pub record: Option<std::path::PathBuf>,
}

/// Why the server cannot run.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The socket.
    #[error("listen: {0}")]
    Listen(#[from] UdpError),
    /// A second handle of the socket, for answers.
    #[error("listen: {0}")]
    Answers(io::Error),
    /// The workers.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// The page of figures.
    #[error("keep a page of figures: {0}")]
    Page(#[from] PageError),
    /// The tick rate.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The file of the record.
    #[error("record the match to {path}: {source}")]
    Record {
        /// Where to.
        path: std::path::PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A thread other than the tick thread.
    #[error("start the {name} thread: {source}")]
    Thread {
        /// Which.
        name: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl ServerConfig {
    /// The match that it serves.
    pub(super) fn sim(&self) -> SimConfig {
        SimConfig { seed: self.seed, tick_hz: self.tick_hz, slots: self.players.into() }
    }
}
