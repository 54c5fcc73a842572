//! The effect of vector instructions on the clock.
//! A processor that lowers its clock for vector instructions keeps it low for a while.
//! So a chain right after these instructions still sees the lower clock.

use evenkeel_sys::chain::{self, Vector};
use evenkeel_sys::clock;
use evenkeel_sys::tsc::Scale;
use serde::Serialize;

use super::chain::ticks_of;
use super::counters::khz;
use crate::{Samples, Unit, Watch};

/// How long vector instructions run before each reading.
/// The time is longer than a processor takes to lower its clock: some 0.5 ms on processors that are known for this.
const BURN_NS: u64 = 2_000_000;
/// How long no vector instructions run before each reading of the other state.
/// The time is longer than a processor holds the lower clock: 0.7 ms on processors that are known for this.
const REST_NS: u64 = 5_000_000;
/// The number of rounds of the chain in one reading: some 5 us.
const ROUNDS: u64 = 300;
/// The number of readings after each stretch.
const LOOKS: usize = 10;

/// The effect of one kind of vector instruction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VectorEffect {
    /// `avx2` or `avx512`.
    pub vector: String,
    /// The clock after a stretch without vectors.
    pub before_khz: Samples,
    /// The clock right after a stretch of vector instructions.
    pub after_khz: Samples,
    /// The median after vector instructions divided by the median before: 1 means no effect.
    pub after_to_before: Option<f64>,
}

/// Measures each kind that the processor supports, on the calling thread.
pub(crate) fn measure(cpu: usize, for_ns: u64, scale: &Scale, watch: &Watch<'_>) -> Vec<VectorEffect> {
    let kinds = [("avx2", Vector::Avx2), ("avx512", Vector::Avx512)];
    let here = kinds.into_iter().filter(|(_, vector)| vector.is_here());
    here.map(|(name, vector)| one(name, vector, cpu, for_ns, scale, watch)).collect()
}

fn one(name: &str, vector: Vector, cpu: usize, for_ns: u64, scale: &Scale, watch: &Watch<'_>) -> VectorEffect {
    watch.progress(0.0, name);
    let named = |state: &str| {
        let conditions = [("cpu", cpu.to_string()), ("vector", name.to_owned()), ("state", state.to_owned())];
        Samples::new("clock_khz", Unit::Khz, conditions)
    };
    let (mut before_khz, mut after_khz) = (named("before"), named("after"));
    let end_ns = clock::monotonic_ns() + for_ns;
    while clock::monotonic_ns() < end_ns && !watch.stopped() {
        until(REST_NS, || chain::adds(ROUNDS));
        look(scale, &mut before_khz);
        until(BURN_NS, || {
            std::hint::black_box(vector.burn(10_000));
        });
        look(scale, &mut after_khz);
    }
    let median = |samples: &Samples| samples.histogram.summary().map(|summary| summary.p50 as f64);
    let after_to_before = median(&after_khz).zip(median(&before_khz)).map(|(after, before)| after / before.max(1.0));
    VectorEffect { vector: name.to_owned(), before_khz, after_khz, after_to_before }
}

fn until(for_ns: u64, mut run: impl FnMut()) {
    let end_ns = clock::monotonic_ns() + for_ns;
    while clock::monotonic_ns() < end_ns {
        run();
    }
}

fn look(scale: &Scale, samples: &mut Samples) {
    for _ in 0..LOOKS {
        let ticks = ticks_of(|| chain::adds(ROUNDS));
        samples.record(khz(ROUNDS * chain::ADDS_PER_ROUND, ticks, scale));
    }
}
