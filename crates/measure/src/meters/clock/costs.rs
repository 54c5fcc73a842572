//! The cost of one call. The calls run in batches between two readings of the cycle counter.
//! Batches of all kinds alternate, so that a slow phase of the machine affects all kinds alike.

use evenkeel_sys::tsc::{self, InOrder, Scale};
use evenkeel_sys::{clock, clock_calls};

use crate::{Samples, Unit, Watch};

/// The length of a batch. It is much longer than the counter readings around it, and short enough that an interruption is rare.
const BATCH_NS: u64 = 40_000;
const BATCH_CALLS_MAX: u64 = 4096;
/// The number of calls that estimate the cost of one call, to choose the size of a batch.
const TRIED: u64 = 16;
/// The maximum time for one kind of call, even with a slow clock source.
const LIMIT_NS: u64 = 2_000_000_000;
/// How often to check whether another program changed something.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// The kinds of calls.
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

/// The kinds of calls, with their names in the report.
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

    /// Calls each kind this many times in all.
    /// Ends early when a stop is requested, when the calls take too long, or when `is_as_set` returns false.
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

    /// The measured samples. Requested calls that were not made count as lost.
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
            // The first calls also warm up the caches.
            let ticks = time(self.what, in_order, TRIED);
            let one_ns = scale.length_ns(ticks).max(1) / TRIED;
            self.batch = (BATCH_NS / one_ns.max(1)).clamp(1, BATCH_CALLS_MAX);
        }
        let batch = self.batch.min(calls - self.called).max(1);
        let ticks = time(self.what, in_order, batch);
        self.called += batch;
        self.spent_ticks += ticks;
        // A short last batch would mostly measure the readings around it.
        if batch == self.batch {
            let ps = scale.length_ns(ticks) as f64 * 1000.0 / batch as f64;
            self.samples.record(ps.round() as u64);
        }
    }
}

/// The ticks that this many calls take. Each kind has its own loop, which keeps the choice of the kind out of the loop.
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
