//! Memory locks and the heap affect the whole process. So each case runs in a separate process, with the limit that it tests.

use std::process::{Command, Stdio};

use evenkeel_rt::ApplyStatus;
use evenkeel_rt::memory::{Memory, MemoryConfig, MemoryLock};

/// The environment variable that gives a process the name of its case.
const CASE: &str = "EVENKEEL_TEST_MEMORY";

/// Runs the case under a limit on locked memory, as a user who may not exceed the limit. Returns the output of the case.
fn run(test: &str, case: &str, limit_kib: &str) -> Option<String> {
    // Drop the capability, so that the limit applies. A user other than root has no capability to drop.
    let script = format!("ulimit -l {limit_kib} && exec \"$@\"");
    let program = std::env::current_exe().unwrap();
    let inner = ["--exact", test, "--nocapture"];
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "--ambient-caps", "-all", "--"]);
    command.args(["sh", "-c", &script, "sh"]).arg(program).args(inner);
    let output = command.env(CASE, case).stderr(Stdio::inherit()).output().ok()?;
    let said = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(said)
}

fn set_up(lock: MemoryLock) -> String {
    let memory = Memory::set_up(&MemoryConfig { lock, stack_bytes: None, heap_bytes: None });
    let report = memory.report();
    // If the limit applied to later mappings, these allocations would fail.
    let allocations: Vec<Vec<u8>> = (0..64).map(|_| vec![1_u8; 1 << 20]).collect();
    format!(
        "present {:?} future {:?} limit {:?} {}",
        report.present,
        report.future,
        report.lock_limit_bytes,
        allocations.len()
    )
}

#[test]
fn a_limit_is_reported_and_allocations_go_on() {
    const TEST: &str = "memory::a_limit_is_reported_and_allocations_go_on";
    if let Ok(case) = std::env::var(CASE) {
        let lock = if case == "all" { MemoryLock::All } else { MemoryLock::AllOnFault };
        return println!("{}", set_up(lock));
    }
    for (case, limit, expected) in [
        ("all", "64", "present Refused(ENOMEM) future Refused(ENOMEM) limit Some(65536) 64"),
        ("on-fault", "64", "present Refused(ENOMEM) future Refused(ENOMEM) limit Some(65536) 64"),
        ("on-fault", "0", "present Refused(EPERM) future Refused(ENOMEM) limit Some(0) 64"),
    ] {
        match run(TEST, case, limit) {
            Some(said) => assert!(said.contains(expected), "{case} with {limit} KiB: {said}"),
            None => evenkeel_testkit::skipped("the limit can't be set here, or setpriv is not installed"),
        }
    }
    let free = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CASE, "on-fault")
        .output()
        .unwrap();
    let said = String::from_utf8(free.stdout).unwrap();
    if said.contains("limit None") {
        assert!(said.contains("present Active future Active limit None 64"), "{said}");
    } else {
        evenkeel_testkit::skipped("this user may not lock all memory");
    }
}

#[test]
fn a_heap_that_was_brought_in_stays() {
    const TEST: &str = "memory::a_heap_that_was_brought_in_stays";
    if std::env::var(CASE).is_err() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", TEST, "--nocapture"]).env(CASE, "heap").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        return assert!(said.contains("heap Active") || said.contains("heap Refused(EINVAL)"), "{said}");
    }
    let config = MemoryConfig { lock: MemoryLock::Nothing, stack_bytes: None, heap_bytes: Some(32 << 20) };
    let memory = Memory::set_up(&config);
    let got = memory.report().heap;
    println!("heap {got:?}");
    assert!(matches!(got, ApplyStatus::Active | ApplyStatus::Refused(_)), "{got:?}: {:?}", memory.report().advice());
}
