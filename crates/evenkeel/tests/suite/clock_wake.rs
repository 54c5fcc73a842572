//! Tests `measure clock` and `measure wake` from the user's side: the content of an answer, and refusals.

use evenkeel_sys::process;
use serde_json::Value;

use crate::faults::evenkeel;
use crate::schemas;
use crate::wait::{cpu_ns, until};

#[test]
fn the_clocks_answer_names_what_was_asked() {
    let output = evenkeel("measure clock --json --calls 1000").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = schemas::parse("measure-clock", &output.stdout);
    let costs = answer["sources"][0]["costs"].as_array().unwrap();
    let calls: Vec<&str> = costs.iter().map(|samples| samples["conditions"]["call"].as_str().unwrap()).collect();
    assert!(calls.starts_with(&["clock_gettime", "gettimeofday", "rdtsc"]), "{calls:?}");
    assert!(calls.ends_with(&["clock_gettime_by_system_call", "empty_system_call"]), "{calls:?}");
    for samples in costs {
        assert_eq!((samples["unit"].as_str(), samples["lost"]["count"].as_u64()), (Some("ps"), Some(0)), "{samples}");
    }
    assert!(answer["format"].is_u64() && answer["counter_hz"].as_f64().unwrap() > 1e6);
}

/// If a signal ends the meter before any measurement, the meter still answers with the requested settings.
#[test]
fn wakes_that_a_signal_cuts_short_are_answered() {
    let meter = evenkeel("measure wake --json --seconds 600 --gaps-us 200 --slack-ns 50000").spawn().unwrap();
    until("the meter is at work", || cpu_ns(meter.id()) > 30_000_000);
    process::ask_to_end(meter.id());
    let output = meter.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(8), "{output:?}");
    let answer: Value = schemas::parse("measure-wake", &output.stdout);
    assert_eq!((&answer["format"], &answer["plain_slack_ns"]), (&1.into(), &50_000.into()), "{answer}");
    for list in ["parts", "round_trips", "cells", "skipped"] {
        assert!(answer[list].is_array(), "{list}: {answer}");
    }
}

#[test]
fn what_cannot_be_meant_is_wrong_use() {
    for options in [
        "--cpus 4000",
        "--gaps-us 200000",
        "--gaps-us 18446744073709551615",
        "--kinds bell",
        "--variants faster",
        "--cpus ",
    ] {
        let output = evenkeel(&format!("measure wake --seconds 1 {options}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options}: {output:?}");
    }
}
