//! The test makes ticks late on purpose, with a real-time thread, a CPU limit, or too much work.
//! `watch` must name the right cause.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use evenkeel_sys::{CpuSet, clock, process};
use evenkeel_testkit::cgroup::Group;
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live};
use evenkeel_watch::Sample;
use evenkeel_watch::sample::{Cause, ServerSample};
use evenkeel_watch::store::Replay;

use crate::scene::Scene;
use crate::workloads_started::missing_arena;

const TRIES: usize = 3;
const CPU: usize = 0;
/// How long each cause lasts. The seconds in which the cause begins or ends do not count.
const PLANTED: Duration = Duration::from_secs(6);

/// A server on one CPU. It counts its own ticks.
struct Server {
    child: Child,
    commands: ChildStdin,
}

impl Server {
    /// Starts a server.
    /// Without a session, the server has no telemetry page, so `watch` observes its ticks from outside.
    fn start(session: Option<&str>) -> Server {
        let program = Path::new(env!("CARGO_BIN_EXE_evenkeel")).with_file_name("evenkeel-arena");
        let mut command = Command::new(program);
        command.args(["--tick-hz", "50"]).stdin(Stdio::piped()).stdout(Stdio::null());
        if let Some(session) = session {
            command.args(["--session", session]);
        }
        process::run_on(&mut command, &CpuSet::from_iter([CPU])).unwrap();
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        Server { child, commands }
    }

    fn work_us(&mut self, us: u32) {
        writeln!(self.commands, "{{\"cmd\":\"work_us\",\"value\":{us}}}").unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time limit for finding a tick from outside. Finding it takes 3 to 9 seconds.
const FOUND_WITHIN: Duration = Duration::from_secs(30);

/// How `watch` counts the ticks of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    ByItself,
    FromOutside,
}

/// Watches a server while `plant` runs. Returns the late ticks by cause.
/// The result excludes the first and the last second of the cause.
///
/// # Errors
/// If `watch` does not find the tick from outside.
fn watched(counted: Counted, plant: impl FnOnce(&mut Server)) -> Result<Vec<(Cause, u64)>, String> {
    let scene = Scene::new();
    let session = format!("ledger {}", std::process::id());
    let mut server = Server::start((counted == Counted::ByItself).then_some(&session));
    let pid = server.child.id();
    let line = format!("watch --interval 1s --store samples --no-find --pid {pid}");
    let mut watcher = scene.command(&line).spawn().unwrap();
    match counted {
        Counted::ByItself => std::thread::sleep(Duration::from_secs(3)),
        Counted::FromOutside => {
            let is_seen = |server: &ServerSample| server.outside.as_ref().is_some_and(Result::is_ok);
            let is_found = || last(&scene.path("samples")).is_some_and(|sample| sample.servers.iter().any(is_seen));
            // Give the server some work: the tick of an idle server is hard to distinguish from a timer.
            server.work_us(1_000);
            let until_ns = clock::monotonic_ns() + FOUND_WITHIN.as_nanos() as u64;
            while !is_found() {
                if clock::monotonic_ns() > until_ns {
                    process::ask_to_end(watcher.id());
                    watcher.wait().unwrap();
                    let server = last(&scene.path("samples")).and_then(|sample| sample.servers.into_iter().next());
                    return Err(format!("its tick was not found: {:?}", server.map(|server| server.outside)));
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            std::thread::sleep(Duration::from_secs(2));
        }
    }
    let begun_ns = clock::realtime_ns();
    plant(&mut server);
    let ended_ns = clock::realtime_ns();
    std::thread::sleep(Duration::from_secs(2));
    process::ask_to_end(watcher.id());
    watcher.wait().unwrap();
    let whole = |sample: &Sample| {
        let at_ns = sample.at.realtime_ns;
        at_ns > begun_ns + 2_000_000_000 && at_ns < ended_ns
    };
    let late = samples(&scene.path("samples")).into_iter().filter(whole).flat_map(|sample| sample.ledger.new);
    Ok(late.filter(|late| late.pid == Some(pid)).map(|late| (late.cause, late.late + late.missed)).collect())
}

pub(crate) fn last(dir: &Path) -> Option<Sample> {
    let mut replay = Replay::open(dir).ok()?;
    let at = replay.last()?;
    replay.sample(at)
}

pub(crate) fn samples(dir: &Path) -> Vec<Sample> {
    let mut replay = Replay::open(dir).unwrap();
    let mut at = replay.last();
    let mut found = Vec::new();
    while let Some(position) = at {
        found.extend(replay.sample(position));
        at = replay.previous(position);
    }
    found
}

/// At least half of the late ticks must have the planted cause, and none may have a wrong cause.
/// The others may have an unknown cause.
fn judge(found: &[(Cause, u64)], planted: Cause) -> Result<(), String> {
    let count =
        |of: &dyn Fn(Cause) -> bool| found.iter().filter(|(cause, _)| of(*cause)).map(|(_, count)| count).sum::<u64>();
    let all = count(&|_| true);
    let right = count(&|cause| cause == planted);
    let wrong = count(&|cause| cause != planted && cause != Cause::Unknown);
    println!("{planted:?}: {right} right, {wrong} wrong of {all}");
    match all > 0 && wrong == 0 && right * 2 >= all {
        true => Ok(()),
        false => Err(format!("{planted:?}: {right} right, {wrong} wrong of {all}: {found:?}")),
    }
}

fn check(planted: Cause, plant: impl Fn(&mut Server)) {
    check_as(Counted::ByItself, planted, plant);
}

fn check_as(counted: Counted, planted: Cause, plant: impl Fn(&mut Server)) {
    let _host = HostLock::take();
    if let Some(why) = missing_arena() {
        live::not_judged(why);
        return;
    }
    fitness::one_of(TRIES, &Needs::on_cpu(CPU), || watched(counted, &plant).and_then(|found| judge(&found, planted)));
}

#[test]
fn a_real_time_thread_preempts() {
    check(Cause::Preempted, |_| {
        let line = format!(
            "disturb quantum --by rt-hog --cpus {CPU} --period-ms 200 --share 0.85 --seconds {}",
            PLANTED.as_secs()
        );
        let disturbed = Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(line.split(' ')).status().unwrap();
        assert!(disturbed.success());
    });
}

#[test]
fn a_limit_throttles() {
    check(Cause::Throttled, |server| match Group::with_cpu_limit(2_000, 100_000) {
        Ok(group) => {
            group.enter(server.child.id());
            std::thread::sleep(PLANTED);
            // The server runs in the group, so the server must end before the test removes the group.
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        Err(why) => live::not_judged(why),
    });
}

#[test]
fn work_that_is_too_long_is_its_own() {
    check(Cause::OwnWork, |server| {
        server.work_us(28_000);
        std::thread::sleep(PLANTED);
    });
}

#[test]
fn a_real_time_thread_preempts_a_server_that_reports_nothing() {
    check_as(Counted::FromOutside, Cause::Preempted, |_| {
        let line = format!(
            "disturb quantum --by rt-hog --cpus {CPU} --period-ms 200 --share 0.7 --seconds {}",
            PLANTED.as_secs()
        );
        let disturbed = Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(line.split(' ')).status().unwrap();
        assert!(disturbed.success());
    });
}

#[test]
fn a_limit_throttles_a_server_that_reports_nothing() {
    check_as(Counted::FromOutside, Cause::Throttled, |server| match Group::with_cpu_limit(16_000, 200_000) {
        Ok(group) => {
            group.enter(server.child.id());
            // The limit allows 16 ms in each period, and ten ticks of 2 ms are due in that time.
            server.work_us(2_000);
            std::thread::sleep(PLANTED);
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        Err(why) => live::not_judged(why),
    });
}

#[test]
fn long_ticks_of_a_server_that_reports_nothing_are_its_own() {
    check_as(Counted::FromOutside, Cause::OwnWork, |server| {
        let until_ns = clock::monotonic_ns() + PLANTED.as_nanos() as u64;
        while clock::monotonic_ns() < until_ns {
            server.work_us(45_000);
            std::thread::sleep(Duration::from_millis(20));
            server.work_us(1_000);
            std::thread::sleep(Duration::from_millis(280));
        }
    });
}
