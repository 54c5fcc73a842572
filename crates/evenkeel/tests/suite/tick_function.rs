//! Tests `--tick-function` with the syntax that users type.
//! This process is the server. evenkeel finds its function by name, and records the entries into it.
//! Whether these entries are on time depends on the machine, so the test does not check it.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::schemas;

static ENTERED: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn entered_once_a_tick() {
    ENTERED.fetch_add(1, Ordering::Relaxed);
}

fn measure(function: &str, more: &[&str]) -> Output {
    let pid = std::process::id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["measure", "ticks", "--pid", &pid, "--seconds", "1", "--tick-function", function]);
    command.args(more).output().unwrap()
}

#[test]
fn the_entries_of_the_function_that_is_named_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ticks.txt");
    let (is_over, name) = (AtomicBool::new(false), "suite::tick_function::entered_once_a_tick");
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                entered_once_a_tick();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let output = measure(name, &["--json", "--save", file.to_str().unwrap()]);
        is_over.store(true, Ordering::Relaxed);
        output
    });
    let said = String::from_utf8_lossy(&output.stderr);
    if ["EACCES", "EPERM", "CONFIG_UPROBE_EVENTS", "ENOENT"].iter().any(|refusal| said.contains(refusal)) {
        evenkeel_testkit::skipped(format_args!("this user may not probe a function: {said}"));
        return;
    }
    assert!(output.status.success(), "{said}");
    let answer = schemas::parse("measure-ticks", &output.stdout);
    assert_ne!(answer["unclear"]["why"], "not-entered", "{answer}");
    let saved = std::fs::read_to_string(&file).unwrap();
    let entries = saved.lines().filter(|line| line.starts_with("entered ")).count() as u64;
    assert!(saved.starts_with("evenkeel ticks 2\n") && saved.contains(&format!("\nfunction {name}\n")), "{saved}");
    assert!((1..=ENTERED.load(Ordering::Relaxed)).contains(&entries), "{entries} entries");
    let again = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["measure", "ticks", "--json", "--tick-function", name, "--recording"])
        .arg(&file)
        .output()
        .unwrap();
    let again = schemas::parse("measure-ticks", &again.stdout);
    // The two recordings begin at different clock readings, so the last digits of a rate may differ.
    let said =
        |answer: &Value| (answer["tick"].clone(), answer["ticks"]["ticks"].clone(), answer["loops"][0]["of"].clone());
    assert_eq!(said(&again), said(&answer), "what was saved says what was measured");
}

#[test]
fn a_function_that_can_not_be_found_is_named_with_those_that_are_near() {
    let output = measure("suite::tick_function::entered_once_a_tik", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("error: failed to use --tick-function: find suite::tick_function::entered_once_a_tik in "),
        "{said}"
    );
    assert!(said.contains("similar names") && said.contains("entered_once_a_tick"), "{said}");
    let output = measure("tick", &["--tick", "50"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
