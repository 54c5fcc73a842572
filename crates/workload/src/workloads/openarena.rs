//! OpenArena's server (with the engine of Quake III).
//! Bots play in the server itself, so the server has real work in each tick without a client.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Entry, number, unknown};
use crate::error::WorkloadError;
use crate::kit::game::{CPU, Game, Preset};
use crate::source::outside_ticks;

const INSTALL: &str = "apt-get install --no-install-recommends openarena-server";
const BOTS_MAX: u32 = 16;
/// The names of the bots, which are characters of the game.
const NAMES: [&str; 4] = ["sarge", "grism", "kyonshi", "major"];

/// The registry entry of OpenArena.
pub(super) const ENTRY: Entry = Entry {
    name: "openarena",
    title: "OpenArena's game server on loopback with bots that play in it, observed from outside",
    install: Some(INSTALL),
    settings: &[("fps=20", "ticks a second, 10 to 125; the server rounds their length to whole milliseconds")],
    metrics: &[outside_ticks::METRICS, &[CPU]],
    start: |options| {
        let mut fps = 20_u32;
        for (name, value) in &options.set {
            match name.as_str() {
                "fps" => fps = number(name, value, 10..=125)?,
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        let bots = options.players.unwrap_or(8);
        if bots == 0 || bots > BOTS_MAX {
            return Err(WorkloadError::Options(format!("{bots} players: openarena takes 1 to {BOTS_MAX} bots")));
        }
        Ok(Box::new(Game::start(Preset {
            name: "openarena",
            program: "ioq3ded",
            install: INSTALL,
            ready: "entered the game",
            // The bots join during the first seconds.
            settle: Duration::from_secs(3),
            arguments: Box::new(move |_, address| {
                let (ip, port) = (address.ip().to_string(), address.port().to_string());
                let (fps, clients) = (fps.to_string(), (bots + 2).to_string());
                // Debian's start script sets the first five of these.
                let variables = [
                    ("com_basegame", "baseoa"),
                    ("fs_basepath", "/usr/lib/openarena-server"),
                    ("com_homepath", ".openarena"),
                    ("com_legacyprotocol", "71"),
                    ("com_protocol", "71"),
                    // The value 1 means a server for the local network, which does not register in a public list.
                    ("dedicated", "1"),
                    ("net_enabled", "1"),
                    ("net_ip", &ip),
                    ("net_port", &port),
                    ("ttycon", "0"),
                    ("cl_motd", "0"),
                    ("sv_fps", &fps),
                    ("sv_maxclients", &clients),
                    ("bot_enable", "1"),
                    ("timelimit", "0"),
                    ("fraglimit", "0"),
                ];
                let set = variables.iter().flat_map(|(name, value)| ["+set", name, value]).map(str::to_owned);
                let map = ["+map", "oa_dm1"].map(str::to_owned);
                let bots = NAMES.iter().cycle().take(bots as usize);
                let bots = bots.flat_map(|name| ["+addbot", name, "3"]).map(str::to_owned);
                Ok(set.chain(map).chain(bots).collect())
            }),
            content: format!("{bots} bots that play inside it, {fps} ticks a second"),
            players: None,
            placement: options.placement,
            stop: Arc::clone(&options.stop),
        })?))
    },
};
