//! A thread holds a lock for too long.
//! `watch` must name the lock as the cause, for a server that counts its own waits,
//! and for a C server that reports nothing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_rt::telemetry::TelemetrySettings;
use evenkeel_rt::{Mutex, ThreadConfig, TickLoop};
use evenkeel_sys::{CpuSet, clock, process};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_watch::sample::{Cause, LateTicks, ServerSample};

use crate::scene::Scene;
use crate::watch::{last, samples};

const TRIES: usize = 3;
const CPU: usize = 0;
/// How often the thread holds the lock, for how long each time, and how long the lock is free in between.
const PLANTS: u32 = 30;
const HELD: Duration = Duration::from_millis(60);
const FREE: Duration = Duration::from_millis(390);
/// The time limit for finding a tick from outside. Finding it takes 3 to 9 seconds.
const FOUND_WITHIN: Duration = Duration::from_secs(30);
/// This environment variable turns a copy of this program into the server.
/// Its value is the name of the server's session.
const SERVES: &str = "EVENKEEL_TEST_SERVES_WITH_A_LOCK";

/// A server with fifty ticks per second. Each tick takes the lock.
/// After a line on standard input, another thread holds the lock `PLANTS` times.
const IN_C: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;
static long ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static void sleep_ms(long ms) { struct timespec t = { ms / 1000, ms % 1000 * 1000000 }; nanosleep(&t, 0); }
static void *saver(void *nothing) {
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < PLANTS; i++) {
            sleep_ms(FREE_MS);
            pthread_mutex_lock(&world);
            sleep_ms(HELD_MS);
            pthread_mutex_unlock(&world);
        }
        puts("done");
        fflush(stdout);
    }
    return nothing;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, saver, 0);
    pthread_setname_np(thread, "saver");
    for (long next = ns();;) {
        next += 20000000;
        if (next < ns()) continue;
        struct timespec until = { next / 1000000000, next % 1000000000 };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
        long from = ns();
        while (ns() - from < 500000) {}
        pthread_mutex_lock(&world);
        while (ns() - from < 1000000) {}
        pthread_mutex_unlock(&world);
    }
}
"#;

/// A server in which another thread holds the lock on request.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> Server {
        process::run_on(command, &CpuSet::from_iter([CPU])).unwrap();
        Server(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn in_c(folder: &Path) -> Result<Server, String> {
        let mut text = String::new();
        for (name, value) in
            [("PLANTS", u128::from(PLANTS)), ("HELD_MS", HELD.as_millis()), ("FREE_MS", FREE.as_millis())]
        {
            let _ = writeln!(text, "#define {name} {value}");
        }
        std::fs::write(folder.join("server.c"), text + IN_C).unwrap();
        let made =
            Command::new("cc").args(["-O1", "-pthread", "server.c", "-o", "server"]).current_dir(folder).status();
        match made {
            Ok(status) if status.success() => Ok(Server::start(&mut undisturbed(&folder.join("server")))),
            other => Err(format!("a server in C needs cc: {other:?}")),
        }
    }

    fn with_a_page(session: &str) -> Server {
        let mut command = undisturbed(&std::env::current_exe().unwrap());
        let test = "watch_lock::a_lock_that_is_held_too_long_is_named";
        Server::start(command.args(["--exact", test, "--nocapture"]).env(SERVES, session))
    }

    /// Makes the server hold the lock `PLANTS` times.
    fn plant(&mut self) {
        writeln!(self.0.stdin.as_mut().unwrap(), "go").unwrap();
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("done")), "the server has ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that starts the program with a real-time class, so that other programs make no tick late.
/// Without the right to do so, an ordinary command.
fn undisturbed(program: &Path) -> Command {
    let is_allowed = Command::new("chrt").args(["--fifo", "10", "true"]).stderr(Stdio::null()).status();
    let mut command = match is_allowed {
        Ok(status) if status.success() => Command::new("chrt"),
        _ => return Command::new(program),
    };
    command.args(["--fifo", "10"]).arg(program);
    command
}

/// The same server as the C server, built with evenkeel-rt.
fn serve(session: &str) {
    let world = Arc::new(Mutex::new(0_u64));
    let of_saver = Arc::clone(&world);
    let saver = std::thread::Builder::new().name("saver".to_owned()).spawn(move || {
        for _ in std::io::stdin().lines() {
            for _ in 0..PLANTS {
                std::thread::sleep(FREE);
                let held = of_saver.lock();
                std::thread::sleep(HELD);
                drop(held);
            }
            println!("done");
        }
        std::process::exit(0);
    });
    saver.unwrap();
    let page = TelemetrySettings::named(session);
    let thread = ThreadConfig::unchanged();
    let mut ticks = TickLoop::builder().rate_hz(50).thread(thread).telemetry(page).build().unwrap();
    loop {
        let tick = ticks.wait();
        let mut world = world.lock();
        while clock::monotonic_ns() < tick.began_ns + 1_000_000 {
            *world += 1;
        }
    }
}

/// Watches a server while a thread holds its lock. Returns the late ticks of the server.
///
/// # Errors
/// If `watch` does not find the server's tick from outside.
fn watched(scene: &Scene, server: &mut Server, is_seen: fn(&ServerSample) -> bool) -> Result<Vec<LateTicks>, String> {
    let pid = server.0.id();
    let line = format!("watch --interval 1s --store samples --no-find --pid {pid}");
    let watcher = scene.command(&line).spawn().unwrap();
    let end = |mut watcher: Child| {
        process::ask_to_end(watcher.id());
        watcher.wait().unwrap();
    };
    let is_found = || last(&scene.path("samples")).is_some_and(|sample| sample.servers.iter().any(is_seen));
    let until_ns = clock::monotonic_ns() + FOUND_WITHIN.as_nanos() as u64;
    while !is_found() {
        if clock::monotonic_ns() > until_ns {
            end(watcher);
            let server = last(&scene.path("samples")).and_then(|sample| sample.servers.into_iter().next());
            return Err(format!("its tick was not found: {:?}", server.map(|server| server.outside)));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_secs(2));
    let begun_ns = clock::realtime_ns();
    server.plant();
    // The records of a tick arrive some seconds after the tick.
    std::thread::sleep(Duration::from_secs(5));
    end(watcher);
    let whole = samples(&scene.path("samples")).into_iter().filter(|sample| sample.at.realtime_ns > begun_ns);
    Ok(whole.flat_map(|sample| sample.ledger.new).filter(|late| late.pid == Some(pid)).collect())
}

/// At least 95 % of the late ticks must name the lock, and at most 2 % may name a wrong cause.
fn judge(found: &[LateTicks]) -> Result<(), String> {
    let count = |of: &dyn Fn(&LateTicks) -> bool| {
        found.iter().filter(|late| of(late)).map(|late| late.late + late.missed).sum::<u64>()
    };
    let all = count(&|_| true);
    let right = count(&|late| late.cause == Cause::Lock && late.evidence.contains("saver"));
    let wrong = count(&|late| !matches!(late.cause, Cause::Lock | Cause::Unknown));
    let figures = format!("{right} lock, {wrong} another cause, {all} late ticks");
    println!("{figures}");
    let is_enough = all >= u64::from(PLANTS) && right as f64 >= all as f64 * 0.95;
    match is_enough && wrong as f64 <= all as f64 * 0.02 {
        true => Ok(()),
        false => Err(format!("{figures}: {found:#?}")),
    }
}

#[test]
fn a_lock_that_is_held_too_long_is_named() {
    if let Ok(session) = std::env::var(SERVES) {
        return serve(&session);
    }
    let _host = HostLock::take();
    let session = format!("lock {}", std::process::id());
    fitness::one_of(TRIES, &Needs::on_cpu(CPU), || {
        let mut server = Server::with_a_page(&session);
        let is_seen = |server: &ServerSample| server.telemetry.as_ref().is_some_and(Result::is_ok);
        watched(&Scene::new(), &mut server, is_seen).and_then(|found| judge(&found))
    });
}

#[test]
fn a_mutex_of_a_server_that_reports_nothing_is_named() {
    let _host = HostLock::take();
    fitness::one_of(TRIES, &Needs::on_cpu(CPU), || {
        let scene = Scene::new();
        let mut server = Server::in_c(&scene.path("."))?;
        let is_seen = |server: &ServerSample| server.outside.as_ref().is_some_and(Result::is_ok);
        watched(&scene, &mut server, is_seen).and_then(|found| judge(&found))
    });
}
