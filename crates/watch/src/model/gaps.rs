//! The missing time of CPUs between two samples.

use evenkeel_measure::meters::rates::Measured;
use serde::Serialize;

use crate::sample::{Counted, CpuGapsSample, GapsSample, PauseSample, Sample};

/// The missing time of CPUs, estimated from short windows at random moments.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapsModel {
    /// Each CPU. A share from few windows is a rough estimate: one window stands for about 50 ms of a CPU.
    pub cpus: Vec<CpuGaps>,
    /// The pauses of the whole machine between the samples.
    pub pauses: Vec<PauseModel>,
    /// The number of pauses since the meter began.
    pub pauses_so_far: u64,
}

/// The missing time of a CPU, as shares of the elapsed time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuGaps {
    /// The number of the CPU.
    pub cpu: usize,
    /// The share that other threads of this machine took.
    pub by_threads: Measured<f64>,
    /// The share in which no thread had the CPU: it was away, or served interrupts.
    pub by_nobody: Measured<f64>,
}

/// A pause of the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseModel {
    /// The end of the pause, in nanoseconds since 1970 UTC.
    pub ended_realtime_ns: u64,
    /// The minimum length of the pause in milliseconds.
    pub length_ms: f64,
}

pub(super) fn gaps(
    before: Option<&Counted<GapsSample>>,
    after: &Counted<GapsSample>,
    sample: &Sample,
) -> Measured<GapsModel> {
    let then = before.and_then(|before| before.as_ref().ok());
    Measured::from(after.as_ref().map_err(Clone::clone)).map(|now| GapsModel {
        cpus: now.cpus.iter().map(|(cpu, now)| of_cpu(*cpu, then.and_then(|then| then.cpus.get(cpu)), now)).collect(),
        pauses: now.new_pauses.iter().map(|pause| of_pause(pause, sample)).collect(),
        pauses_so_far: now.pauses,
    })
}

fn of_cpu(cpu: usize, then: Option<&CpuGapsSample>, now: &CpuGapsSample) -> CpuGaps {
    // The earlier sample does not have the CPU, so its counts began at zero after that sample.
    let then = then.copied().unwrap_or_default();
    let covered_ns = now.covered_ns.saturating_sub(then.covered_ns);
    let share = |of: fn(&CpuGapsSample) -> u64| match covered_ns {
        0 => Measured::absent("no window of the gap meter ended between the samples"),
        _ => Measured::Known(of(now).saturating_sub(of(&then)) as f64 / covered_ns as f64),
    };
    CpuGaps { cpu, by_threads: share(|cpu| cpu.by_threads_ns), by_nobody: share(|cpu| cpu.by_nobody_ns) }
}

fn of_pause(pause: &PauseSample, sample: &Sample) -> PauseModel {
    let ago_ns = sample.at.monotonic_ns.saturating_sub(pause.to_ns);
    PauseModel {
        ended_realtime_ns: sample.at.realtime_ns.saturating_sub(ago_ns),
        length_ms: pause.to_ns.saturating_sub(pause.from_ns) as f64 / 1e6,
    }
}
