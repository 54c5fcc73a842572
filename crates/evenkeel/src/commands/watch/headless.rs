//! Watches without a terminal: samples until a signal, written where the user named.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_sys::clock;
use evenkeel_watch::{Collector, Model};

use super::outputs::Outputs;
use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::Outcome;
use crate::show::Out;

/// How long to sleep between checks for a stop.
const NAP_NS: u64 = 50_000_000;

/// Samples until a signal.
pub(super) fn run(mut collector: Collector, mut outputs: Outputs, out: &Out) -> Outcome {
    let stop = stop_flag()?;
    let warn = |warning: Option<String>| {
        if let Some(warning) = warning {
            out.warn(&format!("warning: {warning}\n"));
        }
    };
    let mut before = collector.sample();
    warn(outputs.store(&before));
    while wait(&collector, &stop) {
        let after = collector.sample();
        warn(outputs.store(&after));
        warn(outputs.metrics(&Model::from_samples(&before, &after)));
        before = after;
    }
    Ok(exit::WELL)
}

/// Sleeps until the next sample is due; whether it is, rather than a stop requested.
pub(super) fn wait(collector: &Collector, stop: &AtomicBool) -> bool {
    let due_ns = collector.due_ns().unwrap_or(0);
    loop {
        let now_ns = clock::monotonic_ns();
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if now_ns >= due_ns {
            return true;
        }
        clock::sleep_until_ns_or_signal(due_ns.min(now_ns.saturating_add(NAP_NS)));
    }
}
