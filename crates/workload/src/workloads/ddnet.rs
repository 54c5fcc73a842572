//! The server of DDNet, a game of the Teeworlds family, with players that move in the game. The server has 50 ticks per second.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Entry, unknown};
use crate::error::WorkloadError;
use crate::kit::game::{CPU, Game, PLAYED, Players, Preset};
use crate::source::outside_ticks;

const INSTALL: &str = "apt-get install --no-install-recommends ddnet-server";
/// The maximum number of players that the server accepts.
const PLAYERS_MAX: u32 = 64;
const PLAYERS: u32 = 16;

/// The registry entry of the server.
pub(super) const ENTRY: Entry = Entry {
    name: "ddnet",
    title: "DDNet's game server on loopback with players who walk about, jump and hook, as they and the kernel see it",
    install: Some(INSTALL),
    settings: &[],
    metrics: &[&PLAYED, outside_ticks::METRICS, &[CPU]],
    start: |options| {
        if let Some(name) = options.set.keys().next() {
            return Err(unknown(&ENTRY, name));
        }
        let count = options.players.unwrap_or(PLAYERS);
        if count > PLAYERS_MAX {
            return Err(WorkloadError::Options(format!("{count} players: ddnet takes 0 to {PLAYERS_MAX}")));
        }
        Ok(Box::new(Game::start(Preset {
            name: "ddnet",
            program: "DDNet-Server",
            install: INSTALL,
            // The server prints this when it listens.
            ready: "rcon password",
            settle: Duration::ZERO,
            arguments: Box::new(|_, address| {
                let commands = [
                    format!("bindaddr {}", address.ip()),
                    format!("sv_port {}", address.port()),
                    "sv_ipv4only 1".to_owned(),
                    // Do not register in the public list of servers.
                    "sv_register 0".to_owned(),
                    // Send a snapshot in every tick instead of every second tick.
                    "sv_high_bandwidth 1".to_owned(),
                    // A small map with abysses, on which players meet. The default map is a tutorial.
                    "sv_map dm1".to_owned(),
                    // All players have the same address and join at the same time.
                    format!("sv_max_clients {PLAYERS_MAX}"),
                    format!("sv_max_clients_per_ip {PLAYERS_MAX}"),
                    "sv_connlimit 1000".to_owned(),
                    "sv_vanilla_antispoof 0".to_owned(),
                ];
                Ok(commands.to_vec())
            }),
            content: match count {
                0 => "50 ticks a second, no players".to_owned(),
                1 => "50 ticks a second, 1 player with an input and a ping in each".to_owned(),
                _ => format!("50 ticks a second, {count} players with an input and a ping in each"),
            },
            players: (count > 0).then_some(Players { count, seed: options.seed }),
            placement: options.placement,
            stop: Arc::clone(&options.stop),
        })?))
    },
};
