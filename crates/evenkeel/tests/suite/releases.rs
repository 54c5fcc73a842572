//! Tests files that earlier releases left on machines of users, from tests/fixtures/releases/VERSION.
//! The current program must read, verify, apply, revert, resume and report all of them.
//! `make.sh` in that folder writes the files of a new release.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Scene;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/releases"].iter().collect()
}

/// Calls `check` with a copy of each release's files.
fn each(check: impl Fn(&Scene, &str)) {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut releases: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    releases.sort();
    assert!(releases.iter().any(|release| release.ends_with("0.1")), "{releases:?}");
    for release in releases {
        let scene = Scene::new();
        copy(&release, &scene.path(""));
        check(&scene, release.file_name().unwrap().to_str().unwrap());
    }
}

/// Copies the files of a release.
/// Sessions contain the folder in which they began, so the copy replaces that folder by its own.
fn copy(from: &Path, to: &Path) {
    let here = to.to_str().unwrap().trim_end_matches('/');
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&path, &to);
        } else {
            fs::write(&to, fs::read_to_string(&path).unwrap().replace("/tmp/evenkeel-release", here)).unwrap();
        }
    }
}

/// The answer of a command line that must end with this exit code.
fn answer(scene: &Scene, release: &str, line: &str, code: i32) -> Value {
    let (ended, answer) = scene.json_of_any_format(line);
    assert_eq!(ended, code, "{release}: {line}: {answer:#}");
    answer
}

fn ratio(answer: &Value) -> String {
    format!("{:.9}", answer["effect"]["ratio"].as_f64().unwrap_or_else(|| panic!("{answer:#}")))
}

#[test]
fn journals_are_listed_verified_and_reverted() {
    each(|scene, release| {
        let history = answer(scene, release, "history --host after.txt --state state", 0);
        let statuses: Vec<&Value> =
            history["transactions"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
        assert_eq!(statuses, ["reverted", "in-force"], "{release}");
        let verified = answer(scene, release, "verify --host after.txt --state state", 0);
        assert_eq!((&verified["holds"], &verified["drift"]), (&3.into(), &Value::Array(Vec::new())), "{release}");
        let reverted = answer(scene, release, "revert --host after.txt --state state --output reverted.txt", 0);
        assert_eq!(reverted["all_undone"], true, "{release}: {reverted:#}");
        let (before, after) = (scene.read("host.txt"), scene.read("reverted.txt"));
        for path in [
            "/proc/sys/vm/swappiness = ",
            "/proc/sys/net/core/busy_poll = ",
            "/sys/kernel/mm/transparent_hugepage/enabled = ",
            "/proc/sys/vm/min_free_kbytes = ",
        ] {
            let value = |text: &str| text.lines().find(|line| line.starts_with(path)).map(str::to_owned);
            assert!(value(&before).is_some(), "{path}");
            assert_eq!(value(&after), value(&before), "{release}");
        }
        // The current program adds to the old journal.
        let applied = answer(scene, release, "apply vm.swappiness=12 --host host.txt --state state", 0);
        assert_eq!(applied["transaction"]["id"], 3, "{release}");
    });
}

#[test]
fn plans_are_compared_and_applied() {
    each(|scene, release| {
        for plan in ["plan.json", "plan-persist.json"] {
            let difference = answer(scene, release, &format!("diff {plan} --host host.txt --state new"), 1);
            assert_eq!(difference["steps"].as_array().unwrap().len(), 2, "{release}: {plan}");
        }
        let applied = answer(scene, release, "apply plan.json --host host.txt --state new --output applied.txt", 0);
        assert_eq!(applied["transaction"]["status"], "in-force", "{release}");
        let verified = answer(scene, release, "verify --host applied.txt --state new", 0);
        assert_eq!(verified["holds"], 2, "{release}");
    });
}

#[test]
fn goals_are_planned_and_proved_again() {
    each(|scene, release| {
        let planned = answer(scene, release, "plan goal.json --host host.txt --state new", 0);
        assert_eq!(planned["settings"], serde_json::json!(["process.timer_slack_ns=1"]), "{release}");
        let line = "prove --goal goal.json --workload simulated --set script=script.json --pairs 6 --fixed --seed 1 --state new";
        assert_eq!(answer(scene, release, line, 0)["verdict"], "better", "{release}");
    });
}

#[test]
fn sessions_are_reported_and_resumed_to_the_same_result() {
    each(|scene, release| {
        let whole = answer(scene, release, "prove report one.jsonl --state new", 0);
        assert_eq!((&whole["verdict"], &whole["pairs"]), (&"better".into(), &6.into()), "{release}");
        let killed = answer(scene, release, "prove report one-killed.jsonl --state new", 0);
        assert_eq!((&killed["ended"], &killed["pairs"]), (&"cut-off".into(), &5.into()), "{release}");
        let resumed = answer(scene, release, "prove resume one-killed.jsonl --state new", 0);
        assert_eq!((&resumed["ended"], ratio(&resumed)), (&whole["ended"], ratio(&whole)), "{release}");

        let whole = answer(scene, release, "prove report several.jsonl --state new", 0);
        let resumed = answer(scene, release, "prove resume several-killed.jsonl --state new", 0);
        // Six blocks are too few to decide between three arms.
        let verdicts = |of: &Value| [of["trials"][0]["verdict"].clone(), of["trials"][1]["verdict"].clone()];
        assert_eq!(verdicts(&whole), ["undecided", "undecided"].map(Value::from), "{release}");
        assert_eq!(verdicts(&resumed), verdicts(&whole), "{release}");
        // The simulated server measures the lost block again.
        for (whole, resumed) in whole["trials"].as_array().unwrap().iter().zip(resumed["trials"].as_array().unwrap()) {
            let of = |trial: &Value| trial["effect"]["ratio"].as_f64().unwrap();
            assert!((of(resumed) / of(whole) - 1.0).abs() < 0.05, "{release}: {} {}", of(resumed), of(whole));
        }
        assert_eq!(resumed["choice"]["advised"], whole["choice"]["advised"], "{release}");
    });
}

#[test]
fn searches_are_resumed() {
    each(|scene, release| {
        let goal: Value = serde_json::from_str(&scene.read("goal.json")).unwrap();
        for log in ["tune.jsonl", "tune-killed.jsonl"] {
            let resumed = answer(scene, release, &format!("tune resume ./{log} --out new.json --state new"), 0);
            assert_eq!(
                (&resumed["verdict"], &resumed["ended"]),
                (&"better".into(), &"whole".into()),
                "{release}: {log}"
            );
            // A killed search measures its last windows again.
            match log {
                "tune.jsonl" => assert_eq!(ratio(&resumed), ratio(&goal["evidence"]["answer"]), "{release}"),
                _ => assert!(
                    (0.65..0.75).contains(&resumed["effect"]["ratio"].as_f64().unwrap()),
                    "{release}: {resumed:#}"
                ),
            }
        }
    });
}

#[test]
fn reports_and_cards_are_compared() {
    each(|scene, release| {
        scene.write("other.json", scene.read("report.json").replace("\"start_us\": ", "\"start_us\": 1"));
        let compared = answer(scene, release, "prove compare report.json other.json", 0);
        assert_eq!(compared["asked"][0]["cells"][0]["verdict"], "better", "{release}");
        let compared = answer(scene, release, "measure compare card.json card.json", 0);
        assert_eq!(compared["a"]["taken"], compared["b"]["taken"], "{release}");
    });
}
