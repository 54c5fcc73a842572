//! Watches without a terminal: takes samples until a signal arrives,
//! and writes them to the outputs that the user named.

use evenkeel_watch::{Collector, Model};

use super::outputs::Outputs;
use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::Outcome;
use crate::show::Out;

/// Takes samples until a signal arrives.
pub(super) fn run(mut collector: Collector, mut outputs: Outputs, out: &Out) -> Outcome {
    let stop = stop_flag()?;
    let warn = |warning: Option<String>| {
        if let Some(warning) = warning {
            out.warn(&format!("warning: {warning}\n"));
        }
    };
    let mut before = collector.sample();
    warn(outputs.store(&before));
    while collector.wait(&stop) {
        let after = collector.sample();
        warn(outputs.store(&after));
        warn(outputs.metrics(&Model::from_samples(&before, &after)));
        before = after;
    }
    Ok(exit::WELL)
}
