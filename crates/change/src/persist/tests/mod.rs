//! Tests the recipes on the distributions of cloud servers.
//! The tests check the files and texts of each recipe,
//! that each knob has a recipe, and that the tools accept the files.

mod devices;
mod goldens;
mod grub;
mod image_arguments;
mod script;
mod tools;

use evenkeel_host::{Facts, Place, Setting, Values, knobs};
use evenkeel_hostfs::{Capture, Root};
use expect_test::expect;

use super::*;
use crate::persist_plan::{Content, PersistedFile};
use crate::tests::GAME;

/// The part of a host that all distributions share: an ENA interface with two queues, an NVMe disk, systemd.
const COMMON: &str = "/run/systemd/system ->! EINVAL
/run/ostree-booted ->! ENOENT
/sys/firmware/efi/efivars/StubInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f ->! ENOENT
/sys/class/net/ens5 -> ../../devices/pci0000:00/0000:00:05.0/net/ens5
/sys/class/net/ens5/device -> ../../../0000:00:05.0
/sys/class/net/ens5/device/driver -> ../../../../bus/pci/drivers/ena
/sys/class/net/ens5/queues/ : rx-0 rx-1 tx-0 tx-1
/sys/class/net/ens5/device/msi_irqs/ : 27 28 29
/proc/interrupts =
|            CPU0       CPU1
|  27:          0          0  PCI-MSI 81920-edge      ena-mgmnt@pci:0000:00:05.0
|  28:       4000          0  PCI-MSI 81921-edge      ens5-Tx-Rx-0
|  29:          0       4311  PCI-MSI 81922-edge      ens5-Tx-Rx-1
/sys/block/ : nvme0n1
/proc/cmdline = BOOT_IMAGE=/vmlinuz root=UUID=1f0e5ec7 ro console=tty0 console=ttyS0,115200n8 idle=poll
";

/// The name, `ID` and `VERSION_ID`, the kernel, whether `grubby` or `update-grub` exists, and the file of irqbalance.
const HOSTS: &[(&str, &str, &str, &str, &str, &str)] = &[
    ("debian-12", "debian", "12", "6.1.0-30-cloud-amd64", "/usr/sbin/update-grub", "/etc/default/irqbalance"),
    ("debian-13", "debian", "13", "6.12.43+deb13-cloud-amd64", "/usr/sbin/update-grub", "/etc/default/irqbalance"),
    ("ubuntu-22.04", "ubuntu", "22.04", "5.15.0-1051-aws", "/usr/sbin/update-grub", "/etc/default/irqbalance"),
    ("ubuntu-24.04", "ubuntu", "24.04", "6.8.0-1021-aws", "/usr/sbin/update-grub", "/etc/default/irqbalance"),
    ("rhel-9", "rhel", "9.5", "5.14.0-503.el9.x86_64", "/usr/sbin/grubby", "/etc/sysconfig/irqbalance"),
    ("amazon-2023", "amzn", "2023", "6.1.79-99.167.amzn2023.x86_64", "/usr/sbin/grubby", "/etc/sysconfig/irqbalance"),
];

const DISTRIBUTIONS: [&str; 6] = ["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04", "rhel-9", "amazon-2023"];

fn host(name: &str) -> Facts {
    host_with(name, "")
}

/// A host of the table with additional lines. A later line for a path replaces the earlier line.
fn host_with(name: &str, more: &str) -> Facts {
    facts(&host_lines(name, more))
}

fn host_lines(name: &str, more: &str) -> String {
    let row = HOSTS.iter().find(|row| row.0 == name).unwrap();
    let (_, id, version, release, loader, irqbalance) = row;
    let grub: String = ["/etc/default/grub", "/usr/sbin/grubby", "/usr/sbin/update-grub"]
        .map(|path| {
            let is_there = path == *loader || path == "/etc/default/grub";
            format!("{path} ->! {}\n", if is_there { "EINVAL" } else { "ENOENT" })
        })
        .concat();
    let balance: String = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"]
        .map(|path| if path == *irqbalance { format!("{path} =\n| #A=\n") } else { format!("{path} ! ENOENT\n") })
        .concat();
    let own = format!(
        "/etc/os-release =\n| ID={id}\n| VERSION_ID=\"{version}\"\n@uname =\n| release={release}\n| machine=x86_64\n"
    );
    let given: Vec<&str> = more.lines().filter_map(|line| line.split(' ').next()).collect();
    let all = [own.as_str(), &grub, &balance, COMMON].concat();
    // Replace whole entries: the line of a path, and the text lines that follow it.
    let mut skips = false;
    let kept: String = all
        .lines()
        .filter(|line| {
            if !line.starts_with('|') {
                skips = given.contains(&line.split(' ').next().unwrap_or_default());
            }
            !skips
        })
        .map(|line| format!("{line}\n"))
        .collect();
    format!("{kept}{more}")
}

fn facts(lines: &str) -> Facts {
    let capture = Capture::parse(&format!("evenkeel-capture 1\n{lines}end\n")).unwrap();
    Facts::probe(&Root::captured(capture))
}

/// A process of a pod that changed into its host's root reads the pod's control group.
/// But it sees none of the files that container engines leave in a container's own root.
#[test]
fn nothing_lasts_in_the_root_of_a_container() {
    let pod = "/proc/self/cgroup = 0::/kubepods.slice/cri-containerd-1.scope\n";
    let read = |more: &str| {
        let root = Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{pod}{more}end\n")).unwrap());
        let facts = Facts::probe(&root);
        let plan = plan(&context(&facts), &settings(&["vm.swappiness=10"]));
        (plan.files.len(), plan.cannot.first().map(|cannot| cannot.why.clone()))
    };
    assert_eq!(read("").0, 1);
    for mark in ["/run/.containerenv = \n", "/.dockerenv = \n", "/var/run/secrets/kubernetes.io/ : serviceaccount\n"] {
        let (files, why) = read(mark);
        assert!(files == 0 && why.as_ref().is_some_and(|why| why.contains("goes with the container")), "{mark}{why:?}");
    }
    // This root belongs to a machine that was unpacked from an image.
    let disk = "/.dockerenv = \n/sys/block/ : vda\n/sys/dev/block/254:0 -> ../../devices/virtio0/block/vda\n/proc/self/mountinfo =\n| 22 1 254:0 / / rw - ext4 /dev/root rw\n";
    assert_eq!(read(disk).0, 1);
}

fn context(facts: &Facts) -> PersistContext<'_> {
    PersistContext { facts, unit: Some(&GAME), program: None, is_image: false, boot_files: &[], own_arguments: &[] }
}

fn boot_file(path: &str, text: &str) -> BootFile {
    BootFile { path: path.to_owned(), text: Ok(text.to_owned()) }
}

fn settings(texts: &[&str]) -> Vec<Setting> {
    texts.iter().map(|text| Setting::parse(text).unwrap()).collect()
}

/// A value that a knob accepts.
fn some_value(values: &Values) -> String {
    match values {
        Values::Number { min, max, .. } => (*min).max(1).min(*max).to_string(),
        Values::Numbers { count, min, .. } => vec![(*min).max(1).to_string(); *count].join(" "),
        Values::Words(words) => words[0].to_owned(),
        Values::Name | Values::Sysctl => "none".to_owned(),
        Values::Cpus { .. } => "1".to_owned(),
    }
}

/// The complete plan as text.
fn to_text(plan: &PersistPlan) -> String {
    let mut text = String::new();
    for file in &plan.files {
        match &file.content {
            Content::Whole { text: whole, mode } => text += &format!("== {} {mode:o}\n{whole}", file.path),
            Content::Link { target } => text += &format!("== {} -> {target}\n", file.path),
            Content::Block { lines } => text += &format!("== {} block\n{lines}", file.path),
            Content::KernelArguments { arguments } => {
                text += &format!("== {} arguments\n{}\n", file.path, arguments.join(" "));
            }
        }
    }
    for command in &plan.commands {
        let only = if command.only_booted { "booted" } else { "image too" };
        text += &format!(
            "$ {} (undo: {}; {only}; after {:?})\n",
            command.argv.join(" "),
            command.undo.join(" "),
            command.after
        );
    }
    for carried in &plan.carried {
        text += &format!("{}: {} ({:?})\n", carried.setting, carried.by, carried.takes_effect);
    }
    for cannot in &plan.cannot {
        text += &format!("{}: CANNOT, {}; {}\n", cannot.setting, cannot.why, cannot.todo);
    }
    text
}

fn file<'a>(plan: &'a PersistPlan, path: &str) -> Option<&'a PersistedFile> {
    plan.files.iter().find(|file| file.path == path)
}

#[test]
fn no_knob_is_forgotten_on_any_distribution() {
    for name in DISTRIBUTIONS {
        let facts = host(name);
        for unit in [None, Some(&*GAME)] {
            for is_image in [false, true] {
                let context = PersistContext { unit, is_image, ..context(&facts) };
                for knob in knobs::ALL {
                    let setting = Setting { knob, place: None, value: some_value(&knob.values) };
                    let plan = plan(&context, &[setting]);
                    let (carried, cannot) = (plan.carried.len(), plan.cannot.len());
                    assert!(carried + cannot > 0, "{name}: {} is forgotten", knob.id);
                    assert!(plan.carried.iter().all(|carried| !carried.by.is_empty()), "{name}: {}", knob.id);
                    let is_explained = |cannot: &Cannot| !cannot.why.is_empty() && !cannot.todo.is_empty();
                    assert!(plan.cannot.iter().all(is_explained), "{name}: {} is refused without a word", knob.id);
                    if knob.place == Place::Process || matches!(knob.place, Place::File { .. }) && unit.is_some() {
                        assert!(carried > 0 || unit.is_none(), "{name}: {}", to_text(&plan));
                    }
                    if carried == 0 {
                        assert!(plan.is_empty(), "{name}: {} is refused, and still something is written", knob.id);
                    }
                }
            }
        }
    }
}

#[test]
fn a_knob_has_one_recipe() {
    for knob in knobs::ALL {
        let setting = Setting { knob, place: None, value: some_value(&knob.values) };
        let count = RECIPES.iter().filter(|recipe| (recipe.takes)(&setting)).count();
        let is_by_hand = matches!(knob.place, Place::ByHand { .. } | Place::ByHandEach { .. });
        assert!(count == 1 || count == 0 && is_by_hand, "{} has {count} recipes", knob.id);
    }
}

#[test]
fn nothing_is_written_outside_of_etc_and_boot() {
    for name in DISTRIBUTIONS {
        let facts = host(name);
        let entries =
            ["/boot/loader/entries/a.conf", "/etc/kernel/cmdline", "/boot/loader/entries/../x.conf", "/etc/passwd"];
        let boot_files = entries.map(|path| boot_file(path, "linux /v\noptions root=/dev/sda1\n"));
        for is_image in [false, true] {
            let context = PersistContext {
                is_image,
                boot_files: &boot_files,
                program: Some("/usr/bin/evenkeel"),
                ..context(&facts)
            };
            let all: Vec<Setting> =
                knobs::ALL.iter().map(|knob| Setting { knob, place: None, value: some_value(&knob.values) }).collect();
            let plan = plan(&context, &all);
            let mut paths: Vec<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
            for path in &paths {
                assert!(path.starts_with("/etc/") || path.starts_with("/boot/"), "{path}");
                assert!(!path.contains("/../") && !path.contains("//") && *path != "/etc/passwd", "{path}");
            }
            for command in &plan.commands {
                let is_written = |path: &String| paths.contains(&path.as_str());
                assert!(
                    command.after.iter().all(is_written),
                    "{name}: {command:?} waits for a file that nobody writes"
                );
            }
            let count = paths.len();
            paths.sort_unstable();
            paths.dedup();
            assert_eq!(paths.len(), count, "{name}: a file is written twice");
        }
    }
}

#[test]
fn line_ends_in_values_are_refused_again() {
    let facts = host("debian-12");
    let knob = |id| knobs::find(id).unwrap();
    let bad = [
        Setting { knob: knob("vm.swappiness"), place: None, value: "1\nkernel.panic = 1".to_owned() },
        Setting { knob: knob("clocksource"), place: None, value: "tsc\n".to_owned() },
        Setting { knob: knob("cmdline.isolcpus"), place: None, value: "1\" ; reboot \"".to_owned() },
        Setting { knob: knob("cmdline.isolcpus"), place: None, value: "1 init=/bin/sh".to_owned() },
        Setting { knob: knob("net.rps_cpus"), place: Some("eth0/../../x/rx-0".to_owned()), value: "1".to_owned() },
        Setting { knob: knob("net.rps_cpus"), place: Some("eth0/rx-0\n".to_owned()), value: "1".to_owned() },
        Setting { knob: knob("disk.scheduler"), place: Some("..".to_owned()), value: "none".to_owned() },
        Setting { knob: knob("net.rings"), place: Some("../x".to_owned()), value: "1".to_owned() },
        Setting { knob: knob("irq.affinity"), place: Some("7;reboot".to_owned()), value: "1".to_owned() },
        Setting { knob: knob("irqbalance.banned_cpus"), place: None, value: "x".to_owned() },
    ];
    let as_text: String = bad
        .iter()
        .map(|setting| {
            let plan = plan(&context(&facts), std::slice::from_ref(setting));
            assert!(plan.is_empty(), "{}", to_text(&plan));
            plan.cannot.iter().map(|cannot| format!("{:?}: {}\n", cannot.setting, cannot.why)).collect::<String>()
        })
        .collect();
    expect![[r#"
        "vm.swappiness=1\nkernel.panic = 1": its value or its place has characters that could end a line of a file
        "clocksource=tsc\n": its value or its place has characters that could end a line of a file
        "cmdline.isolcpus=1\" ; reboot \"": its value has characters that are special for boot loaders and shells
        "cmdline.isolcpus=1 init=/bin/sh": its value has characters that are special for boot loaders and shells
        "net.rps_cpus@eth0/../../x/rx-0=1": "eth0/../../x/rx-0" is not the name of a device of this kind
        "net.rps_cpus@eth0/rx-0\n=1": its value or its place has characters that could end a line of a file
        "disk.scheduler@..=none": ".." is not the name of a device of this kind
        "net.rings@../x=1": there is no interface "../x" with hardware
        "irq.affinity@7;reboot=1": interrupt 7;reboot belongs to no known network interface, and interrupt numbers change at a boot
        "irqbalance.banned_cpus=x": the value is not a list of CPUs
    "#]].assert_eq(&as_text);
    // A valid setting stays in the plan next to an invalid setting.
    let both = [bad[0].clone(), Setting { knob: knob("vm.swappiness"), place: None, value: "1".to_owned() }];
    assert_eq!(plan(&context(&facts), &both).carried.len(), 1);
    // Hostile text without control characters goes into the shell's quotes, and cannot end the quotes.
    let hostile = Setting { knob: knob("clocksource"), place: None, value: "$(reboot)'; reboot".to_owned() };
    let plan = plan(&context(&facts), &[hostile]);
    assert!(script_text(&plan).contains(r"'$(reboot)'\''; reboot'"), "{}", script_text(&plan));
}

fn script_text(plan: &PersistPlan) -> &str {
    match file(plan, "/etc/evenkeel/settings.sh").map(|file| &file.content) {
        Some(Content::Whole { text, .. }) => text,
        other => panic!("no script: {other:?}"),
    }
}

#[test]
fn equal_commands_run_once_after_all_their_files() {
    let facts = host("debian-12");
    let settings = settings(&["thp.enabled=never", "process.timer_slack_ns=1", "cpuidle.dma_latency_us=2"]);
    let plan = plan(&PersistContext { program: Some("/usr/bin/evenkeel"), ..context(&facts) }, &settings);
    let as_text: String =
        plan.commands.iter().map(|command| format!("{}: {:?}\n", command.argv.join(" "), command.after)).collect();
    expect![[r#"
        systemctl daemon-reload: ["/etc/systemd/system/evenkeel-settings.service", "/etc/systemd/system/game.service.d/90-evenkeel.conf", "/etc/systemd/system/evenkeel-hold.service", "/etc/systemd/system/evenkeel-verify.service"]
        systemctl restart evenkeel-hold.service: ["/etc/systemd/system/evenkeel-hold.service"]
    "#]].assert_eq(&as_text);
}

#[test]
fn without_systemd_no_unit_is_written() {
    let more = "/run/systemd/system ->! ENOENT\n/proc/1/comm = openrc-init\n";
    let facts = host_with("debian-12", more);
    let texts = ["thp.enabled=never", "process.timer_slack_ns=1", "cpuidle.dma_latency_us=2", "vm.swappiness=1"];
    let context = PersistContext { program: Some("/usr/bin/evenkeel"), ..context(&facts) };
    expect![[r#"
        == /etc/sysctl.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        vm/swappiness = 1
        vm.swappiness=1: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        thp.enabled=never: CANNOT, this system uses openrc-init, and evenkeel can only create systemd units; set it after each boot: evenkeel apply thp.enabled=never
        process.timer_slack_ns=1: CANNOT, this system uses openrc-init, and evenkeel can only create systemd units; start the server so that process.timer_slack_ns=1 holds from its start
        cpuidle.dma_latency_us=2: CANNOT, this system uses openrc-init, and evenkeel can only create systemd units; start at boot: sh -c 'exec 3>/dev/cpu_dma_latency && echo VALUE >&3 && exec sleep infinity'
    "#]].assert_eq(&to_text(&plan(&context, &settings(&texts))));
}
