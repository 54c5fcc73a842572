//! Tests meters that a signal kills while they measure, and meters on a captured machine.

use std::process::{Child, Stdio};

use evenkeel_sys::thread;
use evenkeel_testkit::HostLock;

use crate::faults::{evenkeel, state};
use crate::wait::{cpu_ns, until};

#[test]
fn a_meter_that_is_killed_leaves_nothing_changed() {
    // Hold the lock of the host. Otherwise this test would see a setting that another test changes.
    let _host = HostLock::take();
    let fifo =
        format!("measure gaps --seconds 60 --fifo --cpus {}", thread::affinity().unwrap().iter().last().unwrap());
    let lines = [
        "measure gaps --seconds 60",
        &fifo,
        "measure quantum --seconds 30",
        "measure wake --seconds 60",
        "measure rates --seconds 60",
        "measure imbalance --seconds 60",
        "measure frequency --each 5000",
        "measure memory",
        "measure disk",
        "measure udp",
        "measure bandwidth",
    ];
    std::thread::scope(|scope| {
        lines.iter().for_each(|line| drop(scope.spawn(|| killed_it_leaves_nothing_changed(line))))
    });
}

fn killed_it_leaves_nothing_changed(line: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut meter = evenkeel(line);
    let mut meter = meter.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = meter.id().to_string();
    let before = state(&run);
    until(format_args!("{line} is at work"), || is_at_work(&meter) || meter.try_wait().unwrap().is_some());
    meter.kill().unwrap();
    meter.wait().unwrap();
    until(format_args!("all is as before {line}: {before:?}"), || state(&run) == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{line} leaves a file");
}

/// Whether a meter has begun to measure.
/// At that point it handles signals, and has used some CPU time or all of its threads sleep.
fn is_at_work(meter: &Child) -> bool {
    const SIGTERM: u32 = 15;
    let pid = meter.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let sleeps = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"));
    let mut stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    caught >> (SIGTERM - 1) & 1 == 1 && (cpu_ns(pid) > 30_000_000 || stats.all(sleeps))
}

#[test]
fn a_captured_machine_has_no_time_to_measure() {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/qemu-128cpu-6.1.txt");
    for meter in ["gaps", "quantum", "wake", "clock", "rates", "imbalance", "frequency", "memory", "disk"] {
        let output = evenkeel(&format!("measure {meter} --host {host}")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{meter}: {said}");
        assert!(
            said.contains("time does not pass in a captured machine; run it on the machine itself"),
            "{meter}: {said}"
        );
    }
}
