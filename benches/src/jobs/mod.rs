//! `jobs` and related rows: the cost of a job with a thousand of them per frame, compared with the pools that a server would use instead.
//!
//! Some rows run frames one after another and measure the time per job. Other rows run 50 frames per second, and measure the CPU time of
//! the whole process, or the time of the slowest of a hundred frames. Every contender gets fresh threads on the same CPUs.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use evenkeel_sys::clock::{monotonic_ns, process_cpu_ns, realtime_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::{CpuSet, thread};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

mod native;
mod pools;

const JOBS: u32 = 1000;
const ROUNDS: usize = 12;
const PERIOD_NS: u64 = 20_000_000;

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Wall time per job, in nanoseconds, one frame after another.
    Job,
    /// CPU time of the process per frame, in microseconds, at 50 frames per second.
    FrameCpu,
    /// The duration of the slowest of a hundred frames, in microseconds, at 50 frames per second.
    SlowestFrame,
}

/// The work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Empty,
    /// About a microsecond of CPU time.
    Microsecond,
}

/// One row.
#[derive(Clone, Copy, Debug)]
struct Case {
    row: &'static str,
    measure: Measure,
    work: Work,
    cpus: usize,
    /// The number of threads, including the thread that opens frames.
    threads: usize,
}

const fn case(row: &'static str, measure: Measure, work: Work, cpus: usize, threads: usize) -> Case {
    Case { row, measure, work, cpus, threads }
}

pub(crate) fn measure_job() -> anyhow::Result<Row> {
    measure(case("jobs", Measure::Job, Work::Empty, 1, 1))
}

pub(crate) fn measure_frame_cpu() -> anyhow::Result<Row> {
    measure(case("jobs-frame-cpu", Measure::FrameCpu, Work::Empty, 1, 2))
}

pub(crate) fn measure_frame_cpu_one() -> anyhow::Result<Row> {
    measure(case("jobs-frame-cpu-1-thread", Measure::FrameCpu, Work::Empty, 1, 1))
}

pub(crate) fn measure_frame_cpu_four() -> anyhow::Result<Row> {
    measure(case("jobs-frame-cpu-4-threads", Measure::FrameCpu, Work::Empty, 1, 4))
}

pub(crate) fn measure_frame_cpu_work() -> anyhow::Result<Row> {
    measure(case("jobs-frame-cpu-1us", Measure::FrameCpu, Work::Microsecond, 1, 2))
}

pub(crate) fn measure_frame_slowest() -> anyhow::Result<Row> {
    measure(case("jobs-frame-slowest", Measure::SlowestFrame, Work::Empty, 1, 2))
}

pub(crate) fn measure_frame_slowest_work() -> anyhow::Result<Row> {
    measure(case("jobs-frame-slowest-1us", Measure::SlowestFrame, Work::Microsecond, 1, 2))
}

pub(crate) fn measure_two_cpus() -> anyhow::Result<Row> {
    measure(case("jobs-two-cpus", Measure::Job, Work::Empty, 2, 2))
}

pub(crate) fn measure_two_cpus_work() -> anyhow::Result<Row> {
    measure(case("jobs-two-cpus-1us", Measure::Job, Work::Microsecond, 2, 2))
}

pub(crate) fn measure_two_cpus_cpu() -> anyhow::Result<Row> {
    measure(case("jobs-two-cpus-frame-cpu", Measure::FrameCpu, Work::Empty, 2, 2))
}

/// Runs a frame of a thousand jobs.
type Frame<'a> = &'a mut dyn FnMut();

/// Sets up a pool of this many threads on the calling thread, and calls back with a function that runs a frame on it.
type Contender = fn(Case, &mut dyn FnMut(Frame<'_>)) -> anyhow::Result<()>;

/// A contender's name and version, and a function for one round.
type Round = (&'static str, &'static str, Box<dyn Fn() -> anyhow::Result<f64>>);

fn measure(case: Case) -> anyhow::Result<Row> {
    let allowed = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?;
    let mut cpus: Vec<usize> = allowed.iter().collect();
    let first = cpus.len().checked_sub(case.cpus).context("fewer CPUs may be used than this row takes")?;
    let cpus: CpuSet = cpus.drain(first..).collect();
    let mut contenders: Vec<Round> = Vec::new();
    for (name, version, contender) in pools::ALL {
        let cpus = cpus.clone();
        contenders.push((name, version, Box::new(move || here(*contender, case, &cpus))));
    }
    let mut skipped = BTreeMap::new();
    for (name, program) in native::all() {
        let cpus = cpus.clone();
        match program {
            Ok(program) => {
                contenders.push((name, native::VERSION, Box::new(move || program.run(case, &cpus))));
            }
            Err(why) => _ = skipped.insert(name.to_owned(), why.to_string()),
        }
    }
    let seed = realtime_ns();
    let rounds = in_turns(contenders.len(), Rounds { count: ROUNDS, seed }, |at| contenders[at].2())?;
    let all = contenders.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        rounds,
    });
    let unit = if case.measure == Measure::Job { "ns" } else { "us" };
    Row::new(Measurements { row: case.row, unit, all: all.collect(), skipped, seed })
}

/// Measures a pool of this process.
fn here(contender: Contender, case: Case, cpus: &CpuSet) -> anyhow::Result<f64> {
    let cpus = cpus.clone();
    let body = move || {
        // Threads that the pool starts inherit this affinity.
        thread::set_affinity(&cpus).map_err(|errno| anyhow!("run on the row's CPUs: {errno}"))?;
        let mut number = 0.0;
        contender(case, &mut |frame| number = take(case.measure, frame))?;
        Ok(number)
    };
    std::thread::spawn(body).join().map_err(|_| anyhow!("a contender panicked"))?
}

fn take(measure: Measure, frame: Frame<'_>) -> f64 {
    const WARM: u32 = 5;
    (0..WARM).for_each(|_| frame());
    match measure {
        Measure::Job => {
            let mut frames = 0_u32;
            let (began_ns, mut now_ns) = (monotonic_ns(), 0);
            while frames == 0 || now_ns - began_ns < 100_000_000 {
                frame();
                frames += 1;
                now_ns = monotonic_ns();
            }
            (now_ns - began_ns) as f64 / f64::from(frames) / f64::from(JOBS)
        }
        Measure::FrameCpu => {
            let began_ns = process_cpu_ns();
            at_fifty_hertz(25, frame);
            (process_cpu_ns() - began_ns) as f64 / 25.0 / 1e3
        }
        Measure::SlowestFrame => {
            let mut slowest_ns = 0;
            at_fifty_hertz(100, || {
                let began_ns = monotonic_ns();
                frame();
                slowest_ns = slowest_ns.max(monotonic_ns() - began_ns);
            });
            slowest_ns as f64 / 1e3
        }
    }
}

fn at_fifty_hertz(frames: u32, mut frame: impl FnMut()) {
    let mut due_ns = monotonic_ns();
    for _ in 0..frames {
        due_ns += PERIOD_NS;
        sleep_until_ns(due_ns);
        frame();
    }
}

impl Work {
    /// The work of one job.
    #[inline(always)]
    fn one(self, number: u32, steps: u64) {
        std::hint::black_box(number);
        if self == Work::Microsecond {
            spin(steps);
        }
    }

    /// How many steps take a microsecond on this machine: the fastest of many runs, which contains no time of other threads.
    fn steps(self) -> u64 {
        if self == Work::Empty {
            return 0;
        }
        const TRIED: u64 = 10_000;
        let once = || {
            let start_ns = thread_cpu_ns();
            spin(TRIED);
            thread_cpu_ns() - start_ns
        };
        TRIED * 1000 / (0..200).map(|_| once()).min().unwrap_or(1).max(1)
    }
}

/// Runs this many steps. It is never inlined: the time of a step depends on the surrounding code, and a job must take the measured time.
#[inline(never)]
fn spin(steps: u64) {
    (0..steps).for_each(|step| _ = std::hint::black_box(step));
}
