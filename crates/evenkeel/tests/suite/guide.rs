//! Tests `guide`: its judgement of each line,
//! on captured machines and here, and guides that are settled on a simulated server.
//! The settings of the host are the real settings.

use std::fs;

use evenkeel_testkit::needs_root;
use serde_json::{Value, json};

use crate::scene::{Finished, Scene, said};
use crate::schemas;

/// Every line is in the answer once: as settings, as another line, or as a blank line.
fn assert_complete(text: &str, guide: &Value) {
    let number = |line: &Value| line["line"].as_u64().unwrap();
    let own = |list: &Value| -> Vec<u64> {
        list.as_array().unwrap().iter().filter(|line| line["file"].is_null()).map(number).collect()
    };
    let mut lines = own(&guide["settings"]);
    lines.extend(own(&guide["other_lines"]));
    let blank = text.lines().filter(|line| line.trim().is_empty()).count() as u64;
    assert_eq!(guide["blank_lines"].as_u64().unwrap(), blank, "{guide}");
    lines.sort_unstable();
    lines.dedup();
    let all: Vec<u64> =
        text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).map(|(_, number)| number).collect();
    assert_eq!(lines, all, "{guide}");
}

#[test]
fn every_guide_of_the_library_is_judged_on_every_captured_machine() {
    let scene = crate::support::Scene::new();
    let (_, library) = scene.json("guide --list");
    let behind: serde_json::Value = serde_json::from_str(&scene.run("guide --list --json").stdout).unwrap();
    assert_eq!(behind, library, "--json may stand behind --list too");
    let guides = library["guides"].as_array().unwrap();
    assert!(guides.len() >= 12, "{library}");
    for (name, text) in crate::pages::hosts() {
        scene.write("host.txt", &text);
        let names: Vec<&str> = guides.iter().map(|guide| guide["name"].as_str().unwrap()).collect();
        let (code, answer) = scene.json(&format!("guide {} --host host.txt", names.join(" ")));
        assert_eq!(code, 0, "{name}: {answer}");
        for (guide, entry) in answer["guides"].as_array().unwrap().iter().zip(guides) {
            let asked: usize = guide["settings"].as_array().unwrap().len();
            assert!(asked >= entry["settings"].as_array().unwrap().len(), "{name}: {guide}");
            for setting in guide["settings"].as_array().unwrap() {
                assert!(!setting["why"].as_str().unwrap().is_empty(), "{name}: {setting}");
            }
        }
        let page = scene.run(&format!("guide {} --host host.txt", names[0]));
        assert_eq!((page.code, page.stderr.as_str()), (0, ""), "{name}");
    }
}

#[test]
fn a_guide_is_read_and_never_run() {
    let scene = crate::support::Scene::new();
    let mark = scene.path("mark");
    let text = format!(
        "#!/bin/sh\ntouch {0}\nsysctl -w vm.swappiness=7\n\n`touch {0}` $(touch {0})\necho 1 > {0}\n\
         echo 5 > /proc/sys/vm/dirty_ratio && touch {0}\nfrobnicate\n",
        mark.display()
    );
    for name in ["guide.sh", "guide.md", "guide.html"] {
        scene.write(name, &text);
        for format in ["", " --format shell", " --format markdown", " --format html", " --format tuned"] {
            let (code, answer) = scene.json(&format!("guide {name}{format} --host host.txt"));
            assert_eq!(code, 0, "{answer}");
            assert_complete(&text, &answer["guides"][0]);
            assert!(!mark.exists(), "{name}{format}");
        }
    }
    let (_, answer) = scene.json("guide guide.sh --host host.txt");
    let asked: Vec<&str> =
        answer["guides"][0]["settings"].as_array().unwrap().iter().map(|one| one["asked"].as_str().unwrap()).collect();
    assert_eq!(asked, ["vm.swappiness=7", "vm.dirty_ratio=5"]);
}

#[test]
fn each_line_is_said_for_what_it_is_here() {
    let scene = crate::support::Scene::new();
    let host = "evenkeel-capture 1
@uname = Linux 6.8.0 x86_64
/proc/sys/kernel/osrelease = 6.8.0
/proc/cmdline = quiet
/proc/swaps =
| Filename Type Size Used Priority
| /dev/vda2 partition 8388604 0 -2
/proc/sys/vm/swappiness = 60
/proc/sys/vm/dirty_ratio = 20
/proc/sys/vm/dirty_bytes = 0
/proc/sys/net/core/somaxconn = 4096
/proc/sys/net/ipv4/tcp_fin_timeout = 60
/proc/sys/net/ipv4/tcp_tw_recycle ! ENOENT
/proc/sys/net/ipv4/tcp_no_such ! ENOENT
/proc/sys/net/ipv4/tcp_rmem = 4096\t131072\t6291456
end
";
    scene.write("host.txt", host);
    let text = "vm.swappiness = 10
vm.swappiness = 20
net.core.somaxconn = 4096
net.ipv4.tcp_tw_recycle = 1
net.ipv4.tcp_no_such = 1
net.ipv4.tcp_fin_timeout = 15
net.ipv4.tcp_rmem = 4096
net.ipv4.tcp_wmem = 1 2 3
kernel.panic = 1
vm.dirty_ratio = 10
vm.dirty_bytes = 1048576
GRUB_CMDLINE_LINUX=\"quiet skew_tick=1 mitigations=off\"
vm.dirty_ratio = lots
net.ipv4.tcp_rmem = 1 87380 16777216
dev.raid.speed_limit_max = 1000
GRUB_CMDLINE_LINUX=\"nospectre_bhb ssbd=force-off lockdown=none lockdown=integrity\"
";
    scene.write("guide.conf", text);
    let (_, answer) = scene.json("guide guide.conf --host host.txt");
    let settings = answer["guides"][0]["settings"].as_array().unwrap();
    let found: Vec<(&str, &str)> =
        settings.iter().map(|one| (one["asked"].as_str().unwrap(), one["state"].as_str().unwrap())).collect();
    let expected = [
        ("vm.swappiness=10", "overridden"),
        ("vm.swappiness=20", "try"),
        ("net.core.somaxconn=4096", "already-so"),
        ("net.ipv4.tcp_tw_recycle=1", "outdated"),
        ("net.ipv4.tcp_no_such=1", "not-here"),
        ("net.ipv4.tcp_fin_timeout=15", "try"),
        ("net.ipv4.tcp_rmem=4096", "bad-value"),
        ("net.ipv4.tcp_wmem=1 2 3", "unknown"),
        ("kernel.panic=1", "dangerous"),
        ("vm.dirty_ratio=10", "overridden"),
        ("vm.dirty_bytes=1048576", "try"),
        ("kernel argument skew_tick=1", "needs-reboot"),
        ("cmdline.mitigations=off", "dangerous"),
        ("vm.dirty_ratio=lots", "bad-value"),
        ("net.ipv4.tcp_rmem=1 87380 16777216", "dangerous"),
        ("dev.raid.speed_limit_max=1000", "by-hand"),
        ("kernel argument nospectre_bhb", "dangerous"),
        ("kernel argument ssbd=force-off", "dangerous"),
        ("kernel argument lockdown=none", "dangerous"),
        ("kernel argument lockdown=integrity", "needs-reboot"),
    ];
    assert_eq!(found, expected, "{answer:#}");
    let why = |at: usize| settings[at]["why"].as_str().unwrap();
    assert!(why(3).contains("since Linux 4.12") && why(0).contains("line 2"), "{answer:#}");
    assert_eq!(settings[5]["knob"], "sysctl:net.ipv4.tcp_fin_timeout");
    let page = scene.run("guide guide.conf --host host.txt --md");
    assert!(page.stdout.starts_with("# Tuning guide\n") && page.stdout.contains("Dangerous"), "{}", page.stdout);
}

#[test]
fn what_can_not_be_read_or_settled_is_refused() {
    let scene = Scene::new();
    fs::write(scene.path("empty.conf"), "# nothing\n").unwrap();
    fs::write(scene.path("text.conf"), [0xff, 0xfe, b'\n']).unwrap();
    fs::write(scene.path("puppet.pp"), "sysctl { 'vm.swappiness': value => '1' }\n").unwrap();
    fs::write(scene.path("windows.reg"), "Windows Registry Editor Version 5.00\n").unwrap();
    let table = [
        ("guide", 2, "needs GUIDE"),
        ("guide /not/here.conf", 2, "guide --list"),
        ("guide text.conf", 2, "not text"),
        ("guide empty.conf --format sysctl --out goal.json", 2, "need a server"),
        ("guide empty.conf --host /not/here --workload simulated", 2, "capture"),
        ("guide empty.conf --workload simulated", 4, ""),
        ("guide empty.conf tuned:realtime --workload simulated", 4, "none of its settings can be tried here"),
        ("guide puppet.pp", 2, "a manifest of Puppet"),
        ("guide windows.reg", 2, "it is for Windows"),
    ];
    for (line, code, expected) in table {
        let output = scene.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        assert!(said(&output).contains(expected), "{line}: {}", said(&output));
    }
}

/// The guide of these tests: one line helps, one hurts, two have no effect, and one is a sysctl without a knob.
const GUIDE: &str = "vm.swappiness = 31\nvm.stat_interval = 7\nkernel.timer_migration = 0\nvm.vfs_cache_pressure = 77\n\
                     vm.laptop_mode = 5\nkernel.panic = 9\n";
const SETTLE: &str = "--budget 150s --window-ms 100 --settle-ms 10 --seed 3 --workload simulated --set script=script.json \
                      --set noise-percent=1";
const FILES: [&str; 5] = [
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/vm/vfs_cache_pressure",
    "/proc/sys/vm/laptop_mode",
];

fn readings() -> Vec<Option<String>> {
    FILES.iter().map(|file| fs::read_to_string(file).ok()).collect()
}

/// This host has no swap, so `guide` would leave swappiness out.
/// Therefore the sysctl without a knob is the line that helps.
fn effects() -> Value {
    json!({"effects": [
        {"of": "/proc/sys/vm/vfs_cache_pressure", "value": "77", "ratio": 0.7},
        {"of": "/proc/sys/vm/stat_interval", "value": "7", "ratio": 1.3},
    ]})
}

#[test]
fn a_guide_is_settled_line_by_line() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    scene.script(&effects());
    fs::write(scene.path("guide.conf"), GUIDE).unwrap();
    let before = readings();
    let output = scene.run(&format!("guide guide.conf --json --report report --out goal.json {SETTLE}"));
    assert_eq!(readings(), before);
    scene.assert_all_as_before();
    let answer = schemas::parse("guide", &output.stdout);
    assert_eq!(output.status.code(), Some(0), "{answer:#}{}", said(&output));
    let verdict = |asked: &str| {
        let settings = answer["guides"][0]["settings"].as_array().unwrap();
        let line = settings.iter().find(|line| line["asked"].as_str().unwrap().starts_with(asked)).unwrap();
        line["measured"]["verdict"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(verdict("vm.vfs_cache_pressure"), "helps", "{answer:#}");
    assert_eq!(verdict("vm.stat_interval"), "hurts", "{answer:#}");
    assert_eq!(verdict("kernel.panic"), "none", "{answer:#}");
    let headline = answer["headline"].as_str().unwrap();
    assert!(headline.contains("1 helps, 1 hurts") && headline.contains("1 is dangerous"), "{headline}");
    assert!(answer["search"]["whole"]["verdict"].is_string(), "{answer:#}");
    let set = answer["search"]["set"].as_array().unwrap();
    assert_eq!(set.len(), 1, "{answer:#}");
    assert_eq!(set[0]["settings"][0], "sysctl:vm.vfs_cache_pressure=77");
    let page = fs::read_to_string(scene.path("report").join("report.html")).unwrap();
    for expected in
        ["The effect of each knob", "Time by stage", "sysctl:vm.vfs_cache_pressure=77", "What each line does"]
    {
        assert!(page.contains(expected), "{expected}");
    }
    schemas::parse("guide", fs::read(scene.path("report").join("report.json")).unwrap());
    // evenkeel applies, verifies and reverts this goal file like any other, including its sysctl without a knob.
    for (line, now) in [("apply goal.json", "77"), ("verify", "77"), ("revert", "")] {
        let output = scene.run(line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        let reads = fs::read_to_string(FILES[3]).unwrap();
        assert!(now.is_empty() || reads.trim() == now, "{line}: {reads}");
    }
    assert_eq!(readings(), before);
    // The goal file is a guide too.
    let output = scene.run("guide goal.json --json");
    let answer = schemas::parse("guide", &output.stdout);
    assert_eq!(answer["guides"][0]["format"], "plan");
    assert_eq!(answer["guides"][0]["settings"][0]["state"], "try", "{answer:#}");
}

#[test]
fn a_killed_guide_is_put_back_by_revert() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    let before = readings();
    scene.script(&json!({"events": [{"window": 12, "until": 100_000, "waits_for": "go"}]}));
    fs::write(scene.path("guide.conf"), "vm.vfs_cache_pressure = 77\nvm.laptop_mode = 5\n").unwrap();
    let mut guide = scene.start(&format!("guide guide.conf {SETTLE}"));
    scene.await_window("go", &mut guide);
    while readings() == before {
        let _ = fs::remove_file(scene.path("go.waiting"));
        fs::write(scene.path("go"), "").unwrap();
        guide.wait_until(|| scene.path("go.waiting").exists() || readings() != before);
        let _ = fs::remove_file(scene.path("go"));
    }
    guide.kill();
    let reverted = scene.run("revert");
    assert!(reverted.status.success(), "{}", said(&reverted));
    assert_eq!(readings(), before);
}

#[test]
fn a_stopped_guide_puts_everything_back_and_answers() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    let before = readings();
    scene.script(&json!({"events": [{"window": 30, "waits_for": "go"}]}));
    fs::write(scene.path("guide.conf"), GUIDE).unwrap();
    let mut guide = scene.start(&format!("guide guide.conf --json {SETTLE}"));
    scene.await_window("go", &mut guide);
    guide.signal("INT");
    fs::write(scene.path("go"), "").unwrap();
    let Finished { stdout, .. } = guide.finish();
    let answer = schemas::parse("guide", &stdout);
    assert_eq!(answer["search"]["ended"], "stopped", "{answer:#}");
    assert_eq!(readings(), before);
    // The continued search answers line by line, like an uninterrupted search.
    scene.script(&effects());
    let output = scene.run("tune resume --json --report report");
    let answer = schemas::parse("guide", &output.stdout);
    assert_eq!(readings(), before);
    assert_eq!(answer["search"]["ended"], "whole", "{answer:#}");
    let settings = answer["guides"][0]["settings"].as_array().unwrap();
    assert_eq!(settings.len(), GUIDE.lines().count(), "{answer:#}");
    let measured = settings.iter().filter(|line| line["measured"].is_object()).count();
    assert!(measured >= 4, "{answer:#}");
    assert!(scene.path("report").join("report.html").exists());
    // With `--json`, the output is one document even if evenkeel can't write a file.
    let output = scene.run("tune resume --json --out /dev/full");
    let answer = schemas::parse("guide", &output.stdout);
    assert_eq!(output.status.code(), Some(4), "{answer:#}");
    assert!(answer["search"]["notes"].to_string().contains("write /dev/full: "), "{answer:#}");
    let page = String::from_utf8(scene.run("tune resume").stdout).unwrap();
    assert!(page.contains("What each line does"), "{page}");
}

#[test]
fn several_guides_are_arms_of_one_trial() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    scene.script(&effects());
    fs::write(scene.path("good.conf"), "vm.vfs_cache_pressure = 77\n").unwrap();
    fs::write(scene.path("bad.conf"), "vm.stat_interval = 7\nvm.laptop_mode = 5\n").unwrap();
    let before = readings();
    let output = scene.run(&format!("guide bad.conf good.conf --json --report report {SETTLE}"));
    assert_eq!(readings(), before);
    let answer = schemas::parse("guide", &output.stdout);
    let trials = answer["comparison"]["trials"].as_array().unwrap_or_else(|| panic!("{answer:#}{}", said(&output)));
    let verdicts: Vec<&str> = trials.iter().map(|trial| trial["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["worse", "better"], "{answer:#}");
    assert!(answer["headline"].as_str().unwrap().contains("C is good.conf"), "{}", answer["headline"]);
    fs::write(scene.path("same.conf"), "kernel.panic = 9\nvm.laptop_mode = 5\nvm.stat_interval = 7\n").unwrap();
    let output = scene.run(&format!("guide bad.conf same.conf {SETTLE}"));
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("same.conf tries the same here as bad.conf"), "{}", said(&output));
    assert!(scene.path("report").join("report.html").exists());
}

#[test]
fn a_guide_that_does_nothing_ends_with_the_whole() {
    if needs_root("switching settings of the host") {
        return;
    }
    let scene = Scene::of_host();
    scene.script(&json!({}));
    fs::write(scene.path("guide.conf"), GUIDE).unwrap();
    let before = readings();
    let output = scene.run(&format!("guide guide.conf --json {SETTLE}"));
    assert_eq!(readings(), before);
    let answer = schemas::parse("guide", &output.stdout);
    assert_eq!(answer["search"]["whole"]["verdict"], "same", "{answer:#}{}", said(&output));
    assert!(answer["search"]["windows"]["screen"].is_null(), "{answer:#}");
    assert_eq!(output.status.code(), Some(1));
    let headline = answer["headline"].as_str().unwrap();
    assert!(headline.contains("do nothing here") && headline.contains("has no effect on"), "{headline}");
}
