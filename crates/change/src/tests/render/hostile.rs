//! Tests that no text of a plan can leave its quotes, and that no path can leave the folders that a plan may change.

use evenkeel_host::{Action, Reading};
use proptest::prelude::*;

use super::{Place, every_content, one_step};
use crate::persist_plan::Lasting;
use crate::persist_plan::{Content, PersistPlan, PersistedCommand, PersistedFile};
use crate::plan_file::PlanFile;
use crate::render::{cloud_init, role, script, undo_script};

/// Texts, most of which try to escape from their quotes. `CANARY` is a file that no text may create.
fn text() -> impl Strategy<Value = String> {
    let pieces = [
        "'",
        "\"",
        "`touch CANARY`",
        "$(touch CANARY)",
        "; touch CANARY;",
        "\n",
        "\ntouch CANARY\n",
        "\nEND\ntouch CANARY\n",
        "END",
        "END_",
        "EVENKEEL_UNDO",
        "}\n",
        "#",
        "\\",
        "| touch CANARY",
        "& touch CANARY &",
        "{{ lookup('pipe', 'touch CANARY') }}",
        "\r",
        "\0",
        "\t",
        " ",
        "-n",
        "%s",
        "!",
        "*",
        "~",
        "10",
        "vm",
        "/",
        "..",
        "\u{2028}",
        "\u{85}",
        "ü",
        "- x: y",
        "always",
    ];
    let piece = prop_oneof![proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned), "[ -~]{0,6}"];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

prop_compose! {
    fn plan()(texts in proptest::collection::vec(text(), 14), kind in 0..4_u8, good_paths in any::<bool>()) -> PlanFile {
        let mut plan = one_step("/proc/sys/vm/swappiness", Reading::Plain, &texts[0]);
        let path = |top: &str, text: &str| if good_paths { format!("{top}ok") } else { format!("{top}{text}") };
        plan.title.clone_from(&texts[1]);
        plan.evenkeel.clone_from(&texts[2]);
        plan.settings = vec![texts[3].clone()];
        plan.steps[0].step.knob.clone_from(&texts[4]);
        plan.steps[0].step.place.clone_from(&texts[5]);
        plan.steps[0].seen = Some(texts[12].clone());
        plan.steps[0].step.action = match kind {
            0 => Action::ByHand { todo: texts[6].clone() },
            1 => Action::KernelArgument { argument: texts[6].clone() },
            _ => Action::Write {
                interrupt: None,
                path: path("/proc/", &texts[6]),
                reading: Reading::Plain,
                in_force: None,
                side_effects: vec![path("/sys/", &texts[7])],
            },
        };
        let content = match kind {
            0 => Content::Whole { text: texts[8].clone(), mode: 0o644 },
            1 => Content::Link { target: texts[8].clone() },
            2 => Content::Block { lines: texts[8].clone() + "\n" },
            _ => Content::KernelArguments { arguments: vec![texts[8].clone()] },
        };
        let command = PersistedCommand {
            argv: vec!["true".to_owned(), texts[9].clone()],
            undo: vec!["true".to_owned(), texts[9].clone()],
            after: vec![path("/etc/", &texts[10])],
            why: texts[11].clone(),
            only_booted: false,
        };
        let files = vec![PersistedFile { path: path("/etc/", &texts[10]), content }];
        let persist = PersistPlan { files, commands: vec![command], ..PersistPlan::default() };
        plan.persist = Some(Lasting { unit: Some(texts[13].clone()), again: None, persist });
        plan
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_values_stay_inside_their_quotes(plan in plan()) {
        let place = Place::new();
        let canary = place.path("canary");
        let json = serde_json::to_string(&plan).unwrap().replace("CANARY", canary.to_str().unwrap());
        let plan: PlanFile = serde_json::from_str(&json).unwrap();
        place.write("/proc/ok", "1\n");
        place.write("/etc/ok", "root=/dev/sda1\n");
        for rendered in [script(&plan), undo_script(&plan)] {
            let Ok(text) = rendered else { continue };
            let path = place.path("check.sh");
            std::fs::write(&path, &text).unwrap();
            let checked = std::process::Command::new("sh").arg("-n").arg(&path).output().unwrap();
            prop_assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
            // This script may fail: another test checks that it works.
            place.run(&text);
            if let Some(undo) = place.undo_script() {
                place.sh(&undo);
            }
            prop_assert!(!canary.exists() && place.is_clean_here(), "{text}");
        }
        if let (Ok(user_data), Ok(script)) = (cloud_init(&plan), script(&plan)) {
            prop_assert!(block_of(&user_data) == script, "{user_data}");
        }
        for file in role(&plan).unwrap_or_default().iter().filter(|file| file.path.ends_with(".yml")) {
            prop_assert!(!file.text.contains(canary.to_str().unwrap()), "{}", file.text);
        }
    }
}

/// `ln` would read a target such as `-n` as an option, and would create the link in the current folder of the script.
#[test]
fn no_target_of_a_link_is_an_option() {
    for target in ["-n", "-f", "--", "-t/", "--help"] {
        let place = Place::new();
        place.write("/proc/ok", "1\n");
        std::fs::create_dir_all(place.at("/etc")).unwrap();
        std::os::unix::fs::symlink(target, place.at("/etc/before")).unwrap();
        let file = |path: &str, target: &str| PersistedFile {
            path: path.to_owned(),
            content: Content::Link { target: target.to_owned() },
        };
        let files = vec![file("/etc/new", target), file("/etc/before", "elsewhere")];
        let mut plan = one_step("/proc/ok", Reading::Plain, "1");
        plan.persist =
            Some(Lasting { unit: None, again: None, persist: PersistPlan { files, ..PersistPlan::default() } });
        let run = place.run(&script(&plan).unwrap());
        let leads = |path: &str| std::fs::read_link(place.at(path)).ok();
        assert!(run.status.success() && place.is_clean_here(), "{target}: {run:?}");
        assert_eq!(leads("/etc/new").unwrap().to_str(), Some(target));
        assert_eq!(leads("/etc/before").unwrap().to_str(), Some("elsewhere"));
        let undone = place.sh(&place.undo_script().unwrap());
        assert!(undone.status.success() && place.is_clean_here(), "{target}: {undone:?}");
        assert_eq!((leads("/etc/new"), leads("/etc/before")), (None, Some(target.into())));
    }
}

/// The literal block of user data. Like YAML, this function reads the block by its indentation.
fn block_of(user_data: &str) -> String {
    let lines = user_data.split_once("    content: |\n").unwrap().1.split_inclusive('\n');
    let inside = lines.take_while(|line| line.starts_with("      ") || *line == "\n");
    inside.map(|line| line.strip_prefix("      ").unwrap_or(line)).collect()
}

#[test]
fn forbidden_paths_of_a_plan_are_refused() {
    let refused = |change: &dyn Fn(&mut PlanFile)| {
        let mut plan = every_content();
        plan.steps = one_step("/proc/sys/vm/swappiness", Reading::Plain, "10").steps;
        change(&mut plan);
        script(&plan).map(drop).map_err(|error| error.to_string())
    };
    let step = |path: &str| {
        let path = path.to_owned();
        refused(&move |plan| plan.steps = one_step(&path, Reading::Plain, "10").steps)
    };
    assert_eq!(step("/proc/sys/vm/swappiness"), Ok(()));
    for path in ["/etc/passwd", "/proc/../etc/passwd", "/sys//x", "proc/x", "/proc/", "/proc/./x", "/proc/a\nb"] {
        let error = step(path).unwrap_err();
        assert!(error.starts_with("render the plan: the p"), "{path}: {error}");
    }
    for path in ["/usr/bin/x", "/etc/../usr/x", "/etc/", "/proc/sys/x", "/root/.ssh/x", "/etc/a\u{202e}b"] {
        let path = path.to_owned();
        refused(&|plan| plan.persist.as_mut().unwrap().persist.files[0].path.clone_from(&path)).unwrap_err();
    }
    let persist = |change: &dyn Fn(&mut PersistPlan)| {
        refused(&|plan| change(&mut plan.persist.as_mut().unwrap().persist)).unwrap_err()
    };
    let content = |content: &Content| persist(&|persist: &mut PersistPlan| persist.files[0].content = content.clone());
    assert!(content(&Content::Whole { text: "x\n".into(), mode: 0o4755 }).contains("permission bits"));
    assert!(content(&Content::Whole { text: "x\0\n".into(), mode: 0o644 }).contains("control characters"));
    assert!(content(&Content::Block { lines: "x".into() }).contains("newline"));
    assert!(content(&Content::KernelArguments { arguments: vec!["a b".into()] }).contains("one word"));
    assert!(persist(&|persist: &mut PersistPlan| persist.commands[0].argv.clear()).contains("begin with a program"));
    assert!(
        persist(&|persist: &mut PersistPlan| persist.commands[0].argv = vec!["-x".into()])
            .contains("begin with a program")
    );
    let cpus = |plan: &mut PlanFile| plan.steps = one_step("/proc/x", Reading::CpuMask, "f").steps;
    assert!(refused(&cpus).unwrap_err().contains("list of CPUs"));
}
