//! The cost of reading the time, and whether the clocks of all CPUs agree.
//! A game server reads the time thousands of times per tick.
//! With a clock source that the vDSO cannot read, each call is a system call or even an exit to the hypervisor.

mod across;
mod costs;
mod report;
mod skipped;
mod sources;

use evenkeel_hostfs::Root;
use evenkeel_sys::tsc;

use crate::{MeterError, Watch};
pub use across::{Across, Apart, Counter};
pub use report::{ClockPath, Report, Source};
pub use skipped::Skipped;
pub use sources::Sources;
use sources::Switching;

/// The settings of the clock meter.
#[derive(Debug)]
pub struct Settings {
    /// The number of calls of each kind under each clock source.
    pub calls: u64,
    /// The clock sources to measure.
    pub sources: Sources,
    /// The maximum number of CPUs to compare with the first CPU.
    pub cpus_max: usize,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if another clock source cannot be set, or if the original clock source cannot be restored.
pub fn run(settings: Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let root = Root::live();
    let scale = tsc::Scale::measured();
    let (calls, cpus_max) = (settings.calls, settings.cpus_max);
    let across = watch.part(0.0, 0.2, |watch| across::compare(cpus_max, &scale, watch));
    let switching = Switching::begin(&root, settings.sources);
    let mut report = Report {
        source: switching.before.clone(),
        offered: switching.offered.clone(),
        sources: Vec::new(),
        skipped: Vec::new(),
        disturbed: Vec::new(),
        counter_hz: 0.0,
        across,
    };
    let switched = watch.part(0.2, 1.0, |watch| switching.measure(calls, &scale, &mut report, watch));
    report.counter_hz = scale.since().hz();
    switched.map(|()| report)
}
