//! The contenders of `slots-*`: evenkeel's clock and jobs, with and without the detected time slices; rayon; oneTBB.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, ensure};
use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, WorkerSettings};
use evenkeel_rt::{ThreadConfig, TickClock, TickSettings};
use evenkeel_sys::CpuSet;

use super::{FRAMES, PERIOD_NS, Stage, WARM, at_fifty_hertz, jobs_ns, pin, work};

/// Runs frames on the stage, on the calling thread and one more. Returns the times from due to the end of the last job, in milliseconds.
pub(super) type Contender = fn(&Stage) -> anyhow::Result<Vec<f64>>;

pub(super) const ALL: &[(&str, &str, Contender)] = &[
    ("evenkeel-rt", env!("CARGO_PKG_VERSION"), ours),
    ("evenkeel-rt without slices", env!("CARGO_PKG_VERSION"), ours_without),
    ("rayon scope", "1.12.0", rayon_scope),
    ("oneTBB task_group", "of this machine's packages", one_tbb),
];

/// Ticks before the counted ones: the clock searches for the slices for five seconds, and then tries phases.
const SETTLE_TICKS: usize = 450;

fn ours(stage: &Stage) -> anyhow::Result<Vec<f64>> {
    evenkeel(stage, true)
}

fn ours_without(stage: &Stage) -> anyhow::Result<Vec<f64>> {
    evenkeel(stage, false)
}

fn evenkeel(stage: &Stage, knows: bool) -> anyhow::Result<Vec<f64>> {
    let config = ThreadConfig { cpus: Some(CpuSet::from_iter([stage.cpus[1]])), ..ThreadConfig::default() };
    let worker = WorkerSettings { queues: vec![Queue(0)], thread: config };
    let slices = knows.then(|| stage.slices.clone());
    let settings = JobSettings { workers: vec![worker], slices, ..JobSettings::default() };
    let mut jobs = Jobs::start(&settings).context("start jobs")?;
    let period = Duration::from_nanos(PERIOD_NS);
    let mut clock = TickClock::start(TickSettings { period, ..TickSettings::default() })?;
    let mut times_ms = Vec::with_capacity(FRAMES);
    for at in 0..SETTLE_TICKS + FRAMES {
        let due_ns = clock.wait().due_ns;
        let times_ns = jobs_ns(at);
        let done_ns = AtomicU64::new(0);
        let done = &done_ns;
        jobs.frame(|frame| times_ns.iter().try_for_each(|ns| frame.push(Queue(0), move || work(*ns, done))))?;
        clock.done();
        if at >= SETTLE_TICKS {
            times_ms.push(done_ns.into_inner().saturating_sub(due_ns) as f64 / 1e6);
        }
    }
    Ok(times_ms)
}

fn rayon_scope(stage: &Stage) -> anyhow::Result<Vec<f64>> {
    // The calling thread belongs to the pool and is already pinned. The other thread pins itself.
    let other = stage.cpus[1];
    let spawn = move |thread: rayon::ThreadBuilder| {
        std::thread::Builder::new().spawn(move || {
            let _ = pin(other);
            thread.run();
        })?;
        Ok(())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).use_current_thread().spawn_handler(spawn).build()?;
    let times_ms = at_fifty_hertz(|jobs, done_ns| {
        rayon::scope(|scope| jobs.iter().for_each(|ns| scope.spawn(|_| work(*ns, done_ns))));
    });
    drop(pool);
    Ok(times_ms)
}

/// oneTBB, in a small C++ program that is compiled here.
fn one_tbb(stage: &Stage) -> anyhow::Result<Vec<f64>> {
    let dir = Path::new("target/bench");
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let [source, program] = [dir.join("slots.cpp"), dir.join("slots-onetbb")];
    if !program.exists() || std::fs::read_to_string(&source).is_ok_and(|text| text != include_str!("tbb.cpp")) {
        std::fs::write(&source, include_str!("tbb.cpp")).with_context(|| format!("write {}", source.display()))?;
        let mut command = Command::new("c++");
        command.args(["-std=c++17", "-O2"]).arg(&source).arg("-o").arg(&program).arg("-ltbb");
        let output = command.output().context("start c++: apt-get install g++")?;
        ensure!(output.status.success(), "it does not compile: apt-get install libtbb-dev");
    }
    let numbers = [stage.cpus[0], stage.cpus[1], WARM, FRAMES].map(|number| number.to_string());
    let output = Command::new(program.canonicalize()?).args(numbers).output().context("start the program")?;
    ensure!(output.status.success(), "the program of oneTBB ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| line.parse().context("read the program's numbers")).collect()
}
