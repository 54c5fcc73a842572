//! Runs the boot script with real shells, on folders with the files of a machine.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use evenkeel_testkit::skipped;

use super::*;

/// The script with all its root paths moved below `dir`.
fn moved(text: &str, dir: &Path) -> String {
    let dir = dir.display();
    let text = text.replace("/sys/", &format!("{dir}/sys/")).replace("/proc/", &format!("{dir}/proc/"));
    // `${x#/sys/…}` and `case` patterns move too. No remaining path may reach this machine.
    assert!(!text.contains(" /sys") && !text.contains(" /proc"), "{text}");
    text
}

fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(dir: &Path, path: &str) -> String {
    std::fs::read_to_string(dir.join(path.trim_start_matches('/')))
        .unwrap_or_else(|error| format!("{error}"))
        .trim()
        .to_owned()
}

/// The exit code and the output, with `dir` removed.
fn run(shell: &str, script: &str, dir: &Path) -> (i32, String) {
    let output = Command::new(shell).args(["-c", &moved(script, dir)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).replace(&dir.display().to_string(), "");
    (output.status.code().unwrap_or(-1), said)
}

fn script_of(texts: &[&str]) -> String {
    let facts = host("debian-12");
    script_text(&plan(&context(&facts), &settings(texts))).to_owned()
}

/// The installed shells. `dash` is Debian's `sh`, and `bash` is Red Hat's.
fn shells() -> Vec<&'static str> {
    static SHELLS: LazyLock<Vec<&str>> = LazyLock::new(installed_shells);
    SHELLS.clone()
}

fn installed_shells() -> Vec<&'static str> {
    let is_there = |shell: &&str| Command::new(shell).args(["-c", ":"]).status().is_ok_and(|status| status.success());
    let all = ["dash", "bash"];
    all.iter().filter(|shell| !is_there(shell)).for_each(|shell| skipped(format_args!("{shell} is not installed")));
    all.into_iter().filter(is_there).collect()
}

/// Creates an interface with hardware and `queues` queues. Its interrupts begin at 28.
fn machine(dir: &Path) {
    for path in ["sys/class/net/ens5/queues/rx-0/rps_cpus", "sys/class/net/ens5/queues/rx-1/rps_cpus"] {
        put(dir, path, "00000000\n");
    }
    put(dir, "sys/class/net/ens5/gro_flush_timeout", "0\n");
    // Add a software interface: a bridge.
    put(dir, "sys/class/net/br0/queues/rx-0/rps_cpus", "0\n");
    put(dir, "sys/class/net/br0/gro_flush_timeout", "0\n");
    put(dir, "sys/devices/0000:00:05.0/msi_irqs/27", "");
    put(dir, "sys/devices/0000:00:05.0/msi_irqs/28", "");
    put(dir, "sys/devices/0000:00:05.0/msi_irqs/29", "");
    symlink("../../../devices/0000:00:05.0", dir.join("sys/class/net/ens5/device")).unwrap();
    for irq in [27, 28, 29] {
        put(dir, &format!("proc/irq/{irq}/smp_affinity_list"), "0-1\n");
    }
    let interrupts: String =
        COMMON.lines().filter_map(|line| line.strip_prefix("| ")).map(|line| format!("{line}\n")).collect();
    put(dir, "proc/interrupts", &interrupts);
    for disk in ["nvme0n1", "loop0", "dm-0", "sda"] {
        put(dir, &format!("sys/block/{disk}/queue/scheduler"), "mq-deadline\n");
    }
    put(dir, "sys/kernel/mm/transparent_hugepage/enabled", "always\n");
    put(dir, "sys/kernel/debug/sched/min_granularity_ns", "1\n");
    put(dir, "proc/sys/kernel/sched_min_granularity_ns", "1\n");
}

#[test]
fn it_sets_what_has_hardware_behind_it_and_nothing_else() {
    let script = script_of(&[
        "thp.enabled=never",
        "net.rps_cpus=1",
        "net.rps_cpus@ens5/rx-1=0-1",
        "net.gro_flush_timeout_ns=20000",
        "disk.scheduler=none",
        "sched.min_granularity_ns=3000000",
        "irq.affinity=0",
        "irq.affinity@29=1",
    ]);
    let mut all = Vec::new();
    for shell in shells() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path());
        assert_eq!(run(shell, &script, dir.path()), (0, String::new()), "{shell}");
        let paths = [
            "sys/kernel/mm/transparent_hugepage/enabled",
            "sys/class/net/ens5/queues/rx-0/rps_cpus",
            "sys/class/net/ens5/queues/rx-1/rps_cpus",
            "sys/class/net/br0/queues/rx-0/rps_cpus",
            "sys/class/net/ens5/gro_flush_timeout",
            "sys/class/net/br0/gro_flush_timeout",
            "sys/block/nvme0n1/queue/scheduler",
            "sys/block/sda/queue/scheduler",
            "sys/block/loop0/queue/scheduler",
            "sys/block/dm-0/queue/scheduler",
            "sys/kernel/debug/sched/min_granularity_ns",
            "proc/sys/kernel/sched_min_granularity_ns",
            "proc/irq/27/smp_affinity_list",
            "proc/irq/28/smp_affinity_list",
            "proc/irq/29/smp_affinity_list",
        ];
        let expected: String = paths.iter().map(|path| format!("{path}: {}\n", read(dir.path(), path))).collect();
        assert!(all.iter().all(|other: &String| *other == expected), "{shell} does otherwise than {}", shells()[0]);
        all.push(expected);
    }
    let Some(expected) = all.first() else { return };
    expect![[r#"
        sys/kernel/mm/transparent_hugepage/enabled: never
        sys/class/net/ens5/queues/rx-0/rps_cpus: 2
        sys/class/net/ens5/queues/rx-1/rps_cpus: 3
        sys/class/net/br0/queues/rx-0/rps_cpus: 0
        sys/class/net/ens5/gro_flush_timeout: 20000
        sys/class/net/br0/gro_flush_timeout: 0
        sys/block/nvme0n1/queue/scheduler: none
        sys/block/sda/queue/scheduler: none
        sys/block/loop0/queue/scheduler: mq-deadline
        sys/block/dm-0/queue/scheduler: mq-deadline
        sys/kernel/debug/sched/min_granularity_ns: 3000000
        proc/sys/kernel/sched_min_granularity_ns: 1
        proc/irq/27/smp_affinity_list: 0-1
        proc/irq/28/smp_affinity_list: 0
        proc/irq/29/smp_affinity_list: 1
    "#]]
    .assert_eq(expected);
}

#[test]
fn interrupts_are_found_anew_under_other_numbers() {
    let script = script_of(&["irq.affinity@29=1"]);
    for shell in shells() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path());
        let swapped =
            read(dir.path(), "proc/interrupts").replace(" 28:", " xx:").replace(" 29:", " 28:").replace(" xx:", " 29:");
        put(dir.path(), "proc/interrupts", &(swapped + "\n"));
        assert_eq!(run(shell, &script, dir.path()), (0, String::new()), "{shell}");
        assert_eq!(read(dir.path(), "proc/irq/28/smp_affinity_list"), "1", "the interrupt of queue 1 is 28 now");
        assert_eq!(read(dir.path(), "proc/irq/29/smp_affinity_list"), "0-1");
    }
}

#[test]
fn it_goes_on_after_what_did_not_take_and_fails_at_the_end() {
    let script = script_of(&[
        "clocksource=tsc",
        "net.rps_cpus@eth7/rx-0=1",
        "cpufreq.governor=performance",
        "sched.migration_cost_ns=5000000",
        "thp.enabled=never",
        "irq.affinity@29=1",
    ]);
    let mut all = Vec::new();
    for shell in shells() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path());
        std::fs::remove_file(dir.path().join("proc/interrupts")).unwrap();
        put(dir.path(), "proc/interrupts", "           CPU0\n");
        let (code, said) = run(shell, &script, dir.path());
        assert_eq!(code, 1, "{said}");
        assert!(all.iter().all(|other: &String| *other == said), "{shell} says otherwise than {}", shells()[0]);
        all.push(said);
        assert_eq!(read(dir.path(), "sys/kernel/mm/transparent_hugepage/enabled"), "never", "{shell}");
    }
    let Some(said) = all.first() else { return };
    expect![[r#"
        evenkeel: /sys/devices/system/clocksource/clocksource0/current_clocksource: writing tsc was refused
        evenkeel: /sys/class/net/eth7/queues/rx-0/rps_cpus: writing 2 was refused
        evenkeel: /sys/devices/system/cpu/cpufreq/policy*/scaling_governor: no device has it
        evenkeel: this kernel has none of /sys/kernel/debug/sched/migration_cost_ns /proc/sys/kernel/sched_migration_cost_ns
        evenkeel: ens5: no interrupt ens5-Tx-Rx-1
    "#]].assert_eq(said);
}

/// A kernel file shows the value that the kernel accepted, not the written text.
#[test]
fn values_are_compared_as_the_kernel_writes_them() {
    let script = script_of(&["clocksource=tsc"]);
    let functions = script.split("\n\nput ").next().unwrap();
    let rows = [
        ("plain", "never", "always madvise [never]", true),
        ("plain", "always", "[always] madvise never", true),
        ("plain", "madvise", "always [madvise] never ", true),
        ("plain", "always", "always [madvise] never", false),
        ("plain", "none", "[none]", true),
        ("plain", "none", "none", true),
        ("plain", "20", "200", false),
        ("plain", "0-1", "0-1", true),
        ("plain", "*", "always", false),
        ("mask", "3", "00000000,00000003", true),
        ("mask", "0", "00000000,00000000", true),
        ("mask", "2,00000003", "0002,00000003", true),
        ("mask", "3", "30", false),
        ("mask", "ff", "000000ff", true),
    ];
    for shell in shells() {
        for (kind, value, now, holds) in rows {
            let dir = tempfile::tempdir().unwrap();
            put(dir.path(), "file", "");
            let file = dir.path().join("file");
            let script = format!(
                "{functions}\nshown() {{ text=$(printf '%s' '{now}' | tr -s '[:space:]' ' '); printf '%s' \"${{text% }}\"; }}\n\
                put {kind} '{}' '{value}'\nexit \"$failed\"\n",
                file.display()
            );
            let output = Command::new(shell).args(["-c", &script]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(i32::from(!holds)), "{shell}: {kind} {value} {now:?}: {said}");
        }
    }
}

/// A folder in which `awk` is this program. If the program is not installed, records a skip and returns `None`.
fn one_awk(bins: &Path, awk: &str) -> Option<PathBuf> {
    if !Path::new(awk).exists() {
        skipped(format_args!("{awk} is not installed"));
        return None;
    }
    let bin = bins.join(Path::new(awk).file_name()?);
    std::fs::create_dir(&bin).ok()?;
    symlink(awk, bin.join("awk")).ok()?;
    Some(bin)
}

/// The script has the same rules for interrupts as the facts. Both find the same interrupts on every captured machine.
#[test]
fn the_script_finds_the_interrupts_that_the_facts_find() {
    let script = script_of(&["irq.affinity=0"]);
    let functions = script.split("\n\nserve_all ").next().unwrap();
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts");
    // Debian installs mawk, Red Hat gawk.
    let bins = tempfile::tempdir().unwrap();
    let awks: Vec<PathBuf> =
        ["/usr/bin/mawk", "/usr/bin/gawk"].into_iter().filter_map(|awk| one_awk(bins.path(), awk)).collect();
    let mut compared = 0;
    for host in std::fs::read_dir(hosts).unwrap() {
        let host: PathBuf = host.unwrap().path();
        if host.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let root = Root::captured(Capture::parse(&std::fs::read_to_string(&host).unwrap()).unwrap());
        let facts = Facts::probe(&root);
        let dir = tempfile::tempdir().unwrap();
        let Ok(interrupts) = root.text("/proc/interrupts") else { continue };
        put(dir.path(), "proc/interrupts", &interrupts);
        for nic in facts.network.hardware() {
            let class = format!("/sys/class/net/{}", nic.name);
            let Ok(device) = root.link(&format!("{class}/device")) else { continue };
            let device = device.rsplit('/').next().unwrap().to_owned();
            let is_virtio = device.starts_with("virtio");
            let (own, bus) = match is_virtio {
                true => (format!("sys/devices/pci-{}/{device}", nic.name), format!("{class}/device/..")),
                false => (format!("sys/devices/{device}"), format!("{class}/device")),
            };
            put(dir.path(), &format!("{own}/uevent"), "");
            if let Ok(numbers) = root.entries(&format!("{bus}/msi_irqs")) {
                let folder = if is_virtio { format!("sys/devices/pci-{}", nic.name) } else { own.clone() };
                std::fs::create_dir_all(dir.path().join(&folder).join("msi_irqs")).unwrap();
                numbers.iter().for_each(|number| put(dir.path(), &format!("{folder}/msi_irqs/{number}"), ""));
            }
            std::fs::create_dir_all(dir.path().join(&class[1..])).unwrap();
            symlink(dir.path().join(&own), dir.path().join(format!("{}/device", &class[1..]))).unwrap();
            for (shell, path) in shells().into_iter().flat_map(|shell| awks.iter().map(move |path| (shell, path))) {
                let call = format!("{functions}\ninterrupts {} ''\n", nic.name);
                let call = moved(&call, dir.path());
                let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
                let output = Command::new(shell).env("PATH", path).args(["-c", &call]).output().unwrap();
                let found = String::from_utf8_lossy(&output.stdout);
                let found: Vec<&str> = found.split_whitespace().collect();
                let known: Vec<String> = nic.irqs.iter().map(|irq| irq.number.to_string()).collect();
                assert_eq!(found, known, "{}: {} by {shell}", host.display(), nic.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "only {compared} interfaces were compared");
}
