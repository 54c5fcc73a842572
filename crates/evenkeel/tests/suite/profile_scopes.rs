//! Tests `profile scopes` without a recording.
//! Then evenkeel does not know how long threads were switched out, and does not guess it.

use std::process::Command;

use evenkeel_rt::scope::{self, Scope};
use evenkeel_sys::clock::{monotonic_ns, sleep_until_ns, thread_cpu_ns};

use crate::schemas;

static WORK: Scope = Scope::new("work");
static CUT: Scope = Scope::new("work, sleep, work");
static SLEEP: Scope = Scope::new("sleep");

const MS: u64 = 1_000_000;
/// How often the thread enters each scope.
const TURNS: u64 = 6;

fn work(ns: u64) {
    let until_ns = thread_cpu_ns() + ns;
    while thread_cpu_ns() < until_ns {
        std::hint::spin_loop();
    }
}

fn server() {
    scope::start_thread("scopes of a test", 1024).unwrap();
    for _ in 0..TURNS {
        in_scope(&WORK, || work(3 * MS));
        in_scope(&CUT, || {
            work(2 * MS);
            sleep_until_ns(monotonic_ns() + 4 * MS);
            work(2 * MS);
        });
        in_scope(&SLEEP, || sleep_until_ns(monotonic_ns() + 4 * MS));
    }
}

fn in_scope(scope: &'static Scope, body: impl FnOnce()) {
    let _entered = scope.enter();
    body();
}

#[test]
fn scopes_that_slept_are_not_judged_without_a_recording() {
    std::thread::spawn(server).join().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scopes.json");
    std::fs::write(&file, scope::recording().unwrap().chrome_json()).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let output = program.args(["profile", "scopes", "--quantum-ms", "4", "--json"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer = schemas::parse("profile-scopes", &output.stdout);
    assert_eq!((&answer["covered"], &answer["quantum_from"]), (&0.into(), &"given".into()), "{answer:#}");
    assert_eq!(answer["over_ns"], 2 * MS, "{answer:#}");
    let rows = answer["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["scope"] == "work"), "{answer:#}");
    let unjudged = ["switched_out", "unknown"].map(|why| answer["unjudged"][why].as_u64().unwrap());
    assert!((2 * TURNS..=3 * TURNS).contains(&unjudged.iter().sum()), "{answer:#}");
}
