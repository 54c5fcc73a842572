//! Live checks: what the load generator and the presets measure, and real servers where they are installed. They need a quiet CPU.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod command;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod outside;
mod presets;

use evenkeel_testkit::fitness::Needs;

/// What one of the CPUs lacks at the moment: servers and loads run where the kernel puts them.
fn unfit() -> Option<String> {
    let cpus = evenkeel_sys::thread::affinity().unwrap();
    cpus.iter().find_map(|cpu| Needs::on_cpu(cpu).unmet().map(|why| format!("CPU {cpu}: {why}")))
}
