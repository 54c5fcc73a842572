//! What it costs to ask for the time, and whether all CPUs tell the same. A game server asks thousands of times a tick, and a clock
//! source that the vDSO can't read makes each of them a system call, or a visit to the hypervisor.

mod across;
mod costs;
mod sources;

use evenkeel_hostfs::Root;
use evenkeel_sys::asking::{self, Call};
use evenkeel_sys::{Errno, tsc};
use serde::Serialize;

use crate::{Keeper, MeterError, Samples, Watch};
pub use across::{Across, Apart, Counter};
use sources::Switching;

/// How to measure.
#[derive(Debug)]
pub struct Settings {
    /// Calls of each kind, under each clock source.
    pub calls: u64,
    /// Which clock sources.
    pub sources: Sources,
    /// How many CPUs at the most are compared with the first.
    pub cpus_max: usize,
}

/// Which clock sources are measured.
#[derive(Debug)]
pub enum Sources {
    /// The one that is in use.
    Current,
    /// Every one on offer: the machine is switched from one to the other in turns, and put back, which the keeper
    /// sees to.
    Each(Box<dyn Keeper>),
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The clock source in use, as the kernel names it; none where it does not tell.
    pub source: Option<String>,
    /// Those on offer, in the kernel's order.
    pub offered: Vec<String>,
    /// The source in use first, then the others that were measured.
    pub sources: Vec<Source>,
    /// Sources on offer that were to be measured and were not.
    pub skipped: Vec<Skipped>,
    /// What somebody else changed meanwhile, in words. The numbers are then of more than one source.
    pub disturbed: Vec<String>,
    /// The cycle counter's frequency, measured against the monotonic clock.
    pub counter_hz: f64,
    /// The first CPU's clocks against the others'.
    pub across: Across,
}

/// What was seen under one clock source.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// The kernel's name of it; none where it does not tell.
    pub source: Option<String>,
    /// How `clock_gettime` is answered.
    pub clock_gettime: Way,
    /// How `gettimeofday` is answered.
    pub gettimeofday: Way,
    /// What one call costs, by kind, in picoseconds.
    pub costs: Vec<Samples>,
    /// What 100 million calls of `gettimeofday` in a row take, by the median cost, in seconds.
    pub loop_100m_s: Option<f64>,
    /// The same as a multiple of the source in use.
    pub loop_ratio: Option<f64>,
}

/// How a call is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// In the vDSO, without the kernel.
    UserSpace,
    /// By a system call.
    SystemCall,
    /// Not known, and why.
    Unknown(String),
}

/// What was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Measures.
///
/// # Errors
/// If another clock source can't be set, or what was set can't be put back.
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

/// How a call is answered under the source in use.
fn way(call: Call) -> Way {
    match asking::enters_the_kernel(call) {
        Ok(true) => Way::SystemCall,
        Ok(false) => Way::UserSpace,
        Err(Errno::NOSYS) => Way::Unknown("this is not written for this processor".to_owned()),
        Err(errno) => Way::Unknown(format!("a thread that may not make the system call: {errno}")),
    }
}
