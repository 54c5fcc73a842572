//! `scope`: the cost of entering and leaving one profiler scope, in nanoseconds. Each number comes from a batch of a thousand scopes.

use std::collections::BTreeMap;

use anyhow::anyhow;
use evenkeel_sys::clock::{realtime_ns, thread_cpu_ns};
use tracing_subscriber::layer::SubscriberExt;

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

const BATCH: u32 = 1000;
const BATCHES: u32 = 200;
const ROUNDS: usize = 12;

static OURS: evenkeel_rt::scope::Scope = evenkeel_rt::scope::Scope::new("bench");

/// Runs a batch of scopes.
type Batch = fn();

const CONTENDERS: [(&str, &str, Batch); 4] = [
    ("evenkeel-rt", env!("CARGO_PKG_VERSION"), || (0..BATCH).for_each(|_| drop(std::hint::black_box(OURS.enter())))),
    ("puffin", "0.20.0, on", || {
        for _ in 0..BATCH {
            puffin::profile_scope!("bench");
        }
        // End the frame after a thousand scopes, as a server would. Otherwise scopes would accumulate in memory.
        puffin::GlobalProfiler::lock().new_frame();
    }),
    ("tracing span", "0.1, a registry and a layer that does nothing", || {
        (0..BATCH).for_each(|_| drop(std::hint::black_box(tracing::info_span!("bench").entered())));
    }),
    ("clock_gettime twice", "no recording at all", || {
        for _ in 0..BATCH {
            std::hint::black_box(evenkeel_sys::clock::monotonic_ns());
            std::hint::black_box(evenkeel_sys::clock::monotonic_ns());
        }
    }),
];

struct Nothing;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Nothing {}

pub(crate) fn measure() -> anyhow::Result<Row> {
    let body = || -> anyhow::Result<Row> {
        evenkeel_rt::scope::start_thread("bench", 1 << 16)?;
        puffin::set_scopes_on(true);
        let subscriber = tracing_subscriber::registry().with(Nothing);
        let _tracing = tracing::subscriber::set_default(subscriber);
        let seed = realtime_ns();
        let rounds = in_turns(CONTENDERS.len(), Rounds { count: ROUNDS, seed }, |at| {
            // Use CPU time: other threads' work is not a cost of the scope.
            let start_ns = thread_cpu_ns();
            (0..BATCHES).for_each(|_| CONTENDERS[at].2());
            Ok((thread_cpu_ns() - start_ns) as f64 / f64::from(BATCH * BATCHES))
        })?;
        let all = CONTENDERS.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            rounds,
        });
        Row::new(Measurements { row: "scope", unit: "ns", all: all.collect(), skipped: BTreeMap::new(), seed })
    };
    std::thread::spawn(body).join().map_err(|_| anyhow!("the thread panicked"))?
}
