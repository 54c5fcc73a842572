//! Tests journals that lost records, that are not writable,
//! or that grew too long, and several journals that changed one value.
//! evenkeel restores everything that it can, and names everything that is lost.

use std::fs;
use std::process::{Command, Stdio};

use evenkeel_testkit::{needs_root, skipped};
use serde_json::Value;

use crate::live_host::Live;
use crate::support::{Scene, Seen};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness = ";
const BUSY_POLL: &str = "/proc/sys/net/core/busy_poll = ";

/// A scene with the captured machine `after.txt`. According to the journal in `state`, two settings are in force on it.
fn applied() -> Scene {
    let scene = Scene::new();
    let seen =
        scene.run("apply vm.swappiness=10 net.core.busy_poll=50 --host host.txt --state state --output after.txt");
    assert_eq!(seen.code, 0, "{seen}");
    scene
}

/// The line of a capture that starts with `start`.
fn line(scene: &Scene, file: &str, start: &str) -> String {
    scene.read(file).lines().find(|line| line.starts_with(start)).unwrap().to_owned()
}

fn revert(scene: &Scene) -> Seen {
    scene.run("revert --host after.txt --state state --output reverted.txt")
}

fn sealed(json: &str) -> String {
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// The journal as older versions wrote it: its records have no numbers.
fn without_numbers(journal: &str) -> String {
    let old = |line: &str| {
        let mut record: Value = serde_json::from_str(&line[9..]).unwrap();
        record["format"] = 1.into();
        record.as_object_mut().unwrap().remove("seq");
        sealed(&record.to_string())
    };
    journal.lines().map(old).collect()
}

fn kind(line: &str) -> String {
    let record: Value = serde_json::from_str(&line[9..]).unwrap();
    record["record"].as_str().unwrap().to_owned()
}

/// Regression: an intent record was missing, but its `done` record existed.
/// `revert` ended with code 0, and the value stayed.
#[test]
fn a_record_that_is_missing_is_named_and_the_rest_is_put_back() {
    let lines: Vec<String> = applied().read("state/journal").lines().map(|line| format!("{line}\n")).collect();
    for old in [false, true] {
        for missing in 0..lines.len() - 1 {
            let scene = applied();
            let mut left = lines.clone();
            let taken = kind(&left.remove(missing));
            let left = left.concat();
            scene.write("state/journal", if old { without_numbers(&left) } else { left });
            if old {
                fs::remove_file(scene.path("state/journal.last-record")).unwrap();
            }
            let seen = revert(&scene);
            // In an old journal, evenkeel notices a missing record only if another record refers to it.
            let is_noticed = !old || taken == "begin" || taken == "intent";
            let context = format!("{taken} missing, old: {old}: {seen}");
            assert_eq!(seen.code, if is_noticed { 6 } else { 0 }, "{context}");
            let is_restored = |start| line(&scene, "reverted.txt", start) == line(&scene, "host.txt", start);
            let lost = if taken == "intent" { usize::from(missing > 2) } else { 2 };
            assert_eq!([is_restored(SWAPPINESS), is_restored(BUSY_POLL)], [lost != 0, lost != 1], "{context}");
            if taken == "intent" {
                let knob = ["vm.swappiness", "net.core.busy_poll"][lost];
                assert!(seen.stdout.contains(knob) && seen.stdout.contains("missing"), "{context}");
            }
            if is_noticed {
                // The damage is still in the journal, so a second `revert` must not report success either.
                assert_eq!(revert(&scene).code, 6, "{context}");
                let seen = scene.run("apply vm.swappiness=20 --host after.txt --state state");
                assert!(seen.code == 4 && seen.stderr.contains("missing"), "{context}: {seen}");
            }
        }
    }
}

/// Regression: for a journal of 10 bytes, `revert` printed "nothing to put back" and ended with code 0.
#[test]
fn a_journal_that_was_cut_short_is_not_an_empty_one() {
    let whole = applied().read("state/journal");
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let cuts = [1, 10, ends[0] - 1].into_iter().chain(ends[..ends.len() - 1].iter().copied());
    for cut in cuts {
        let scene = applied();
        scene.write("state/journal", &whole[..cut]);
        let seen = revert(&scene);
        assert_eq!(seen.code, 6, "cut to {cut} bytes: {seen}");
        assert!(!seen.stdout.contains("nothing to put back") && seen.stdout.contains("journal"), "{cut}: {seen}");
    }
    // Repeat without the note of the journal's length, because older versions did not write it.
    let scene = applied();
    let notes = fs::read_dir(scene.path("state")).unwrap().map(|entry| entry.unwrap().path());
    for note in notes.filter(|path| !path.ends_with("journal")) {
        fs::remove_file(note).unwrap();
    }
    scene.write("state/journal", &whole[..10]);
    let seen = revert(&scene);
    assert_eq!(seen.code, 6, "{seen}");
    // If the user moves the journal away, as the hint recommends, evenkeel starts a new journal.
    fs::rename(scene.path("state/journal"), scene.path("away")).unwrap();
    assert_eq!(scene.run("apply vm.swappiness=20 --host host.txt --state state").code, 0);
    assert_eq!(scene.run("history --host host.txt --state state").code, 0);
}

/// Regression: if the journal was missing, `revert` printed "nothing to put back" and ended with code 0,
/// although the note of its records existed.
#[test]
fn a_journal_that_is_gone_is_not_an_empty_one() {
    let scene = applied();
    fs::remove_file(scene.path("state/journal")).unwrap();
    let seen = revert(&scene);
    assert!(seen.code == 6 && seen.stdout.contains("records 1 to 6 are missing"), "{seen}");
    for command in ["verify", "history"] {
        let seen = scene.run(&format!("{command} --host after.txt --state state"));
        assert!(seen.code == 4 && seen.stderr.contains("records 1 to 6 are missing"), "{command}: {seen}");
    }
    // The next change starts a new journal.
    assert_eq!(scene.run("apply vm.swappiness=20 --host after.txt --state state").code, 0);
    assert_eq!(scene.run("history --host host.txt --state state").code, 0);
    let seen = revert(&scene);
    assert!(seen.code == 0 && seen.stdout.contains("Everything is as it was."), "{seen}");
}

/// After an error, the system remounted the file system read-only. In this situation a user needs `revert`.
#[test]
fn revert_puts_values_back_though_the_journal_can_not_be_written() {
    if needs_root("mounting a folder read only") {
        return;
    }
    let scene = applied();
    let state = scene.path("state");
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec {1} revert --host after.txt --state state --output reverted.txt",
        state.display(),
        env!("CARGO_BIN_EXE_evenkeel"),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let seen = Seen::from(command.current_dir(scene.path(".")).stdin(Stdio::null()).output().unwrap());
    if seen.stderr.contains("unshare:") || seen.stderr.contains("mount:") {
        skipped(format_args!("no mounts can be made here: {}", seen.stderr));
        return;
    }
    assert_eq!(seen.code, 0, "{seen}");
    assert_eq!(line(&scene, "reverted.txt", SWAPPINESS), line(&scene, "host.txt", SWAPPINESS), "{seen}");
    assert!(seen.stdout.contains("not recorded") && seen.stdout.contains("transaction 1"), "{seen}");
    assert!(seen.stdout.contains("EROFS"), "{seen}");
    // evenkeel could not record the undo on the disk. So the next revert checks again, and then succeeds.
    let seen = revert(&scene);
    assert!(seen.code == 0 && !seen.stdout.contains("not recorded"), "{seen}");
    assert_eq!(scene.json("history --host host.txt --state state").1["transactions"][0]["status"], "reverted");
}

/// Regression: `revert` failed, and its hint was to run `revert`.
#[test]
fn a_journal_that_is_too_long_is_compacted_by_revert() {
    let scene = applied();
    let journal = scene.read("state/journal");
    // Closed transactions come first. Their long titles make the file long, so that the test needs only a few.
    let title = "x".repeat(1 << 19);
    let mut long = String::new();
    for txn in 1..=140 {
        long += &sealed(&format!(
            r#"{{"format":1,"at_ns":0,"record":"begin","txn":{txn},"kind":"apply","title":"{title}","steps":[]}}"#
        ));
        long += &sealed(&format!(r#"{{"format":1,"at_ns":0,"record":"reverted","txn":{txn}}}"#));
    }
    assert!(long.len() > 64 << 20);
    long += &without_numbers(&journal)
        .lines()
        .map(|line| sealed(&line[9..].replace("\"txn\":1", "\"txn\":141")))
        .collect::<String>();
    scene.write("state/journal", &long);
    drop(long);
    fs::remove_file(scene.path("state/journal.last-record")).ok();
    // The limit counts all memory, including the program itself.
    let script = format!(
        "ulimit -v {} && exec {} revert --host after.txt --state state --output reverted.txt",
        400 << 10,
        env!("CARGO_BIN_EXE_evenkeel")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(scene.path(".")).stdin(Stdio::null());
    let seen = Seen::from(command.output().unwrap());
    assert_eq!(seen.code, 0, "{seen}");
    assert_eq!(line(&scene, "reverted.txt", SWAPPINESS), line(&scene, "host.txt", SWAPPINESS));
    let length = fs::metadata(scene.path("state/journal")).unwrap().len();
    assert!(length < 32 << 20, "{length} bytes");
    // Transaction numbers continue, and the journal counts the dropped transactions.
    assert_eq!(scene.run("apply vm.swappiness=20 --host host.txt --state state").code, 0);
    let (code, answer) = scene.json("history --host host.txt --state state");
    let ids: Vec<u64> =
        answer["transactions"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
    assert_eq!((code, ids.last()), (0, Some(&142)), "{ids:?}");
    let left_out = answer["journal"]["left_out"].as_u64().unwrap();
    assert_eq!(left_out + ids.len() as u64, 142);
}

/// Regression: if the journals reverted oldest first, a value stayed in force that the machine had never had before.
/// Each `revert` ended with code 0.
#[test]
fn twenty_journals_that_change_one_value_leave_it_as_the_first_found_it() {
    const COUNT: usize = 20;
    let Some(live) = Live::take() else { return };
    let before: usize = live.before.trim().parse().unwrap();
    let program = |journal: usize, line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let state = live.folder.path().join(format!("state-{journal}"));
        command.args(line.split(' ')).arg("--state").arg(state).env_clear().stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let value = |journal: usize| 20 + journal + usize::from(20 + journal >= before);
    let mut waiting: Vec<usize> = (0..COUNT).collect();
    while !waiting.is_empty() {
        let apply =
            |journal: usize| program(journal, &format!("apply vm.swappiness={}", value(journal))).spawn().unwrap();
        let running: Vec<_> = waiting.drain(..).map(|journal| (journal, apply(journal))).collect();
        for (journal, child) in running {
            let seen = Seen::from(child.wait_with_output().unwrap());
            // While another evenkeel holds the lock of the value, the process changes nothing and tries again.
            match seen.code {
                0 => {}
                4 if seen.stderr.contains("another evenkeel") => waiting.push(journal),
                _ => panic!("{journal}: {seen}"),
            }
        }
    }
    let begun = |journal: &usize| {
        let seen = Seen::from(program(*journal, "--json history").output().unwrap());
        let answer: Value = serde_json::from_str(&seen.stdout).unwrap();
        answer["transactions"].as_array().unwrap().last().unwrap()["at_ns"].as_u64().unwrap()
    };
    let mut oldest_first: Vec<usize> = (0..COUNT).collect();
    oldest_first.sort_by_key(begun);
    let mut left = 0;
    for journal in oldest_first {
        let seen = Seen::from(program(journal, "revert").output().unwrap());
        assert_eq!(seen.code, 0, "{journal}: {seen}");
        let is_left = seen.stdout.lines().any(|line| line.starts_with("left "));
        assert_ne!(is_left, seen.stdout.contains("Everything is as it was."), "{journal}: {seen}");
        left += usize::from(is_left);
    }
    assert_eq!(live.now(), live.before, "{left} of {COUNT} left it to another journal");
    assert!(left > 0);
}
