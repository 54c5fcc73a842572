//! Tests spellings of older versions. The answer must show today's spelling, and change nothing.

use crate::support::Scene;

/// The old command line, and the current one.
const RESPELLED: [(&str, &str); 19] = [
    ("evenkeel prove --list-workloads", "evenkeel prove workloads"),
    ("evenkeel prove --list-workloads --json", "evenkeel prove workloads --json"),
    ("evenkeel --json prove --compare a.json b.json", "evenkeel prove compare a.json b.json --json"),
    ("evenkeel prove --compare a.json b.json --report out", "evenkeel prove compare a.json b.json --report out"),
    ("evenkeel prove vm.swappiness=1 --compare a.json b.json", "evenkeel prove compare a.json b.json"),
    ("evenkeel prove --resume", "evenkeel prove resume"),
    ("evenkeel prove --from last", "evenkeel prove report last"),
    (
        "evenkeel prove --from s.jsonl --report out --state dir --pairs 3",
        "evenkeel prove report s.jsonl --report out --state dir",
    ),
    ("evenkeel prove vm.swappiness=1 --resume s.jsonl --pairs 12", "evenkeel prove resume s.jsonl"),
    (
        "evenkeel prove vm.swappiness=1 --workload tick --set tick-hz=50 --resume=s.jsonl --report out",
        "evenkeel prove resume s.jsonl --report out --workload tick --set tick-hz=50",
    ),
    (
        "evenkeel prove vm.swappiness=1 --resume s.jsonl -- ./server --from x",
        "evenkeel prove resume s.jsonl -- ./server --from x",
    ),
    ("evenkeel prove cmdline.nosmt=1 --boots 8", "evenkeel prove boots start cmdline.nosmt=1 --boots 8"),
    (
        "evenkeel prove cmdline.nosmt=1 --boots 4 --reboot --boots-settle 2s --boots-windows 3 --seed 3 --guard none -- ./server",
        "evenkeel prove boots start cmdline.nosmt=1 --guard none --seed 3 --boots 4 --settle 2s --windows 3 --reboot -- ./server",
    ),
    (
        "evenkeel prove cmdline.nosmt=1 --boots 4 --plan-only --host h.txt",
        "evenkeel prove boots start cmdline.nosmt=1 --boots 4 --plan-only --host h.txt",
    ),
    ("evenkeel prove --boots-status --report out", "evenkeel prove boots status --report out"),
    ("evenkeel prove --boots-cancel --state dir", "evenkeel prove boots cancel --state dir"),
    ("evenkeel tune --resume", "evenkeel tune resume"),
    (
        "evenkeel tune --resume s.jsonl --budget 5 --out g.json --persist",
        "evenkeel tune resume s.jsonl --out g.json --persist",
    ),
    ("evenkeel tune --state dir resume s.jsonl --out g.json", "evenkeel tune resume s.jsonl --state dir --out g.json"),
];

#[test]
fn an_old_spelling_is_answered_with_the_new_one() {
    let scene = Scene::new();
    for (old, new) in RESPELLED {
        let seen = scene.run(old.trim_start_matches("evenkeel"));
        let hint = format!("type: {new}\n");
        assert!(seen.code == 2 && seen.stderr.ends_with(&hint), "{old}: {seen}");
        assert_eq!(seen.stdout.is_empty(), !old.contains("--json"), "{old}: {seen}");
        // The program must accept the new spelling. Text after `--` is not part of the spelling.
        let (own, behind) = new.trim_start_matches("evenkeel").split_once(" -- ").unwrap_or((new, ""));
        let again = scene.run(&format!("{} --no-such-option -- {behind}", own.trim_start_matches("evenkeel")));
        assert!(again.stderr.contains("takes no option \"--no-such-option\""), "{new}: {again}");
    }
    assert!(!scene.path("dir").exists() && !scene.path("out").exists(), "nothing was done");
}

#[test]
fn a_word_that_a_shell_would_cut_is_quoted() {
    let scene = Scene::new();
    let seen =
        scene.command("--color never prove").args(["--from", "my session.jsonl", "--report", "it's"]).output().unwrap();
    let said = String::from_utf8(seen.stderr).unwrap();
    assert!(
        said.ends_with("type: evenkeel prove report 'my session.jsonl' --report \"it's\" --color never\n"),
        "{said}"
    );
}

/// The user's server may have the name of a subcommand.
#[test]
fn a_command_behind_two_dashes_is_no_subcommand() {
    let scene = Scene::new();
    for name in ["report", "resume", "boots", "workloads", "--from"] {
        for command in ["prove process.timer_slack_ns=1 --state dir", "tune --knobs process.timer_slack_ns --state dir"]
        {
            let seen = scene.run(&format!("{command} -- {name}"));
            assert!(seen.code != 0 && !seen.stderr.contains("type: evenkeel"), "{command}: {seen}");
            assert!(!seen.stderr.contains("read the"), "{command}: {seen}");
        }
    }
}

#[test]
fn no_help_and_no_completion_has_an_old_spelling() {
    let scene = Scene::new();
    for line in
        ["help prove", "help tune", "man prove", "man tune", "completions bash", "completions zsh", "completions fish"]
    {
        let text = scene.run(line).stdout;
        for old in [
            "--compare",
            "--list-workloads",
            "--boots-",
            "--resume",
            "-l compare",
            "boots-resume",
            "--window-ms",
            "--settle-ms",
        ] {
            assert!(!text.contains(old), "{line}: {old}");
        }
    }
    assert!(scene.run("help prove").stdout.lines().count() < 80);
}
