//! Tests `pack apply`: on a captured machine, from the plan to the revert;
//! with invalid saved plans; and its script, on a root of plain files.

use std::process::Command;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::support::Scene;

const TABLE: &str = "session,count,cpus,memory_mib,unit,cpu_weight\n\
                     arena,3,0.12,30,arena@{n}.service,200\nlobby,1,0.40,80,lobby.service,\n";
const UNITS: [&str; 4] = ["arena@1", "arena@2", "arena@3", "lobby"];

/// A captured machine with four nodes. Its systemd has the units, and manages control groups of version 2.
fn machine(controllers: &str) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/qemu-4-nodes-6.1.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let has =
        |line: &&str| !line.starts_with("/run/systemd/system ") && !line.starts_with("/sys/fs/cgroup/cgroup.contr");
    let rest: String = rest.lines().filter(has).map(|line| format!("{line}\n")).collect();
    let files = UNITS.map(|unit| format!("/etc/systemd/system/{unit}.service.d/91-evenkeel-pack.conf ! ENOENT\n"));
    let units = ["arena@.service", "lobby.service"];
    let units = units.map(|unit| format!("/etc/systemd/system/{unit} =\n| [Service]\n| ExecStart=/bin/true\n"));
    let instances = UNITS.map(|unit| format!("/etc/systemd/system/{unit}.service ! ENOENT\n"));
    format!(
        "{first}\n/run/systemd/system ->! EINVAL\n{controllers}{}{}{}{rest}",
        files.concat(),
        instances[..3].concat(),
        units.concat()
    )
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("sessions.csv", TABLE);
    scene.write("host.txt", machine("/sys/fs/cgroup/cgroup.controllers = cpuset cpu io\n"));
    std::fs::create_dir(scene.path("state")).unwrap();
    scene
}

fn check(scene: &Scene, line: &str, expected: Expect) {
    expected.assert_eq(&scene.run(line).to_string());
}

#[test]
fn services_get_their_cpus_and_lose_them_again() {
    let scene = scene();
    check(
        &scene,
        "pack apply sessions.csv --plan-only --host host.txt",
        expect![[r#"
        exit code 0
        -- stdout
        CPUs of 4 services
          unit             CPUs  memory of node  weight  drop-in
          arena@1.service  2     1               200
          arena@2.service  5     2               200
          arena@3.service  6-7   3               200
          lobby.service    0-1   0
          in /etc/systemd/system/arena@1.service.d/91-evenkeel-pack.conf and so on

        Nothing was changed. Without --plan-only, evenkeel writes these drop-ins.
    "#]],
    );
    let applied = scene.run("pack apply sessions.csv --host host.txt --state state --output after.txt");
    assert!(applied.code == 0 && applied.stdout.contains("written"), "{applied}");
    let after = scene.read("after.txt");
    let drop_in = "arena@1.service.d/91-evenkeel-pack.conf =\n| # Written by `evenkeel pack apply`; `evenkeel revert` removes it.\n\
                   | [Service]\n| AllowedCPUs=\n| AllowedCPUs=";
    assert!(after.contains(drop_in) && after.contains("| CPUWeight=200"), "{after}");
    let again = scene.run("pack apply sessions.csv --host after.txt --state state");
    assert!(again.code == 0 && again.stdout.starts_with("Nothing to do"), "{again}");
    let (code, verified) = scene.json("verify --host after.txt --state state");
    assert_eq!((code, &verified["drift"], &verified["holds"]), (7, &json!([]), &4.into()));
    assert_eq!(verified["pending"][0]["todo"], "systemctl start arena@1.service");

    // If somebody removes a drop-in, `verify` reports drift.
    // The command that repairs it has the options of the first command.
    let first = "/etc/systemd/system/arena@1.service.d/91-evenkeel-pack.conf";
    let lines: Vec<&str> = after.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(first)).unwrap();
    let end = at + 1 + lines[at + 1..].iter().take_while(|line| line.starts_with('|')).count();
    let cut = [&lines[..at], &[&*format!("{first} ! ENOENT")], &lines[end..]].concat().join("\n") + "\n";
    scene.write("cut.txt", cut);
    let (code, drifted) = scene.json("verify --host cut.txt --state state");
    let mend = drifted["drift"][0]["mend"].as_str().unwrap();
    assert!(
        code == 1 && mend.starts_with("evenkeel pack apply /") && mend.ends_with("/sessions.csv --state state"),
        "{drifted}"
    );
    let mended = scene.run("pack apply sessions.csv --host cut.txt --state state --output mended.txt");
    assert_eq!((mended.code, scene.read("mended.txt").contains(drop_in)), (0, true), "{mended}");

    let reverted = scene.run("revert --host mended.txt --state state");
    assert_eq!(reverted.code, 0, "{reverted}");
    assert!(scene.run("history --state state --host mended.txt").stdout.contains("reverted"));
}

#[test]
fn without_the_controller_processes_get_their_cpus() {
    let scene = scene();
    scene.write("host.txt", machine("/sys/fs/cgroup/cgroup.controllers ! ENOENT\n"));
    let (_, answer) = scene.json("pack apply sessions.csv --host host.txt --output after.txt");
    assert_eq!(answer["by"], "process");
    assert!(scene.read("after.txt").contains("| NUMAPolicy=bind\n| NUMAMask=\n| NUMAMask="));
    let (_, answer) = scene.json("pack apply sessions.csv --host host.txt --by group --plan-only");
    assert_eq!((&answer["by"], answer.get("transaction")), (&"control-group".into(), None));
    scene.write("host.txt", machine(""));
    check(
        &scene,
        "pack apply sessions.csv --host host.txt",
        expect![[r#"
        exit code 4
        -- stderr
        error: failed to find which control groups systemd has here: read /sys/fs/cgroup/cgroup.controllers: not in the capture
        hint: say it: --by group for control groups of version 2, or --by process
    "#]],
    );
}

#[test]
fn services_that_a_later_plan_leaves_out_are_not_forgotten() {
    let scene = scene();
    scene.run("pack apply sessions.csv --host host.txt --state state --output after.txt");
    scene.write("sessions.csv", TABLE.replace("arena,3", "arena,2"));
    check(
        &scene,
        "pack apply sessions.csv --host after.txt --state state",
        expect![[r#"
        exit code 4
        -- stderr
        error: failed to apply sessions.csv: transaction 1 wrote /etc/systemd/system/arena@3.service.d/91-evenkeel-pack.conf, for a service that this plan leaves out
        hint: evenkeel revert 1 --state state, then apply again
    "#]],
    );
}

#[test]
fn a_saved_plan_is_checked_as_a_table_is() {
    let scene = scene();
    let (_, plan) = scene.json("pack plan sessions.csv --host host.txt --cpu-sets one");
    let write = |plan: &Value| scene.write("plan.json", plan.to_string());
    write(&plan);
    let line = "pack apply --plan plan.json --host host.txt --plan-only";
    let (_, from_plan) = scene.json(line);
    let (_, from_table) = scene.json("pack apply sessions.csv --host host.txt --plan-only --cpu-sets one");
    assert_eq!(from_plan["services"], from_table["services"]);
    assert!(scene.run(&format!("{line} --load-max 0.5")).stderr.contains("--load-max"));
    let cases: [(&str, Value, i32, &str); 12] = [
        ("/format", json!(2), 2, "does not know format 2"),
        ("/placements/0/units/0", json!("../../x.service"), 2, "is not a service name"),
        ("/placements/0/units/0", json!("x.service\nExecStart=/bin/sh"), 2, "is not a service name"),
        ("/placements/0/units/0", json!("lobby.service"), 2, "another session has the unit lobby.service too"),
        ("/placements/0/units", json!([]), 2, "has no unit"),
        ("/placements/0/count", json!(7), 2, "units for 7 sessions"),
        ("/placements/0/cpus", json!("0\nExecStart=/bin/sh"), 2, "is not a list of CPUs"),
        ("/placements/0/cpus", json!(""), 2, "is not a list of CPUs"),
        ("/placements/0/cpus", json!("99"), 4, "CPU 99 does not run here"),
        ("/placements/0/node", json!(77), 4, "is not in node 77"),
        ("/placements/0/cpu_weight", json!(0), 2, "a weight is from 1 to 10000"),
        ("/left_out", json!([{"session": "x"}]), 1, "1 of the sessions have no place"),
    ];
    for (at, value, code, expected) in cases {
        let mut wrong = plan.clone();
        *wrong.pointer_mut(at).unwrap() = value;
        write(&wrong);
        let seen = scene.run(line);
        assert!(seen.code == code && seen.stderr.contains(expected), "{at}: {seen}");
    }
    for text in ["", "{}", "[]", "{\"format\":1,\"placements\":7,\"left_out\":[]}"] {
        scene.write("plan.json", text);
        let seen = scene.run(line);
        assert!(seen.code == 2 && seen.stderr.contains("is not an answer of `evenkeel pack plan --json`"), "{seen}");
    }
}

#[test]
fn what_has_no_service_or_no_place_is_named() {
    let scene = scene();
    let cases = [
        ("cpus\n0.1\n", 2, "session \"session 1\" has no unit"),
        ("cpus,unit\n0.1,a.service\n0.1,a.service\n", 2, "two sessions have the unit a.service"),
        ("cpus,count,unit\n0.1,2,a.service\n", 2, "a service for each of several sessions"),
        ("cpus,unit\n0.1,a.socket\n", 2, "is not a systemd service"),
        ("cpus,count,unit\n0.9,99,a@{n}.service\n", 1, "of the sessions have no place"),
        ("cpus,count,unit\n0.001,1001,a@{n}.service\n", 4, "1001 services: one transaction has at most 1000"),
    ];
    for (table, code, expected) in cases {
        scene.write("sessions.csv", table);
        let seen = scene.run("pack apply sessions.csv --host host.txt");
        assert!(seen.code == code && seen.stderr.contains(expected), "{table}: {seen}");
    }
    // The machine in [`HOST`], which most tests use, has no systemd.
    scene.write("sessions.csv", "cpus,unit\n0.1,a.service\n");
    scene.write(
        "none.txt",
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/qemu-4cpu-6.1.txt")).unwrap(),
    );
    let seen = scene.run("pack apply sessions.csv --host none.txt");
    assert!(seen.code == 4 && seen.stderr.contains("can only write drop-ins of systemd"), "{seen}");
}

#[test]
fn the_script_places_services_and_its_undo_takes_them_away() {
    let scene = scene();
    let script = scene.run("pack apply sessions.csv --host host.txt --script");
    scene.write("place.sh", &script.stdout);
    let root = scene.path("root");
    std::fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    let run = |script: &std::path::Path| {
        let output = Command::new("sh").arg(script).env("EVENKEEL_ROOT", &root).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&scene.path("place.sh"));
    let units = root.join("etc/systemd/system");
    let text = |unit: &str| std::fs::read_to_string(units.join(format!("{unit}.service.d/91-evenkeel-pack.conf")));
    for unit in UNITS {
        assert!(text(unit).unwrap().contains("[Service]\nAllowedCPUs=\nAllowedCPUs="), "{unit}");
    }
    let scripts = root.join("var/lib/evenkeel/script");
    let one = std::fs::read_dir(&scripts).unwrap().next().unwrap().unwrap().path();
    run(&one.join("undo.sh"));
    assert_eq!(std::fs::read_dir(&units).unwrap().count(), 0);
}
