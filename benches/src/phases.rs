//! The row `phases`: how many sessions fit on one CPU until one tick in a hundred waits longer than 2 ms. It compares ticks that spread
//! themselves with ticks at random phases.
//!
//! A tick's wait is the time from due to done without its own CPU time. The start delay would not show collisions: a tick thread that wakes
//! preempts the thread that works, so colliding ticks begin in time and end late.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use evenkeel_rt::{Align, PhaseSettings, ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::CpuSet;
use evenkeel_sys::clock::{monotonic_ns, realtime_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::thread;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

const PERIOD_NS: u64 = 20_000_000;
/// 99 of 100 ticks wait at most this long.
const WAIT_NS_MAX: u64 = 2_000_000;
/// CPU time of a tick: uniformly distributed, with a mean of 1 ms and a standard deviation of 0.5 ms.
const WORK_NS: std::ops::Range<u64> = 134_000..1_866_000;
/// The smallest and the largest number of sessions to try. Twenty would fill the CPU.
const SESSIONS: [usize; 2] = [1, 19];
/// The number of ticks before the measured ones, for ticks that spread themselves (this takes up to 10 s) and for others.
const SETTLE_TICKS: [usize; 2] = [550, 50];
const TICKS: usize = 250;
const ROUNDS: usize = 10;

/// Measures how many sessions fit on one CPU. More is better.
///
/// # Errors
/// If a session can't run.
pub(crate) fn measure() -> anyhow::Result<Row> {
    let seed = realtime_ns();
    let mut probes = 0;
    let rounds = in_turns(2, Rounds { count: ROUNDS, seed }, |arm| {
        probes += 1;
        Ok(fitting(arm == 0, seed.wrapping_add(probes * 1000))? as f64)
    })?;
    let names = ["evenkeel", "random phases"];
    let all = names.iter().zip(rounds).map(|(name, rounds)| Measured {
        name: (*name).to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rounds,
    });
    let measurements =
        Measurements { row: "phases", unit: "sessions on one CPU", all: all.collect(), skipped: BTreeMap::new(), seed };
    Row::of_more(measurements)
}

/// The largest number of sessions whose p99 wait is within the limit, found by bisection.
fn fitting(is_spread: bool, seed: u64) -> anyhow::Result<usize> {
    let [mut fits, mut breaks] = [SESSIONS[0] - 1, SESSIONS[1] + 1];
    while breaks - fits > 1 {
        let sessions = fits.midpoint(breaks);
        match wait_ns_p99(sessions, is_spread, seed.wrapping_add(sessions as u64))? <= WAIT_NS_MAX {
            true => fits = sessions,
            false => breaks = sessions,
        }
    }
    Ok(fits)
}

/// The p99 of the waits, over the ticks of all sessions.
fn wait_ns_p99(sessions: usize, is_spread: bool, seed: u64) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir().context("make a folder for the sessions")?;
    let phases = is_spread.then(|| folder.path());
    let waits = std::thread::scope(|scope| {
        let start = |at: usize| scope.spawn(move || session(seed.wrapping_mul(31).wrapping_add(at as u64), phases));
        let running: Vec<_> = (0..sessions).map(start).collect();
        let joined = running.into_iter().map(|session| session.join().map_err(|_| anyhow!("a session panicked"))?);
        joined.collect::<anyhow::Result<Vec<Vec<u64>>>>()
    })?;
    let mut waits = waits.concat();
    waits.sort_unstable();
    waits.get(waits.len() * 99 / 100).copied().context("no tick was measured")
}

fn session(seed: u64, phases: Option<&Path>) -> anyhow::Result<Vec<u64>> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let cpu = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?.iter().last();
    let cpu: CpuSet = cpu.into_iter().collect();
    thread::set_affinity(&cpu).map_err(|errno| anyhow!("run on one CPU: {errno}"))?;
    let _thread = TickThread::set_up(&ThreadConfig::default());
    sleep_until_ns(monotonic_ns() + chance.random_range(0..PERIOD_NS));
    let period = Duration::from_nanos(PERIOD_NS);
    let mut clock = TickClock::start(TickSettings { period, align: Align::Never, ..TickSettings::default() })?;
    if let Some(folder) = phases {
        clock.join_phases(&PhaseSettings { folder: Some(folder.into()) })?;
    }
    let settle = SETTLE_TICKS[usize::from(phases.is_none())];
    let mut waits = Vec::with_capacity(TICKS);
    for at in 0..settle + TICKS {
        let due_ns = clock.wait().due_ns;
        let (begun_ns, work_ns) = (thread_cpu_ns(), chance.random_range(WORK_NS));
        while thread_cpu_ns() < begun_ns + work_ns {
            std::hint::spin_loop();
        }
        let worked_ns = thread_cpu_ns().saturating_sub(begun_ns);
        let wait_ns = monotonic_ns().saturating_sub(due_ns).saturating_sub(worked_ns);
        clock.done();
        if at >= settle {
            waits.push(wait_ns);
        }
    }
    Ok(waits)
}
