//! The clock by a chain of additions, each of which takes one cycle: how many were done in a time that the cycle counter tells.

use evenkeel_sys::tsc::{self, Scale};
use evenkeel_sys::{chain, clock};
use serde::Serialize;

use super::counters::{Counter, Counters, khz};
use crate::{Samples, Unit, Watch};

/// Rounds of one batch: 64,000 cycles, some 20 us. What ends a batch early or late by a few cycles is then nothing.
const ROUNDS: u64 = 1000;
/// The first of a busy CPU's time, in which its clock may still rise.
const WARM_UP_NS: u64 = 20_000_000;
/// Batches for the check of the assumption.
const CHECKS: usize = 200;
/// What a multiplication may take in additions for the assumption to hold.
const MULTIPLY_RANGE: std::ops::RangeInclusive<f64> = 2.85..=3.15;

/// What the clocks rest on: that an addition takes a cycle.
#[derive(Clone, Debug, Serialize)]
pub struct Assumption {
    /// In words.
    pub says: String,
    /// What a multiplication of 64 bits takes in additions, where it is known to take 3 cycles; missing on other processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiply_to_add: Option<f64>,
    /// Whether that is so. Missing where it can't be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

impl Assumption {
    /// Checks it on the calling thread's CPU: additions and multiplications in turns, the shortest of each, which nothing interrupted.
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
        // Both numbers are of one counter: its scale takes no part, but a counter that stands still tells nothing.
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

/// The clock of one CPU over some time.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    /// Cycles in a thousandth of a second, by batches of some 20 us. Batches that were interrupted read low, so that the median is the
    /// clock, and what is far below it the interruptions.
    pub clock_khz: Samples,
    /// All cycles that were had by all the time that passed: the clock less what others took of the CPU.
    pub delivered_khz: u64,
    /// The processor's counters of real and of nominal cycles, for the same time.
    pub aperf_mperf: Counter,
    /// The kernel's count of the thread's cycles, for the same time.
    pub perf_cycles: Counter,
}

impl Clock {
    /// Measures on the calling thread, which is to stay on `cpu`.
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

/// The counter's ticks that something takes.
pub(crate) fn ticks_of(run: impl FnOnce()) -> u64 {
    let start = tsc::ticks();
    run();
    tsc::ticks().saturating_sub(start)
}
