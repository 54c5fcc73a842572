//! The bots as they play: passes received snapshots to them, sends their inputs, and counts what players would notice.

use std::net::UdpSocket;

use crate::bots::window::Window;
use crate::control::{Answer, BotsWindow, Command};
use crate::game::bot::{Bot, BotSeed, Shown};
use crate::game::map::GameMap;
use crate::game::path::Paths;
use crate::net::client::Joined;
use crate::net::mirror::Mirror;
use crate::net::snapshot::Packed;
use crate::net::wire::{FromClient, FromServer, MAX_DATAGRAM_BYTES};
use crate::probe::Probe;
use crate::time::now_ns;

/// How many datagrams to read from one socket before the others get their turn.
const MAX_DRAIN: usize = 64;
/// For how many inputs to remember the send time: more than two seconds at 30 per second.
const INPUTS_KEPT: usize = 64;

/// One bot with its place in the match.
#[derive(Debug)]
pub(super) struct Player {
    bot: Bot,
    number: u8,
    session: u64,
    sequence: u32,
    sent_ns: [u64; INPUTS_KEPT],
    /// The sequence number of the player's newest input that a snapshot contained.
    answered: u32,
    mirror: Mirror,
    last: Option<Arrived>,
    /// Whether a snapshot arrived in this window.
    heard: bool,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    tick: u32,
    at_ns: u64,
}

impl Player {
    pub(super) fn new(seed: BotSeed, joined: &Joined) -> Self {
        Self {
            bot: Bot::new(seed),
            number: joined.player,
            session: joined.session,
            sequence: 0,
            sent_ns: [0; INPUTS_KEPT],
            answered: 0,
            mirror: Mirror::default(),
            last: None,
            heard: false,
        }
    }
}

/// All bots.
pub(super) struct Play {
    map: GameMap,
    paths: Paths,
    players: Vec<Player>,
    window: Window,
    tick_ns: u64,
    bytes: Vec<u8>,
}

impl Play {
    pub(super) fn new(map: GameMap, players: Vec<Player>, tick_ns: u64) -> Self {
        Self {
            map,
            paths: Paths::default(),
            players,
            window: Window::open(),
            tick_ns,
            bytes: Vec::with_capacity(MAX_DATAGRAM_BYTES),
        }
    }

    pub(super) fn send_input(&mut self, sockets: &[UdpSocket], index: usize) {
        let player = &mut self.players[index];
        player.sequence += 1;
        let (entities, view) = match player.mirror.shown() {
            Some((snapshot, view)) => (&snapshot.entities[..], view),
            None => (&[][..], Default::default()),
        };
        let shown = Shown { player: player.number, entities, view };
        let input = player.bot.next_input(&self.map, &mut self.paths, shown);
        let (session, sequence, ack) = (player.session, player.sequence, player.mirror.ack());
        FromClient::Input { session, sequence, ack, input }.encode(&mut self.bytes);
        player.sent_ns[sequence as usize % INPUTS_KEPT] = now_ns();
        // If the server is gone, the kernel refuses the send, and the window counts silent bots.
        self.window.inputs_sent += u64::from(sockets[index].send(&self.bytes).is_ok());
    }

    /// Handles the datagrams for one bot. `server_ahead_ns` is how far the server's clock is ahead of this machine's, if known.
    pub(super) fn receive(&mut self, sockets: &[UdpSocket], index: usize, server_ahead_ns: Option<i64>) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        for _ in 0..MAX_DRAIN {
            let Ok(length) = sockets[index].recv(&mut buffer) else {
                return;
            };
            let at_ns = now_ns();
            if let Ok(FromServer::Snapshot(packed)) = FromServer::parse(&buffer[..length]) {
                self.window.snapshot_bytes += length as u64;
                self.arrived(index, &packed, at_ns);
                if let Some(ahead_ns) = server_ahead_ns {
                    let server_us = (at_ns.saturating_add_signed(ahead_ns) / 1_000) as u32;
                    // If a clock is slightly off, a snapshot may seem to arrive before it was made.
                    let age_us = server_us.wrapping_sub(packed.head.due_us) as i32;
                    self.window.age.record_ns(age_us.max(0) as u64 * 1_000);
                }
            }
        }
    }

    fn arrived(&mut self, index: usize, packed: &Packed<'_>, at_ns: u64) {
        let (player, window) = (&mut self.players[index], &mut self.window);
        match player.mirror.take_in(packed) {
            Ok(true) => {}
            // A later snapshot has overtaken this one. A player cannot use it, and it already counts as lost.
            Ok(false) => return,
            Err(_) => {
                window.snapshots_unreadable += 1;
                return;
            }
        }
        let now = Arrived { tick: packed.head.tick, at_ns };
        if let Some(last) = player.last {
            let interval_ns = now.at_ns - last.at_ns;
            window.interval.record_ns(interval_ns);
            window.jitter.record_ns(interval_ns.abs_diff(self.tick_ns));
            window.snapshots_lost += u64::from(now.tick.wrapping_sub(last.tick).saturating_sub(1));
        }
        window.snapshots += 1;
        (player.last, player.heard) = (Some(now), true);
        let answered = packed.head.input_sequence;
        if answered > player.answered && player.sequence - answered.min(player.sequence) < INPUTS_KEPT as u32 {
            let sent_ns = player.sent_ns[answered as usize % INPUTS_KEPT];
            window.input_to_snapshot.record_ns(at_ns.saturating_sub(sent_ns));
            player.answered = answered;
        }
        if let Some(shot) = packed.head.shot {
            window.shots += 1;
            window.shots_hit += u64::from(shot.hit);
            window.shots_too_old += u64::from(shot.too_old);
            window.rewound.record_ns(u64::from(shot.rewound) * self.tick_ns / 256);
        }
    }

    pub(super) fn answer(&mut self, command: Command, probe: &Probe) -> Answer {
        match command {
            Command::Window => {
                let heard = |player: &mut Player| std::mem::take(&mut player.heard);
                let silent_bots = self.players.iter_mut().map(heard).filter(|heard| !heard).count();
                let (round_trip_us, pings_lost) = probe.take();
                Answer::BotsWindow(Box::new(BotsWindow {
                    round_trip_us,
                    pings_lost,
                    silent_bots: silent_bots as u64,
                    ..self.window.close()
                }))
            }
            Command::Stop => Answer::Stopping { stopping: true },
            Command::TimerSlackNs { .. }
            | Command::DelayUs { .. }
            | Command::WorkUs { .. }
            | Command::TailUs { .. } => Answer::Error { error: "only the server takes this".to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::snapshot::{Head, Shot, Snapshot};
    use crate::net::wire::encode_snapshot;

    #[test]
    fn lost_late_and_early_snapshots_are_counted_separately() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let joined = Joined { socket, session: 1, player: 0, tick_hz: 50, seed: 1 };
        let mut player = Player::new(BotSeed { seed: 1, number: 1 }, &joined);
        (player.sequence, player.sent_ns[7], player.sent_ns[8]) = (8, 5_000, 20_000);
        let mut play = Play::new(GameMap::new(1), vec![player], 20_000);
        // (tick, arrival, newest input in it). Tick 3 never arrives, 5 arrives after 6, and 6 arrives twice.
        for (tick, at_ns, input_sequence) in
            [(1, 10_000, 0), (2, 35_000, 7), (4, 70_000, 7), (6, 110_000, 8), (5, 111_000, 7), (6, 112_000, 8)]
        {
            let shot = (tick == 4).then_some(Shot { rewound: 512, too_old: false, hit: true });
            let head = Head { tick, input_sequence, shot, ..Head::default() };
            let mut bytes = Vec::new();
            encode_snapshot(&Snapshot { head, entities: Vec::new() }, None, &mut bytes);
            let Ok(FromServer::Snapshot(packed)) = FromServer::parse(&bytes) else { panic!() };
            play.arrived(0, &packed, at_ns);
        }
        let window = play.window.close();
        assert_eq!((window.snapshots, window.snapshots_lost), (4, 2));
        let near = |got: Option<f64>, want: f64| (got.unwrap() - want).abs() < 0.1;
        assert_eq!(window.snapshot_interval_us.count, 3);
        assert!(near(window.snapshot_interval_us.max, 40.0) && near(window.snapshot_jitter_us.max, 20.0));
        assert_eq!(window.input_to_snapshot_us.count, 2);
        assert!(near(window.input_to_snapshot_us.max, 90.0), "{window:?}");
        assert_eq!((window.shots, window.shots_hit, window.shots_too_old), (1, 1, 0));
        assert!(near(window.rewound_us.max, 40.0), "{window:?}");
        assert!(play.players[0].heard);
    }
}
