//! `tick-idle`, `tick-neighbour`, `tick-quota`: how late ticks begin, compared with alternatives for a server loop. They run on a quiet
//! CPU, on a CPU shared with an ordinary busy thread, and under a limit of 4 ms in 10. The rows with `-cpu` give the CPU time that a loop
//! needs in addition to the work of its ticks. `tick-hog`: the time from due to done while a real-time thread takes 6 ms of every 10, as a
//! hypervisor does.
//!
//! There are 100 ticks per second with a millisecond of work each. Every contender runs in a fresh thread on the same CPU, a second at a
//! time, in random order each round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use evenkeel_rt::{ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::clock::{monotonic_ns, realtime_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::{CpuSet, sched, thread};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

const ROUNDS: usize = 12;
const HOG_ROUNDS: usize = 6;
const PACE: Pace = Pace { period_ns: 10_000_000, work_ns: 1_000_000, before: 0, ticks: 100 };
const HOG_PACE: Pace = Pace { period_ns: 20_000_000, work_ns: 3_500_000, before: 10, ticks: 100 };
/// In its first seconds, evenkeel looks for a hypervisor's time slices. In the hours that a server runs this is negligible; the findings
/// report the cost. Here evenkeel gets this long before its ticks count. The other contenders learn nothing.
const LEARNS_NS: u64 = 5_500_000_000;
/// If other threads use the CPU, evenkeel then tries phases for its ticks and checks the chosen one again. This takes at most this long,
/// and the next check comes 15 s later.
const TRIES_NS: u64 = 20_000_000_000;

/// The version of the peer that the manifest pins.
const SPIN_SLEEP: &str = "1.3.3";
const TOKIO: &str = "1.54.1";

/// The tick rate, the work of a tick, and how many ticks are counted.
#[derive(Clone, Copy)]
struct Pace {
    period_ns: u64,
    /// CPU time of each tick's work.
    work_ns: u64,
    /// The number of ticks before the counted ones.
    before: u32,
    ticks: u32,
}

impl Pace {
    /// The pace of the contender with this index. The first contender is evenkeel, which runs this long before its ticks count.
    fn for_contender(self, at: usize, learns_ns: u64) -> Pace {
        let before = if at == 0 { (learns_ns / self.period_ns) as u32 } else { self.before };
        Pace { before, ..self }
    }

    fn all(self) -> u32 {
        self.before + self.ticks
    }
}

/// Runs ticks, and calls back at the beginning of each with its due time.
type Loop = fn(Pace, &mut dyn FnMut(u64)) -> anyhow::Result<()>;

/// The results of the counted ticks.
#[derive(Default)]
struct Outcome {
    late_ns: Vec<u64>,
    due_to_done_ns: Vec<u64>,
    /// The due times of the first and the last counted tick.
    first_due_ns: u64,
    last_due_ns: u64,
    /// CPU time in addition to the work, from the first to the last counted tick.
    overhead_ns: u64,
}

const CONTENDERS: [(&str, &str, Loop); 5] = [
    ("evenkeel-rt", env!("CARGO_PKG_VERSION"), ours),
    ("clock_nanosleep", "absolute, default slack", nanosleep),
    ("timerfd", "absolute, periodic", timerfd),
    ("spin_sleep", SPIN_SLEEP, spin_sleep),
    ("tokio interval", TOKIO, tokio_interval),
];

/// What else runs on the CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Idle,
    Neighbour,
    Quota,
    RtHog,
    /// Another tick loop of the same contender.
    Two,
}

/// The running disturbance, until it is dropped.
enum Stage {
    Alone,
    Disturber(#[expect(dead_code, reason = "held")] Disturber),
    Limited(Group),
}

impl Condition {
    fn set(self, cpu: usize) -> anyhow::Result<Stage> {
        Ok(match self {
            Condition::Idle | Condition::Two => Stage::Alone,
            Condition::Neighbour => Stage::Disturber(Disturber::neighbour(cpu)?),
            Condition::Quota => Stage::Limited(Group::new()?),
            Condition::RtHog => Stage::Disturber(Disturber::hog(cpu)?),
        })
    }
}

pub(crate) fn measure_idle() -> anyhow::Result<Row> {
    measure("tick-idle", "us", Condition::Idle, PACE, mean_late_us)
}

pub(crate) fn measure_neighbour() -> anyhow::Result<Row> {
    measure("tick-neighbour", "us", Condition::Neighbour, PACE, mean_late_us)
}

pub(crate) fn measure_quota() -> anyhow::Result<Row> {
    measure("tick-quota", "us", Condition::Quota, PACE, mean_late_us)
}

pub(crate) fn measure_thief() -> anyhow::Result<Row> {
    measure("tick-hog", "ms", Condition::RtHog, HOG_PACE, |outcome| quantile(&outcome.due_to_done_ns, 0.5) / 1e6)
}

pub(crate) fn measure_idle_cpu() -> anyhow::Result<Row> {
    measure("tick-idle-cpu", "us a tick", Condition::Idle, PACE, overhead_us)
}

pub(crate) fn measure_neighbour_cpu() -> anyhow::Result<Row> {
    measure("tick-neighbour-cpu", "us a tick", Condition::Neighbour, PACE, overhead_us)
}

fn mean_late_us(outcome: &Outcome) -> f64 {
    outcome.late_ns.iter().sum::<u64>() as f64 / outcome.late_ns.len().max(1) as f64 / 1e3
}

fn overhead_us(outcome: &Outcome) -> f64 {
    outcome.overhead_ns as f64 / outcome.late_ns.len().max(1) as f64 / 1e3
}

fn quantile(ns: &[u64], share: f64) -> f64 {
    let mut ns = ns.to_vec();
    ns.sort_unstable();
    ns.get((ns.len() as f64 * share) as usize).map_or(f64::NAN, |ns| *ns as f64)
}

fn the_cpu() -> anyhow::Result<usize> {
    let ours = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?;
    ours.iter().last().context("no CPU may be used")
}

fn measure(
    row: &'static str,
    unit: &'static str,
    condition: Condition,
    pace: Pace,
    figure: fn(&Outcome) -> f64,
) -> anyhow::Result<Row> {
    let cpu = the_cpu()?;
    let stage = condition.set(cpu)?;
    let seed = realtime_ns();
    let count = if condition == Condition::RtHog { HOG_ROUNDS } else { ROUNDS };
    let rounds = in_turns(CONTENDERS.len(), Rounds { count, seed }, |at| {
        Ok(figure(&one(CONTENDERS[at].2, pace.for_contender(at, LEARNS_NS), cpu, &stage)?))
    })?;
    let all = CONTENDERS.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        rounds,
    });
    Row::new(Measurements { row, unit, all: all.collect(), skipped: BTreeMap::new(), seed })
}

/// `ticks-table [CONDITION…]`: everything at 50 and 100 ticks per second. Each contender runs five times for two seconds, interleaved.
pub(crate) fn print_table(asked: &[String]) -> anyhow::Result<()> {
    let cpu = the_cpu()?;
    let conditions = [
        ("quiet", Condition::Idle),
        ("neighbour", Condition::Neighbour),
        ("limit", Condition::Quota),
        ("hog", Condition::RtHog),
        ("two", Condition::Two),
    ];
    if let Some(unknown) = asked.iter().find(|name| !conditions.iter().any(|(known, _)| known == name)) {
        bail!("unknown condition {unknown}; known: {}", conditions.map(|(name, _)| name).join(", "));
    }
    println!(
        "condition Hz contender: lateness us p50 p99, over 1 ms %, missed %, CPU besides the work us per tick, due to done ms p50 p99"
    );
    for (name, condition) in conditions {
        if asked.is_empty() || asked.iter().any(|one| one == name) {
            print_condition(name, condition, cpu)?;
        }
    }
    Ok(())
}

fn print_condition(name: &str, condition: Condition, cpu: usize) -> anyhow::Result<()> {
    const TIMES: usize = 5;
    let stage = condition.set(cpu)?;
    let learns_ns = if matches!(condition, Condition::Neighbour | Condition::Two) { TRIES_NS } else { LEARNS_NS };
    for period_ns in [20_000_000, 10_000_000] {
        let pace = Pace { period_ns, ticks: (2_000_000_000 / period_ns) as u32, ..PACE };
        let mut all: Vec<Vec<Outcome>> = CONTENDERS.iter().map(|_| Vec::new()).collect();
        for at in (0..TIMES).flat_map(|_| 0..CONTENDERS.len()) {
            let (contender, pace) = (CONTENDERS[at].2, pace.for_contender(at, learns_ns));
            if condition == Condition::Two {
                all[at].extend(two(contender, pace, cpu)?);
            } else {
                all[at].push(one(contender, pace, cpu, &stage)?);
            }
        }
        for ((contender, ..), outcomes) in CONTENDERS.iter().zip(&all) {
            println!("{name} {} {contender}: {}", 1_000_000_000 / period_ns, summary(outcomes, period_ns));
        }
    }
    Ok(())
}

/// Runs two loops of a contender on the same CPU, each in its own thread.
fn two(ticks: Loop, pace: Pace, cpu: usize) -> anyhow::Result<[Outcome; 2]> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| one(ticks, pace, cpu, &Stage::Alone));
        let this = one(ticks, pace, cpu, &Stage::Alone)?;
        Ok([this, other.join().map_err(|_| anyhow!("a contender panicked"))??])
    })
}

fn summary(outcomes: &[Outcome], period_ns: u64) -> String {
    let late: Vec<u64> = outcomes.iter().flat_map(|outcome| outcome.late_ns.iter().copied()).collect();
    let done: Vec<u64> = outcomes.iter().flat_map(|outcome| outcome.due_to_done_ns.iter().copied()).collect();
    let over = late.iter().filter(|ns| **ns > 1_000_000).count() as f64 / late.len().max(1) as f64;
    let due = |outcome: &Outcome| {
        (outcome.last_due_ns.saturating_sub(outcome.first_due_ns) as f64 / period_ns as f64).round() + 1.0
    };
    let due: f64 = outcomes.iter().map(due).sum();
    let overhead: u64 = outcomes.iter().map(|outcome| outcome.overhead_ns).sum();
    format!(
        "{:.1} {:.1}, {:.1}, {:.1}, {:.1}, {:.2} {:.2}",
        quantile(&late, 0.5) / 1e3,
        quantile(&late, 0.99) / 1e3,
        over * 100.0,
        (1.0 - late.len() as f64 / due) * 100.0,
        overhead as f64 / late.len().max(1) as f64 / 1e3,
        quantile(&done, 0.5) / 1e6,
        quantile(&done, 0.99) / 1e6,
    )
}

/// Runs a contender in a fresh thread.
fn one(ticks: Loop, pace: Pace, cpu: usize, stage: &Stage) -> anyhow::Result<Outcome> {
    let group = if let Stage::Limited(group) = stage { Some(group.0.clone()) } else { None };
    let body = move || -> anyhow::Result<Outcome> {
        thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>())
            .map_err(|errno| anyhow!("run on CPU {cpu}: {errno}"))?;
        if let Some(group) = group {
            let own = rustix::thread::gettid().as_raw_nonzero().to_string();
            std::fs::write(group.join("tasks"), own).context("enter the limited group")?;
        }
        let mut outcome = Outcome::default();
        let (mut count, mut cpu_before_ns) = (0, 0);
        ticks(pace, &mut |due_ns| {
            let late_ns = monotonic_ns().saturating_sub(due_ns);
            let begun_ns = thread_cpu_ns();
            while thread_cpu_ns() < begun_ns + pace.work_ns {
                std::hint::spin_loop();
            }
            count += 1;
            if count <= pace.before {
                return;
            }
            let now_ns = monotonic_ns();
            if outcome.late_ns.is_empty() {
                (outcome.first_due_ns, cpu_before_ns) = (due_ns, thread_cpu_ns());
            } else {
                outcome.overhead_ns += begun_ns.saturating_sub(cpu_before_ns);
                cpu_before_ns = thread_cpu_ns();
            }
            outcome.last_due_ns = due_ns;
            outcome.late_ns.push(late_ns);
            outcome.due_to_done_ns.push(now_ns.saturating_sub(due_ns));
        })?;
        Ok(outcome)
    };
    std::thread::spawn(body).join().map_err(|_| anyhow!("a contender panicked"))?
}

fn ours(pace: Pace, begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let _thread = TickThread::set_up(&ThreadConfig::default());
    let settings = TickSettings { period: Duration::from_nanos(pace.period_ns), ..TickSettings::default() };
    let mut clock = TickClock::start(settings)?;
    for _ in 0..pace.all() {
        begin(clock.wait().due_ns);
        clock.done();
    }
    Ok(())
}

/// Computes absolute deadlines for peers that have none themselves. Missed deadlines are skipped, as evenkeel does.
fn deadlines(pace: Pace, mut wait: impl FnMut(u64), begin: &mut dyn FnMut(u64)) {
    let mut due_ns = monotonic_ns() + pace.period_ns;
    for _ in 0..pace.all() {
        while due_ns + pace.period_ns <= monotonic_ns() {
            due_ns += pace.period_ns;
        }
        wait(due_ns);
        begin(due_ns);
        due_ns += pace.period_ns;
    }
}

fn nanosleep(pace: Pace, begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    deadlines(pace, sleep_until_ns, begin);
    Ok(())
}

fn timerfd(pace: Pace, begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let spec = |ns: u64| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    let mut due_ns = monotonic_ns() + pace.period_ns;
    let times = Itimerspec { it_interval: spec(pace.period_ns), it_value: spec(due_ns) };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &times)?;
    for _ in 0..pace.all() {
        let mut expired = [0; 8];
        rustix::io::read(&timer, &mut expired)?;
        let expired = u64::from_ne_bytes(expired);
        due_ns += (expired - 1) * pace.period_ns;
        begin(due_ns);
        due_ns += pace.period_ns;
    }
    Ok(())
}

fn spin_sleep(pace: Pace, begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let sleeper = spin_sleep::SpinSleeper::default();
    deadlines(pace, |due_ns| sleeper.sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()))), begin);
    Ok(())
}

fn tokio_interval(pace: Pace, begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let (now, now_ns) = (Instant::now(), monotonic_ns());
        let period = Duration::from_nanos(pace.period_ns);
        let mut interval = tokio::time::interval_at((now + period).into(), period);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        for _ in 0..pace.all() {
            let due = interval.tick().await.into_std().saturating_duration_since(now);
            begin(now_ns + u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
        }
    });
    Ok(())
}

/// A thread that disturbs the measured CPU until it is dropped.
struct Disturber {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Disturber {
    /// An ordinary thread on this CPU that never sleeps.
    fn neighbour(cpu: usize) -> anyhow::Result<Disturber> {
        Disturber::start(move |stop| {
            let pinned = thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>());
            while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    }

    /// A real-time thread that takes this CPU for 6 ms of every 10.
    fn hog(cpu: usize) -> anyhow::Result<Disturber> {
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let hog = Disturber::start(move |stop| {
            let pinned = thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>());
            let made = pinned.and_then(|()| sched::set_fifo(50));
            let is_made = made.is_ok();
            let _ = ready.send(made);
            let mut begin_ns = monotonic_ns() + 10_000_000;
            while is_made && !stop.load(Ordering::Relaxed) {
                sleep_until_ns(begin_ns);
                while monotonic_ns() < begin_ns + 6_000_000 {
                    std::hint::spin_loop();
                }
                begin_ns += 10_000_000;
            }
        })?;
        let made = is_ready.recv().context("the real-time thread ended at once")?;
        made.map_err(|errno| anyhow!("make the thread real-time: {errno}: this row needs root"))?;
        Ok(hog)
    }

    fn start(body: impl FnOnce(&AtomicBool) + Send + 'static) -> anyhow::Result<Disturber> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Ok(Disturber { stop, thread: Some(std::thread::Builder::new().spawn(move || body(&stopped))?) })
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A version 1 control group with 4 ms of CPU time in 10. In version 1, a single thread can join a group.
pub(crate) struct Group(PathBuf);

impl Group {
    pub(crate) fn new() -> anyhow::Result<Group> {
        let dir = Path::new("/sys/fs/cgroup/cpu").join(format!("evenkeel-bench-{}", std::process::id()));
        std::fs::create_dir(&dir)
            .with_context(|| format!("make {}: this row needs root, and a version 1 CPU controller", dir.display()))?;
        let group = Group(dir);
        for (file, value) in [("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "4000")] {
            std::fs::write(group.0.join(file), value).with_context(|| format!("write {file}"))?;
        }
        Ok(group)
    }

    /// Moves the calling thread into the group.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        let own = rustix::thread::gettid().as_raw_nonzero().to_string();
        std::fs::write(self.0.join("tasks"), own).context("enter the limited group")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // All threads of the group have ended.
        let _ = std::fs::remove_dir(&self.0);
    }
}
