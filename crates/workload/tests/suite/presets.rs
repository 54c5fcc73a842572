//! What holds for every preset, whether its server is installed or not. What the servers do is measured in `tests/live/presets.rs`.

use evenkeel_workload::ALL;

#[test]
fn what_is_missing_names_the_command_that_installs_it() {
    for entry in ALL.iter().filter(|entry| entry.install.is_some()) {
        let install = entry.install.unwrap();
        assert!(install.starts_with("apt-get install --no-install-recommends "), "{}: {install}", entry.name);
    }
}
