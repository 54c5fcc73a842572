//! Rules for every preset, whether its server is installed or not. `tests/live/presets.rs` measures the servers.

use evenkeel_workload::ALL;

#[test]
fn a_missing_package_names_its_install_command() {
    for entry in ALL.iter().filter(|entry| entry.install.is_some()) {
        let install = entry.install.unwrap();
        assert!(install.starts_with("apt-get install --no-install-recommends "), "{}: {install}", entry.name);
    }
}
