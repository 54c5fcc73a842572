//! Redis under evenkeel's own load: reads and writes of values, without writing to disk.

use std::sync::Arc;

use crate::entry::Entry;
use crate::kit::serving::{METRICS, Preset, Serving};
use crate::load::{COMMON, Redis, Settings};

const INSTALL: &str = "apt-get install --no-install-recommends redis-server";

/// The registry entry of Redis.
pub(super) const ENTRY: Entry = Entry {
    name: "redis",
    title: "Redis on loopback with a load of its own, in an open or a closed loop; nothing goes to disk",
    install: Some(INSTALL),
    settings: COMMON,
    metrics: &[METRICS],
    start: |options| {
        let mut load = Settings::usual(options)?;
        load.take_all(&ENTRY, options, &mut |_, _| None)?;
        let data = load.dataset()?;
        let content = load.values_in_words();
        Ok(Box::new(Serving::start(Preset {
            name: "redis",
            program: "redis-server",
            version: "--version",
            install: INSTALL,
            arguments: Box::new(|folder, address| {
                let (ip, port, folder) =
                    (address.ip().to_string(), address.port().to_string(), folder.display().to_string());
                let pairs = [
                    ("--bind", ip.as_str()),
                    ("--port", &port),
                    ("--dir", &folder),
                    // Use no snapshots and no append-only file, because their writes to disk would cause pauses.
                    ("--save", ""),
                    ("--appendonly", "no"),
                    ("--daemonize", "no"),
                    ("--maxclients", "1000"),
                ];
                Ok(pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect())
            }),
            protocol: Arc::new(Redis { data }),
            load,
            content,
            placement: options.placement,
            stop: Arc::clone(&options.stop),
        })?))
    },
};
