//! memcached under evenkeel's own load: reads and writes of values in its text protocol.

use std::sync::Arc;

use evenkeel_sys::process;

use crate::entry::{Entry, number};
use crate::kit::serving::{METRICS, Preset, Serving};
use crate::load::{COMMON, Memcached, Settings};

const INSTALL: &str = "apt-get install --no-install-recommends memcached";
/// The memory in MiB that memcached itself needs, including unused parts of slabs.
const MEMORY_MIB_MIN: u64 = 64;

/// The registry entry of memcached.
pub(super) const ENTRY: Entry = Entry {
    name: "memcached",
    title: "memcached on loopback with a load of its own, in an open or a closed loop",
    install: Some(INSTALL),
    settings: &[
        COMMON[0],
        COMMON[1],
        COMMON[2],
        COMMON[3],
        COMMON[4],
        COMMON[5],
        COMMON[6],
        ("threads=1", "memcached's own threads, 1 to 64"),
    ],
    metrics: &[METRICS],
    start: |options| {
        let mut load = Settings::usual(options)?;
        let mut threads = 1_u32;
        load.take_all(&ENTRY, options, &mut |name, value| {
            (name == "threads").then(|| number(name, value, 1..=64).map(|wanted| threads = wanted))
        })?;
        let data = load.dataset()?;
        // Take twice the size of the values, because each slab has values of similar sizes, and memcached must not evict a value.
        let memory_mib = MEMORY_MIB_MIN + 2 * (data.bytes() + 100 * u64::from(data.keys())) / (1 << 20);
        let content = format!("{}; {threads} threads of its own", load.values_in_words());
        let connections = load.connections;
        Ok(Box::new(Serving::start(Preset {
            name: "memcached",
            program: "memcached",
            version: "-V",
            install: INSTALL,
            arguments: Box::new(move |_, address| {
                let mut arguments = vec![
                    format!("--listen={}", address.ip()),
                    format!("--port={}", address.port()),
                    "--udp-port=0".to_owned(),
                    format!("--threads={threads}"),
                    format!("--memory-limit={memory_mib}"),
                    format!("--conn-limit={}", connections + 64),
                ];
                if process::is_root() {
                    // Without this option, memcached refuses to run as root.
                    arguments.push("--user=root".to_owned());
                }
                Ok(arguments)
            }),
            protocol: Arc::new(Memcached { data }),
            load,
            content,
            placement: options.placement,
            stop: Arc::clone(&options.stop),
        })?))
    },
};
