//! Live checks: measurements of the load generator and the presets, and of real servers if they are installed. They need a quiet CPU.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod command;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod outside;
mod presets;

use evenkeel_testkit::fitness::Needs;

/// Why one of the CPUs is not quiet enough at the moment.
/// The check includes all CPUs, because servers and loads run wherever the kernel puts them.
fn unfit() -> Option<String> {
    let cpus = evenkeel_sys::thread::affinity().unwrap();
    cpus.iter().find_map(|cpu| Needs::on_cpu(cpu).unmet().map(|why| format!("CPU {cpu}: {why}")))
}
