//! The workloads. Each workload has its own file, and an entry in [`ALL`].

use crate::entry::Entry;

pub mod arena;
pub mod command;
mod ddnet;
mod drain;
mod memcached;
mod mosquitto;
mod nginx;
mod openarena;
mod outside;
mod redis;
mod simulated;
mod telemetry;
mod tick;
mod udp_echo;

/// All workloads, in the order of the help.
pub const ALL: &[Entry] = &[
    arena::ENTRY,
    udp_echo::ENTRY,
    tick::ENTRY,
    drain::ENTRY,
    telemetry::ENTRY,
    command::ENTRY,
    outside::ENTRY,
    memcached::ENTRY,
    redis::ENTRY,
    nginx::ENTRY,
    mosquitto::ENTRY,
    ddnet::ENTRY,
    openarena::ENTRY,
    simulated::ENTRY,
];

/// The workload with this name, if there is one.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::clock::SimulatedMachine;
    use crate::entry::Options;
    use crate::placement::Placement;

    #[test]
    fn a_setting_that_a_workload_does_not_have_is_named() {
        let mut options = Options {
            programs: PathBuf::new(),
            seed: 1,
            players: None,
            placement: Placement::Free,
            command: Vec::new(),
            set: BTreeMap::from([("colour".to_owned(), "red".to_owned())]),
            stop: Arc::default(),
            tick_function: None,
            simulated: SimulatedMachine::default(),
        };
        for entry in ALL {
            let message = (entry.start)(&options).err().map(|error| error.to_string()).unwrap();
            assert!(
                message.starts_with("read the options of the workload: set colour: the workload "),
                "{}: {message}",
                entry.name
            );
        }
        options.set = BTreeMap::from([("tick-hz".to_owned(), "5".to_owned())]);
        let message = (arena::ENTRY.start)(&options).err().map(|error| error.to_string()).unwrap();
        assert_eq!(message, "set tick-hz=5: expected a whole number from 10 to 500");
    }
}
