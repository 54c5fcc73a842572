//! Tests `apply --try` if something kills or hinders the watchdog. evenkeel must notice a change that stays.

use std::fs;
use std::process::Command;

use evenkeel_sys::clock;
use evenkeel_testkit::{skipped, wait_for, wait_until};
use serde_json::Value;

use crate::live_host::{Live, SWAPPINESS};
use crate::schemas;
use crate::support::Seen;

impl Live {
    fn seen(&self, line: &str) -> Seen {
        self.run(line).into()
    }

    fn json(&self, line: &str) -> (i32, Value) {
        let seen = self.seen(&format!("--json {line}"));
        let answer = serde_json::from_str(&seen.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {seen}"));
        schemas::check(line, &answer);
        (seen.code, answer)
    }

    /// Runs `apply --try`. Returns its time limit on the clock that counts since boot, in nanoseconds.
    fn try_for(&self, seconds: u32) -> u64 {
        let seen = self.seen(&format!("apply --try {seconds} vm.swappiness={}", self.other()));
        assert_eq!(seen.code, 0, "{seen}");
        let journal = fs::read_to_string(self.state().join("journal")).unwrap();
        let record = |line: &str| serde_json::from_str::<Value>(&line[9..]).unwrap();
        journal.lines().rev().find_map(|line| record(line)["until"]["boottime_ns"].as_u64()).unwrap()
    }

    fn signal(&self, signal: &str) {
        let pid = self.watchdog().expect("a watchdog");
        let sent = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
        assert!(sent.success(), "{signal}");
    }

    /// Leaves a change whose time limit has passed and whose watchdog was killed before.
    /// On a busy machine, the watchdog may undo the change first. Then this function tries again with more time.
    fn leave_overdue(&self) {
        for seconds in [1, 4, 16, 64] {
            let until_ns = self.try_for(seconds);
            if let Some(pid) = self.watchdog() {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
                wait_until("the watchdog's end", || self.watchdog().is_none());
            }
            wait_for_time(until_ns);
            if self.now() != self.before {
                return;
            }
        }
        panic!("the watchdog undid each of the changes before it was killed");
    }

    fn wait_until_the_value_is_back(&self) {
        wait_until("the change to undo itself", || self.now() == self.before);
    }
}

fn wait_for_time(boottime_ns: u64) {
    wait_until("the time to be over", || clock::boottime_ns() > boottime_ns);
}

/// Regression: TERM, INT, HUP, QUIT and USR1 ended the watchdog, and the change stayed.
/// Later, ABRT, SEGV and similar signals had the same effect.
#[test]
fn a_watchdog_takes_no_notice_of_signals() {
    let Some(live) = Live::take() else { return };
    live.try_for(3);
    let by_name =
        ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TSTP", "TTOU", "RTMIN", "XCPU", "PWR"];
    // A user can also send the signals that the kernel sends for program errors.
    let of_errors = ["ABRT", "SEGV", "BUS", "ILL", "FPE", "TRAP", "SYS", "SEGV"];
    for signal in by_name.into_iter().chain(of_errors) {
        if live.watchdog().is_some() {
            live.signal(signal);
        }
    }
    live.wait_until_the_value_is_back();
    let status = || live.json("history").1["transactions"][0]["status"].clone();
    wait_until("the journal to say so", || status() == "reverted");
}

/// Regression: an error while the watchdog read the journal ended the watchdog.
#[test]
fn a_watchdog_tries_again_after_errors() {
    let Some(live) = Live::take() else { return };
    let until_ns = live.try_for(1);
    let (state, away) = (live.state(), live.folder.path().join("away"));
    fs::rename(&state, &away).unwrap();
    // A file replaces the folder, so the watchdog can open neither the journal nor its lock.
    fs::write(&state, "").unwrap();
    wait_for_time(until_ns + 1_200_000_000);
    assert!(live.watchdog().is_some(), "it has ended");
    assert_eq!(live.now().trim(), live.other());
    fs::remove_file(&state).unwrap();
    fs::rename(&away, &state).unwrap();
    live.wait_until_the_value_is_back();
    wait_until("the watchdog's end", || live.watchdog().is_none());
}

/// If the journal is damaged before the time limit, the watchdog still undoes the change.
#[test]
fn a_watchdog_undoes_the_change_of_a_damaged_journal() {
    let Some(live) = Live::take() else { return };
    live.try_for(2);
    let path = live.state().join("journal");
    let mut journal = fs::read(&path).unwrap();
    journal[20] ^= 1;
    fs::write(&path, journal).unwrap();
    live.wait_until_the_value_is_back();
}

/// Regression: if the journal's folder was gone, the change stayed for ever, and nobody noticed.
#[test]
fn a_watchdog_undoes_the_change_of_a_journal_that_is_gone() {
    let Some(live) = Live::take() else { return };
    let (state, away) = (live.state(), live.folder.path().join("away"));
    let removals: [&dyn Fn(); 3] =
        [&|| fs::remove_dir_all(&state).unwrap(), &|| fs::remove_file(state.join("journal")).unwrap(), &|| {
            fs::rename(&state, &away).unwrap()
        }];
    for remove in removals {
        live.try_for(2);
        remove();
        live.wait_until_the_value_is_back();
        wait_until("the watchdog's end", || live.watchdog().is_none());
        let _ = fs::remove_dir_all(&state);
    }
    // The journal that was moved away has no record of the undo.
    // A command that reads it later finds all values restored.
    fs::rename(&away, &state).unwrap();
    let seen = live.seen("verify");
    assert!(seen.code == 0 && seen.stderr.contains("as before"), "{seen}");
}

/// A process can't ignore SIGKILL. But the time limit is on disk, so the next command sees that it has passed.
#[test]
fn a_time_that_is_over_is_seen_by_the_next_command_and_the_change_undone() {
    let Some(live) = Live::take() else { return };
    for command in ["verify", "history", "confirm", "revert", "apply vm.swappiness=19", "plan vm.swappiness=19"] {
        live.leave_overdue();
        let seen = live.seen(command);
        let context = format!("{command}: {seen}");
        assert!(seen.stderr.contains("not confirmed within 1 s"), "{context}");
        assert!(seen.stderr.contains(SWAPPINESS), "{context}");
        if command.starts_with("apply") {
            assert_eq!((seen.code, live.now().trim()), (0, "19"), "{context}");
            assert_eq!(live.seen("revert").code, 0);
        }
        assert_eq!(live.now(), live.before, "{context}");
        assert_eq!(seen.code, i32::from(command == "confirm"), "{context}");
        let (_, answer) = live.json("history");
        assert!(answer["transactions"].as_array().unwrap().iter().all(|one| one["status"] == "reverted"), "{answer}");
    }
}

/// Even commands that only read undo the change, in the journal of their user.
/// Otherwise they would show values that should be gone.
#[test]
fn commands_that_only_read_undo_an_overdue_try_too() {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o mode=755 none /var/lib || exit 77
        "$0" apply --try 1 vm.swappiness="$1" >/dev/null || exit 78
        for folder in /proc/[0-9]*; do
            grep -qsa watchdog "$folder/cmdline" && kill -KILL "${folder#/proc/}"
        done
        sleep 1.2
        [ "$(cat /proc/sys/vm/swappiness)" = "$1" ] || exit 79
        shift && exec "$0" "$@""#;
    let Some(live) = Live::take() else { return };
    for line in ["inspect", "audit", "script vm.stat_interval=2", "measure clock"] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private"]);
        command.args(["sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_evenkeel"), live.other()]).args(line.split(' '));
        let seen = Seen::from(command.current_dir(live.folder.path()).output().unwrap());
        if seen.code == 77 || seen.stderr.contains("unshare:") {
            skipped(format_args!("no mounts can be made here: {}", seen.stderr));
            return;
        }
        assert!(seen.stderr.contains("was not confirmed within 1 s") && seen.code == 0, "{line}: {seen}");
        assert_eq!(live.now(), live.before, "{line}: {seen}");
    }
}

/// Regression: for a user without the right to write, `verify` said "soon" and ended with code 0,
/// and `history` said "in force".
/// Now both report that the time limit has passed, with the exit code for drift.
#[test]
fn who_may_not_undo_it_says_that_the_time_is_over() {
    let Some(live) = Live::take() else { return };
    live.leave_overdue();
    // `verify` can't undo the change while another evenkeel holds the journal's lock.
    // For this test, the lock has the same effect as missing privileges.
    let lock = fs::File::open(live.state().join("lock")).unwrap();
    lock.lock().unwrap();
    for command in ["verify", "history"] {
        let (code, answer) = live.json(command);
        assert_eq!(code, 1, "{command}: {answer}");
        match command {
            "verify" => assert_eq!(answer["overdue"], serde_json::json!([1]), "{answer}"),
            _ => assert_eq!(answer["transactions"][0]["status"], "overdue", "{answer}"),
        }
        let seen = live.seen(command);
        assert!(seen.code == 1 && seen.stdout.contains("was not confirmed in time"), "{command}: {seen}");
    }
    drop(lock);
    assert_eq!(live.now().trim(), live.other());
    assert_eq!(wait_for("undoing", || Some(live.seen("verify"))).code, 0);
    assert_eq!(live.now(), live.before);
}
