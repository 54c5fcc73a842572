//! `measure clock` and `measure wake` as their callers see them, with what goes wrong on a real machine: the meter is killed while another
//! clock source is in force, somebody else changes the source, a CPU goes away.

use std::fs::{self, File};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use evenkeel_sys::{clock, process, thread};

use evenkeel_testkit::offline::Offline;

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const OFFERED: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Far more than any of this takes, and bounded.
const LIMIT_NS: u64 = 60_000_000_000;

fn alone() -> File {
    let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    host.lock().unwrap();
    host
}

fn evenkeel(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> Output {
    evenkeel(args).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn source() -> String {
    fs::read_to_string(CURRENT).unwrap_or_default().trim().to_owned()
}

/// Waits until it is so; whether it came to be.
fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let limit_ns = clock::monotonic_ns() + LIMIT_NS;
    while clock::monotonic_ns() < limit_ns {
        if is_so() {
            return true;
        }
        clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
    }
    false
}

/// The source in force and another one, where the machine lets us change between them; it is put back when this is dropped.
struct Switchable {
    before: String,
    other: String,
}

impl Switchable {
    fn find() -> Option<Switchable> {
        let before = source();
        let offered = fs::read_to_string(OFFERED).unwrap_or_default();
        let other = offered.split_ascii_whitespace().find(|name| *name != before)?.to_owned();
        fs::write(CURRENT, &before).ok()?;
        Some(Switchable { before, other })
    }
}

impl Drop for Switchable {
    fn drop(&mut self) {
        let _ = fs::write(CURRENT, &self.before);
    }
}

fn skip_without_switching() -> Option<Switchable> {
    let found = Switchable::find();
    if found.is_none() {
        println!("skipped: this user can't change the clock source here, or there is only one");
    }
    found
}

fn start_switching() -> Child {
    // As many calls as would take hours: it is to be interrupted.
    evenkeel(&["measure", "clock", "--json", "--each-source", "--cpus", "0", "--calls", "1000000000"]).spawn().unwrap()
}

#[test]
fn the_clocks_answer_names_what_was_asked() {
    let _alone = alone();
    let answer = json(&run(&["measure", "clock", "--json", "--calls", "5000"]));
    let costs = answer["sources"][0]["costs"].as_array().unwrap();
    let calls: Vec<&str> = costs.iter().map(|samples| samples["conditions"]["call"].as_str().unwrap()).collect();
    assert!(calls.starts_with(&["clock_gettime", "gettimeofday", "rdtsc"]), "{calls:?}");
    assert!(calls.ends_with(&["clock_gettime_by_system_call", "empty_system_call"]), "{calls:?}");
    for samples in costs {
        assert_eq!((samples["unit"].as_str(), samples["lost"]["count"].as_u64()), (Some("ps"), Some(0)), "{samples}");
    }
    assert!(answer["format"].is_u64() && answer["counter_hz"].as_f64().unwrap() > 1e6);
}

#[test]
fn each_source_is_measured_and_what_was_in_force_is_put_back() {
    let _alone = alone();
    let Some(switchable) = skip_without_switching() else { return };
    let answer = json(&run(&["measure", "clock", "--json", "--each-source", "--calls", "20000"]));
    let sources: Vec<&str> =
        answer["sources"].as_array().unwrap().iter().filter_map(|s| s["source"].as_str()).collect();
    assert_eq!(sources.first(), Some(&switchable.before.as_str()));
    assert!(sources.contains(&switchable.other.as_str()), "{answer}");
    assert!(answer["sources"][1]["loop_ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(source(), switchable.before);
}

#[test]
fn a_meter_that_is_killed_leaves_the_source_as_it_was() {
    let _alone = alone();
    let Some(switchable) = skip_without_switching() else { return };
    for signal in [Signal::Kill, Signal::Term] {
        let mut meter = start_switching();
        let switched = until(|| source() == switchable.other);
        match signal {
            Signal::Kill => meter.kill().unwrap(),
            Signal::Term => process::ask_to_end(meter.id()),
        }
        let status = meter.wait().unwrap();
        assert!(switched, "the source was never changed: {status}");
        assert!(until(|| source() == switchable.before), "{} is left in force after {signal:?}", source());
    }
}

#[derive(Clone, Copy, Debug)]
enum Signal {
    Kill,
    Term,
}

/// CPU time of a process so far, in milliseconds, to the kernel's 10.
fn cpu_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

#[test]
fn somebody_else_has_the_last_word_and_is_told_of() {
    let _alone = alone();
    let Some(switchable) = skip_without_switching() else { return };
    // While only the source in force is measured.
    let meter = evenkeel(&["measure", "clock", "--json", "--cpus", "0", "--calls", "20000000"]).spawn().unwrap();
    // It is at work when it has had the CPU for as long as its start never takes; by then it knows which source was in force.
    assert!(until(|| cpu_ms(meter.id()) >= 500), "it never began");
    fs::write(CURRENT, &switchable.other).unwrap();
    let answer = json(&meter.wait_with_output().unwrap());
    let words = answer["disturbed"][0].as_str().unwrap_or_default().to_owned();
    assert!(words.contains(&format!("from {} to {}", switchable.before, switchable.other)), "{answer}");
    assert_eq!(source(), switchable.other, "theirs is left");
    fs::write(CURRENT, &switchable.before).unwrap();

    // While it switches by itself: whatever it sets, the other's word is in force at the end.
    let mut meter = start_switching();
    assert!(until(|| source() == switchable.other));
    fs::write(CURRENT, &switchable.before).unwrap();
    let ended = until(|| meter.try_wait().unwrap().is_some());
    let _ = meter.kill();
    let answer = json(&meter.wait_with_output().unwrap());
    assert!(ended && answer["disturbed"][0].as_str().is_some(), "{answer}");
    assert_eq!(source(), switchable.before);
}

#[test]
fn wakes_are_told_with_their_parts() {
    let _alone = alone();
    let args =
        ["measure", "wake", "--json", "--seconds", "1", "--gaps-us", "200", "--variants", "plain,slack-1ns,spinning"];
    let answer = json(&run(&args));
    let has_pair = thread::affinity().unwrap().iter().count() > 1;
    let kinds: Vec<&str> = answer["parts"].as_array().unwrap().iter().filter_map(|p| p["kind"].as_str()).collect();
    let wanted: &[&str] = if has_pair { &["timer", "timerfd", "futex", "udp"] } else { &["timer", "timerfd"] };
    assert_eq!(kinds, wanted);
    let timer = &answer["parts"][0];
    assert!(timer["slack"]["ns"].is_f64() && timer["class"].is_null() && timer["waker_cpu"].is_null(), "{timer}");
    let page = run(&args.iter().copied().filter(|arg| *arg != "--json").collect::<Vec<_>>());
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("A timer (clock_nanosleep), on CPU ") && page.contains("idle gap"), "{page}");
}

#[test]
fn what_cannot_be_meant_is_wrong_use() {
    for args in [
        ["measure", "wake", "--cpus", "4000", "--seconds", "1"],
        ["measure", "wake", "--gaps-us", "200000", "--seconds", "1"],
        ["measure", "wake", "--gaps-us", "18446744073709551615", "--seconds", "1"],
        ["measure", "wake", "--kinds", "bell", "--seconds", "1"],
        ["measure", "wake", "--variants", "faster", "--seconds", "1"],
        ["measure", "wake", "--cpus", "", "--seconds", "1"],
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    }
}

#[test]
fn a_cpu_that_goes_away_is_told_and_nothing_hangs() {
    let _alone = alone();
    if std::env::var_os("EVENKEEL_CALIBRATE").is_none() {
        println!("skipped: it takes a CPU from everybody on this machine; EVENKEEL_CALIBRATE=1 runs it");
        return;
    }
    let last = thread::affinity().unwrap().iter().last().unwrap();
    let meter = evenkeel(&["measure", "wake", "--json", "--seconds", "4", "--gaps-us", "1000"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let Some(offline) = Offline::take(last) else {
        println!("skipped: CPU {last} can't be taken offline here");
        let _ = meter.wait_with_output();
        return;
    };
    let output = meter.wait_with_output();
    drop(offline);
    let answer = json(&output.unwrap());
    let lost =
        answer["cells"].as_array().unwrap().iter().map(|cell| cell["latency"]["lost"]["count"].as_u64().unwrap());
    let skipped = answer["skipped"].as_array().unwrap();
    assert!(lost.sum::<u64>() > 0 || !skipped.is_empty(), "{answer}");
    assert!(until(|| thread::affinity().unwrap().iter().last() == Some(last)), "CPU {last} did not come back");
}
