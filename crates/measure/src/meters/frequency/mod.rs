//! Measures the clock frequency of the CPUs from outside: the cycle counter times a chain of instructions of known length.
//! A guest can rarely read the processor's own counters.
//! The meter also measures what lowers the clock: all CPUs busy, a thread on the same core, vector instructions.

mod chain;
mod counters;
mod settings;
mod siblings;
mod vectors;

use evenkeel_hostfs::Root;
use evenkeel_sys::tsc::Scale;
use serde::Serialize;

pub use chain::{Assumption, Clock};
pub use counters::Counter;
pub use settings::Settings;
pub use siblings::{SiblingPair, Siblings};
pub use vectors::VectorEffect;

use crate::pinned;
use crate::{Lost, MeterError, Watch};

/// The maximum number of CPUs to measure one after another.
const CPUS_MAX: usize = 256;

/// A CPU's clock.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuClock {
    /// The CPU's number.
    pub cpu: usize,
    /// The clock while only this CPU is busy with the meter's threads.
    pub alone: Clock,
    /// The clock while all CPUs are busy. None if this was not measured.
    pub all_busy: Option<Clock>,
}

/// The report of the frequency meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The frequency of the cycle counter: the nominal clock on most machines.
    pub counter_khz: u64,
    /// The assumption behind the clocks below.
    pub assumption: Assumption,
    /// The clock of each CPU that this process may run on.
    pub cpus: Vec<CpuClock>,
    /// The speed of two threads on one core, and on two cores.
    pub siblings: Siblings,
    /// The clock right after vector instructions.
    pub vectors: Vec<VectorEffect>,
    /// CPUs that were not measured.
    pub lost: Lost,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if the process may not run on any CPU, or if the chain's length is unknown for this processor.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let root = Root::live();
    let allowed = pinned::allowed()?;
    let cpus = &allowed[..allowed.len().min(CPUS_MAX)];
    let Some(first) = cpus.first().copied() else {
        return Err(MeterError::not_possible("measure the clock of CPUs", "there is no CPU that we may run on"));
    };
    let scale = Scale::measured();
    let assumption = pinned::on_cpu(first, || Assumption::checked(&scale))?;
    let mut clocks = Vec::new();
    watch.part(0.0, 0.5, |part| -> Result<(), MeterError> {
        for (at, cpu) in cpus.iter().enumerate().take_while(|_| !part.stopped()) {
            part.progress(at as f64 / cpus.len() as f64, "one CPU busy");
            let alone = pinned::on_cpu(*cpu, || Clock::measured(*cpu, "one", settings.each_ns, &scale, part))?;
            clocks.push(CpuClock { cpu: *cpu, alone, all_busy: None });
        }
        Ok(())
    })?;
    watch.progress(0.5, "all CPUs busy");
    let places: Vec<Option<usize>> = cpus.iter().copied().map(Some).collect();
    let all = pinned::at_once(&places, |turn| Clock::measured(cpus[turn], "all", settings.each_ns, &scale, watch))?;
    clocks.iter_mut().zip(all).for_each(|(clock, all_busy)| clock.all_busy = Some(all_busy));
    let siblings = watch.part(0.6, 0.85, |part| siblings::measure(cpus, settings, &scale, &root, part))?;
    let vectors = watch
        .part(0.85, 1.0, |part| pinned::on_cpu(first, || vectors::measure(first, settings.each_ns, &scale, part)))?;
    let unseen = allowed.len() - clocks.len();
    Ok(Report {
        counter_khz: (scale.since().hz() / 1000.0) as u64,
        assumption,
        cpus: clocks,
        siblings,
        vectors,
        lost: Lost::new(unseen as u64, "more CPUs than are measured, or stopped before"),
    })
}
