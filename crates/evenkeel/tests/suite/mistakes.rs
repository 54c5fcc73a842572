//! Tests typical mistakes of a newcomer.
//! Each message says what, where, why and what to do, and names no hidden command.

use expect_test::expect_file;

use crate::support::{HOST, Scene};

/// No line depends on the machine or on the user.
const LINES: &[&str] = &[
    "frobnicate",
    "auditt",
    "monitor",
    "guar",
    "par",
    "profile recrod",
    "audit extra",
    "audit --jsn",
    "--colour never",
    "--color red audit",
    "audit --goal speed",
    "audit --fail-on keep",
    "audit --goal",
    "audit --server pps=x",
    "audit --server x=1",
    "audit --waivers dir --host host.txt",
    "audit --host host.txt --root /",
    "inspect --topology png",
    "inspect --topology=png",
    "inspect --host missing.txt",
    "inspect --host dir",
    "inspect --host empty",
    "inspect --host newer.txt",
    "inspect --root missing",
    "explain vm.swapiness --host host.txt",
    "apply plan.json --host host.txt",
    "apply dir --host host.txt",
    "apply empty --host host.txt",
    "apply broken.json --host host.txt",
    "apply wrong.json --host host.txt",
    "apply newer.json --host host.txt",
    "apply vm.swapiness=1 --host host.txt",
    "apply vm.swappiness --host host.txt",
    "apply vm.swappiness=abc --host host.txt",
    "apply vm.swappiness=201 --host host.txt",
    "apply vm.nosuch=1 --host host.txt",
    "apply net.ipv4.tcp_rmem=1 --host host.txt",
    "apply kernel.panic=1 --host host.txt",
    "prove vm/nosuch=1 --state state",
    "explain vm.nosuch",
    "apply vm.swappiness=1 vm.swappiness=2 --host host.txt",
    "apply vm.swappiness=1 sysctl:vm.swappiness=1 --host host.txt",
    "apply vm.dirty_ratio=10 vm.dirty_bytes=8192000 --host host.txt",
    "apply clash.json --host host.txt",
    "plan cmdline.idle=poll cmdline.idle=halt --host host.txt",
    "script irq.affinity=0 irq.affinity@27=1 --host host.txt",
    "image root net.rps_cpus=0 net.rps_cpus=1",
    "image root cmdline.clocksource=tsc clocksource=hpet",
    "prove vm.dirty_ratio=10 vm.dirty_bytes=8192000 --state state",
    "tune --knobs vm.nosuch --state state",
    "guide --list tuned:network-latency",
    "capacity vm.swappiness=1 vm.swappiness=2 --workload simulated --state state",
    "apply irq.affinity@nope=0 --host host.txt",
    "apply irq.affinity@nope --host host.txt",
    "apply vm.swappiness=1 --try abc --state state",
    "apply vm.swappiness=1 --try 5 --persist --state state",
    "apply vm.swappiness=1 --output after.txt --state state",
    "plan vm.swappiness=10 --output missing/plan.json --host host.txt",
    "revert abc --host host.txt",
    "revert 7 --host host.txt --state state",
    "image",
    "man nope",
    "completions nosh",
    "watch --interval 50ms",
    "watch --replay missing",
    "watch --replay list.json",
    "aduit",
    "measure gasp",
    "prove resuem --state state",
    "prove x=1 --goal goal.json --state state",
    "prove --goal latency --state state",
    "prove --goal list.json --state state",
    "prove process.timer_slack_ns=1 --workload simulated --state file",
    "prove process.timer_slack_ns=1 --workload simulated --keep missing/x --state state",
    "prove process.timer_slack_ns=1 --workload simulated --keep dir --state state",
    "prove process.timer_slack_ns=1 --workload simulated --report file --state state",
    "prove report list.json --state state",
    "prove report empty --state state",
    "prove report wrong.json --state state",
    "prove report broken.json --state state",
    "prove report dir --state state",
    "prove report missing --state state",
    "prove compare list.json list.json",
    "measure compare empty empty",
    "measure gaps --report missing/page.html",
    "measure gaps --report file",
    "measure gaps --seconds 250ms",
    "measure all --output dir",
    "demo --out file --state state",
    "fleet table list.json",
    "pack apply --plan list.json --host host.txt",
    "disturb spinner --seconds 1d",
    "explain irq.affinity@27 --host host.txt",
    "apply vm.swappiness=10 --seconds 5 --state state",
    "prove workload.speed=1 --workload simulated --state state",
    "measure ticks",
    "measure udp 7007",
    "profile view missing.data",
    "profile view file",
    "pack plan missing.csv --host host.txt",
    "pack run missing.csv",
    "fleet audit dir",
    "guide",
    "apply vm.swappiness=1 --try 2h --state state",
];

#[test]
fn each_mistake_has_an_answer() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("dir")).unwrap();
    scene.write("empty", "");
    scene.write("file", "x\n");
    scene.write("list.json", "[]\n");
    scene.write("broken.json", "{\n");
    scene.write("wrong.json", "{\"a\": 1}\n");
    scene.write(
        "clash.json",
        r#"{"format": 1, "evenkeel": "0", "title": "", "settings": ["vm.swappiness=1", "vm.swappiness=2"], "steps": []}"#,
    );
    std::fs::create_dir_all(scene.path("root/etc")).unwrap();
    scene.write("newer.json", "{\"format\": 99}\n");
    scene.write("newer.txt", HOST.replace("evenkeel-capture 1", "evenkeel-capture 2"));
    let mut all = String::new();
    for line in LINES {
        let seen = scene.run(line);
        assert!([2, 4].contains(&seen.code) && seen.stdout.is_empty(), "{line}: {seen}");
        assert!(
            seen.stderr.starts_with("error: ")
                && (seen.stderr.contains("\nhint: ") || seen.stderr.contains("`evenkeel ")),
            "{line}: {seen}"
        );
        for word in [
            "os error",
            "digit found",
            "EOF while",
            "struct ",
            "missing field",
            "expected value",
            "watchdog",
            "guard",
            "evenkeel helper",
            "..=",
        ] {
            assert!(!seen.stderr.contains(word), "{line}: {word}: {seen}");
        }
        let said = seen.stderr.replace(&scene.path("").display().to_string(), "FOLDER/");
        all.push_str(&format!("$ evenkeel {line}\n{said}exit code {}\n\n", seen.code));
    }
    expect_file!["snapshots/mistakes.txt"].assert_eq(&all);
}
