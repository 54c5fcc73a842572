//! `telemetry`, `faults` and `rate`: the cost of observing a tick, in nanoseconds per tick, with a thousand ticks per number. After each
//! completed tick, a contender does its usual work. Peers collect the same figures, but only their own process can read them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use anyhow::{Context, anyhow};
use evenkeel_rt::memory::{Memory, MemoryConfig, MemoryLock};
use evenkeel_rt::rate::{RateSettings, TickRate};
use evenkeel_rt::telemetry::{Count, Telemetry, TelemetrySettings};
use evenkeel_rt::{Done, Tick};
use evenkeel_stats::Histogram;
use evenkeel_sys::clock::{realtime_ns, thread_cpu_ns};
use prometheus::{HistogramOpts, IntCounter, IntGauge};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

const TICKS: u64 = 1000;
const BATCHES: u64 = 200;
const ROUNDS: usize = 20;
const PERIOD_NS: u64 = 20_000_000;

/// Does the measured work after one tick.
type After = Box<dyn FnMut(&Done)>;

/// A contender: name, version, and the work after one tick.
type Contender = (&'static str, &'static str, After);

/// A typical tick: slightly late now and then, with 3 to 6 ms of work.
fn done(number: u64) -> Done {
    let due_ns = number * PERIOD_NS;
    let began_ns = due_ns + number.wrapping_mul(7919) % 200_000;
    let done_ns = began_ns + 3_000_000 + number.wrapping_mul(104_729) % 3_000_000;
    Done { tick: Tick { number, due_ns, began_ns, missed: 0 }, done_ns }
}

pub(crate) fn measure_telemetry() -> anyhow::Result<Row> {
    measure("telemetry", || {
        let settings = TelemetrySettings::named("bench");
        let mut telemetry = Telemetry::create(&settings)?;
        let counters = telemetry.counters();
        telemetry.set_period(std::time::Duration::from_nanos(PERIOD_NS));
        let ours = move |done: &Done| {
            counters.add(Count::Jobs, 1000);
            counters.add(Count::PacketsIn, 64);
            counters.add(Count::PacketsOut, 64);
            counters.set(Count::Players, 64);
            telemetry.after(done);
        };
        let mut histograms = Mutex::new([Histogram::new(), Histogram::new(), Histogram::new()]);
        let behind_a_mutex = move |done: &Done| {
            if let Ok(histograms) = histograms.get_mut() {
                histograms[0].record(done.lateness_ns());
                histograms[1].record(done.work_ns());
                histograms[2].record(done.due_to_done_ns());
            }
        };
        Ok(vec![
            ("evenkeel-rt", env!("CARGO_PKG_VERSION"), Box::new(ours) as After),
            ("prometheus", "0.14.0, 22 buckets", prometheus_crate()?),
            ("HDR histograms alone", "hdrhistogram 7, 3 digits, no lock taken", Box::new(behind_a_mutex)),
        ])
    })
}

/// The same figures with the crate that most servers use to export metrics.
fn prometheus_crate() -> anyhow::Result<After> {
    let bounds: Vec<f64> =
        (-6..2).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power))).take(22).collect();
    let histogram = |name: &str| {
        prometheus::Histogram::with_opts(HistogramOpts::new(name, name).buckets(bounds.clone()))
            .context("make a histogram")
    };
    let (lateness, work, due_to_done) = (histogram("lateness")?, histogram("work")?, histogram("due_to_done")?);
    let counter = |name: &str| IntCounter::new(name, name).context("make a counter");
    let (ticks, missed, jobs) = (counter("ticks")?, counter("missed")?, counter("jobs")?);
    let (packets_in, packets_out) = (counter("packets_in")?, counter("packets_out")?);
    let (players, period) = (IntGauge::new("players", "players")?, IntGauge::new("period", "period")?);
    Ok(Box::new(move |done: &Done| {
        jobs.inc_by(1000);
        packets_in.inc_by(64);
        packets_out.inc_by(64);
        players.set(64);
        ticks.inc();
        missed.inc_by(done.tick.missed);
        period.set(PERIOD_NS.cast_signed());
        lateness.observe(done.lateness_ns() as f64 / 1e9);
        work.observe(done.work_ns() as f64 / 1e9);
        due_to_done.observe(done.due_to_done_ns() as f64 / 1e9);
    }))
}

pub(crate) fn measure_faults() -> anyhow::Result<Row> {
    measure("faults", || {
        let config = MemoryConfig { lock: MemoryLock::Nothing, ..MemoryConfig::default() };
        let mut memory = Memory::set_up(&config);
        let stat = std::fs::File::open("/proc/thread-self/stat").context("open /proc/thread-self/stat")?;
        let read = move |_: &Done| {
            let mut bytes = [0; 1024];
            let length = stat.read_at(&mut bytes, 0).unwrap_or(0);
            black_box(bytes[..length].split(|byte| *byte == b' ').nth(9).map(<[u8]>::len));
        };
        Ok(vec![
            (
                "evenkeel-rt",
                env!("CARGO_PKG_VERSION"),
                Box::new(move |done: &Done| {
                    black_box(memory.after(done));
                }) as After,
            ),
            ("/proc/thread-self/stat", "kept open", Box::new(read)),
        ])
    })
}

pub(crate) fn measure_rate() -> anyhow::Result<Row> {
    measure("rate", || {
        let mut rate = TickRate::start(RateSettings::default())?;
        Ok(vec![(
            "evenkeel-rt",
            env!("CARGO_PKG_VERSION"),
            // Every 50th tick also reads figures of the system. That time is included.
            Box::new(move |done: &Done| {
                black_box(rate.after(done));
            }) as After,
        )])
    })
}

fn measure(row: &'static str, contenders: fn() -> anyhow::Result<Vec<Contender>>) -> anyhow::Result<Row> {
    let body = move || -> anyhow::Result<Row> {
        let mut contenders = contenders()?;
        let seed = realtime_ns();
        let mut number = 0;
        let rounds = in_turns(contenders.len(), Rounds { count: ROUNDS, seed }, |at| {
            let after = &mut contenders[at].2;
            // Use CPU time: other threads' work is not a cost of the tick.
            let start_ns = thread_cpu_ns();
            for _ in 0..TICKS * BATCHES {
                number += 1;
                after(black_box(&done(number)));
            }
            Ok((thread_cpu_ns() - start_ns) as f64 / (TICKS * BATCHES) as f64)
        })?;
        let all = contenders.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            rounds,
        });
        Row::new(Measurements { row, unit: "ns", all: all.collect(), skipped: BTreeMap::new(), seed })
    };
    std::thread::spawn(body).join().map_err(|_| anyhow!("the thread panicked"))?
}
