//! Sessions that spread their ticks, on the real kernel. The sessions find each other, and a killed session disturbs nobody.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_rt::{Align, PhaseError, PhaseSettings, PhaseState, TickClock, TickLoop, TickLoopError, TickSettings};
use evenkeel_sys::phase_registry::Scanner;

use crate::PATIENCE;

/// If this is set to a folder, the test becomes a session in that folder.
const SESSION: &str = "EVENKEEL_TEST_PHASES";
const KILLED: &str = "phases::sessions_that_are_killed_at_any_moment_disturb_nobody";

fn clock(folder: &Path, period: Duration) -> TickClock {
    let settings = TickSettings { period, align: Align::Never, ..TickSettings::default() };
    let mut clock = TickClock::start(settings).unwrap();
    clock.join_phases(&PhaseSettings { folder: Some(folder.into()) }).unwrap();
    clock
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Runs the clocks until the condition holds.
fn until(clocks: &mut [TickClock], mut is_so: impl FnMut(&[TickClock]) -> bool) {
    let began = Instant::now();
    while !is_so(clocks) {
        clocks.iter_mut().for_each(|clock| _ = clock.wait());
        assert!(began.elapsed() < PATIENCE, "{:?}", clocks[0].phase());
    }
}

#[test]
fn a_new_session_starts_in_the_largest_gap() {
    let folder = tempfile::tempdir().unwrap();
    // A slot is valid for 32 periods, which is long enough on any machine.
    let period = Duration::from_millis(500);
    let period_ns = 500_000_000;
    let one = clock(folder.path(), period);
    let other = clock(folder.path(), period);
    let apart_ns = one.next_due_ns().abs_diff(other.next_due_ns()) % period_ns;
    assert!(apart_ns.abs_diff(period_ns / 2) <= period_ns / 100, "{apart_ns}");
    assert_eq!((one.phase().state, one.phase().shifted_ns), (PhaseState::Alone, 0));
    let third = clock(folder.path(), period);
    let apart_ns = one.next_due_ns().abs_diff(third.next_due_ns()) % (period_ns / 2);
    assert!(apart_ns.abs_diff(period_ns / 4) <= period_ns / 100, "{apart_ns}");
    assert_eq!((third.phase().state, third.phase().neighbours), (PhaseState::Settling, 2));
    assert!(third.phase().shifted_ns < period_ns as i64);
}

#[test]
fn sessions_settle_and_one_that_ends_leaves_the_other_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut clocks: Vec<TickClock> = (0..2).map(|_| clock(folder.path(), Duration::from_millis(5))).collect();
    until(&mut clocks, |clocks| clocks.iter().all(|clock| clock.phase().state == PhaseState::Settled));
    assert_eq!(clocks[0].phase().neighbours, 1);
    assert!(clocks[0].phase().to_string().starts_with("settled, 1 neighbours, shifted by "));
    clocks.pop();
    until(&mut clocks, |clocks| clocks[0].phase().state == PhaseState::Alone);
    // Slots do not support this period, so this session has no neighbours, and other sessions do not see it.
    clocks.push(clock(folder.path(), Duration::from_millis(5)));
    clocks[1].set_period(Duration::from_micros(900)).unwrap();
    until(&mut clocks, |clocks| clocks[0].phase().neighbours == 0);
    drop(clocks);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_folder_that_refuses_the_file_is_an_error() {
    let phases = PhaseSettings { folder: Some("/proc/evenkeel".into()) };
    let refused = TickLoop::builder().align(Align::Never).phases(phases).build().unwrap_err();
    assert!(matches!(refused, TickLoopError::Phases(PhaseError::Folder { .. })), "{refused}");
    assert!(refused.to_string().contains("/proc/evenkeel: no such file or directory"), "{refused}");
    let off = TickLoop::builder().align(Align::Never).build().unwrap();
    assert_eq!((off.phase().state, off.phase().to_string()), (PhaseState::Off, "off".to_owned()));
}

#[test]
fn sessions_that_are_killed_at_any_moment_disturb_nobody() {
    if let Some(folder) = std::env::var_os(SESSION) {
        return serve(folder.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut clocks = vec![clock(folder.path(), Duration::from_millis(2))];
    let mut sessions: Vec<Child> = (0..4).map(|_| session(folder.path())).collect();
    // All five sessions see each other, whatever state the killed sessions' files are in.
    until(&mut clocks, |clocks| clocks[0].phase().neighbours == 4);
    let mut chance = 1_u64;
    for killed in 0..50 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Kill the session at a random moment of its start, or of later ticks.
        let until_ns = evenkeel_rt::monotonic_ns() + (chance >> 33) % 30_000_000;
        while evenkeel_rt::monotonic_ns() < until_ns {
            clocks[0].wait();
        }
        let mut old = std::mem::replace(&mut sessions[killed % 4], session(folder.path()));
        old.kill().unwrap();
        old.wait().unwrap();
    }
    until(&mut clocks, |clocks| clocks[0].phase().neighbours == 4);
    for mut session in sessions {
        session.kill().unwrap();
        session.wait().unwrap();
    }
    until(&mut clocks, |clocks| clocks[0].phase().neighbours == 0);
    // The user's next session removes complete slots of ended sessions. It removes torn slots a minute later.
    assert!(files(folder.path()).len() > 1);
    drop((clock(folder.path(), Duration::from_millis(2)), clocks));
    let mut whole = 0;
    let mut count = |_, _| {
        whole += 1;
        true
    };
    Scanner::open(folder.path()).unwrap().scan(&mut count).unwrap();
    assert_eq!(whole, 0, "{:?}", files(folder.path()));
}

fn session(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", KILLED]).env(SESSION, folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn serve(folder: &Path) {
    let mut clock = clock(folder, Duration::from_millis(2));
    // The parent kills this session long before its end. If the parent is gone, the session ends after a minute.
    for _ in 0..30_000 {
        clock.wait();
        clock.done();
    }
}
