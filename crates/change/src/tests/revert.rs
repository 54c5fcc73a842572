//! Tests `revert` and `history`.

use evenkeel_hostfs::{Capture, Root};
use evenkeel_sys::Errno;

use super::{HOST, MIN_FREE, SWAPPINESS, Stage, THP, plan};
use crate::{PutBack, RevertError, Status, Undo, Which, apply, history, revert};

fn apply_one(stage: &Stage, settings: &[&str]) -> u64 {
    apply(&stage.root, &stage.writer, &mut stage.state(), &plan(settings), &settings.join(" ")).unwrap().id
}

fn revert_all(stage: &Stage) -> Vec<PutBack> {
    let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert_eq!(report.all_undone, report.transactions.iter().all(|back| back.all_undone));
    report.transactions
}

fn undos(back: &PutBack) -> Vec<(&str, &Undo)> {
    back.files.iter().map(|file| (file.path.as_str(), &file.undo)).collect()
}

fn statuses(stage: &Stage) -> Vec<Status> {
    history(&stage.root, stage.state().log()).iter().map(|transaction| transaction.status).collect()
}

#[test]
fn the_newest_goes_first_and_twice_does_no_harm() {
    let stage = Stage::new();
    let before = stage.root.capture();
    apply_one(&stage, &["vm.swappiness=10", "thp.enabled=never"]);
    apply_one(&stage, &["vm.swappiness=20", "vm.min_free_kbytes=90000"]);
    assert_eq!(statuses(&stage), [Status::InForce, Status::InForce]);
    let backs = revert_all(&stage);
    assert_eq!(backs.iter().map(|back| back.id).collect::<Vec<_>>(), [2, 1]);
    assert!(stage.is_as(&before));
    let restored = |found: &str| Undo::Restored { found: found.to_owned() };
    assert_eq!(undos(&backs[0]), [(MIN_FREE, &restored("90000")), (SWAPPINESS, &restored("20"))]);
    assert_eq!(
        undos(&backs[1]),
        [(THP, &restored("never")), (MIN_FREE, &restored("19832")), (SWAPPINESS, &restored("10"))]
    );
    assert_eq!(statuses(&stage), [Status::Reverted, Status::Reverted]);
    assert!(revert_all(&stage).is_empty());
    assert!(stage.is_as(&before));
}

#[test]
fn one_can_be_reverted_unless_a_later_one_lies_on_it() {
    let stage = Stage::new();
    let first = apply_one(&stage, &["thp.enabled=never"]);
    let other = apply_one(&stage, &["vm.swappiness=10"]);
    let later = apply_one(&stage, &["vm.min_free_kbytes=90000"]);
    let one = |id| revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(id));
    assert_eq!(one(first), Err(RevertError::Covered { id: first, later, path: MIN_FREE.into() }));
    assert_eq!(one(9), Err(RevertError::Unknown { id: 9 }));
    assert!(one(other).unwrap().all_undone);
    assert_eq!((stage.text(SWAPPINESS), stage.text(MIN_FREE)), ("60".into(), "90000".into()));
    assert!(one(other).unwrap().transactions.is_empty(), "again");
    assert!(one(later).unwrap().all_undone && one(first).unwrap().all_undone);
    assert_eq!((stage.text(THP), stage.text(MIN_FREE)), ("always [madvise] never".into(), "70000".into()));
}

#[test]
fn changes_of_others_are_restored_and_named() {
    let stage = Stage::new();
    let before = stage.root.capture();
    apply_one(&stage, &["vm.swappiness=10", "thp.enabled=never", "net.core.busy_poll=50"]);
    stage.writer.write(SWAPPINESS, "77").unwrap();
    stage.writer.write(MIN_FREE, "99999").unwrap();
    stage.writer.write("/proc/sys/net/core/busy_poll", "0").unwrap();
    let backs = revert_all(&stage);
    assert!(backs[0].all_undone && stage.is_as(&before));
    let foreign = |found: &str| Undo::Foreign { found: found.to_owned() };
    assert_eq!(
        undos(&backs[0]),
        [
            ("/proc/sys/net/core/busy_poll", &Undo::AsBefore),
            (THP, &Undo::Restored { found: "never".into() }),
            (MIN_FREE, &foreign("99999")),
            (SWAPPINESS, &foreign("77")),
        ]
    );
}

/// A limit has two files, and one of them is in use.
/// `revert` and the journal's shell commands both restore the file in use.
#[test]
fn the_spelling_that_was_in_use_comes_back() {
    const NAMES: [&str; 4] = ["dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes"];
    let path = |name: &str| format!("/proc/sys/vm/{name}");
    for before in [["20", "0", "10", "0"], ["0", "8192", "0", "4096"], ["0", "0", "0", "0"]] {
        for setting in
            ["dirty_ratio=5", "dirty_bytes=65536", "dirty_background_ratio=5", "dirty_background_bytes=65536"]
        {
            for foreign in [None, Some("dirty_ratio=7"), Some("dirty_bytes=16384")] {
                let lines: String =
                    NAMES.iter().zip(before).map(|(name, text)| format!("{} = {text}\n", path(name))).collect();
                let stage =
                    Stage::on(&HOST.replace("/proc/sys/vm/min_free_kbytes", &(lines + "/proc/sys/vm/min_free_kbytes")));
                let then = stage.root.capture();
                apply_one(&stage, &[&path(setting)]);
                assert!(!stage.is_as(&then), "{setting}");
                let undo = stage.state().log().begun(1).pending()[0].intent.undo.clone();
                let copy = Stage::on(&stage.root.capture().to_string());
                for command in undo.split("; ") {
                    let words: Vec<&str> = command.split('\'').collect();
                    copy.writer.write(words[5], words[3]).unwrap();
                }
                assert!(copy.is_as(&then), "{before:?} {setting}: {undo}");
                let of_this_limit = |foreign: &&str| !setting.contains("background") || foreign.contains("background");
                if let Some((name, text)) = foreign.filter(of_this_limit).and_then(|foreign| foreign.split_once('=')) {
                    stage.writer.write(&path(name), text).unwrap();
                }
                assert!(revert_all(&stage)[0].all_undone, "{before:?} {setting} {foreign:?}");
                assert!(stage.is_as(&then), "{before:?} {setting} {foreign:?}");
            }
        }
    }
}

/// Changes the captured machine without evenkeel.
fn changed(stage: &mut Stage, change: impl FnOnce(&mut Capture)) {
    let mut capture = stage.root.capture();
    change(&mut capture);
    stage.root = Root::captured(capture);
    stage.writer = stage.root.writer().unwrap();
}

#[test]
fn a_device_that_went_away_leaves_nothing_to_put_back() {
    let mut stage = Stage::new();
    apply_one(&stage, &["vm.swappiness=10", "net.rps_cpus=0-1"]);
    let rps = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    changed(&mut stage, |capture| capture.saw_text(rps, Err(Errno::NOENT)));
    let backs = revert_all(&stage);
    assert!(backs[0].all_undone);
    assert!(matches!(&backs[0].files[0].undo, Undo::Gone { why } if why.contains(rps)), "{backs:?}");
    assert_eq!((stage.text(SWAPPINESS), statuses(&stage)), ("60".into(), vec![Status::Reverted]));
}

#[test]
fn a_failed_restore_does_not_stop_the_others() {
    let mut stage = Stage::new();
    apply_one(&stage, &["vm.swappiness=10", "net.core.busy_poll=50", "thp.enabled=never"]);
    changed(&mut stage, |capture| capture.refuse_writes("/proc/sys/net/core/busy_poll", Errno::ROFS));
    let backs = revert_all(&stage);
    assert!(!backs[0].all_undone);
    let failed: Vec<_> = backs[0].files.iter().filter(|file| !file.is_undone()).collect();
    assert!(matches!(&failed[..], [file] if file.path.ends_with("busy_poll")), "{backs:?}");
    assert!(matches!(&failed[0].undo, Undo::Failed { why } if why.contains("EROFS")), "{failed:?}");
    assert_eq!((stage.text(SWAPPINESS), stage.text(MIN_FREE)), ("60".into(), "70000".into()));
    assert_eq!(statuses(&stage), [Status::Interrupted]);

    let writable = stage.root.capture().to_string().replace("/proc/sys/net/core/busy_poll !write EROFS\n", "");
    changed(&mut stage, |capture| *capture = Capture::parse(&writable).unwrap());
    let backs = revert_all(&stage);
    assert_eq!(undos(&backs[0]), [("/proc/sys/net/core/busy_poll", &Undo::Restored { found: "50".into() })]);
    assert_eq!(statuses(&stage), [Status::Reverted]);
}

#[test]
fn values_lost_in_a_restart_are_not_written() {
    let mut stage = Stage::new();
    let first = apply_one(&stage, &["vm.swappiness=10"]);
    let restarted = HOST.replace("boot_id = aaaa", "boot_id = bbbb").replace("swappiness = 60", "swappiness = 55");
    changed(&mut stage, |capture| *capture = Capture::parse(&restarted).unwrap());
    assert_eq!(statuses(&stage), [Status::EndedByReboot]);
    apply_one(&stage, &["vm.swappiness=30"]);
    let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(first)).unwrap();
    assert!(report.all_undone && report.transactions[0].ended_by_reboot && report.transactions[0].files.is_empty());
    assert_eq!(stage.text(SWAPPINESS), "30");
    assert_eq!(statuses(&stage), [Status::EndedByReboot, Status::InForce]);
    assert_eq!(revert_all(&stage).len(), 1);
    assert_eq!(stage.text(SWAPPINESS), "55");
}

#[test]
fn history_lists_what_was_done() {
    let stage = Stage::new();
    apply_one(&stage, &["vm.swappiness=10", "cpuidle.dma_latency_us=0"]);
    apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&["thp.enabled=never", "clocksource=xen"]), "two")
        .unwrap_err();
    let shown = serde_json::to_string_pretty(&history(&stage.root, stage.state().log())).unwrap();
    expect_test::expect![[r#"
        [
          {
            "id": 1,
            "at_ns": 1700000000000000000,
            "kind": "apply",
            "title": "vm.swappiness=10 cpuidle.dma_latency_us=0",
            "status": "in-force",
            "steps": [
              {
                "knob": "vm.swappiness",
                "place": "/proc/sys/vm/swappiness",
                "wanted": "10",
                "outcome": "applied",
                "before": "60"
              },
              {
                "knob": "cpuidle.dma_latency_us",
                "place": "/dev/cpu_dma_latency",
                "wanted": "0",
                "outcome": "not-applicable",
                "instead": "it lasts only while a process keeps /dev/cpu_dma_latency open, as `evenkeel prove cpuidle.dma_latency_us=0` does"
              }
            ]
          },
          {
            "id": 2,
            "at_ns": 1700000000000000000,
            "kind": "apply",
            "title": "two",
            "status": "rolled-back",
            "steps": [
              {
                "knob": "thp.enabled",
                "place": "/sys/kernel/mm/transparent_hugepage/enabled",
                "wanted": "never",
                "outcome": "rolled-back",
                "before": "madvise"
              },
              {
                "knob": "clocksource",
                "place": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "wanted": "xen",
                "outcome": "did-not-take",
                "found": "tsc",
                "read_from": "/sys/devices/system/clocksource/clocksource0/current_clocksource"
              }
            ]
          }
        ]
    "#]].assert_eq(&(shown + "\n"));
}
