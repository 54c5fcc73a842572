//! The server's configuration, and the errors of a server that cannot run.

use std::io;
use std::net::SocketAddr;

use evenkeel_rt::jobs::JobsError;
use evenkeel_rt::telemetry::PageError;
use evenkeel_rt::udp::UdpError;
use evenkeel_rt::{PhaseError, TickError};
use thiserror::Error;

use crate::game::sim::SimConfig;

/// The maximum number of events between the threads.
/// More than 255 players may send in one period at 10 Hz (the gate allows 200 per second each).
pub(super) const QUEUE_EVENTS: usize = 8_192;

/// How the tick thread keeps time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keeping {
    /// The thread is set up by `evenkeel-rt`: a short slice, exact timers, and a learned margin before each tick.
    /// In that margin the thread spins if the process has CPUs to spare.
    #[default]
    Steady,
    /// The thread is ordinary. Most servers run this way, and knobs of a host affect it.
    Plain,
}

/// The server's configuration.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address. With port 0 the kernel chooses a port.
    pub listen: SocketAddr,
    /// Ticks per second, 10 to 500.
    pub tick_hz: u16,
    /// The maximum number of players at a time, 1 to 255.
    pub players: u8,
    /// Seed of the map and of the places where players appear.
    pub seed: u64,
    /// The extra work of each tick, in microseconds on this machine when undisturbed.
    pub work_us: u32,
    /// Additional work in one tick of fifty, in microseconds, to create a tail.
    pub tail_us: u32,
    /// Extra threads that share the work of the tick thread.
    pub workers: usize,
    /// How the tick thread keeps time.
    pub keeping: Keeping,
    /// Whether the ticks of all sessions on this host are spread in time.
    pub phases: bool,
    /// The real-time priority of the tick thread, 1 to 99. None means an ordinary thread.
    pub fifo: Option<u8>,
    /// The name of the telemetry page in shared memory. None means no page.
    pub session: Option<String>,
    /// The file for the record of the match. None means no record.
    pub record: Option<std::path::PathBuf>,
}

/// Why the server cannot run.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The socket failed.
    #[error("listen: {0}")]
    Listen(#[from] UdpError),
    /// The second handle of the socket, for answers, failed.
    #[error("listen: {0}")]
    Answers(io::Error),
    /// The workers could not start.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// The telemetry page could not be created.
    #[error("keep a page of figures: {0}")]
    Page(#[from] PageError),
    /// The tick rate is invalid.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The ticks could not be spread among those of other sessions.
    #[error("spread the ticks among those of other sessions: {0}")]
    Phases(#[from] PhaseError),
    /// The file of the record could not be written.
    #[error("record the match to {path}: {source}")]
    Record {
        /// The path.
        path: std::path::PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A thread other than the tick thread could not start.
    #[error("start the {name} thread: {source}")]
    Thread {
        /// The thread.
        name: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl ServerConfig {
    /// The parameters of the match that the server plays.
    pub(super) fn sim(&self) -> SimConfig {
        SimConfig { seed: self.seed, tick_hz: self.tick_hz, slots: self.players.into() }
    }
}
