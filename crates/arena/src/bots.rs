//! Bots: one thread plays them all, a socket each, and a probe beside them times round trips.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use thiserror::Error;

use crate::client::{JoinError, Joined, join};
use crate::clock::{Rhythm, SECOND_NS, Schedule, now_ns, process_cpu_ns, to_timespec};
use crate::console::{Request, answer_waiting};
use crate::control::{Answer, BotsEvent, BotsWindow, Command, FORMAT};
use crate::player::{Bot, BotSeed};
use crate::probe::Probe;
use crate::tally::Tally;
use crate::wire::{FromClient, FromServer, MAX_DATAGRAM_BYTES};

/// Longest wait before commands and the end are looked at again.
const MAX_WAIT_NS: u64 = SECOND_NS / 100;
/// Datagrams taken from one socket before the others have their turn.
const MAX_DRAIN: usize = 64;

/// What to play.
#[derive(Debug, Clone, Copy)]
pub struct BotsConfig {
    /// The server.
    pub connect: SocketAddr,
    /// Bots, beside the probe; 1 to 254.
    pub bots: u8,
    /// Inputs a second from each bot, 1 to 200.
    pub input_hz: u16,
    /// Decides all that the bots do.
    pub seed: u64,
    /// How long the probe sleeps after a pong.
    pub probe_gap: Duration,
    /// How long all of them together may take to join.
    pub join_timeout: Duration,
}

/// Why the bots cannot play.
#[derive(Debug, Error)]
pub enum BotsError {
    /// Not all could join in time.
    #[error("{joined} of {wanted} joined: {source}")]
    Join {
        /// How many could.
        joined: usize,
        /// How many should, the probe included.
        wanted: usize,
        /// Why the next one could not.
        source: JoinError,
    },
    /// A socket could not be made non-blocking, or the probe's thread not started.
    #[error("start playing: {0}")]
    Start(std::io::Error),
    /// The kernel refused to wait.
    #[error("wait for datagrams: {0}")]
    Poll(rustix::io::Errno),
}

impl BotsError {
    /// What to announce when the bots end with this error before they play.
    pub fn event(&self) -> BotsEvent {
        let (joined, wanted) = match self {
            Self::Join { joined, wanted, .. } => (*joined, *wanted),
            Self::Start(_) | Self::Poll(_) => (0, 0),
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
    sockets: Vec<UdpSocket>,
    players: Vec<Player>,
}

#[derive(Debug)]
struct Player {
    bot: Bot,
    session: u64,
    sequence: u32,
    last: Option<Arrived>,
    /// Whether a snapshot came in this window.
    heard: bool,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    tick: u32,
    at_ns: u64,
}

impl Bots {
    /// Joins the server with the probe first, then the bots one after the other.
    pub fn join(config: BotsConfig) -> Result<Self, BotsError> {
        let wanted = usize::from(config.bots) + 1;
        let deadline_ns = now_ns() + config.join_timeout.as_nanos() as u64;
        let one =
            |joined| join(config.connect, deadline_ns).map_err(|source| BotsError::Join { joined, wanted, source });
        let probe = one(0)?;
        let tick_hz = probe.tick_hz;
        let (mut sockets, mut players) = (Vec::new(), Vec::new());
        for number in 0..u32::from(config.bots) {
            let joined = one(sockets.len() + 1)?;
            joined.socket.set_nonblocking(true).map_err(BotsError::Start)?;
            let seed = config.seed;
            players.push(Player {
                bot: Bot::new(BotSeed { seed, number }),
                session: joined.session,
                sequence: 0,
                last: None,
                heard: false,
            });
            sockets.push(joined.socket);
        }
        Ok(Self { config, tick_hz, probe, sockets, players })
    }

    /// What to announce.
    pub fn ready(&self) -> BotsEvent {
        BotsEvent::Ready { pid: std::process::id(), bots: self.players.len(), tick_hz: self.tick_hz, format: FORMAT }
    }

    /// Plays until `stop` is set; commands are answered in between.
    pub fn run(self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), BotsError> {
        let probe = Probe::start(self.probe, self.config.probe_gap, Arc::clone(stop)).map_err(BotsError::Start)?;
        let mut game = Game {
            players: self.players,
            window: Window::open(),
            tick_ns: SECOND_NS / u64::from(self.tick_hz.max(1)),
            bytes: Vec::with_capacity(MAX_DATAGRAM_BYTES),
        };
        // Spread evenly over the input period: one schedule serves the bots in turn.
        let inputs_s = u64::from(self.config.input_hz.max(1)) * game.players.len() as u64;
        let mut schedule = Schedule::new(Rhythm { first_ns: now_ns(), period_ns: SECOND_NS / inputs_s.max(1) });
        let mut turn = 0;
        let mut waiting: Vec<_> = self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        discard_backlog(&self.sockets);
        let ended = loop {
            if stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            if now_ns() >= schedule.deadline_ns() {
                game.send_input(&self.sockets, turn);
                // After a pause the inputs that are overdue are left out, and the turns with them.
                let skipped = schedule.advance(now_ns()) as usize;
                turn = (turn + 1 + skipped) % self.sockets.len().max(1);
            }
            answer_waiting(requests, |command| game.answer(command, &probe));
            let wait_ns = schedule.deadline_ns().saturating_sub(now_ns());
            match poll(&mut waiting, Some(&to_timespec(wait_ns.min(MAX_WAIT_NS)))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => break Err(BotsError::Poll(error)),
            }
            for (index, ready) in waiting.iter().enumerate() {
                if !ready.revents().is_empty() {
                    game.receive(&self.sockets, index);
                }
            }
        };
        stop.store(true, Ordering::Relaxed);
        probe.join();
        ended
    }
}

/// What came while the last bots joined is of no window: it would show as intervals of nothing.
fn discard_backlog(sockets: &[UdpSocket]) {
    let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
    for socket in sockets {
        // More than the socket's buffer holds, and a bound should datagrams come as fast as they are read.
        let _ = (0..4_096).take_while(|_| socket.recv(&mut buffer).is_ok()).count();
    }
}

/// The bots as they play.
struct Game {
    players: Vec<Player>,
    window: Window,
    tick_ns: u64,
    bytes: Vec<u8>,
}

impl Game {
    fn send_input(&mut self, sockets: &[UdpSocket], index: usize) {
        let player = &mut self.players[index];
        player.sequence += 1;
        FromClient::Input { session: player.session, sequence: player.sequence, input: player.bot.next_input() }
            .encode(&mut self.bytes);
        // Refused, when the server is gone, shows as silent bots.
        self.window.inputs_sent += u64::from(sockets[index].send(&self.bytes).is_ok());
    }

    fn receive(&mut self, sockets: &[UdpSocket], index: usize) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        for _ in 0..MAX_DRAIN {
            let Ok(length) = sockets[index].recv(&mut buffer) else {
                return;
            };
            let at_ns = now_ns();
            if let Ok(FromServer::Snapshot(snapshot)) = FromServer::parse(&buffer[..length]) {
                let tick = snapshot.tick;
                self.arrived(index, Arrived { tick, at_ns });
            }
        }
    }

    fn arrived(&mut self, index: usize, now: Arrived) {
        let player = &mut self.players[index];
        if let Some(last) = player.last {
            // Overtaken by a later one: of no use to a player, and already counted as lost.
            if now.tick <= last.tick {
                return;
            }
            let interval_ns = now.at_ns - last.at_ns;
            self.window.interval.record_ns(interval_ns);
            self.window.jitter.record_ns(interval_ns.abs_diff(self.tick_ns));
            self.window.snapshots_lost += u64::from(now.tick - last.tick - 1);
        }
        self.window.snapshots += 1;
        player.last = Some(now);
        player.heard = true;
    }

    fn answer(&mut self, command: Command, probe: &Probe) -> Answer {
        match command {
            Command::Window => {
                let heard = |player: &mut Player| std::mem::take(&mut player.heard);
                let silent_bots = self.players.iter_mut().map(heard).filter(|h| !h).count();
                let (round_trip_us, pings_lost) = probe.take();
                Answer::BotsWindow(Box::new(BotsWindow {
                    round_trip_us,
                    pings_lost,
                    silent_bots: silent_bots as u64,
                    ..self.window.close()
                }))
            }
            Command::Stop => Answer::Stopping { stopping: true },
            Command::TimerSlackNs { .. } | Command::DelayUs { .. } => {
                Answer::Error { error: "only the server takes this".to_owned() }
            }
        }
    }
}

struct Window {
    opened_ns: u64,
    opened_cpu_ns: u64,
    interval: Tally,
    jitter: Tally,
    snapshots: u64,
    snapshots_lost: u64,
    inputs_sent: u64,
}

impl Window {
    fn open() -> Self {
        Self {
            opened_ns: now_ns(),
            opened_cpu_ns: process_cpu_ns(),
            interval: Tally::new(),
            jitter: Tally::new(),
            snapshots: 0,
            snapshots_lost: 0,
            inputs_sent: 0,
        }
    }

    /// The numbers so far, without the probe's; from here on they start again.
    fn close(&mut self) -> BotsWindow {
        let (now_ns, cpu_ns) = (now_ns(), process_cpu_ns());
        let window = BotsWindow {
            round_trip_us: crate::control::Quantiles::default(),
            snapshot_interval_us: self.interval.take(),
            snapshot_jitter_us: self.jitter.take(),
            snapshots: std::mem::take(&mut self.snapshots),
            snapshots_lost: std::mem::take(&mut self.snapshots_lost),
            silent_bots: 0,
            pings_lost: 0,
            inputs_sent: std::mem::take(&mut self.inputs_sent),
            cpu_us: (cpu_ns - self.opened_cpu_ns) as f64 / 1_000.0,
            span_us: (now_ns - self.opened_ns) as f64 / 1_000.0,
        };
        (self.opened_ns, self.opened_cpu_ns) = (now_ns, cpu_ns);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_late_and_early_snapshots_are_told_apart() {
        let player =
            Player { bot: Bot::new(BotSeed { seed: 1, number: 1 }), session: 1, sequence: 0, last: None, heard: false };
        let mut game = Game { players: vec![player], window: Window::open(), tick_ns: 20_000, bytes: Vec::new() };
        // (tick, arrival); tick 3 never comes, 5 comes after 6, 6 twice.
        for (tick, at_ns) in [(1, 10_000), (2, 35_000), (4, 70_000), (6, 110_000), (5, 111_000), (6, 112_000)] {
            game.arrived(0, Arrived { tick, at_ns });
        }
        let window = game.window.close();
        assert_eq!((window.snapshots, window.snapshots_lost), (4, 2));
        assert_eq!(window.snapshot_interval_us.count, 3);
        let max_us = window.snapshot_interval_us.max.unwrap();
        assert!((39.9..40.1).contains(&max_us), "{max_us}");
        let jitter_us = window.snapshot_jitter_us.max.unwrap();
        assert!((19.9..20.1).contains(&jitter_us), "{jitter_us}");
        assert!(game.players[0].heard);
    }
}
