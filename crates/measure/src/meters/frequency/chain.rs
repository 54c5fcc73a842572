//! The clock frequency from a chain of additions. Each addition takes one cycle. The cycle counter gives the time of a number of additions.

use evenkeel_sys::tsc::{self, Scale};
use evenkeel_sys::{chain, clock};
use serde::Serialize;

use super::counters::{Counter, Counters, khz};
use crate::{Samples, Unit, Watch};

/// The number of rounds of one batch: 64,000 cycles, some 20 us. So an error of a few cycles at the end of the batch is negligible.
const ROUNDS: u64 = 1000;
/// The first part of a CPU's busy time, in which the CPU's clock may still rise.
const WARM_UP_NS: u64 = 20_000_000;
/// The number of batches for the check of the assumption.
const CHECKS: usize = 200;
/// The assumption holds if a multiplication costs this many additions.
const MULTIPLY_RANGE: std::ops::RangeInclusive<f64> = 2.85..=3.15;

/// The assumption behind the measured clocks: an addition takes one cycle.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assumption {
    /// The assumption in words.
    pub says: String,
    /// The cost of a 64-bit multiplication in additions, on processors that are known to need 3 cycles for it. None on other processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiply_to_add: Option<f64>,
    /// Whether the assumption holds. None if it cannot be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

impl Assumption {
    /// Checks the assumption on the calling thread's CPU. Additions and multiplications alternate.
    /// The shortest run of each counts, because nothing interrupted it.
    pub(crate) fn checked(scale: &Scale) -> Assumption {
        let add = || chain::adds(ROUNDS);
        let multiply = || {
            std::hint::black_box(chain::multiplies(ROUNDS));
        };
        let mut shortest = [u64::MAX; 2];
        let can = chain::multiplies(1);
        for _ in 0..CHECKS {
            shortest[0] = shortest[0].min(ticks_of(add));
            shortest[1] = shortest[1].min(ticks_of(multiply));
        }
        // Both numbers are from one counter, so the counter's scale cancels out. A stopped counter gives no result.
        let counts = scale.hz() > 0.0 && shortest[0] > 0;
        let per_add = shortest[0] as f64 / (ROUNDS * chain::ADDS_PER_ROUND) as f64;
        let per_multiply = shortest[1] as f64 / (ROUNDS * chain::MULTIPLIES_PER_ROUND) as f64;
        let multiply_to_add = Some(per_multiply / per_add).filter(|_| can && counts);
        Assumption {
            says: "an addition of two registers takes one cycle, and can't begin before the one that it needs ended"
                .to_owned(),
            multiply_to_add,
            holds: multiply_to_add.map(|ratio| MULTIPLY_RANGE.contains(&ratio)),
        }
    }
}

/// The clock of one CPU over a period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clock {
    /// Cycles per millisecond, from batches of some 20 us. The median is the clock. Interrupted batches give values far below the clock.
    pub clock_khz: Samples,
    /// All cycles divided by the whole time. The result is below the clock if others took CPU time.
    pub delivered_khz: u64,
    /// The clock from the processor's counters of actual and nominal cycles, over the same period.
    pub aperf_mperf: Counter,
    /// The clock from the kernel's cycle count of the thread, over the same period.
    pub perf_cycles: Counter,
}

impl Clock {
    /// Measures on the calling thread, which must stay on `cpu`.
    pub(crate) fn measured(cpu: usize, busy: &str, for_ns: u64, scale: &Scale, watch: &Watch<'_>) -> Clock {
        let conditions = [("cpu", cpu.to_string()), ("busy_cpus", busy.to_owned())];
        let mut samples = Samples::new("clock_khz", Unit::Khz, conditions);
        let warm_ns = clock::monotonic_ns() + WARM_UP_NS.min(for_ns);
        while clock::monotonic_ns() < warm_ns {
            chain::adds(ROUNDS);
        }
        let counters = Counters::opened(cpu);
        let before = counters.read();
        let start = tsc::ticks();
        let until = start.wrapping_add(scale.ticks(for_ns));
        let (mut batches, mut last) = (0_u64, start);
        while last < until && !watch.stopped() {
            let ticks = ticks_of(|| chain::adds(ROUNDS));
            samples.record(khz(ROUNDS * chain::ADDS_PER_ROUND, ticks, scale));
            batches += 1;
            last = tsc::ticks();
        }
        let ticks = last.saturating_sub(start);
        let (aperf_mperf, perf_cycles) = counters.since(&before, scale, ticks);
        let delivered_khz = khz(batches * ROUNDS * chain::ADDS_PER_ROUND, ticks, scale);
        Clock { clock_khz: samples, delivered_khz, aperf_mperf, perf_cycles }
    }
}

/// The counter ticks that `run` takes.
pub(crate) fn ticks_of(run: impl FnOnce()) -> u64 {
    let start = tsc::ticks();
    run();
    tsc::ticks().saturating_sub(start)
}
