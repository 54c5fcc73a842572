//! Tests changes on the machine that runs the tests, if it is writable: its own kernel, a real disk, a real SIGKILL.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_change::{Session, State, Status, Which, apply, history, revert, verify};
use evenkeel_host::{Action, Plan, Reading, Step};
use evenkeel_hostfs::{HostWriter, Root};
use evenkeel_testkit::{HostLock, skipped};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
const FILES: [&str; 3] = [THP, MIN_FREE, SWAPPINESS];

/// The journal's folder, for the child that will be killed.
const CHILD_STATE: &str = "EVENKEEL_TEST_KILLED_CHILD_STATE";

/// The original state of the machine. `Drop` restores the machine if a test does not finish.
struct Machine {
    root: Root,
    writer: HostWriter,
    before: Vec<String>,
    _host: Option<HostLock>,
}

impl Machine {
    /// `None` if the machine is not writable.
    fn take() -> Option<Machine> {
        for path in FILES {
            if let Err(error) = File::options().write(true).open(path) {
                skipped(format_args!("this test writes to {path}, which it may not: {error}"));
                return None;
            }
        }
        let host = HostLock::take();
        let root = Root::live();
        let writer = root.writer().unwrap();
        Some(Machine { before: now(), root, writer, _host: Some(host) })
    }

    fn plan(&self) -> Plan {
        let swappiness = if self.before[2] == "10\n" { "11" } else { "10" };
        let thp = if self.before[0].contains("[never]") { "madvise" } else { "never" };
        let write = |path: &str, reading, side_effects: &[&str]| Action::Write {
            interrupt: None,
            path: path.to_owned(),
            reading,
            in_force: None,
            side_effects: side_effects.iter().map(|path| (*path).to_owned()).collect(),
        };
        let step = |knob: &str, path: &str, wanted: &str, action| Step {
            knob: knob.to_owned(),
            place: path.to_owned(),
            wanted: wanted.to_owned(),
            action,
        };
        let steps = vec![
            step("vm.swappiness", SWAPPINESS, swappiness, write(SWAPPINESS, Reading::Plain, &[])),
            step("thp.enabled", THP, thp, write(THP, Reading::ChosenWord, &[MIN_FREE])),
        ];
        Plan { steps }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for (path, before) in FILES.iter().zip(&self.before) {
            let value = Reading::ChosenWord.value(before).unwrap_or_else(|| before.trim().to_owned());
            if std::fs::read_to_string(path).is_ok_and(|now| now != *before) {
                eprintln!("a test left {path} changed: {:?}", self.writer.write(path, &value));
            }
        }
    }
}

fn now() -> Vec<String> {
    FILES.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn apply_verify_revert_on_this_machine() {
    let Some(machine) = Machine::take() else { return };
    let (root, writer) = (&machine.root, &machine.writer);
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::open(dir.path()).unwrap();
    let applied = apply(root, writer, &mut state, &machine.plan(), "a test").unwrap();
    println!("{}", serde_json::to_string_pretty(&applied).unwrap());
    assert_ne!(now()[0], machine.before[0]);
    assert_ne!(now()[2], machine.before[2]);
    let verification = verify(root, &evenkeel_host::Facts::probe(root), state.log());
    assert_eq!((verification.holds, verification.drift.len()), (2, 0), "{verification:?}");

    std::fs::write(SWAPPINESS, "33\n").unwrap();
    let verification = verify(root, &evenkeel_host::Facts::probe(root), state.log());
    assert_eq!(verification.holds, 1);
    assert_eq!(verification.drift[0].knob, "vm.swappiness");
    assert_eq!(verification.drift[0].found.known().map(String::as_str), Some("33"));
    assert!(verification.drift[0].mend.starts_with("evenkeel apply vm.swappiness@/proc/sys/vm/swappiness=1"));

    // Simulate another process on another day: that process has only the directory.
    drop(state);
    let mut state = State::open(dir.path()).unwrap();
    let report = revert(root, writer, &mut state, Which::All).unwrap();
    assert!(report.all_undone, "{report:?}");
    assert_eq!(now(), machine.before, "every byte, the side effect's too");
    assert_eq!(history(root, state.log())[0].status, Status::Reverted);
}

#[test]
fn a_process_killed_at_any_time_is_put_back() {
    const KILLS: u32 = 24;
    let Some(machine) = Machine::take() else { return };
    let dir = tempfile::tempdir().unwrap();
    // Spread the kills over the duration that a round of the child takes here.
    // On a slow disk, the child mostly waits for the disk.
    let round = {
        let mut state = State::open(dir.path()).unwrap();
        let began = Instant::now();
        apply(&machine.root, &machine.writer, &mut state, &machine.plan(), "how long it takes").unwrap();
        revert(&machine.root, &machine.writer, &mut state, Which::All).unwrap();
        began.elapsed()
    };
    let step = Duration::from_micros(310).max(round * 2 / KILLS);
    let mut were_changed = 0;
    let mut were_pending = 0;
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "this_machine::child_that_changes_until_it_is_killed", "--ignored", "--nocapture"])
            .env(CHILD_STATE, dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("changed")), "the child came to work");
        // The first process is killed after it has changed the host. The next processes continue from there.
        // Each is killed a little later in a round, which has some tens of system calls and syncs.
        if kill > 0 {
            child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
            std::thread::sleep(step * kill);
        }
        child.kill().unwrap();
        child.wait().unwrap();

        were_changed += u32::from(now() != machine.before);
        let mut state = State::open(dir.path()).unwrap();
        let report = revert(&machine.root, &machine.writer, &mut state, Which::All).unwrap();
        were_pending += u32::from(!report.transactions.is_empty());
        assert!(report.all_undone, "{report:?}");
        assert_eq!(now(), machine.before, "kill {kill}: {report:?}");
    }
    println!(
        "killed {KILLS} times: the host was changed {were_changed} times, a transaction was open {were_pending} times"
    );
    assert!(were_changed > 0 && were_pending > 0, "no kill came while the host was changed: the test shows nothing");
}

#[test]
#[ignore = "run by a_process_killed_at_any_time_is_put_back, as the process that is killed"]
fn child_that_changes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_STATE) else { return };
    let root = Root::live();
    let writer = root.writer().unwrap();
    let mut state = State::open(Path::new(&dir)).unwrap();
    // The parent process holds the lock of the host for this process, and restores the machine.
    let machine =
        std::mem::ManuallyDrop::new(Machine { before: now(), root: root.clone(), writer: writer.clone(), _host: None });
    let plan = machine.plan();
    // Limit the rounds to some seconds, in case the parent has ended.
    for round in 0..500 {
        apply(&root, &writer, &mut state, &plan, "to be killed").unwrap();
        if round == 0 {
            println!("changed");
            std::io::stdin().lock().read_line(&mut String::new()).unwrap();
        }
        revert(&root, &writer, &mut state, Which::All).unwrap();
        let mut session = Session::begin(&root, &writer, &mut state, "to be killed", &plan.steps).unwrap();
        for (index, step) in plan.steps.iter().enumerate() {
            session.set(index, &step.wanted).unwrap();
        }
        session.end();
    }
}
