//! What it costs to ask for the time. A game server does so thousands of times a tick, and a clock source that leaves user space makes
//! each of them a system call, or a visit to the hypervisor.

use evenkeel_sys::{clock, tsc};
use serde::Serialize;

use crate::{MeterError, Samples, Unit, Watch};

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Calls of each kind.
    pub calls: u64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What one call costs, by kind, in picoseconds.
    pub costs: Vec<Samples>,
}

/// Calls in one batch: a batch is timed as a whole, so that reading the time costs nothing beside it.
const BATCH: u64 = 1000;

/// Measures.
///
/// # Errors
/// None yet.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let kinds: [(&str, fn() -> u64); 2] = [("clock_gettime", clock::monotonic_ns), ("rdtsc", tsc::ticks)];
    let mut costs = Vec::new();
    for (at, (name, call)) in kinds.into_iter().enumerate() {
        watch.progress(at as f64 / kinds.len() as f64, name);
        let mut samples = Samples::new("clock_read_cost_ps", Unit::Ps, [("call", name.to_owned())]);
        for _ in 0..settings.calls / BATCH {
            if watch.stopped() {
                break;
            }
            let start_ns = clock::monotonic_ns();
            for _ in 0..BATCH {
                std::hint::black_box(call());
            }
            samples.record((clock::monotonic_ns() - start_ns) * 1000 / BATCH);
        }
        costs.push(samples);
    }
    Ok(Report { costs })
}
