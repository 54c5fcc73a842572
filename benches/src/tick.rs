//! `tick-idle`, `tick-neighbour`, `tick-quota`: how late ticks begin, beside what a server loop would use instead: on a quiet CPU, on one
//! that an ordinary busy thread shares, and under a limit of 4 ms in 10.
//!
//! 100 ticks a second with a millisecond of work each, every contender in a fresh thread on the same CPU, a second at a time, in an order
//! that chance gives each round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use evenkeel_rt::{ThreadWishes, TickClock, TickSettings, TickThread};
use evenkeel_sys::clock::{monotonic_ns, realtime_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::{CpuSet, thread};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

const PERIOD_NS: u64 = 10_000_000;
const TICKS: u32 = 100;
const WORK_NS: u64 = 1_000_000;
const ROUNDS: usize = 12;

/// The version of the peer that the manifest pins.
const SPIN_SLEEP: &str = "1.3.3";
const TOKIO: &str = "1.54.1";

/// Runs ticks, and calls back at the beginning of each with when it was due.
type Loop = fn(&mut dyn FnMut(u64)) -> anyhow::Result<()>;

const CONTENDERS: [(&str, &str, Loop); 5] = [
    ("evenkeel-rt", env!("CARGO_PKG_VERSION"), ours),
    ("clock_nanosleep", "absolute, default slack", nanosleep),
    ("timerfd", "absolute, periodic", timerfd),
    ("spin_sleep", SPIN_SLEEP, spin_sleep),
    ("tokio interval", TOKIO, tokio_interval),
];

/// What the CPU is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    Idle,
    Neighbour,
    Quota,
}

pub(crate) fn measure_idle() -> anyhow::Result<Row> {
    measure("tick-idle", Ground::Idle)
}

pub(crate) fn measure_neighbour() -> anyhow::Result<Row> {
    measure("tick-neighbour", Ground::Neighbour)
}

pub(crate) fn measure_quota() -> anyhow::Result<Row> {
    measure("tick-quota", Ground::Quota)
}

fn measure(row: &'static str, ground: Ground) -> anyhow::Result<Row> {
    let cpu = thread::affinity()
        .map_err(|errno| anyhow!("read the affinity: {errno}"))?
        .iter()
        .last()
        .context("no CPU may be used")?;
    let group = (ground == Ground::Quota).then(Group::new).transpose()?;
    let _neighbour = (ground == Ground::Neighbour).then(|| Neighbour::start(cpu)).transpose()?;
    let seed = realtime_ns();
    let turns = Rounds { count: ROUNDS, seed };
    let rounds = in_turns(CONTENDERS.len(), turns, |at| one(CONTENDERS[at].2, cpu, group.as_ref()))?;
    let all = CONTENDERS.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        rounds,
    });
    Row::of(Measurements { row, unit: "us", all: all.collect(), skipped: BTreeMap::new(), seed })
}

/// The mean lateness of a second of ticks, in microseconds.
fn one(ticks: Loop, cpu: usize, group: Option<&Group>) -> anyhow::Result<f64> {
    let body = move || -> anyhow::Result<f64> {
        thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>())
            .map_err(|errno| anyhow!("run on CPU {cpu}: {errno}"))?;
        if let Some(group) = group {
            group.enter()?;
        }
        let (mut sum_ns, mut count) = (0_u64, 0_u64);
        ticks(&mut |due_ns| {
            sum_ns += monotonic_ns().saturating_sub(due_ns);
            count += 1;
            let done_ns = thread_cpu_ns() + WORK_NS;
            while thread_cpu_ns() < done_ns {
                std::hint::spin_loop();
            }
        })?;
        Ok(sum_ns as f64 / count.max(1) as f64 / 1e3)
    };
    std::thread::scope(|scope| scope.spawn(body).join()).map_err(|_| anyhow!("a contender panicked"))?
}

fn ours(begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let _thread = TickThread::set_up(&ThreadWishes::default());
    let settings = TickSettings { period: Duration::from_nanos(PERIOD_NS), ..TickSettings::default() };
    let mut clock = TickClock::start(settings);
    for _ in 0..TICKS {
        begin(clock.wait().due_ns);
        clock.done();
    }
    Ok(())
}

/// Deadlines for the peers that have none of their own: those that passed are skipped, as ours are.
fn deadlines(mut wait: impl FnMut(u64), begin: &mut dyn FnMut(u64)) {
    let mut due_ns = monotonic_ns() + PERIOD_NS;
    for _ in 0..TICKS {
        while due_ns + PERIOD_NS <= monotonic_ns() {
            due_ns += PERIOD_NS;
        }
        wait(due_ns);
        begin(due_ns);
        due_ns += PERIOD_NS;
    }
}

fn nanosleep(begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    deadlines(sleep_until_ns, begin);
    Ok(())
}

fn timerfd(begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let spec = |ns: u64| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    let mut due_ns = monotonic_ns() + PERIOD_NS;
    let times = Itimerspec { it_interval: spec(PERIOD_NS), it_value: spec(due_ns) };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &times)?;
    for _ in 0..TICKS {
        let mut expired = [0; 8];
        rustix::io::read(&timer, &mut expired)?;
        let expired = u64::from_ne_bytes(expired);
        due_ns += (expired - 1) * PERIOD_NS;
        begin(due_ns);
        due_ns += PERIOD_NS;
    }
    Ok(())
}

fn spin_sleep(begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let sleeper = spin_sleep::SpinSleeper::default();
    deadlines(|due_ns| sleeper.sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()))), begin);
    Ok(())
}

fn tokio_interval(begin: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let (now, now_ns) = (Instant::now(), monotonic_ns());
        let period = Duration::from_nanos(PERIOD_NS);
        let mut interval = tokio::time::interval_at((now + period).into(), period);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        for _ in 0..TICKS {
            let due = interval.tick().await.into_std().saturating_duration_since(now);
            begin(now_ns + u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
        }
    });
    Ok(())
}

/// An ordinary thread that never sleeps, on the same CPU.
struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    fn start(cpu: usize) -> anyhow::Result<Neighbour> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            let pinned = thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>());
            while pinned.is_ok() && !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        Ok(Neighbour { stop, thread: Some(std::thread::Builder::new().spawn(body)?) })
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A control group with 4 ms of CPU time in 10, of the first version, which lets a single thread in.
pub(crate) struct Group(PathBuf);

impl Group {
    pub(crate) fn new() -> anyhow::Result<Group> {
        let dir = Path::new("/sys/fs/cgroup/cpu").join(format!("evenkeel-bench-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| {
            format!("make {}: this row takes root, and a CPU controller of the first version", dir.display())
        })?;
        let group = Group(dir);
        for (file, value) in [("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "4000")] {
            std::fs::write(group.0.join(file), value).with_context(|| format!("write {file}"))?;
        }
        Ok(group)
    }

    /// The calling thread is in it from now on.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        let own = rustix::thread::gettid().as_raw_nonzero().to_string();
        std::fs::write(self.0.join("tasks"), own).context("enter the limited group")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // All of its threads have ended.
        let _ = std::fs::remove_dir(&self.0);
    }
}
