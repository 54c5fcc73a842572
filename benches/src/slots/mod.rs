//! The rows `slots-*`: frames with 6 ms of work in jobs of 50 to 500 us, 50 frames a second, on two CPUs. On each CPU a real-time thread
//! takes 6 of every 10 ms, as a hypervisor does. The time slices of the two CPUs are in step, opposite, or drift. Each number is the median
//! or the 99th percentile of the times from due to the end of the last job. In `slots-none` nothing takes the CPUs.
//!
//! Every thread is pinned to one CPU. In a guest, the kernel does not know when the hypervisor takes a CPU. Here, the kernel sees the
//! real-time threads and would move other threads away from them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;

use anyhow::{Context, anyhow};
use evenkeel_rt::Slices;
use evenkeel_stats::quantile;
use evenkeel_sys::clock::{monotonic_ns, realtime_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::{CpuSet, sched, thread};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

mod pools;

const PERIOD_NS: u64 = 20_000_000;
const SLOT_NS: u64 = 10_000_000;
const TAKEN_NS: u64 = 6_000_000;
const WORK_NS: u64 = 6_000_000;
const JOB_NS: [u64; 2] = [50_000, 500_000];
const ROUNDS: usize = 6;
const FRAMES: usize = 200;
/// The number of first frames of a peer that are not counted.
const WARM: usize = 10;
/// The row fails if evenkeel has not found the time slices after this time.
const FOUND_WITHIN_NS: u64 = 60_000_000_000;

/// How the time slices of the two CPUs lie relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phases {
    InStep,
    Opposite,
    /// The second CPU's period is 0.02 % longer.
    Drifting,
    None,
}

pub(crate) fn measure_in_step() -> anyhow::Result<Row> {
    measure("slots-in-step", Phases::InStep, 0)
}

pub(crate) fn measure_in_step_p99() -> anyhow::Result<Row> {
    measure("slots-in-step-p99", Phases::InStep, 1)
}

pub(crate) fn measure_opposite() -> anyhow::Result<Row> {
    measure("slots-opposite", Phases::Opposite, 0)
}

pub(crate) fn measure_opposite_p99() -> anyhow::Result<Row> {
    measure("slots-opposite-p99", Phases::Opposite, 1)
}

pub(crate) fn measure_drifting() -> anyhow::Result<Row> {
    measure("slots-drifting", Phases::Drifting, 0)
}

pub(crate) fn measure_drifting_p99() -> anyhow::Result<Row> {
    measure("slots-drifting-p99", Phases::Drifting, 1)
}

pub(crate) fn measure_none() -> anyhow::Result<Row> {
    measure("slots-none", Phases::None, 0)
}

pub(crate) fn measure_none_p99() -> anyhow::Result<Row> {
    measure("slots-none-p99", Phases::None, 1)
}

/// For each contender, the median and the 99th percentile of each round, in milliseconds.
type Taken = Vec<[Vec<f64>; 2]>;

/// The results by phases, because one measurement gives two rows (median and 99th percentile).
static TAKEN: Mutex<BTreeMap<Phases, (Taken, u64)>> = Mutex::new(BTreeMap::new());

fn measure(row: &'static str, phases: Phases, which: usize) -> anyhow::Result<Row> {
    let mut taken = TAKEN.lock().map_err(|_| anyhow!("an earlier row panicked"))?;
    let (all, seed) = match taken.entry(phases) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let seed = realtime_ns();
            entry.insert((take(phases, seed)?, seed))
        }
    };
    let all = pools::ALL.iter().zip(all.iter()).map(|((name, version, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        rounds: rounds[which].clone(),
    });
    let skipped = [("enkiTS", "Debian has no package of it")];
    let skipped = skipped.map(|(name, why)| (name.to_owned(), why.to_owned())).into();
    Row::new(Measurements { row, unit: "ms", all: all.collect(), skipped, seed: *seed })
}

/// The CPUs and the settings with which a contender runs.
struct Stage {
    cpus: [usize; 2],
    slices: Slices,
}

fn take(phases: Phases, seed: u64) -> anyhow::Result<Taken> {
    let allowed = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?;
    let cpus: Vec<usize> = allowed.iter().collect();
    let Some([first, second]) = cpus.last_chunk() else { anyhow::bail!("this row needs two CPUs") };
    let cpus = [*first, *second];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&stop);
        if phases != Phases::None {
            thieves(scope, cpus, phases, &stop)?;
        }
        let slices = Slices::start(&cpus.into_iter().collect()).context("follow the slices")?;
        let until_ns = monotonic_ns() + FOUND_WITHIN_NS;
        while phases != Phases::None && cpus.iter().any(|cpu| slices.cpu(*cpu).is_none()) {
            anyhow::ensure!(monotonic_ns() < until_ns, "the slices were not found within a minute: {slices:?}");
            sleep_until_ns(monotonic_ns() + 100_000_000);
        }
        let stage = Stage { cpus, slices };
        let mut p99 = vec![Vec::new(); pools::ALL.len()];
        let p50 = in_turns(pools::ALL.len(), Rounds { count: ROUNDS, seed }, |at| {
            let mut ms = on_first_cpu(&stage, pools::ALL[at].2)?;
            ms.sort_unstable_by(f64::total_cmp);
            let of = |share| quantile(&ms, share).context("no frame was measured");
            p99[at].push(of(0.99)?);
            of(0.5)
        })?;
        drop(ends);
        // The first round is not counted.
        Ok(p50.into_iter().zip(p99).map(|(p50, p99)| [p50, p99[1..].to_vec()]).collect())
    })
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts a real-time thread on each of the CPUs, which takes the CPU as a hypervisor does.
fn thieves<'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpus: [usize; 2],
    phases: Phases,
    stop: &'scope AtomicBool,
) -> anyhow::Result<()> {
    let begin_ns = monotonic_ns() + 2 * SLOT_NS;
    let [later_ns, longer_ns] = match phases {
        Phases::InStep | Phases::None => [0, 0],
        Phases::Opposite => [SLOT_NS / 2, 0],
        Phases::Drifting => [0, SLOT_NS / 5000],
    };
    for (cpu, later_ns, longer_ns) in [(cpus[0], 0, 0), (cpus[1], later_ns, longer_ns)] {
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        scope.spawn(move || {
            let made = thread::set_affinity(&CpuSet::from_iter([cpu])).and_then(|()| sched::set_fifo(50));
            let is_made = made.is_ok();
            let _ = ready.send(made);
            let mut begin_ns = begin_ns + later_ns;
            while is_made && !stop.load(Ordering::Relaxed) {
                sleep_until_ns(begin_ns);
                while monotonic_ns() < begin_ns + TAKEN_NS {
                    std::hint::spin_loop();
                }
                begin_ns += SLOT_NS + longer_ns;
            }
        });
        let made = is_ready.recv().context("the real-time thread ended at once")?;
        made.map_err(|errno| anyhow!("make the thread real-time: {errno}: this row needs root"))?;
    }
    Ok(())
}

/// Runs a contender on a thread of the first CPU. Returns the times from due to the end of the last job, in milliseconds.
fn on_first_cpu(stage: &Stage, contender: pools::Contender) -> anyhow::Result<Vec<f64>> {
    let body = || {
        pin(stage.cpus[0])?;
        contender(stage)
    };
    let run = std::thread::scope(|scope| scope.spawn(body).join());
    run.map_err(|_| anyhow!("a contender panicked"))?
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    thread::set_affinity(&CpuSet::from_iter([cpu])).map_err(|errno| anyhow!("run on CPU {cpu}: {errno}"))
}

/// The CPU time of each job of a frame. For one seed, the frames are the same for all contenders.
fn jobs_ns(frame: usize) -> Vec<u64> {
    let mut chance = 88_172_645_463_325_252_u64 ^ (frame as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut left_ns = WORK_NS;
    let mut jobs = Vec::new();
    while left_ns > 0 {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let ns = (JOB_NS[0] + chance % (JOB_NS[1] - JOB_NS[0])).min(left_ns);
        jobs.push(ns);
        left_ns -= ns;
    }
    jobs
}

/// A job: uses this much CPU time. Then it records the time, because the frame is over when the last job ends.
fn work(ns: u64, done_ns: &AtomicU64) {
    let end_ns = thread_cpu_ns() + ns;
    while thread_cpu_ns() < end_ns {
        std::hint::spin_loop();
    }
    done_ns.fetch_max(monotonic_ns(), Ordering::Relaxed);
}

/// Runs frames at absolute times, 20 ms apart, from a random phase on. If a frame runs past the next due time, that frame is left out.
/// Returns the times from due to the end of the last job, in milliseconds.
fn at_fifty_hertz(mut frame: impl FnMut(&[u64], &AtomicU64)) -> Vec<f64> {
    let mut due_ns = monotonic_ns() + realtime_ns() % PERIOD_NS;
    let mut times_ms = Vec::with_capacity(FRAMES);
    for at in 0..WARM + FRAMES {
        let jobs = jobs_ns(at);
        let done_ns = AtomicU64::new(0);
        due_ns += PERIOD_NS;
        due_ns += monotonic_ns().saturating_sub(due_ns) / PERIOD_NS * PERIOD_NS;
        sleep_until_ns(due_ns);
        frame(&jobs, &done_ns);
        if at >= WARM {
            times_ms.push(done_ns.into_inner().saturating_sub(due_ns) as f64 / 1e6);
        }
    }
    times_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_work_in_jobs_of_the_named_lengths() {
        for frame in 0..1000 {
            let jobs = jobs_ns(frame);
            assert_eq!(jobs.iter().sum::<u64>(), WORK_NS);
            let (last, others) = jobs.split_last().unwrap();
            assert!(*last <= JOB_NS[1] && others.iter().all(|ns| (JOB_NS[0]..JOB_NS[1]).contains(ns)), "{jobs:?}");
        }
    }
}
