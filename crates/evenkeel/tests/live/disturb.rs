//! `evenkeel disturb quantum --by quota`: the limit takes the requested share of the command's time.

use std::process::{Command, Stdio};

use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live};
use serde_json::Value;

const TRIES: usize = 3;

/// The limit applies to the command and its child together. Each of the two would use only half of the limit.
#[test]
fn a_quota_limits_the_command_and_what_it_starts() {
    let _host = HostLock::take();
    let spin = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let script = format!("({spin}) & {spin}; wait");
    let line = "disturb quantum --by quota --cpus 0 --share 0.3 --period-ms 50 --json -- sh -c";
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(line.split(' ')).arg(script).stdin(Stdio::null());
    fitness::one_of(TRIES, &Needs::on_cpu(0).without_timers(), || {
        let before = stretch();
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if [3, 4].contains(&output.status.code().unwrap()) {
            live::not_judged(said);
            return Ok(());
        }
        assert!(output.status.success(), "{said}");
        judge(&serde_json::from_slice(&output.stdout).unwrap(), before.max(stretch()))
    });
}

/// The duration of a loop on this machine now, divided by its CPU time.
fn stretch() -> f64 {
    1.0 / fitness::spinning_share()
}

/// The command must be stopped for about the share of time that the limit takes.
fn judge(answer: &Value, stretched: f64) -> Result<(), String> {
    let did = &answer["did"];
    assert_eq!((&did["quota_us"], &did["period_us"]), (&15_000.into(), &50_000.into()), "{answer}");
    let (periods, throttled) = (did["periods"].as_u64().unwrap(), did["throttled_periods"].as_u64().unwrap());
    let wall_ns = answer["command"]["wall_ns"].as_u64().unwrap();
    let throttled_share = did["throttled_ns"].as_u64().unwrap() as f64 / wall_ns as f64;
    // Some kernels do not count time that the hypervisor takes against the limit.
    // Then the quota lasts longer, by the factor by which a bare loop takes longer than its CPU time.
    // This factor changes from moment to moment, so the bound is looser on such kernels.
    let part = if stretched < 1.1 { 0.5 } else { 0.25 };
    let least = part * (1.0 - 0.3 * stretched).max(0.0) / 0.7;
    if periods >= 4 && throttled * 10 >= periods * 7 && throttled_share > least {
        return Ok(());
    }
    Err(format!(
        "stopped for {throttled_share} of the time, expected {least}; a loop is stretched by {stretched}: {answer}"
    ))
}
