//! A thread works, sleeps and waits in scopes, while evenkeel records its switches.
//! The answer must match the CPU time that the thread itself measured.

use std::path::Path;
use std::process::Command;

use evenkeel_profile::live::{self, Memory, RecordConfig, Status, Switches, Targets};
use evenkeel_rt::scope::{self, Scope};
use evenkeel_sys::clock::{monotonic_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::schedstat::RunDelay;
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};
use serde_json::Value;

static TICK: Scope = Scope::new("tick");
static WORK: Scope = Scope::new("work");
static CUT: Scope = Scope::new("work, sleep, work");
static SLEEP: Scope = Scope::new("sleep");

const MS: u64 = 1_000_000;
/// How often the thread enters each scope.
const TURNS: u64 = 25;
/// The maximum number of runs. Pauses of the machine disturb some scopes, and sometimes a whole run.
const RUNS: usize = 3;

/// The thread's own measurements in a scope.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    cpu_ns: u64,
    /// Steal time that the kernel does not count as CPU time. In a recording of switches, it looks like running time.
    stolen_ns: u64,
}

impl Counted {
    fn add(&mut self, more: Counted) {
        self.cpu_ns += more.cpu_ns;
        self.stolen_ns += more.stolen_ns;
    }
}

/// Works for this much CPU time.
/// Returns additional time in which the thread also did not wait for a CPU, if the kernel counts waiting.
fn work(ns: u64) -> u64 {
    let delay = RunDelay::of_this_thread().ok();
    let waited_ns = || Some(delay.as_ref()?.read().ok()?.run_delay_ns);
    let (start_waited_ns, start_ns, start_cpu_ns) = (waited_ns(), monotonic_ns(), thread_cpu_ns());
    while thread_cpu_ns() < start_cpu_ns + ns {
        std::hint::spin_loop();
    }
    let gone_ns = (monotonic_ns() - start_ns).saturating_sub(thread_cpu_ns() - start_cpu_ns);
    match (start_waited_ns, waited_ns()) {
        (Some(from), Some(to)) => gone_ns.saturating_sub(to.saturating_sub(from)),
        _ => 0,
    }
}

/// Runs `body` in a scope, and returns the thread's own measurements. `body` returns the steal time.
fn counted(scope: &'static Scope, body: impl FnOnce() -> u64) -> Counted {
    let _entered = scope.enter();
    let start_ns = thread_cpu_ns();
    let stolen_ns = body();
    Counted { cpu_ns: thread_cpu_ns() - start_ns, stolen_ns }
}

/// The thread's own measurements in the scopes `work` and `work, sleep, work`.
fn server() -> [Counted; 2] {
    scope::start_thread("scopes of a test", 1024).unwrap();
    let mut sums = [Counted::default(); 2];
    for _ in 0..TURNS {
        let _tick = TICK.enter();
        sums[0].add(counted(&WORK, || work(5 * MS)));
        sums[1].add(counted(&CUT, || {
            let before_ns = work(2 * MS);
            sleep_until_ns(monotonic_ns() + 4 * MS);
            before_ns + work(2 * MS)
        }));
        counted(&SLEEP, || {
            sleep_until_ns(monotonic_ns() + 6 * MS);
            0
        });
    }
    sums
}

/// Runs `body` while evenkeel records the switches of this process.
/// `None` if recording is not possible; then the check is skipped.
fn recorded<T: Send + 'static>(body: fn() -> T) -> Option<(T, Vec<u8>)> {
    let config = RecordConfig {
        targets: Targets::Processes(vec![std::process::id()]),
        clock_hz: None,
        switches: Switches::Records,
        ..RecordConfig::default()
    };
    let (mut memory, mut worker) = (Memory::new(1 << 26), None);
    let mut is_done_since_ns = None;
    let mut goes_on = |_: &Status| {
        // Start the thread after the recording began, because the recording must cover all scopes.
        let running = worker.get_or_insert_with(|| std::thread::spawn(body));
        if running.is_finished() {
            is_done_since_ns.get_or_insert(monotonic_ns());
        }
        // Record for a moment longer, so that the recording ends after the last scope.
        is_done_since_ns.is_none_or(|since_ns| monotonic_ns() < since_ns + 50 * MS)
    };
    match live::record(&config, &mut goes_on, &mut memory) {
        Ok(_) => Some((worker?.join().unwrap(), memory.into_bytes())),
        Err(error) => {
            evenkeel_testkit::live::not_judged(error);
            None
        }
    }
}

fn answer(arguments: &[&Path]) -> Value {
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let output = program.args(["profile", "scopes", "--quantum-ms", "4", "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn row<'a>(answer: &'a Value, scope: &str) -> Option<&'a Value> {
    answer["rows"].as_array()?.iter().find(|row| row["scope"] == scope)
}

/// Returns an error unless the answer matches the thread's measurements.
fn judge(answer: &Value, [worked, cut]: [Counted; 2]) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {answer:#}"));
    for (scope, counted) in [("work", worked), ("work, sleep, work", cut)] {
        let Some(row) = row(answer, scope) else { return wrong(scope) };
        let reported_ns = row["long"]["total_ns"].as_u64().unwrap_or(0) as f64;
        // Steal time looks like running time, whether or not the kernel counts it as CPU time.
        let most_ns = (counted.cpu_ns + counted.stolen_ns) as f64;
        let is_near = reported_ns >= 0.97 * counted.cpu_ns as f64 && reported_ns <= 1.03 * most_ns;
        if row["count"] != TURNS || !is_near {
            return wrong(&format!("{scope}, {counted:?} by the thread's own count"));
        }
    }
    if row(answer, "sleep").is_some() || row(answer, "tick").is_some() {
        return wrong("a scope that sleeps, or one around others");
    }
    if answer["covered"] != 3 * TURNS || answer["quantum_from"] != "given" || answer["over_ns"] != 2 * MS {
        return wrong("what was looked at");
    }
    Ok(())
}

#[test]
fn scopes_with_a_recording_keep_the_counts_of_their_thread() {
    let _host = HostLock::take();
    let folder = tempfile::tempdir().unwrap();
    let (json, data) = (folder.path().join("scopes.json"), folder.path().join("perf.data"));
    let mut runs = 0..;
    fitness::one_of(RUNS, &Needs::on_last_cpu().without_timers(), || {
        let Some((sums, bytes)) = recorded(server) else { return Ok(()) };
        std::fs::write(&data, bytes).unwrap();
        let mut recording = scope::recording().unwrap();
        // This recording does not contain scopes of earlier runs.
        recording.threads.drain(..runs.next().unwrap());
        std::fs::write(&json, recording.chrome_json()).unwrap();
        let recorded = answer(&[&json, Path::new("--recording"), &data]);
        // Without a recording, evenkeel can't know how long the thread was switched out.
        let alone = answer(&[&json]);
        assert!(alone["covered"] == 0 && row(&alone, "work, sleep, work").is_none(), "{alone:#}");
        let unjudged = ["switched_out", "unknown"].map(|why| alone["unjudged"][why].as_u64().expect(why));
        assert!(unjudged[0] + unjudged[1] >= 2 * TURNS - 2, "{alone:#}");
        judge(&recorded, sums)
    });
}
