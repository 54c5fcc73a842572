//! `locks`: CPU time per operation while four threads share one CPU and one lock. An operation is 50 us of work with the lock and 50 us
//! without it, always with the same number of steps. Everything above these 100 us is the cost of waiting for the lock.

use std::collections::BTreeMap;
use std::sync::Barrier;

use anyhow::{Context, anyhow};
use evenkeel_sys::clock::{monotonic_ns, realtime_ns, thread_cpu_ns};
use evenkeel_sys::{CpuSet, thread};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

const THREADS: usize = 4;
const HALF_NS: u64 = 50_000;
const WINDOW_NS: u64 = 400_000_000;
const ROUNDS: usize = 12;

/// A contender: calls the given work repeatedly, each time while it holds the lock.
pub(crate) type With<'a> = &'a (dyn Fn(&mut dyn FnMut()) + Sync);

pub(crate) fn measure() -> anyhow::Result<Row> {
    let cpu = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?.iter().last();
    let cpu = cpu.context("no CPU may be used")?;
    let steps = steps_of(HALF_NS, cpu)?;
    let (plain, inherit) = (evenkeel_rt::Mutex::new(()), evenkeel_rt::InheritMutex::new(()));
    let (standard, parking) = (std::sync::Mutex::new(()), parking_lot::Mutex::new(()));
    let spinning = spin::mutex::SpinMutex::<_, spin::Spin>::new(());
    let own = env!("CARGO_PKG_VERSION");
    let contenders: [(&str, &str, With<'_>); 5] = [
        ("evenkeel-rt Mutex", own, &|work| {
            let _held = plain.lock();
            work();
        }),
        ("evenkeel-rt InheritMutex", own, &|work| {
            let _held = inherit.lock();
            work();
        }),
        ("std Mutex", "of the toolchain", &|work| {
            let _held = standard.lock();
            work();
        }),
        ("parking_lot", "0.12.5", &|work| {
            let _held = parking.lock();
            work();
        }),
        ("spin", "0.12.3", &|work| {
            let _held = spinning.lock();
            work();
        }),
    ];
    let seed = realtime_ns();
    let rounds = in_turns(contenders.len(), Rounds { count: ROUNDS, seed }, |at| one(contenders[at].2, cpu, steps))?;
    let all = contenders.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        rounds,
    });
    Row::new(Measurements { row: "locks", unit: "us", all: all.collect(), skipped: BTreeMap::new(), seed })
}

/// CPU time per operation, in microseconds.
fn one(with: With<'_>, cpu: usize, steps: u64) -> anyhow::Result<f64> {
    let together = Barrier::new(THREADS);
    let body = || -> anyhow::Result<(u64, u64)> {
        pin(cpu)?;
        together.wait();
        let (start_cpu_ns, end_ns) = (thread_cpu_ns(), monotonic_ns() + WINDOW_NS);
        let mut operations = 0;
        while monotonic_ns() < end_ns {
            with(&mut || work(steps));
            work(steps);
            operations += 1;
        }
        Ok((operations, thread_cpu_ns() - start_cpu_ns))
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(body)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect::<Vec<_>>()
    });
    let (mut operations, mut cpu_ns) = (0_u64, 0_u64);
    for done in all {
        let (count, spent_ns) = done?;
        operations += count;
        cpu_ns += spent_ns;
    }
    Ok(cpu_ns as f64 / operations.max(1) as f64 / 1e3)
}

pub(crate) fn pin(cpu: usize) -> anyhow::Result<()> {
    thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>()).map_err(|errno| anyhow!("run on CPU {cpu}: {errno}"))
}

/// How many steps take `work_ns` on this machine: the fastest of many runs, which contains no time of other threads.
pub(crate) fn steps_of(work_ns: u64, cpu: usize) -> anyhow::Result<u64> {
    let body = move || -> anyhow::Result<u64> {
        pin(cpu)?;
        const TRIED: u64 = 100_000;
        let once = || {
            let start_ns = thread_cpu_ns();
            work(TRIED);
            thread_cpu_ns() - start_ns
        };
        let quickest_ns = (0..50).map(|_| once()).min().unwrap_or(1).max(1);
        Ok(TRIED * work_ns / quickest_ns)
    };
    std::thread::spawn(body).join().map_err(|_| anyhow!("the thread panicked"))?
}

pub(crate) fn work(steps: u64) {
    for step in 0..steps {
        std::hint::black_box(step);
    }
}
