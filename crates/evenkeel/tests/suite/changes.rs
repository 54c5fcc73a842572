//! Tests plans and `apply --try` with the real program.
//! If the tests run as root, they change this machine and restore it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live_host::{Live, SWAPPINESS};

/// The time limit that detects a hang. No result depends on it.
const PATIENCE: Duration = Duration::from_secs(120);

impl Live {
    /// Waits until a change has undone itself and the journal records the undo.
    /// evenkeel restores the value slightly earlier.
    fn wait_until_as_before(&self) {
        self.wait_until(|| self.now() == self.before && text(&self.run("history")).contains("reverted"));
    }

    fn wait_until(&self, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "it is still {:?}: {}", self.now(), text(&self.run("history")));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_plan_is_carried_out_as_it_was_reviewed() {
    let Some(live) = Live::take() else { return };
    let setting = format!("vm.swappiness={}", live.other());
    assert_eq!(code(&live.run(&format!("plan --output p.json {setting}"))), 0);
    assert_eq!(code(&live.run("diff p.json")), 1, "it would change something");
    let applied = live.run("apply p.json");
    assert_eq!((code(&applied), live.now().trim()), (0, live.other()), "{}", text(&applied));
    assert_eq!(code(&live.run("diff p.json")), 0);
    let again = live.run("apply p.json");
    assert!(code(&again) == 0 && text(&again).contains("Nothing to do"), "{}", text(&again));

    // Another program has changed the machine since, so the reviewed plan no longer fits.
    fs::write(SWAPPINESS, "33").unwrap();
    let stale = live.run("apply p.json");
    assert!(code(&stale) == 4 && text(&stale).contains("evenkeel plan"), "{}", text(&stale));
    assert_eq!(live.now().trim(), "33");
    assert_eq!(code(&live.run("revert")), 0);
    assert_eq!(live.now(), live.before);
}

/// A change to a plan file, and the expected exit code.
type Tampering<'a> = (&'a str, i32, &'a dyn Fn(&mut Value));

#[test]
fn a_plan_that_was_tampered_with_is_refused() {
    let Some(live) = Live::take() else { return };
    let path = live.folder.path().join("p.json");
    live.run(&format!("plan --output p.json --persist vm.swappiness={}", live.other()));
    let plan: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let tampered = |change: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        change(&mut plan);
        fs::write(&path, plan.to_string()).unwrap();
        let seen = live.run("apply p.json");
        assert_eq!(live.now(), live.before, "{plan:#}");
        (code(&seen), text(&seen))
    };
    let table: [Tampering<'_>; 8] = [
        ("another file", 4, &|plan| plan["steps"][0]["path"] = "/proc/sysrq-trigger".into()),
        ("another value", 4, &|plan| plan["steps"][0]["wanted"] = "18; reboot".into()),
        ("another text", 4, &|plan| plan["persist"]["files"][0]["text"] = "kernel.panic = 1\n".into()),
        ("a file outside", 4, &|plan| plan["persist"]["files"][0]["path"] = "/root/.profile".into()),
        ("a command", 4, &|plan| {
            plan["persist"]["commands"] =
                serde_json::json!([{"argv": ["reboot"], "undo": [], "why": "", "only_booted": false}])
        }),
        ("a step more", 4, &|plan| {
            let step = plan["steps"][0].clone();
            plan["steps"].as_array_mut().unwrap().push(step);
        }),
        ("an invalid setting", 2, &|plan| plan["settings"][0] = "vm.swappiness=$(reboot)".into()),
        ("another format", 2, &|plan| plan["format"] = 2.into()),
    ];
    for (what, expected, change) in table {
        let (code, text) = tampered(change);
        assert_eq!(code, expected, "{what}: {text}");
    }
    for junk in ["", "{", "[]", "{\"format\":1}", "\0", "null"] {
        fs::write(&path, junk).unwrap();
        let seen = live.run("apply p.json");
        assert_eq!(code(&seen), 2, "{junk:?}: {}", text(&seen));
    }
    assert_eq!(code(&live.run("apply not-here.json")), 2);
}

#[test]
fn a_try_undoes_itself_unless_it_is_confirmed() {
    let Some(live) = Live::take() else { return };
    // The time limit may pass before this test reads the value. `apply` itself has read the value back.
    let tried = live.run(&format!("apply --try 1 vm.swappiness={}", live.other()));
    assert_eq!(code(&tried), 0, "{}", text(&tried));
    live.wait_until_as_before();

    let tried = live.run(&format!("apply --try 600 vm.swappiness={}", live.other()));
    assert_eq!(code(&tried), 0, "{}", text(&tried));
    assert!(live.watchdog().is_some());
    let confirmed = live.run("confirm");
    assert_eq!(code(&confirmed), 0, "{}", text(&confirmed));
    // After the confirmation, no process is left that would undo the change.
    live.wait_until(|| live.watchdog().is_none());
    assert_eq!(live.now().trim(), live.other());
    assert_eq!(code(&live.run("confirm")), 1, "nothing waits");
    assert_eq!(code(&live.run("revert")), 0);
    assert_eq!(live.now(), live.before);
}

#[test]
fn what_to_run_next_is_about_the_same_change_and_journal() {
    let Some(live) = Live::take() else { return };
    let state = live.state().display().to_string();
    let none = live.run("verify");
    assert!(code(&none) == 0 && text(&none).contains("There is no journal in"), "{}", text(&none));

    live.run(&format!("apply --try 600 vm.swappiness={}", live.other()));
    let confirmed = text(&live.run("confirm"));
    assert_eq!(confirmed, format!("Transaction 1 stays. Undo it with `evenkeel revert 1 --state {state}`.\n"));

    fs::write(SWAPPINESS, "33").unwrap();
    let drifted = live.run("verify --json");
    let verification: Value = serde_json::from_slice(&drifted.stdout).unwrap();
    let mend = format!("evenkeel apply vm.swappiness@{SWAPPINESS}={} --state {state}", live.other());
    assert_eq!((code(&drifted), verification["drift"][0]["mend"].as_str()), (1, Some(&*mend)));
    assert_eq!(code(&live.run("revert")), 0);
}

/// Only the start of a process can set this property, so evenkeel records it as not applied.
/// evenkeel still sets the other settings, and a second run has nothing to do.
#[test]
fn with_keep_going_the_other_settings_are_set() {
    let Some(live) = Live::take() else { return };
    let settings = format!("process.timer_slack_ns=1 vm.swappiness={}", live.other());
    let refused = live.run(&format!("apply {settings}"));
    assert_eq!((code(&refused), live.now()), (4, live.before.clone()), "{}", text(&refused));
    for _ in 0..2 {
        let applied = live.run(&format!("apply --keep-going {settings}"));
        assert_eq!((code(&applied), live.now().trim()), (1, live.other()), "{}", text(&applied));
    }
    let history: Value = serde_json::from_slice(&live.run("history --json").stdout).unwrap();
    assert_eq!(history["transactions"].as_array().unwrap().len(), 1, "{history}");
    assert_eq!(code(&live.run("apply --keep-going process.timer_slack_ns=1")), 4, "nothing else is to set");
    assert_eq!(code(&live.run("revert")), 0);
    assert_eq!(live.now(), live.before);
}

/// Simulates a change that cuts the connection:
/// the terminal closes, its session gets SIGHUP, and the program is killed.
#[test]
fn a_try_outlives_its_terminal() {
    let Some(live) = Live::take() else { return };
    // The process group of this shell stands for all processes that a closed terminal ends.
    let script = format!(
        "{} apply --state {} --try 1 vm.swappiness={}; kill -HUP 0; kill -KILL 0",
        env!("CARGO_BIN_EXE_evenkeel"),
        live.folder.path().join("state").display(),
        live.other()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    assert!(!shell.status().unwrap().success(), "it was killed");
    live.wait_until_as_before();
}
