//! Runs `measure clock` and `measure wake` with faults of a real machine.
//! The test kills the meter while another clock source is selected,
//! another program changes the source, or a CPU goes offline.

use std::process::{Child, Output};
use std::time::Duration;

use evenkeel_sys::{process, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::offline::Offline;
use evenkeel_testkit::{HostLock, live};
use serde_json::Value;

use crate::clock_source::{Switchable, source};
use crate::faults::{evenkeel, state};
use crate::wait::{cpu_ns, until};

const TRIES: usize = 3;

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn start_switching() -> Child {
    // Interrupt the meter while another source is selected.
    // For that, the meter needs enough calls to keep that source for some time.
    evenkeel("measure clock --json --each-source --cpus 0 --calls 20000000").spawn().unwrap()
}

#[test]
fn each_source_is_measured_and_what_was_in_force_is_put_back() {
    let _host = HostLock::take();
    let Some(switchable) = Switchable::find() else { return };
    let answer = json(&evenkeel("measure clock --json --each-source --calls 20000").output().unwrap());
    let sources: Vec<&str> =
        answer["sources"].as_array().unwrap().iter().filter_map(|s| s["source"].as_str()).collect();
    assert_eq!(sources.first(), Some(&switchable.before.as_str()));
    assert!(sources.contains(&switchable.other.as_str()), "{answer}");
    assert!(answer["sources"][1]["loop_ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(source(), switchable.before);
}

#[test]
fn a_meter_that_is_killed_leaves_the_source_as_it_was() {
    let _host = HostLock::take();
    let Some(switchable) = Switchable::find() else { return };
    let before = state("");
    for is_killed in [true, false] {
        let mut meter = start_switching();
        until("the meter changes the source", || source() == switchable.other);
        match is_killed {
            true => meter.kill().unwrap(),
            false => process::ask_to_end(meter.id()),
        }
        meter.wait().unwrap();
        until(format_args!("the source is put back (killed: {is_killed})"), || source() == switchable.before);
        assert_eq!(state(""), before, "nothing else is changed (killed: {is_killed})");
    }
}

#[test]
fn a_value_that_another_program_set_stays_and_is_reported() {
    let _host = HostLock::take();
    let Some(switchable) = Switchable::find() else { return };
    // This meter measures only the current source.
    let meter = evenkeel("measure clock --json --cpus 0 --calls 20000000").spawn().unwrap();
    // A meter that has used more CPU time than its start needs is measuring. By then it knows the original source.
    until("the meter is at work", || cpu_ns(meter.id()) >= 500_000_000);
    switchable.switch();
    let answer = json(&meter.wait_with_output().unwrap());
    let words = answer["disturbed"][0].as_str().unwrap_or_default();
    assert!(words.contains(&format!("from {} to {}", switchable.before, switchable.other)), "{answer}");
    assert_eq!(source(), switchable.other, "theirs is left");
    switchable.switch_back();

    // This meter switches the source itself.
    // At the end, the current source must be the one that the other program selected.
    let mut meter = start_switching();
    until("the meter changes the source", || source() == switchable.other);
    switchable.switch_back();
    until("the meter ends", || meter.try_wait().unwrap().is_some());
    let answer = json(&meter.wait_with_output().unwrap());
    assert!(answer["disturbed"][0].as_str().is_some(), "{answer}");
    assert_eq!(source(), switchable.before);
}

#[test]
fn wakes_are_reported_with_their_parts() {
    let _host = HostLock::take();
    let line = "measure wake --seconds 2 --gaps-us 200 --variants plain,slack-1ns,spinning";
    let answer = json(&evenkeel(&format!("{line} --json")).output().unwrap());
    let has_pair = thread::affinity().unwrap().len() > 1;
    let kinds: Vec<&str> = answer["parts"].as_array().unwrap().iter().filter_map(|p| p["kind"].as_str()).collect();
    let wanted: &[&str] = if has_pair { &["timer", "timerfd", "futex", "udp"] } else { &["timer", "timerfd"] };
    assert_eq!(kinds, wanted);
    let timer = &answer["parts"][0];
    assert!(timer["slack"]["ns"].is_f64() && timer["class"].is_null() && timer["waker_cpu"].is_null(), "{timer}");
    let page = String::from_utf8(evenkeel(line).output().unwrap().stdout).unwrap();
    assert!(page.contains("A timer (clock_nanosleep), on CPU ") && page.contains("idle gap"), "{page}");
}

#[test]
fn a_cpu_that_goes_away_is_reported_and_nothing_hangs() {
    let _host = HostLock::take();
    let last = thread::affinity().unwrap().iter().last().unwrap();
    fitness::one_of(TRIES, &Needs::on_last_cpu().without_timers(), || {
        let meter = evenkeel("measure wake --json --seconds 4 --gaps-us 1000").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let offline = Offline::take(last);
        let is_offline = offline.is_some();
        let output = meter.wait_with_output();
        drop(offline);
        if !is_offline {
            live::not_judged(format_args!("CPU {last} can't be taken offline here"));
            return Ok(());
        }
        until(format_args!("CPU {last} is back"), || thread::affinity().unwrap().iter().last() == Some(last));
        let answer = json(&output.unwrap());
        let cells = answer["cells"].as_array().unwrap();
        let lost: u64 = cells.iter().map(|cell| cell["latency"]["lost"]["count"].as_u64().unwrap()).sum();
        let is_reported = lost > 0 || answer["skipped"].as_array().is_some_and(|skipped| !skipped.is_empty());
        if is_reported { Ok(()) } else { Err(format!("the answer does not report the offline CPU: {answer}")) }
    });
}
