//! DDNet's server, of the family of Teeworlds, which ticks 50 times a second. Nobody plays: players would need a client of its protocol.

use std::time::Duration;

use crate::workload::game::{Game, Preset};
use crate::workload::{Entry, unknown};

const INSTALL: &str = "apt-get install --no-install-recommends ddnet-server";

/// The server by its name.
pub(super) const ENTRY: Entry = Entry {
    name: "ddnet",
    title: "DDNet's game server on loopback, without players: only what is seen from outside",
    install: Some(INSTALL),
    settings: &[],
    start: |options| {
        if let Some(name) = options.set.keys().next() {
            return Err(unknown("ddnet", name));
        }
        Ok(Box::new(Game::start(Preset {
            name: "ddnet",
            program: "DDNet-Server",
            install: INSTALL,
            // Printed once it listens.
            ready: "rcon password",
            settle: Duration::ZERO,
            arguments: Box::new(|_, address| {
                let commands = [
                    format!("bindaddr {}", address.ip()),
                    format!("sv_port {}", address.port()),
                    "sv_ipv4only 1".to_owned(),
                    // No word to the list of servers.
                    "sv_register 0".to_owned(),
                    // A snapshot each tick instead of each second one.
                    "sv_high_bandwidth 1".to_owned(),
                ];
                Ok(commands.to_vec())
            }),
            content: "50 ticks a second, nobody plays".to_owned(),
            placement: options.placement,
        })?))
    },
};
