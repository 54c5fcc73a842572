//! The bots. One thread plays them all, each with its own socket. A separate probe measures round trips.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use evenkeel_rt::{Align, Spinning, ThreadConfig, TickClock, TickError, TickSettings, TickThread};
use rustix::event::{PollFd, PollFlags, poll};
use thiserror::Error;

use crate::bots::play::{Play, Player};
use crate::console::{Request, answer_waiting};
use crate::control::{BotsEvent, FORMAT};
use crate::game::bot::BotSeed;
use crate::game::map::GameMap;
use crate::net::client::{JoinError, Joined, join};
use crate::net::wire::MAX_DATAGRAM_BYTES;
use crate::probe::Probe;
use crate::time::{SECOND_NS, now_ns, to_timespec};

mod play;
mod window;

/// The maximum wait before the next check for commands and for the end.
const MAX_WAIT_NS: u64 = SECOND_NS / 100;

/// The bots' configuration.
#[derive(Debug, Clone, Copy)]
pub struct BotsConfig {
    /// The server.
    pub connect: SocketAddr,
    /// Bots, not counting the probe; 1 to 254.
    pub bots: u8,
    /// Inputs per second from each bot, 1 to 200.
    pub input_hz: u16,
    /// The seed of everything that the bots do.
    pub seed: u64,
    /// The real-time priority of the thread that plays the bots, 1 to 99. None means an ordinary thread.
    pub fifo: Option<u8>,
    /// How long the probe sleeps after a pong.
    pub probe_gap: Duration,
    /// How long all bots and the probe may take to join.
    pub join_timeout: Duration,
}

/// Why the bots cannot play.
#[derive(Debug, Error)]
pub enum BotsError {
    /// Not all bots and the probe joined in time.
    #[error("{joined} of {wanted} joined: {source}")]
    Join {
        /// How many bots joined, including the probe.
        joined: usize,
        /// How many bots should join, including the probe.
        wanted: usize,
        /// Why the next bot could not join.
        source: JoinError,
    },
    /// A socket could not be made non-blocking, or the probe's thread could not start.
    #[error("start playing: {0}")]
    Start(std::io::Error),
    /// The input rate is invalid.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The kernel refused to wait.
    #[error("wait for datagrams: {0}")]
    Poll(rustix::io::Errno),
}

impl BotsError {
    /// The event to announce when the bots end with this error before they play.
    pub fn event(&self) -> BotsEvent {
        let (joined, wanted) = match self {
            Self::Join { joined, wanted, .. } => (*joined, *wanted),
            Self::Start(_) | Self::Tick(_) | Self::Poll(_) => (0, 0),
        };
        BotsEvent::Failed { joined, wanted, error: self.to_string(), format: FORMAT }
    }
}

/// Bots that have joined and wait to play.
#[derive(Debug)]
pub struct Bots {
    config: BotsConfig,
    tick_hz: u16,
    probe: Joined,
    map_seed: u64,
    sockets: Vec<UdpSocket>,
    players: Vec<Player>,
}

impl Bots {
    /// Joins the server: first the probe, then the bots one after the other.
    pub fn join(config: BotsConfig) -> Result<Self, BotsError> {
        let wanted = usize::from(config.bots) + 1;
        let deadline_ns = now_ns() + config.join_timeout.as_nanos() as u64;
        let one =
            |joined| join(config.connect, deadline_ns).map_err(|source| BotsError::Join { joined, wanted, source });
        let probe = one(0)?;
        let (tick_hz, map_seed) = (probe.tick_hz, probe.seed);
        let (mut sockets, mut players) = (Vec::new(), Vec::new());
        for number in 0..u32::from(config.bots) {
            let joined = one(sockets.len() + 1)?;
            joined.socket.set_nonblocking(true).map_err(BotsError::Start)?;
            players.push(Player::new(BotSeed { seed: config.seed, number }, &joined));
            sockets.push(joined.socket);
        }
        Ok(Self { config, tick_hz, probe, map_seed, sockets, players })
    }

    /// The event to announce.
    pub fn ready(&self) -> BotsEvent {
        BotsEvent::Ready { pid: std::process::id(), bots: self.players.len(), tick_hz: self.tick_hz, format: FORMAT }
    }

    /// Plays until `stop` is set. Commands are answered in between.
    pub fn run(self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), BotsError> {
        let probe = Probe::start(self.probe, self.config.probe_gap, Arc::clone(stop)).map_err(BotsError::Start)?;
        // Without this, bots on a busy machine would measure how late the scheduler runs them.
        let _thread = TickThread::set_up(&ThreadConfig { fifo: self.config.fifo, ..ThreadConfig::default() });
        let map = GameMap::new(self.map_seed);
        let mut play = Play::new(map, self.players, SECOND_NS / u64::from(self.tick_hz.max(1)));
        // Spread the bots evenly over the input period: one clock serves them in turn.
        let count = self.sockets.len().max(1);
        let inputs_s = u64::from(self.config.input_hz.max(1)) * count as u64;
        let period = Duration::from_nanos(SECOND_NS / inputs_s);
        let mut clock = TickClock::start(TickSettings {
            period,
            spinning: Spinning::Never,
            align: Align::Never,
            ..TickSettings::default()
        })?;
        let mut waiting: Vec<_> = self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        discard_backlog(&self.sockets);
        let ended = loop {
            if stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            if now_ns() >= clock.next_due_ns() {
                // After a pause, the bots skip overdue inputs, and each skipped input also skips its bot's turn.
                let turn = clock.wait().number as usize % count;
                play.send_input(&self.sockets, turn);
                clock.done();
            }
            answer_waiting(requests, |command| play.answer(command, &probe));
            let wait_ns = clock.next_due_ns().saturating_sub(now_ns());
            match poll(&mut waiting, Some(&to_timespec(wait_ns.min(MAX_WAIT_NS)))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => break Err(BotsError::Poll(error)),
            }
            for (index, ready) in waiting.iter().enumerate() {
                if !ready.revents().is_empty() {
                    play.receive(&self.sockets, index, probe.server_ahead_ns());
                }
            }
        };
        stop.store(true, Ordering::Relaxed);
        probe.join();
        ended
    }
}

/// Drops datagrams that arrived while the last bots joined. They belong to no window, and would show as intervals of zero length.
fn discard_backlog(sockets: &[UdpSocket]) {
    let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
    for socket in sockets {
        // This number is larger than what the socket's buffer holds. It ends the loop if datagrams arrive as fast as they are read.
        let _ = (0..4_096).take_while(|_| socket.recv(&mut buffer).is_ok()).count();
    }
}
