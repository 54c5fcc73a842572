//! Tests `evenkeel measure gaps` from the user's side:
//! the content of its answer, its refusals, and that it still answers if a signal ends it early.

use std::process::{Command, Output, Stdio};

use evenkeel_sys::{process, thread};
use serde_json::Value;

use crate::schemas;
use crate::wait::{cpu_ns, until};

fn gaps(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["measure", "gaps"]).args(line.split(' ')).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The output of a meter that a signal ends shortly after the meter began to measure.
fn ended_by_a_signal(line: &str) -> Output {
    let meter = gaps(line).spawn().unwrap();
    until("the meter has measured for a moment", || cpu_ns(meter.id()) > 50_000_000);
    process::ask_to_end(meter.id());
    meter.wait_with_output().unwrap()
}

#[test]
fn an_answer_has_what_others_build_on() {
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    let mut answer = Value::Null;
    // Any interrupt is a gap. But a CPU without a timer tick may have no interrupt for a while.
    until("a gap is seen", || {
        let output = ended_by_a_signal(&format!("--cpus {cpu} --seconds 600 --keep 5 --min-us 0.5 --json"));
        assert_eq!(output.status.code(), Some(8), "{output:?}");
        answer = schemas::parse("measure-gaps", &output.stdout);
        answer["cpus"][0]["gaps"] != Value::Array(Vec::new())
    });
    assert_eq!(answer["format"], 1);
    let seen = &answer["cpus"][0];
    let listed = seen["gaps"].as_array().unwrap();
    assert!(listed.len() <= 5, "{seen}");
    for gap in listed {
        assert!(gap["start_ns"].is_u64() && gap["length_ns"].is_u64() && gap["cause"].is_string(), "{gap}");
    }
    assert_eq!(seen["lost"]["count"].as_u64().unwrap() + listed.len() as u64, seen["all"]["count"].as_u64().unwrap());
    assert!(answer["observer_cpu_share"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_can_not_be_done_is_said() {
    let table = [
        ("--cpus 1000", 4, "measure CPUs 1000: this process may use CPUs"),
        ("--cpus x", 2, "expected a list of CPUs"),
        ("--sample --fifo", 2, "exclude each other"),
        ("--min-us 0.1", 2, "expected 0.5 to"),
    ];
    for (line, code, words) in table {
        let output = gaps(line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    }
}
