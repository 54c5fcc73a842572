//! Runs `prove` on a server without preparation for evenkeel, from the server's start to the report.

use std::process::Command;

use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};
use serde_json::Value;

const TRIES: usize = 3;

/// Prints a line of JSON every 10 ms.
const SERVER: &str =
    r#"echo up; exec perl -e '$| = 1; while (1) { print qq({"rtt":{"us":50}}\n); select undef, undef, undef, 0.01 }'"#;

#[test]
fn a_server_of_the_users_is_proved_and_can_be_proved_again() {
    let _host = HostLock::take();
    let state = tempfile::tempdir().unwrap();
    let line = "--json --pairs 6 --window-ms 100 --settle 10ms --control-pairs 0 --placement free --ready-line ^up$ \
                --json-metric rtt.us --better lower -- sh -c";
    fitness::one_of(TRIES, &Needs::on_last_cpu(), || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["prove", "process.timer_slack_ns=40000", "--state"]).arg(state.path());
        let output = command.args(line.split_whitespace()).arg(SERVER).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&answer["metric"]["name"], &answer["metric"]["unit"]),
            (&"rtt.us".into(), &"us".into()),
            "{answer}"
        );
        if answer["ended"] == "out-of-spares" {
            return Err(format!("too many windows were dropped: {}", answer["dropped"]));
        }
        assert_eq!(answer["pairs"], 6, "{answer}");
        assert!(answer["arms"][0]["cpu_share"].as_f64().is_some_and(|share| share > 0.0), "{answer}");
        Ok(())
    });
}
