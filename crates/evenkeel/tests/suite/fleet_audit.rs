//! Tests `fleet audit` and `fleet diff` on the captured hosts:
//! pages, agreement with `audit` for each host, and files that are not captures.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use serde_json::Value;

use crate::support::Scene;

/// Hosts of three groups. In the first group, two hosts differ from the others.
const SOME: [&str; 6] = [
    "qemu-4cpu-6.1",
    "qemu-isolcpus-6.1",
    "qemu-hpet-6.1",
    "qemu-numa-off-6.1",
    "qemu-4cpu-6.12",
    "aws-c5n.xlarge-nitro-6.1",
];

fn collection() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts")
}

fn some() -> Scene {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("hosts")).unwrap();
    for name in SOME {
        std::fs::copy(collection().join(format!("{name}.txt")), scene.path(&format!("hosts/{name}.txt"))).unwrap();
    }
    scene
}

fn length(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

#[test]
fn pages_of_six_hosts() {
    let scene = some();
    for (line, expected) in [
        ("fleet audit hosts", expect_file!["snapshots/fleet-audit.txt"]),
        ("fleet audit hosts --md --by none --goal density", expect_file!["snapshots/fleet-audit.md"]),
        ("fleet diff hosts", expect_file!["snapshots/fleet-diff.txt"]),
        ("fleet diff hosts --md --by kernel --by cloud", expect_file!["snapshots/fleet-diff.md"]),
    ] {
        expected.assert_eq(&scene.run(line).to_string());
    }
}

/// The fleet has exactly the findings of `audit` for each host, and each host is in one group.
#[test]
fn a_fleet_is_the_sum_of_its_hosts() {
    let scene = Scene::new();
    let (code, fleet) = scene.json(&format!("fleet audit {}", collection().display()));
    assert_eq!(code, 0);
    let groups = fleet["groups"].as_array().unwrap();
    let hosts: Vec<&str> =
        groups.iter().flat_map(|group| group["hosts"].as_array().unwrap()).map(|host| host.as_str().unwrap()).collect();
    assert_eq!(Value::from(hosts.len()), fleet["hosts"]);
    let (mut set, mut with_set) = (0_u64, 0_u64);
    for host in &hosts {
        let (_, audit) = scene.json(&format!("audit --host {host}"));
        let own = audit["advice"].as_array().unwrap().iter().filter(|advice| advice["state"] == "set").count() as u64;
        set += own;
        with_set += u64::from(own > 0);
    }
    let level = &fleet["levels"][0];
    assert_eq!(level, &serde_json::json!({ "state": "set", "findings": set, "hosts": with_set }));
    for knob in fleet["knobs"].as_array().unwrap() {
        let states = knob["groups"].as_array().unwrap().iter().flat_map(|group| group["states"].as_array().unwrap());
        let counted: u64 = states.map(|state| state["hosts"].as_u64().unwrap()).sum();
        assert_eq!(counted, hosts.len() as u64, "{knob}");
    }
}

/// Among 300 copies of one host, `fleet audit` finds the one with a different `vm.swappiness`.
#[test]
fn the_one_host_that_differs_is_found() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("hosts")).unwrap();
    let usual = std::fs::read_to_string(collection().join("qemu-4cpu-6.1.txt")).unwrap();
    for at in 0..300 {
        scene.write(&format!("hosts/{at:03}.txt"), &usual);
    }
    let (code, diff) = scene.json("fleet diff hosts");
    assert_eq!((code, &diff["differing"], length(&diff["groups"])), (0, &0.into(), 1));
    scene.write("hosts/077.txt", usual.replace("/proc/sys/vm/swappiness = 60", "/proc/sys/vm/swappiness = 61"));
    let (code, diff) = scene.json("fleet diff hosts");
    let host = &diff["groups"][0]["differing"][0];
    assert_eq!((code, &diff["differing"], &host["host"]), (1, &1.into(), &"hosts/077.txt".into()));
    assert_eq!(length(&host["differences"]), 1, "{host}");
    let found = &host["differences"][0];
    assert_eq!((&found["id"], &found["value"], &found["usual"]), (&"vm.swappiness".into(), &"61".into(), &"60".into()));
}

#[test]
fn files_that_are_no_captures_are_named_and_the_rest_goes_on() {
    let scene = some();
    scene.write("hosts/cut.txt", "evenkeel-capture 1\n");
    scene.write("hosts/notes.md", "not looked at");
    let (code, fleet) = scene.json("fleet audit hosts nowhere.txt --fail-on set");
    assert_eq!((code, &fleet["hosts"]), (1, &6.into()));
    let unread: Vec<&str> =
        fleet["unread"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    assert_eq!(unread, ["hosts/cut.txt", "nowhere.txt"]);
    assert_eq!(fleet["caveats"][0], "this answer is without 2 files that could not be read");
    assert_eq!(scene.run("fleet audit hosts").code, 0);
    let by = |traits: &str| scene.json(&format!("fleet audit hosts {traits}")).1["by"].clone();
    assert_eq!(by("--by none --by cpu"), by("--by cpu"), "every trait splits the group of all");
    std::fs::create_dir(scene.path("empty")).unwrap();
    for (line, code, expected) in [
        ("fleet audit empty", 2, "failed to find a capture: empty has no file *.txt"),
        ("fleet diff hosts/cut.txt", 2, "hosts/cut.txt"),
        ("fleet audit", 2, "FILE|DIR"),
        ("fleet audit hosts --by x", 2, "instance"),
        ("fleet audit hosts --md --json", 2, "--json"),
    ] {
        let seen = scene.run(line);
        assert!(seen.code == code && seen.stderr.contains(expected), "{line}: {seen}");
    }
}
