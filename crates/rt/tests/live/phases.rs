//! Sessions that share a CPU wait less if their ticks are spread. A thousand killed sessions disturb nobody.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_rt::{Align, PhaseSettings, PhaseState, ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::clock;
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::Needs;
use evenkeel_testkit::live;

use crate::stage::{cpu, pin};

const PERIOD_NS: u64 = 20_000_000;
const SESSIONS: u64 = 8;
/// Ticks of a session in a block, and blocks of each arm.
const TICKS: usize = 200;
const BLOCKS: u64 = 10;
/// A spread session waits at most this fraction of the wait at a random phase, in the median of the blocks.
const LESS: f64 = 0.7;

/// If this is set to a folder, the check becomes a session in that folder.
const SESSION: &str = "EVENKEEL_LIVE_PHASES";
const KILLED: &str = "phases::a_thousand_killed_sessions_disturb_nobody";
const KILLS: usize = 1_000;

/// Pseudo-random numbers, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn clock_of(phases: Option<&Path>) -> TickClock {
    let period = Duration::from_nanos(PERIOD_NS);
    let settings = TickSettings { period, align: Align::Never, ..TickSettings::default() };
    let mut clock = TickClock::start(settings).unwrap();
    if let Some(folder) = phases {
        clock.join_phases(&PhaseSettings { folder: Some(folder.into()) }).unwrap();
    }
    clock
}

/// A session on the CPU that all sessions share. Returns how long each of its ticks waited, in nanoseconds.
/// The wait is the time from due to done without the session's own CPU time.
fn session(seed: u64, phases: Option<&Path>) -> Vec<u64> {
    let mut chance = Chance(seed);
    pin(cpu());
    let thread = TickThread::set_up(&ThreadConfig::default());
    // Start at a random phase.
    clock::sleep_until_ns(clock::monotonic_ns() + chance.below(PERIOD_NS));
    let mut clock = clock_of(phases).on(thread);
    let mut waited = Vec::with_capacity(TICKS);
    for _ in 0..TICKS {
        let tick = clock.wait();
        let from_ns = clock::thread_cpu_ns();
        // The work is from 0.13 to 1.87 ms, uniformly: its mean is 1 ms, with a standard deviation of half of that.
        let work_ns = 134_000 + chance.below(1_732_000);
        while clock::thread_cpu_ns() - from_ns < work_ns {}
        let worked_ns = clock::thread_cpu_ns() - from_ns;
        waited.push((clock::monotonic_ns() - tick.due_ns).saturating_sub(worked_ns));
    }
    waited
}

/// The p99 of all waits of a block.
fn block_us(block: u64, phases: Option<&Path>) -> u64 {
    let mut all = std::thread::scope(|scope| {
        let start = |at: u64| scope.spawn(move || session(block * SESSIONS + at, phases));
        let sessions: Vec<_> = (0..SESSIONS).map(start).collect();
        sessions.into_iter().flat_map(|session| session.join().unwrap()).collect::<Vec<u64>>()
    });
    all.sort_unstable();
    all[all.len() * 99 / 100] / 1000
}

fn median(of: &[u64]) -> u64 {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[test]
fn spread_ticks_wait_less() {
    let _host = HostLock::take();
    let (mut spread, mut random) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        let folder = tempfile::tempdir().unwrap();
        // Both arms have the same phases and the same work. The arms alternate in going first.
        for is_spread in [block % 2 == 0, block % 2 != 0] {
            let us = block_us(block, is_spread.then_some(folder.path()));
            if is_spread { spread.push(us) } else { random.push(us) }
        }
    }
    println!("wait_us_p99 of {SESSIONS} sessions, block by block: spread {spread:?}, random {random:?}");
    let (spread_us, random_us) = (median(&spread), median(&random));
    println!("median: spread {spread_us} us, random {random_us} us");
    if spread_us as f64 <= LESS * random_us as f64 {
        return;
    }
    match Needs::on_cpu(cpu()).unmet() {
        Some(why) => live::not_judged(format_args!("{why}")),
        None => panic!("spread {spread_us} us, random {random_us} us"),
    }
}

#[test]
fn a_thousand_killed_sessions_disturb_nobody() {
    if let Some(folder) = std::env::var_os(SESSION) {
        let mut clock = clock_of(Some(folder.as_ref()));
        // The parent kills this session long before its end. If the parent is gone, the session ends after ten minutes.
        return (0..30_000).for_each(|_| _ = clock.wait());
    }
    let _host = HostLock::take();
    let folder = tempfile::tempdir().unwrap();
    let mut clock = clock_of(Some(folder.path()));
    let mut sessions: Vec<Child> = (0..4).map(|_| other(folder.path())).collect();
    let mut chance = Chance(1);
    for killed in 0..KILLS {
        let until_ns = clock::monotonic_ns() + chance.below(80_000_000);
        while clock::monotonic_ns() < until_ns {
            clock.wait();
        }
        let mut old = std::mem::replace(&mut sessions[killed % 4], other(folder.path()));
        old.kill().unwrap();
        old.wait().unwrap();
    }
    let mut ticks = 0;
    while clock.phase().state != PhaseState::Settled || clock.phase().neighbours != 4 {
        clock.wait();
        ticks += 1;
        assert!(ticks < 3_000, "not settled with the four others a minute later: {:?}", clock.phase());
    }
    println!("settled after {ticks} ticks: {}", clock.phase());
    for mut session in sessions {
        session.kill().unwrap();
        session.wait().unwrap();
    }
}

fn other(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", KILLED]).env(SESSION, folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}
