//! Tests that disturbers keep consistent accounts, end by themselves, and leave nothing behind.

use std::fs;

use evenkeel_measure::MeterError;
use evenkeel_measure::disturb::memory::{bandwidth, pressure};
use evenkeel_measure::disturb::spinner::Duty;
use evenkeel_measure::disturb::{all_cpus, quantum, sibling, spinner};
use evenkeel_sys::{CpuSet, clock};
use evenkeel_testkit::{skipped, wait_for, wait_until};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

pub(crate) fn in_ms(ms: u64) -> u64 {
    clock::monotonic_ns() + ms * MS
}

pub(crate) fn last_cpu() -> CpuSet {
    all_cpus().unwrap().iter().last().into_iter().collect()
}

/// Threads of this process with this name, which the kernel cuts to 15 bytes.
pub(crate) fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)).count()
}

/// The started disturber. If this user may not start it, records the test as skipped and returns None.
fn allowed<T>(started: Result<T, MeterError>) -> Option<T> {
    match started {
        Ok(running) => Some(running),
        Err(MeterError::Refused { what, errno }) if errno.is_denial() => {
            skipped(format_args!("{what}: {errno}"));
            None
        }
        Err(MeterError::NotPossible { what, why }) => {
            skipped(format_args!("{what}: {why}"));
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_spinner_ends_by_its_time_and_not_before_and_leaves_no_thread() {
    let settings = spinner::Settings { cpus: last_cpu(), threads: 2, nice: 5, duty: Duty::Always };
    let (start_ns, until_ns) = (clock::monotonic_ns(), in_ms(50));
    let running = spinner::start(&settings, until_ns).unwrap();
    let at_work = || threads_named("evenkeel-spinne");
    wait_until("the spinners' begin", || at_work() == 2 || clock::monotonic_ns() > until_ns);
    wait_until("the spinners' end", || at_work() == 0);
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    assert!(start_ns + elapsed_ns >= until_ns);
    let report = running.stop();
    assert_eq!(report.threads.len(), 2);
    for thread in &report.threads {
        assert_eq!(thread.cpu, last_cpu().first());
        assert!(thread.elapsed_ns <= elapsed_ns && thread.taken_ns <= thread.elapsed_ns + MS, "{thread:?}");
    }
    let both: u64 = report.threads.iter().map(|thread| thread.taken_ns).sum();
    assert!(both <= elapsed_ns + MS, "two threads had {both} ns of {elapsed_ns} ns of one CPU");
}

/// Runs a function for longer and longer until it has done enough.
fn long_enough<T>(what: &str, mut run: impl FnMut(u64) -> Option<T>) -> T {
    let mut for_ms = 10;
    wait_for(what, || {
        for_ms *= 2;
        run(for_ms)
    })
}

#[test]
fn a_thrasher_walks_through_its_working_set() {
    let settings = sibling::Settings { cpus: last_cpu(), working_set_bytes: 4 * MIB };
    long_enough("a whole pass", |for_ms| {
        let Some(running) = allowed(sibling::start(&settings, in_ms(for_ms))) else { return Some(()) };
        clock::sleep_until_ns(in_ms(for_ms));
        let cpu = running.stop().cpus.remove(0);
        assert!((cpu.passes - cpu.lines as f64 / (4 * MIB / 64) as f64).abs() < 1e-6, "{cpu:?}");
        (cpu.passes >= 1.0).then_some(())
    });
}

#[test]
fn bandwidth_moves_what_it_says() {
    let settings = bandwidth::Settings { cpus: last_cpu(), working_set_bytes: 4 * MIB };
    long_enough("some bytes", |for_ms| {
        let Some(running) = allowed(bandwidth::start(&settings, in_ms(for_ms))) else { return Some(()) };
        clock::sleep_until_ns(in_ms(for_ms));
        let cpu = running.stop().cpus.remove(0);
        let per_s = cpu.copied_bytes as f64 * 1e9 / cpu.elapsed_ns as f64;
        assert!(cpu.copied_bytes == 0 || (per_s / cpu.copied_bytes_per_s - 1.0).abs() < 1e-9, "{cpu:?}");
        (cpu.copied_bytes >= 4 * MIB).then_some(())
    });
}

#[test]
fn a_quantum_begins_on_each_cpu_by_its_phase() {
    let settings = quantum::Settings {
        cpus: all_cpus().unwrap(),
        period_ns: 10 * MS,
        share_left: 0.9,
        phase_ns: 3 * MS,
        jitter_ns: 0,
        jitter_adds_up: false,
        drift_ppm: 0.0,
        priority: 60,
        seed: 5,
    };
    let Some(running) = allowed(quantum::start(&settings, in_ms(60))) else { return };
    clock::sleep_until_ns(in_ms(60));
    let report = running.stop();
    assert_eq!(report.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), settings.cpus.iter().collect::<Vec<_>>());
    for (at, cpu) in report.cpus.iter().enumerate() {
        assert_eq!(cpu.start_ns, report.cpus[0].start_ns + 3 * MS * at as u64 % (10 * MS), "{cpu:?}");
        assert!(cpu.turns + cpu.missed_turns <= 7, "{cpu:?}");
    }
}

fn oom_score() -> String {
    fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().to_owned()
}

#[test]
fn pressure_holds_what_it_reports_and_restores_the_score() {
    let settings = pressure::Settings { amount_bytes: 64 * MIB, reserve_bytes: 256 * MIB };
    let score = oom_score();
    let Some(running) = allowed(pressure::start(&settings, in_ms(60_000))) else { return };
    wait_until("the memory to be held", || running.is_filled());
    assert_eq!(oom_score(), "1000");
    let report = running.stop();
    assert_eq!(oom_score(), score);
    assert!(report.held_back || report.held_bytes_max == 64 * MIB, "{report:?}");
    assert!(report.held_bytes_at_end <= report.held_bytes_max && report.ended_because.is_none(), "{report:?}");
}
