//! Finds slow ticks of a server on `evenkeel-rt` by the library's markers.
//! This process is the server, and records which ticks it made slow.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_rt::{Align, TickClock, TickSettings};
use evenkeel_sys::clock::thread_cpu_ns;
use evenkeel_testkit::{HostLock, fitness, live};
use serde_json::Value;

const MS: u64 = 1_000_000;
const PERIOD: Duration = Duration::from_millis(10);
/// The server makes one of this many ticks slow.
const EVERY: u64 = 50;
const PLANTED: u64 = 25;
/// The maximum number of runs, because a busy machine sometimes disturbs a run.
const RUNS: usize = 3;

fn work(ns: u64) {
    let until_ns = thread_cpu_ns() + ns;
    while thread_cpu_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// The server's counts of ticks that it did not make slow.
#[derive(Default)]
struct Ordinary {
    ticks: AtomicU64,
    /// The number of ordinary ticks that the machine delayed.
    kept: AtomicU64,
}

impl Ordinary {
    /// Whether the machine delayed more than one tick in twenty since the last call. Then the answer is not reliable.
    fn were_kept(&self) -> bool {
        self.kept.swap(0, Ordering::Relaxed) * 20 > self.ticks.swap(0, Ordering::Relaxed)
    }
}

/// Ticks until `stop` is set.
fn server(stop: &AtomicBool, ordinary: &Ordinary) {
    let mut clock =
        TickClock::start(TickSettings { period: PERIOD, align: Align::Never, ..TickSettings::default() }).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let tick = clock.wait();
        work(MS);
        if tick.number % EVERY == PLANTED {
            work(4 * MS);
        }
        let done = clock.done().unwrap();
        if tick.number % EVERY != PLANTED {
            ordinary.ticks.fetch_add(1, Ordering::Relaxed);
            ordinary.kept.fetch_add(u64::from(done.due_to_done_ns() > 3 * MS), Ordering::Relaxed);
        }
    }
}

/// Stops the server when the test ends, also after a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The answer of `profile ticks` for this process, or an error if it found no tick.
/// `None` if recording is not possible; then the check is skipped.
fn said(more: &[&str]) -> Option<Result<Value, String>> {
    let pid = std::process::id().to_string();
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    program.args(["profile", "ticks", "--pid", &pid, "--seconds", "4", "--slowest", "2", "--json", "--no-cache"]);
    let output = program.args(more).output().unwrap();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_denied = ["EACCES", "EPERM", "CONFIG_UPROBE_EVENTS"].iter().any(|reason| stderr.contains(reason));
        if !is_denied {
            return Some(Err(stderr));
        }
        live::not_judged(stderr);
        return None;
    }
    Some(Ok(serde_json::from_slice(&output.stdout).unwrap()))
}

/// Returns an error unless the server made most of the reported slow ticks slow. Ticks are compared by number.
fn are_planted(said: &Value) -> Result<(), String> {
    let slow = said["slow"].as_array().unwrap();
    let planted = slow.iter().filter(|tick| tick["number"].as_u64().unwrap() % EVERY == PLANTED).count();
    if planted * 2 > slow.len() { Ok(()) } else { Err(format!("{planted} of {}: {slow:?}", slow.len())) }
}

/// Fails if the answer is wrong in several runs. Runs in which the machine delayed the server do not count.
fn holds(ordinary: &Ordinary, more: &[&str], judge: impl Fn(&Value) -> Result<(), String>) {
    fitness::holds(RUNS, || {
        ordinary.were_kept();
        let Some(said) = said(more) else { return Some(Ok(())) };
        let judged = said.and_then(|said| judge(&said));
        let is_excused = judged.is_err() && ordinary.were_kept();
        (!is_excused).then_some(judged)
    });
}

#[test]
fn the_librarys_markers_give_the_ticks() {
    let _host = HostLock::take();
    let (stop, ordinary) = (AtomicBool::new(false), Ordinary::default());
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        std::thread::Builder::new().name("marked".to_owned()).spawn_scoped(scope, || server(&stop, &ordinary)).unwrap();
        let by_marks = |said: &Value| {
            let named_by = (said["by"].as_str(), said["thread"]["name"].as_str());
            assert_eq!(named_by, (Some("library"), Some("marked")), "{said}");
            assert_eq!(said["begins_at"].as_str(), Some("sdt_evenkeel:tick_begin"));
            assert_eq!(said["ends"].as_str(), Some("at-its-end"));
            are_planted(said)
        };
        // Wake-ups alone, without markers, lead to the same thread.
        let by_wakes = |said: &Value| {
            assert_eq!((said["by"].as_str(), said["begins_at"].as_str()), (Some("wakes"), None), "{said}");
            Ok(())
        };
        holds(&ordinary, &[], by_marks);
        holds(&ordinary, &["--by", "wakes"], by_wakes);
    });
}
