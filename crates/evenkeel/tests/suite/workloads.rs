//! Tests the built-in workloads as trials use them: each returns all its metrics, opens new sockets,
//! restarts, changes settings and knobs of its process, and ends with this process.
//! Live checks test the effects of knobs on them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_sys::{process, thread};
use evenkeel_testkit::skipped;
use evenkeel_workload::{Placement, Sample, Settable, Workload};

use crate::wait::until;
use crate::workloads_started::{missing_arena, programs, settable, start, try_window};

const SETTLE: Duration = Duration::from_millis(5);
const WINDOW: Duration = Duration::from_millis(100);

/// Measures windows until a window has everything that `is_wanted` needs.
/// On a busy machine, a short window may be empty, which is an error.
fn window_in_which(what: &str, workload: &mut dyn Workload, mut is_wanted: impl FnMut(&Sample) -> bool) {
    until(what, || match try_window(workload, SETTLE, WINDOW) {
        Ok(sample) => is_wanted(&sample),
        Err(error) => {
            println!("until {what}: {error}");
            false
        }
    });
}

/// Waits for a window that has any metrics.
fn any_window(workload: &mut dyn Workload) {
    window_in_which("a window has numbers", workload, |sample| !sample.is_empty());
}

fn has_all_numbers(workload: &mut dyn Workload) {
    let names: Vec<_> = workload.metrics().iter().map(|metric| metric.name.clone()).collect();
    let what = format!("every number of {names:?} is over 0");
    window_in_which(&what, workload, |sample| {
        names.iter().all(|name| sample.get(name.as_ref()).is_some_and(|number| *number > 0.0))
    });
}

/// Waits until the process has ended. `/proc` shows it for a moment longer.
fn await_end(pid: u32) {
    until(format_args!("process {pid} has ended"), || !Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn each_measures_what_it_says_and_is_started_anew() {
    for name in ["udp-echo", "tick", "drain"] {
        let mut workload = start(name, &[]);
        let pids = workload.pids();
        has_all_numbers(workload.as_mut());
        workload.reopen().unwrap();
        if name != "tick" {
            assert_eq!(workload.pids(), pids, "{name}: new sockets need no new process");
        }
        any_window(workload.as_mut());
        workload.restart().unwrap();
        assert_ne!(workload.pids(), pids, "{name}");
        any_window(workload.as_mut());
        assert!(!workload.describe().is_empty());
        let pid = workload.pids()[0];
        workload.stop();
        await_end(pid);
    }
}

#[test]
fn the_timer_slack_of_a_loop_is_set_and_given_back() {
    let usual = thread::timer_slack_ns().unwrap().to_string();
    for how in ["nanosleep", "timerfd"] {
        let mut workload = start("tick", &[("how", how)]);
        for (value, expected) in [(Some("2000000"), "2000000"), (None, usual.as_str())] {
            assert_eq!(workload.set_process("process.timer_slack_ns", value).unwrap(), expected, "{how}");
        }
        workload.stop();
    }
}

#[test]
fn server_and_load_are_placed_while_they_run() {
    let mut workload = start("udp-echo", &[]);
    let pid = workload.pids()[0];
    if thread::affinity().unwrap().len() < 2 {
        skipped("placement apart: there is one CPU");
        return;
    }
    for (value, read_back, cpus) in
        [(Some("together"), "together", 1), (None, "apart", Placement::Apart.cpus().0.len())]
    {
        assert_eq!(workload.set_process("workload.placement", value).unwrap(), read_back);
        assert_eq!(thread::affinity_of(pid).unwrap().len(), cpus, "{read_back}");
        any_window(workload.as_mut());
    }
    assert!(workload.set_process("workload.placement", Some("elsewhere")).is_err());
    workload.stop();
}

/// Waits for a window in which about this many ticks per second were due. Ticks that a busy machine misses also count.
fn await_hz(workload: &mut Settable, hz: f64) {
    let what = format!("about {hz} ticks a second are due");
    window_in_which(&what, workload, |sample| {
        let due = (sample["ticks"] + sample["missed"]) / sample["span_us"] * 1e6;
        (0.6 * hz..1.5 * hz).contains(&due)
    });
}

#[test]
fn a_setting_is_switched_by_a_new_start_where_it_must_be_and_given_back() {
    let mut workload = settable("tick", &[("work-us", "50")]);
    let first = workload.pids();
    assert_eq!(workload.configure(&[("hz", Some("50")), ("work-us", Some("20"))]).unwrap(), ["50", "20"]);
    let second = workload.pids();
    assert_ne!(second, first, "it was started anew");
    await_hz(&mut workload, 50.0);
    assert!(workload.describe().contains("50 ticks a second, busy for 20 us"), "{}", workload.describe());
    // The server restarts even if a value stays the same, so that a switch is equal for all arms.
    assert_eq!(workload.configure(&[("hz", Some("50")), ("work-us", Some("20"))]).unwrap(), ["50", "20"]);
    assert_ne!(workload.pids(), second);
    for (bad, value, expected) in [
        ("hz", "5", "switch workload.hz to 5: set hz=5: expected a whole number from 10 to 2000"),
        (
            "colour",
            "red",
            "switch workload.colour to red: read the options of the workload: set colour: the workload tick takes hz, work-us",
        ),
    ] {
        let error = workload.configure(&[(bad, Some(value))]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(workload.describe().contains("50 ticks a second"), "it runs as before: {}", workload.describe());
        any_window(&mut workload);
    }
    assert_eq!(workload.configure(&[("hz", None), ("work-us", None)]).unwrap(), ["200", "50"]);
    await_hz(&mut workload, 200.0);
    assert!(workload.describe().contains("200 ticks a second, busy for 50 us"), "{}", workload.describe());
    let pid = workload.pids()[0];
    workload.stop();
    await_end(pid);
}

#[test]
fn settings_of_the_arena_are_switched_while_it_runs() {
    if let Some(why) = missing_arena() {
        return skipped(why);
    }
    let mut workload = settable("arena", &[("work-us", "200")]);
    let pids = workload.pids();
    assert_eq!(workload.configure(&[("work-us", Some("4200"))]).unwrap(), ["4200"]);
    // No other setting makes every second tick work for so long.
    window_in_which("ticks take 4 ms", &mut workload, |sample| sample["work_us_p50"] > 3_000.0);
    assert_eq!(workload.configure(&[("work-us", None), ("tail-us", Some("9000"))]).unwrap(), ["200", "9000"]);
    window_in_which("ticks take less", &mut workload, |sample| sample["work_us_p50"] < 3_000.0);
    assert_eq!(workload.pids(), pids, "no new start was needed");
    // A setting that needs a restart must not undo a setting that needs none.
    assert_eq!(workload.configure(&[("tick-hz", Some("100")), ("work-us", Some("4200"))]).unwrap(), ["100", "4200"]);
    assert_ne!(workload.pids(), pids);
    window_in_which("ticks take 4 ms", &mut workload, |sample| sample["work_us_p50"] > 3_000.0);
    let error = workload.configure(&[("work-us", Some("100001"))]).unwrap_err().to_string();
    assert!(error.starts_with("switch workload.work-us to 100001: set work-us=100001: expected"), "{error}");
    workload.stop();
}

/// An arena that was started outside of a trial.
fn arena(session: &str) -> Child {
    let mut command = Command::new(programs().join("evenkeel-arena"));
    command.args(["--session", session, "--work-us", "100"]).stdin(Stdio::piped());
    process::die_with_parent(command.stdout(Stdio::piped()));
    let mut server = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("addr"), "{first}");
    server
}

#[test]
fn a_running_server_is_looked_at_by_its_page_also_after_a_new_start() {
    if let Some(why) = missing_arena() {
        return skipped(why);
    }
    let session = format!("evenkeel test {}", std::process::id());
    let end = |mut server: Child| {
        drop(server.stdin.take());
        server.wait().unwrap();
    };
    let server = arena(&session);
    let mut workload = start("telemetry", &[("session", &session)]);
    assert_eq!(workload.pids(), [server.id()]);
    window_in_which("a window has no restart", workload.as_mut(), |sample| sample["restarts"] == 0.0);
    let error = workload.set_process("process.timer_slack_ns", Some("1")).unwrap_err().to_string();
    assert!(error.contains("the server was not started by us"), "{error}");
    end(server);
    let server = arena(&session);
    let names: Vec<_> = workload.metrics().iter().map(|metric| metric.name.clone()).collect();
    window_in_which("the page has all numbers", workload.as_mut(), |sample| {
        names.iter().all(|name| sample.contains_key(name.as_ref()))
    });
    assert_eq!(workload.pids(), [server.id()], "the one that came after it");
    end(server);
}
