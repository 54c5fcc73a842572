//! What one call costs: batches of calls between two readings of the cycle counter, of every kind in turns, so that whatever slows the
//! machine for a while slows all alike.

use evenkeel_sys::tsc::{self, InOrder, Scale};
use evenkeel_sys::{clock, clock_calls};

use crate::{Samples, Unit, Watch};

/// A batch takes about so long: much more than the reading of the counter around it, and seldom long enough to be interrupted.
const BATCH_NS: u64 = 40_000;
const BATCH_CALLS_MAX: u64 = 4096;
/// Calls that a batch's length is guessed from.
const TRIED: u64 = 16;
/// However slow a source is, one kind is called for so long at the most.
const LIMIT_NS: u64 = 2_000_000_000;
/// From one look at who else changes things to the next.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// The kinds, with what is called.
pub(super) struct Kinds {
    kinds: Vec<Kind>,
    in_order: Option<InOrder>,
}

struct Kind {
    name: &'static str,
    what: What,
    batch: u64,
    called: u64,
    spent_ticks: u64,
    samples: Samples,
}

#[derive(Clone, Copy)]
enum What {
    ClockGettime,
    Gettimeofday,
    Counter,
    CounterInOrder,
    ClockGettimeBySystemCall,
    EmptySystemCall,
}

/// Their names are those of the answer.
const ALL: [(&str, What); 6] = [
    ("clock_gettime", What::ClockGettime),
    ("gettimeofday", What::Gettimeofday),
    ("rdtsc", What::Counter),
    ("rdtscp", What::CounterInOrder),
    ("clock_gettime_by_system_call", What::ClockGettimeBySystemCall),
    ("empty_system_call", What::EmptySystemCall),
];

impl Kinds {
    pub(super) fn new(source: Option<&str>) -> Kinds {
        let in_order = InOrder::find();
        let has = |what| in_order.is_some() || !matches!(what, What::CounterInOrder);
        let kinds = ALL.into_iter().filter(|(_, what)| has(*what)).map(|(name, what)| {
            let conditions = [("call", name.to_owned()), ("clock_source", source.unwrap_or("unknown").to_owned())];
            let samples = Samples::new("clock_read_cost_ps", Unit::Ps, conditions);
            Kind { name, what, batch: 0, called: 0, spent_ticks: 0, samples }
        });
        Kinds { kinds: kinds.collect(), in_order }
    }

    /// Calls each kind until it was called so often in all. Ends sooner when it is to stop, takes too long, or `is_as_set` says no.
    pub(super) fn call(&mut self, calls: u64, scale: &Scale, watch: &Watch<'_>, is_as_set: impl Fn() -> bool) {
        let look_ticks = scale.ticks(LOOK_EVERY_NS);
        let mut looked = tsc::ticks();
        let limit_ticks = scale.ticks(LIMIT_NS);
        for kind in &mut self.kinds {
            kind.spent_ticks = 0;
        }
        loop {
            let mut is_done = true;
            for kind in &mut self.kinds {
                if kind.called < calls && kind.spent_ticks < limit_ticks {
                    kind.turn(self.in_order, calls, scale);
                    is_done = false;
                }
            }
            if is_done || watch.stopped() {
                return;
            }
            if tsc::ticks().saturating_sub(looked) > look_ticks {
                if !is_as_set() {
                    return;
                }
                looked = tsc::ticks();
            }
        }
    }

    /// What was seen; what was asked for and not done is lost.
    pub(super) fn finish(self, calls: u64) -> Vec<Samples> {
        let finish = |mut kind: Kind| {
            let missing = calls.saturating_sub(kind.called);
            let why = format!("{} was too slow, or the run was stopped: these calls were not made", kind.name);
            kind.samples.lose(missing, &why);
            kind.samples
        };
        self.kinds.into_iter().map(finish).collect()
    }
}

impl Kind {
    fn turn(&mut self, in_order: Option<InOrder>, calls: u64, scale: &Scale) {
        if self.batch == 0 {
            // The first calls are also the warming up.
            let ticks = time(self.what, in_order, TRIED);
            let one_ns = scale.length_ns(ticks).max(1) / TRIED;
            self.batch = (BATCH_NS / one_ns.max(1)).clamp(1, BATCH_CALLS_MAX);
        }
        let batch = self.batch.min(calls - self.called).max(1);
        let ticks = time(self.what, in_order, batch);
        self.called += batch;
        self.spent_ticks += ticks;
        // A short rest of a batch would be mostly the readings around it.
        if batch == self.batch {
            let ps = scale.length_ns(ticks) as f64 * 1000.0 / batch as f64;
            self.samples.record(ps.round() as u64);
        }
    }
}

/// What so many calls take, in ticks. One loop a kind, so that no choice is made within it.
fn time(what: What, in_order: Option<InOrder>, calls: u64) -> u64 {
    match (what, in_order) {
        (What::ClockGettime, _) => repeat(calls, clock_calls::clock_gettime),
        (What::Gettimeofday, _) => repeat(calls, clock_calls::gettimeofday),
        (What::Counter, _) => repeat(calls, tsc::ticks),
        (What::CounterInOrder, Some(in_order)) => repeat(calls, || in_order.ticks()),
        (What::ClockGettimeBySystemCall, _) => repeat(calls, clock_calls::clock_gettime_by_system_call),
        (What::EmptySystemCall, _) => repeat(calls, clock_calls::empty_system_call),
        (What::CounterInOrder, None) => repeat(calls, clock::monotonic_ns),
    }
}

#[inline(always)]
fn repeat(calls: u64, call: impl Fn() -> u64) -> u64 {
    let start = tsc::ticks();
    for _ in 0..calls {
        std::hint::black_box(call());
    }
    tsc::ticks().saturating_sub(start)
}
