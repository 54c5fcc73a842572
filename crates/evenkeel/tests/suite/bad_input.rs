//! If input is wrong, truncated, huge or hostile, the program ends at once with a clear error and the right exit code.

use std::fs::File;

use expect_test::{Expect, expect};

use crate::support::{HOST, Scene};

fn check(scene: &Scene, line: &str, expected: Expect) {
    expected.assert_eq(&format!("$ evenkeel {line}\n{}", scene.run(line)));
}

#[test]
fn arguments_that_make_no_sense() {
    let scene = Scene::new();
    check(
        &scene,
        "frobnicate",
        expect![[r#"
            $ evenkeel frobnicate
            exit code 2
            -- stderr
            error: evenkeel has no command "frobnicate"
            hint: `evenkeel --help` lists the commands
        "#]],
    );
    check(
        &scene,
        "audit --fail-on keep",
        expect![[r#"
            $ evenkeel audit --fail-on keep
            exit code 2
            -- stderr
            error: --fail-on does not take "keep"
            hint: it takes set, owned-by, blocked, unknown
        "#]],
    );
    check(
        &scene,
        "audit --goal speed --json",
        expect![[r#"
            $ evenkeel audit --goal speed --json
            exit code 2
            -- stdout
            {
              "format": 1,
              "error": {
                "message": "--goal does not take \"speed\"",
                "hint": "it takes latency, throughput, density here; the goal file of `evenkeel tune` goes to `apply FILE`, `prove --goal FILE` or `capacity --goal FILE`",
                "exit_code": 2
              }
            }
            -- stderr
            error: --goal does not take "speed"
            hint: it takes latency, throughput, density here; the goal file of `evenkeel tune` goes to `apply FILE`, `prove --goal FILE` or `capacity --goal FILE`
        "#]],
    );
    check(
        &scene,
        "profile --json",
        expect![[r#"
            $ evenkeel profile --json
            exit code 2
            -- stdout
            {
              "format": 1,
              "error": {
                "message": "evenkeel profile needs a command",
                "hint": "`evenkeel profile --help` describes record, view, diff, switches, imbalance, scopes, ticks and help",
                "exit_code": 2
              }
            }
            -- stderr
            error: evenkeel profile needs a command
            hint: `evenkeel profile --help` describes record, view, diff, switches, imbalance, scopes, ticks and help
        "#]],
    );
    check(
        &scene,
        "audit --host host.txt --metadata",
        expect![[r#"
            $ evenkeel audit --host host.txt --metadata
            exit code 2
            -- stderr
            error: --host and --metadata exclude each other
            hint: leave one of them out; `evenkeel audit --help` lists what goes together
        "#]],
    );
    check(
        &scene,
        "inspect --host host.txt --root /",
        expect![[r#"
            $ evenkeel inspect --host host.txt --root /
            exit code 2
            -- stderr
            error: --host and --root exclude each other
            hint: leave one of them out; `evenkeel inspect --help` lists what goes together
        "#]],
    );
    check(
        &scene,
        "explain vm.swapiness --host host.txt",
        expect![[r#"
            $ evenkeel explain vm.swapiness --host host.txt
            exit code 2
            -- stderr
            error: failed to explain a knob: unknown knob "vm.swapiness": did you mean "vm.swappiness"? `evenkeel explain` lists the knobs
        "#]],
    );
    check(
        &scene,
        "explain zzz --host host.txt",
        expect![[r#"
            $ evenkeel explain zzz --host host.txt
            exit code 2
            -- stderr
            error: failed to explain a knob: unknown knob "zzz": `evenkeel explain` lists the knobs
        "#]],
    );
    check(
        &scene,
        "apply --host host.txt",
        expect![[r#"
            $ evenkeel apply --host host.txt
            exit code 2
            -- stderr
            error: failed to plan the change: nothing was named to set
            hint: name settings as KNOB=VALUE, a plan's file, or --advised; `evenkeel explain` lists the knobs
        "#]],
    );
    check(
        &scene,
        "apply --host host.txt vm.swappiness",
        expect![[r#"
            $ evenkeel apply --host host.txt vm.swappiness
            exit code 2
            -- stderr
            error: failed to plan the change: "vm.swappiness" is not a setting: expected KNOB=VALUE
            hint: write vm.swappiness=VALUE; `evenkeel explain vm.swappiness` shows the values it takes
        "#]],
    );
    check(
        &scene,
        "apply --host host.txt vm.swappiness=201",
        expect![[r#"
            $ evenkeel apply --host host.txt vm.swappiness=201
            exit code 2
            -- stderr
            error: failed to plan the change: vm.swappiness does not accept "201": it accepts a whole number from 0 to 200
            hint: `evenkeel explain vm.swappiness` shows what each value does
        "#]],
    );
    check(
        &scene,
        "apply --host host.txt vm.swappiness=1 vm.swappiness=2",
        expect![[r#"
            $ evenkeel apply --host host.txt vm.swappiness=1 vm.swappiness=2
            exit code 2
            -- stderr
            error: failed to plan the change: vm.swappiness=1 and vm.swappiness=2 are two values for one knob
            hint: leave one of them out
        "#]],
    );
    check(
        &scene,
        "apply --host host.txt irq.affinity@99=0",
        expect![[r#"
            $ evenkeel apply --host host.txt irq.affinity@99=0
            exit code 4
            -- stderr
            error: failed to plan irq.affinity@99=0: irq.affinity has no place "99" here; its places are 27, 28
            hint: `evenkeel inspect --all` shows queues and interrupts
        "#]],
    );
    check(
        &scene,
        "apply --host host.txt process.timer_slack_ns=1",
        expect![[r#"
            $ evenkeel apply --host host.txt process.timer_slack_ns=1
            exit code 4
            -- stderr
            error: failed to apply process.timer_slack_ns=1: the server itself sets it when it starts
            hint: `evenkeel prove process.timer_slack_ns=1` measures what it does; `evenkeel apply process.timer_slack_ns=1 --persist --unit NAME.service` sets it for a systemd service
        "#]],
    );
    check(
        &scene,
        "revert 7 --host host.txt --state state",
        expect![[r#"
            $ evenkeel revert 7 --host host.txt --state state
            exit code 2
            -- stderr
            error: failed to revert transaction 7: it does not exist; `evenkeel history` lists all transactions
        "#]],
    );
}

#[test]
fn files_that_are_no_machine() {
    let scene = Scene::new();
    scene.write("half.txt", &HOST.as_bytes()[..HOST.len() / 2]);
    scene.write("nul.txt", HOST.replace("swappiness = 60", "swappiness = 6\0"));
    scene.write("nothing.txt", "");
    scene.write("other.txt", "# some other file\n");
    scene.write("newer.txt", HOST.replace("evenkeel-capture 1", "evenkeel-capture 2"));
    std::fs::create_dir(scene.path("dir")).unwrap();
    check(
        &scene,
        "inspect --host half.txt",
        expect![[r#"
            $ evenkeel inspect --host half.txt
            exit code 2
            -- stderr
            error: failed to read the capture half.txt: line 88: expected `PATH = VALUE`, `PATH -> TARGET`, `DIR/ : NAMES` or `PATH ! ERROR`
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
    check(
        &scene,
        "inspect --host nothing.txt",
        expect![[r#"
            $ evenkeel inspect --host nothing.txt
            exit code 2
            -- stderr
            error: failed to read the capture nothing.txt: line 1: not a capture: the first line must be "evenkeel-capture 1"
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
    check(
        &scene,
        "inspect --host other.txt --json",
        expect![[r#"
            $ evenkeel inspect --host other.txt --json
            exit code 2
            -- stdout
            {
              "format": 1,
              "error": {
                "message": "failed to read the capture other.txt: line 1: not a capture: the first line must be \"evenkeel-capture 1\"",
                "hint": "`evenkeel capture --output FILE` takes a capture on the machine itself",
                "exit_code": 2
              }
            }
            -- stderr
            error: failed to read the capture other.txt: line 1: not a capture: the first line must be "evenkeel-capture 1"
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
    check(
        &scene,
        "inspect --host newer.txt",
        expect![[r#"
            $ evenkeel inspect --host newer.txt
            exit code 2
            -- stderr
            error: failed to read the capture newer.txt: line 1: this evenkeel does not know format "evenkeel-capture 2"; it reads "evenkeel-capture 1"
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
    check(
        &scene,
        "inspect --host dir",
        expect![[r#"
            $ evenkeel inspect --host dir
            exit code 2
            -- stderr
            error: failed to read the capture dir: is a directory (EISDIR)
            hint: a capture is one file; `--root DIR` reads the root file system in a folder
        "#]],
    );
    check(
        &scene,
        "inspect --host missing.txt",
        expect![[r#"
            $ evenkeel inspect --host missing.txt
            exit code 2
            -- stderr
            error: failed to read the capture missing.txt: no such file or directory (ENOENT)
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
    check(
        &scene,
        "inspect --host .",
        expect![[r#"
            $ evenkeel inspect --host .
            exit code 2
            -- stderr
            error: failed to read the capture .: is a directory (EISDIR)
            hint: a capture is one file; `--root DIR` reads the root file system in a folder
        "#]],
    );
    check(
        &scene,
        "inspect --root missing",
        expect![[r#"
            $ evenkeel inspect --root missing
            exit code 2
            -- stderr
            error: failed to open the root missing: no such file or directory (ENOENT)
            hint: name the folder where the root file system is mounted or unpacked, such as /host
        "#]],
    );
    check(
        &scene,
        "inspect --root host.txt",
        expect![[r#"
            $ evenkeel inspect --root host.txt
            exit code 2
            -- stderr
            error: failed to open the root host.txt: not a directory (ENOTDIR)
            hint: `--host FILE` reads a captured machine; `--root` takes the folder of a root file system
        "#]],
    );
    check(
        &scene,
        "capture --host host.txt --output missing/h.txt",
        expect![[r#"
            $ evenkeel capture --host host.txt --output missing/h.txt
            exit code 2
            -- stderr
            error: failed to write missing/h.txt: no such file or directory (ENOENT)
            hint: name a folder that exists
        "#]],
    );
    // A NUL is an ordinary byte, except where a number is expected.
    assert_eq!(scene.run("inspect --host nul.txt").code, 0);
    let (_, audit) = scene.json("explain vm.swappiness --host nul.txt");
    assert_eq!(audit["advice"][0]["state"], "unknown", "{audit}");
}

#[test]
fn an_endless_file_is_refused_without_holding_it() {
    let scene = Scene::new();
    // The file is sparse, so it takes no space on the disk.
    File::create(scene.path("huge.txt")).unwrap().set_len(100 << 20).unwrap();
    check(
        &scene,
        "inspect --host huge.txt",
        expect![[r#"
            $ evenkeel inspect --host huge.txt
            exit code 2
            -- stderr
            error: failed to read the capture huge.txt: it is longer than the limit of 33554432 bytes
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
    check(
        &scene,
        "inspect --host /dev/zero",
        expect![[r#"
            $ evenkeel inspect --host /dev/zero
            exit code 2
            -- stderr
            error: failed to read the capture /dev/zero: it is longer than the limit of 33554432 bytes
            hint: `evenkeel capture --output FILE` takes a capture on the machine itself
        "#]],
    );
}

/// A list of all 32-bit numbers must cost neither time nor memory. The page shows the text of the file.
#[test]
fn an_absurd_list_of_cpus_is_odd() {
    let scene = Scene::new();
    let path = "/sys/devices/system/cpu/online";
    scene.write("host.txt", HOST.replace(&format!("{path} = 0-3"), &format!("{path} = 0-4294967295")));
    let (code, answer) = scene.json("inspect --host host.txt");
    let online = &answer["facts"]["cpus"]["online"];
    assert_eq!(code, 0);
    assert_eq!((online["unknown"].as_str(), online["path"].as_str()), (Some("odd"), Some(path)), "{online}");
    assert_eq!(online["raw"], "0-4294967295\n");
    assert!(scene.run("inspect --all --host host.txt").stdout.contains("odd: "));
}

/// Random text replaces each line of a captured machine in turn. Every text must give a fact, and never a crash.
///
/// The advice reads every fact, so it gets every text.
/// `inspect` shows the same facts, and gets one different text for each line.
#[test]
fn no_line_of_a_capture_brings_the_program_down() {
    let scene = Scene::new();
    let (lines, odd) =
        (HOST.lines().collect::<Vec<_>>(), ["", "-1", "18446744073709551616 x [y] 0-3,,", "|||0x:\\u{10ffff}"]);
    for (at, line) in lines.iter().enumerate() {
        let Some((path, _)) = line.split_once(" = ") else { continue };
        for (turn, value) in odd.into_iter().enumerate() {
            let mut changed = lines.clone();
            let text = format!("{path} = {value}");
            changed[at] = &text;
            scene.write("odd.txt", changed.join("\n") + "\n");
            let commands = ["audit --all", "inspect --all"];
            for command in &commands[..1 + usize::from(turn == at % odd.len())] {
                let seen = scene.run(&format!("{command} --host odd.txt"));
                assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{command}: {text}: {seen}");
            }
        }
    }
}

/// A capture may come from an unknown person. Nothing in it may control the terminal that shows it.
#[test]
fn escape_sequences_stay_in_the_capture() {
    let scene = Scene::new();
    scene.write("host.txt", HOST.replace("c5n.xlarge", "c5n\\x1b]0;owned\\x07\\x0d"));
    for line in ["inspect", "inspect --all", "audit", "audit --all", "explain net.core.busy_poll"] {
        let seen = scene.run(&format!("--color never {line} --host host.txt"));
        let is_clean = |text: &str| !text.chars().any(|character| character.is_control() && character != '\n');
        assert!(is_clean(&seen.stdout) && is_clean(&seen.stderr), "{line}: {seen:}");
    }
    scene.write("bad.txt", "evenkeel-capture 1\n\x1b[2J = 1\nend\n");
    let seen = scene.run("inspect --host bad.txt");
    assert!(seen.code == 2 && !seen.stderr.contains('\x1b'), "{seen}");
}

#[test]
fn a_journal_with_a_torn_tail_is_read() {
    let scene = Scene::new();
    assert_eq!(scene.run("apply --host host.txt --state state vm.swappiness=10 --output after.txt").code, 0);
    let whole = std::fs::read(scene.path("state/journal")).unwrap();
    scene.write("state/journal", [&whole[..], b"0123abcd {\"format\":1,\"at_"].concat());
    let (code, answer) = scene.json("history --host after.txt --state state");
    assert_eq!((code, answer["journal"]["torn_bytes"].as_u64()), (0, Some(25)), "{answer}");
    assert_eq!(answer["transactions"][0]["status"], "in-force");
    assert!(scene.run("verify --host after.txt --state state").stdout.contains("cut by a crash"));

    // If the damage is before the end, the records after it may be incomplete.
    // evenkeel restores their values, and reports the loss.
    let mut damaged = whole;
    damaged[20] ^= 1;
    scene.write("state/journal", damaged);
    for line in ["verify --host after.txt", "history", "apply --host after.txt vm.swappiness=20"] {
        let seen = scene.run(&format!("{line} --state state"));
        assert!(seen.code == 4 && seen.stderr.contains("state/journal: byte 0"), "{line}: {seen}");
    }
    let seen = scene.run("revert --host after.txt --state state");
    assert!(seen.code == 6 && seen.stdout.contains("byte 0: the checksum does not match"), "{seen}");
}

/// The name of a unit becomes part of a path. All commands with a unit argument accept the same names.
#[test]
fn a_unit_that_is_a_path_is_refused_by_every_command() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("root")).unwrap();
    let commands = [
        "plan --host host.txt",
        "plan --host host.txt --persist",
        "diff --host host.txt",
        "script --host host.txt",
        "script --host host.txt --persist",
        "apply --host host.txt --state state",
        "apply --host host.txt --state state --persist",
        "image root",
    ];
    for command in commands {
        for unit in ["../../x", "../x.service", "memcached", "-x.service"] {
            for setting in ["vm.swappiness=10", "process.timer_slack_ns=1"] {
                let line = format!("{command} --unit={unit} {setting}");
                let seen = scene.run(&line);
                assert_eq!(seen.code, 2, "{line}: {seen}");
                assert!(seen.stderr.contains("is not a service name"), "{line}: {seen}");
            }
        }
    }
    // A plan file may come from anywhere, so evenkeel checks its unit too.
    assert_eq!(
        scene.run("plan --host host.txt --persist --unit x.service --output plan.json vm.swappiness=10").code,
        0
    );
    scene.write("plan.json", scene.read("plan.json").replace("x.service", "../../x"));
    for command in ["script --host host.txt plan.json", "apply --host host.txt --state state plan.json"] {
        let seen = scene.run(command);
        assert_eq!(seen.code, 2, "{command}: {seen}");
        assert!(seen.stderr.contains("is not a service name"), "{command}: {seen}");
    }
}
