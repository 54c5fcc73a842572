//! Shows every written file, on each distribution.

use super::*;

/// The result of the recipes for `texts` on all hosts.
/// If a host has the same result as an earlier host, the text names only the earlier host.
pub(super) fn on_all(texts: &[&str]) -> String {
    let mut seen: Vec<(String, &str)> = Vec::new();
    let mut all = String::new();
    for name in DISTRIBUTIONS {
        let facts = host(name);
        let as_text = to_text(&plan(&context(&facts), &settings(texts)));
        match seen.iter().find(|(other, _)| *other == as_text) {
            Some((_, like)) => all += &format!("#### {name}: as {like}\n"),
            None => {
                all += &format!("#### {name}\n{as_text}");
                seen.push((as_text, name));
            }
        }
    }
    all
}

#[test]
fn sysctls() {
    let texts = [
        "vm.swappiness=1",
        "net.ipv4.udp_mem=1 2 3",
        "vm.swappiness=10",
        "net.core.default_qdisc=fq",
        "net.netfilter.nf_conntrack_max=65536",
    ];
    expect![[r#####"
        #### debian-12
        == /etc/sysctl.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        net/ipv4/udp_mem = 1 2 3
        vm/swappiness = 10
        net/core/default_qdisc = fq
        net/netfilter/nf_conntrack_max = 65536
        == /etc/udev/rules.d/90-evenkeel-sysctl.rules 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        ACTION=="add", SUBSYSTEM=="module", KERNEL=="nf_conntrack", RUN+="/usr/lib/systemd/systemd-sysctl --prefix=/net/netfilter"
        net.ipv4.udp_mem=1 2 3: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        vm.swappiness=10: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        net.core.default_qdisc=fq: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        net.netfilter.nf_conntrack_max=65536: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        #### debian-13: as debian-12
        #### ubuntu-22.04: as debian-12
        #### ubuntu-24.04: as debian-12
        #### rhel-9: as debian-12
        #### amazon-2023: as debian-12
    "#####]].assert_eq(&on_all(&texts));
}

#[test]
fn of_settings_that_reset_each_other_the_later_one_is_written() {
    let facts = host("debian-12");
    for (texts, expected) in [
        (["vm.dirty_bytes=8388608", "vm.dirty_ratio=10"], "vm.dirty_ratio=10"),
        (["vm.dirty_ratio=10", "vm.dirty_bytes=8388608"], "vm.dirty_bytes=8388608"),
        (["sysctl:vm.swappiness=1", "vm.swappiness=10"], "vm.swappiness=10"),
    ] {
        let plan = plan(&context(&facts), &settings(&texts));
        let carried: Vec<&str> = plan.carried.iter().map(|carried| carried.setting.as_str()).collect();
        assert_eq!(carried, [expected], "{texts:?}");
    }
}

#[test]
fn a_sysctl_that_a_later_file_resets_is_not_promised() {
    let more = "/run/sysctl.d/ :! ENOENT\n/usr/local/lib/sysctl.d/ :! ENOENT\n/usr/lib/sysctl.d/ :! ENOENT\n\
        /lib/sysctl.d/ :! ENOENT\n/etc/sysctl.d/ : 99-zz.conf\n/etc/sysctl.d/99-zz.conf = vm.dirty_bytes = 8388608\n";
    let facts = host_with("debian-13", more);
    expect![[r#"
        == /etc/sysctl.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        vm/dirty_background_ratio = 5
        vm.dirty_background_ratio=5: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        vm.dirty_ratio=10: CANNOT, /etc/sysctl.d/99-zz.conf sets vm/dirty_bytes, which resets vm/dirty_ratio, and is read after /etc/sysctl.d/90-evenkeel.conf; change it in /etc/sysctl.d/99-zz.conf, which evenkeel does not own
    "#]]
    .assert_eq(&to_text(&plan(&context(&facts), &settings(&["vm.dirty_ratio=10", "vm.dirty_background_ratio=5"]))));
}

#[test]
fn a_sysctl_that_a_later_file_sets_is_not_promised() {
    let more = "/run/sysctl.d/ :! ENOENT\n/usr/local/lib/sysctl.d/ :! ENOENT\n/usr/lib/sysctl.d/ :! ENOENT\n\
        /lib/sysctl.d/ :! ENOENT\n/etc/sysctl.d/ : 90-evenkeel.conf 99-zz.conf\n/etc/sysctl.d/90-evenkeel.conf = vm.swappiness = 5\n\
        /etc/sysctl.d/99-zz.conf = vm.swappiness = 60\n";
    let facts = host_with("debian-13", more);
    let plan = plan(&context(&facts), &settings(&["vm.swappiness=1", "vm.stat_interval=10"]));
    expect![[r#"
        == /etc/sysctl.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        vm/stat_interval = 10
        vm.stat_interval=10: /etc/sysctl.d/90-evenkeel.conf (AtOnce)
        vm.swappiness=1: CANNOT, /etc/sysctl.d/99-zz.conf also sets vm/swappiness, and is read after /etc/sysctl.d/90-evenkeel.conf; change it in /etc/sysctl.d/99-zz.conf, which evenkeel does not own
    "#]].assert_eq(&to_text(&plan));
}

#[test]
fn kernel_arguments() {
    let texts = ["cmdline.isolcpus=2-3", "kernel.preempt=full", "cmdline.isolcpus=4-5"];
    expect![[r#####"
        #### debian-12
        == /etc/default/grub.d/90-evenkeel.cfg 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX preempt=full"
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=4-5"
        $ update-grub (undo: update-grub; image too; after ["/etc/default/grub.d/90-evenkeel.cfg"])
        kernel.preempt=full: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        cmdline.isolcpus=4-5: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        #### debian-13: as debian-12
        #### ubuntu-22.04: as debian-12
        #### ubuntu-24.04: as debian-12
        #### rhel-9
        $ grubby --update-kernel=ALL --args=preempt=full (undo: grubby --update-kernel=ALL --remove-args=preempt=full; booted; after [])
        $ grubby --update-kernel=ALL --args=isolcpus=4-5 (undo: grubby --update-kernel=ALL --remove-args=isolcpus=4-5; booted; after [])
        kernel.preempt=full: grubby --update-kernel=ALL --args=preempt=full (Reboot)
        cmdline.isolcpus=4-5: grubby --update-kernel=ALL --args=isolcpus=4-5 (Reboot)
        #### amazon-2023: as rhel-9
    "#####]].assert_eq(&on_all(&texts));
}

#[test]
fn a_kernel_argument_of_somebody_else_stays() {
    let table = |name, cmdline: &str, own: &[&str]| {
        let own: Vec<String> = own.iter().map(|text| (*text).to_owned()).collect();
        let facts = host_with(name, &format!("/proc/cmdline = {cmdline}\n"));
        let context = PersistContext { own_arguments: &own, ..context(&facts) };
        format!(
            "#### {name}, {cmdline}, ours {own:?}\n{}",
            to_text(&plan(&context, &settings(&["cmdline.isolcpus=2-3"])))
        )
    };
    let mut all = String::new();
    for name in ["debian-12", "rhel-9"] {
        all += &table(name, "ro isolcpus=1", &[]);
        all += &table(name, "ro isolcpus=1", &["isolcpus=1"]);
        all += &table(name, "ro isolcpus=2-3", &[]);
        all += &table(name, "ro isolcpus=2-3", &["isolcpus=2-3"]);
        all += &table(name, "ro -- isolcpus=1", &[]);
    }
    expect![[r#####"
        #### debian-12, ro isolcpus=1, ours []
        cmdline.isolcpus=2-3: CANNOT, this kernel was started with isolcpus=1, which evenkeel did not set; remove isolcpus=1 from the boot loader's configuration, or reboot if it is already removed; then apply cmdline.isolcpus=2-3 again
        #### debian-12, ro isolcpus=1, ours ["isolcpus=1"]
        == /etc/default/grub.d/90-evenkeel.cfg 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2-3"
        $ update-grub (undo: update-grub; image too; after ["/etc/default/grub.d/90-evenkeel.cfg"])
        cmdline.isolcpus=2-3: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        #### debian-12, ro isolcpus=2-3, ours []
        == /etc/default/grub.d/90-evenkeel.cfg 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2-3"
        $ update-grub (undo: update-grub; image too; after ["/etc/default/grub.d/90-evenkeel.cfg"])
        cmdline.isolcpus=2-3: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        #### debian-12, ro isolcpus=2-3, ours ["isolcpus=2-3"]
        == /etc/default/grub.d/90-evenkeel.cfg 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2-3"
        $ update-grub (undo: update-grub; image too; after ["/etc/default/grub.d/90-evenkeel.cfg"])
        cmdline.isolcpus=2-3: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        #### debian-12, ro -- isolcpus=1, ours []
        == /etc/default/grub.d/90-evenkeel.cfg 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2-3"
        $ update-grub (undo: update-grub; image too; after ["/etc/default/grub.d/90-evenkeel.cfg"])
        cmdline.isolcpus=2-3: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        #### rhel-9, ro isolcpus=1, ours []
        cmdline.isolcpus=2-3: CANNOT, this kernel was started with isolcpus=1, which evenkeel did not set; remove isolcpus=1 from the boot loader's configuration, or reboot if it is already removed; then apply cmdline.isolcpus=2-3 again
        #### rhel-9, ro isolcpus=1, ours ["isolcpus=1"]
        $ grubby --update-kernel=ALL --args=isolcpus=2-3 (undo: grubby --update-kernel=ALL --remove-args=isolcpus=2-3; booted; after [])
        cmdline.isolcpus=2-3: grubby --update-kernel=ALL --args=isolcpus=2-3 (Reboot)
        #### rhel-9, ro isolcpus=2-3, ours []
        cmdline.isolcpus=2-3: the boot loader, which already passes it (AtOnce)
        #### rhel-9, ro isolcpus=2-3, ours ["isolcpus=2-3"]
        $ grubby --update-kernel=ALL --args=isolcpus=2-3 (undo: grubby --update-kernel=ALL --remove-args=isolcpus=2-3; booted; after [])
        cmdline.isolcpus=2-3: grubby --update-kernel=ALL --args=isolcpus=2-3 (Reboot)
        #### rhel-9, ro -- isolcpus=1, ours []
        $ grubby --update-kernel=ALL --args=isolcpus=2-3 (undo: grubby --update-kernel=ALL --remove-args=isolcpus=2-3; booted; after [])
        cmdline.isolcpus=2-3: grubby --update-kernel=ALL --args=isolcpus=2-3 (Reboot)
    "#####]].assert_eq(&all);
    // The recipes compare names as the kernel does.
    let facts = host_with("debian-12", "/proc/cmdline = ro processor.max-cstate=5\n");
    let plan = plan(&context(&facts), &settings(&["cmdline.processor.max_cstate=1"]));
    assert!(plan.is_empty() && plan.cannot.len() == 1);
}

#[test]
fn kernel_arguments_of_an_image() {
    let entries = [
        boot_file("/boot/loader/entries/4f-5.14.0.conf", "linux /v\noptions root=/dev/sda1\n"),
        boot_file("/etc/kernel/cmdline", "root=/dev/sda1\n"),
    ];
    let mut all = String::new();
    for (name, boot_files) in [("debian-12", &[][..]), ("rhel-9", &entries), ("amazon-2023", &[])] {
        let facts = host_with(name, "/proc/cmdline ! ENOENT\n/run/systemd/system ->! ENOENT\n");
        let context = PersistContext { is_image: true, boot_files, ..context(&facts) };
        all += &format!("#### {name}\n{}", to_text(&plan(&context, &settings(&["cmdline.isolcpus=2-3"]))));
    }
    expect![[r#####"
        #### debian-12
        == /etc/default/grub.d/90-evenkeel.cfg 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2-3"
        $ update-grub (undo: update-grub; image too; after ["/etc/default/grub.d/90-evenkeel.cfg"])
        cmdline.isolcpus=2-3: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        #### rhel-9
        == /boot/loader/entries/4f-5.14.0.conf arguments
        isolcpus=2-3
        == /etc/kernel/cmdline arguments
        isolcpus=2-3
        cmdline.isolcpus=2-3: /boot/loader/entries/4f-5.14.0.conf (Reboot)
        #### amazon-2023
        cmdline.isolcpus=2-3: CANNOT, the image has no boot entries yet: its first boot or its build tool creates them; give isolcpus=2-3 to that tool, or run on the machine: grubby --update-kernel=ALL --args=isolcpus=2-3
    "#####]].assert_eq(&all);
}

#[test]
fn names_the_manual_steps_for_other_boot_loaders() {
    let gone = "/etc/default/grub ->! ENOENT\n/usr/sbin/update-grub ->! ENOENT\n";
    let nothing = "/boot/grub/grub.conf ->! ENOENT\n/boot/EFI/Linux/ :! ENOENT\n/boot/efi/EFI/Linux/ :! ENOENT\n\
        /efi/EFI/Linux/ :! ENOENT\n/boot/loader/loader.conf ->! ENOENT\n/boot/efi/loader/loader.conf ->! ENOENT\n";
    let table = [
        ("GRUB alone", "/usr/sbin/update-grub ->! ENOENT\n".to_owned()),
        ("GRUB legacy", format!("{gone}/boot/grub/grub.conf ->! EINVAL\n")),
        ("systemd-boot", format!("{gone}{nothing}/efi/loader/loader.conf ->! EINVAL\n")),
        (
            "a unified kernel",
            "/sys/firmware/efi/efivars/StubInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f ->! EINVAL\n".to_owned(),
        ),
        ("ostree", "/run/ostree-booted ->! EINVAL\n".to_owned()),
        ("none", format!("{gone}{nothing}/efi/loader/loader.conf ->! ENOENT\n")),
        ("not for this user", format!("{gone}/boot/grub/grub.conf ->! EACCES\n")),
    ];
    let as_text: String = table
        .iter()
        .map(|(label, more)| {
            let facts = host_with("debian-12", more);
            let plan = plan(&context(&facts), &settings(&["cmdline.isolcpus=2-3"]));
            assert!(plan.is_empty(), "{label}: {}", to_text(&plan));
            format!("#### {label}\n{}", to_text(&plan))
        })
        .collect();
    expect![[r#####"
        #### GRUB alone
        cmdline.isolcpus=2-3: CANNOT, GRUB reads only /etc/default/grub here, a shell script that evenkeel does not edit; add isolcpus=2-3 to GRUB_CMDLINE_LINUX in it, then run: grub-mkconfig -o /boot/grub/grub.cfg
        #### GRUB legacy
        cmdline.isolcpus=2-3: CANNOT, a GRUB before 2 starts this machine, and evenkeel does not edit its grub.conf; add isolcpus=2-3 to the kernel lines of /boot/grub/grub.conf
        #### systemd-boot
        cmdline.isolcpus=2-3: CANNOT, systemd-boot starts this machine, and each distribution creates its entries in another way; run kernelstub --add-options isolcpus=2-3 if kernelstub exists; else add it to /etc/kernel/cmdline and run: kernel-install add "$(uname -r)" "/lib/modules/$(uname -r)/vmlinuz"
        #### a unified kernel
        cmdline.isolcpus=2-3: CANNOT, the arguments are part of a unified kernel image, which may be signed; add isolcpus=2-3 to /etc/kernel/cmdline, build the image again with ukify or kernel-install, and sign it
        #### ostree
        cmdline.isolcpus=2-3: CANNOT, ostree creates the boot entries; rpm-ostree kargs --append=isolcpus=2-3
        #### none
        cmdline.isolcpus=2-3: CANNOT, this root has no boot loader: whoever starts the machine passes the kernel its arguments; add isolcpus=2-3 to the definition of the machine: the microVM's boot_args, or QEMU's -append
        #### not for this user
        cmdline.isolcpus=2-3: CANNOT, evenkeel does not know which boot loader starts this machine: /boot/grub/grub.conf: permission denied (EACCES); run it as root; else add isolcpus=2-3 to the kernel command line yourself
    "#####]].assert_eq(&as_text);
}

#[test]
fn irqbalance() {
    expect![[r#####"
        #### debian-12
        == /etc/default/irqbalance block
        IRQBALANCE_BANNED_CPULIST=2-3
        $ systemctl try-restart irqbalance.service (undo: systemctl try-restart irqbalance.service; booted; after ["/etc/default/irqbalance"])
        irqbalance.banned_cpus=2-3: /etc/default/irqbalance (AtOnce)
        #### debian-13: as debian-12
        #### ubuntu-22.04: as debian-12
        #### ubuntu-24.04: as debian-12
        #### rhel-9
        == /etc/sysconfig/irqbalance block
        IRQBALANCE_BANNED_CPULIST=2-3
        $ systemctl try-restart irqbalance.service (undo: systemctl try-restart irqbalance.service; booted; after ["/etc/sysconfig/irqbalance"])
        irqbalance.banned_cpus=2-3: /etc/sysconfig/irqbalance (AtOnce)
        #### amazon-2023: as rhel-9
    "#####]].assert_eq(&on_all(&["irqbalance.banned_cpus=2-3"]));
    let mut all = String::new();
    for (id, version) in [("debian", "11"), ("ubuntu", "20.04"), ("amzn", "2"), ("rhel", "8.10"), ("arch", "")] {
        let more = format!("/etc/os-release =\n| ID={id}\n| VERSION_ID={version}\n/etc/default/irqbalance ! EACCES\n");
        let more = more + "/etc/sysconfig/irqbalance ! EACCES\n";
        let facts = host_with("debian-12", &more);
        let plan = plan(&context(&facts), &settings(&["irqbalance.banned_cpus=2-3,40"]));
        all += &format!("#### {id} {version}\n{}", to_text(&plan));
    }
    let facts = host_with("debian-12", "/etc/default/irqbalance ! ENOENT\n");
    all += &format!("#### none\n{}", to_text(&plan(&context(&facts), &settings(&["irqbalance.banned_cpus=2-3"]))));
    expect![[r#####"
        #### debian 11
        == /etc/default/irqbalance block
        IRQBALANCE_BANNED_CPUS=100,0000000c
        IRQBALANCE_BANNED_CPULIST=2-3,40
        $ systemctl try-restart irqbalance.service (undo: systemctl try-restart irqbalance.service; booted; after ["/etc/default/irqbalance"])
        irqbalance.banned_cpus=2-3,40: /etc/default/irqbalance (AtOnce)
        #### ubuntu 20.04
        == /etc/default/irqbalance block
        IRQBALANCE_BANNED_CPUS=100,0000000c
        IRQBALANCE_BANNED_CPULIST=2-3,40
        $ systemctl try-restart irqbalance.service (undo: systemctl try-restart irqbalance.service; booted; after ["/etc/default/irqbalance"])
        irqbalance.banned_cpus=2-3,40: /etc/default/irqbalance (AtOnce)
        #### amzn 2
        == /etc/sysconfig/irqbalance block
        IRQBALANCE_BANNED_CPUS=100,0000000c
        IRQBALANCE_BANNED_CPULIST=2-3,40
        $ systemctl try-restart irqbalance.service (undo: systemctl try-restart irqbalance.service; booted; after ["/etc/sysconfig/irqbalance"])
        irqbalance.banned_cpus=2-3,40: /etc/sysconfig/irqbalance (AtOnce)
        #### rhel 8.10
        == /etc/sysconfig/irqbalance block
        IRQBALANCE_BANNED_CPUS=100,0000000c
        IRQBALANCE_BANNED_CPULIST=2-3,40
        $ systemctl try-restart irqbalance.service (undo: systemctl try-restart irqbalance.service; booted; after ["/etc/sysconfig/irqbalance"])
        irqbalance.banned_cpus=2-3,40: /etc/sysconfig/irqbalance (AtOnce)
        #### arch 
        irqbalance.banned_cpus=2-3,40: CANNOT, evenkeel does not know where irqbalance of this distribution reads its variables; add --bancpu or the variable to its unit: systemctl edit irqbalance.service
        #### none
        irqbalance.banned_cpus=2-3: CANNOT, /etc/default/irqbalance does not exist: irqbalance is not installed, so nothing moves interrupts; nothing, unless irqbalance is installed later
    "#####]].assert_eq(&all);
}

const PROCESS: [&str; 8] = [
    "process.cpu_affinity=2-3",
    "process.numa_policy=0",
    "process.timer_slack_ns=1",
    "process.memory_lock=all",
    "process.sched_policy=fifo",
    "process.glibc_hugetlb=1",
    "cgroup.cpu_max=max",
    "process.sched_slice_ns=100000",
];

#[test]
fn the_servers_unit() {
    expect![[r#####"
        #### debian-12
        == /etc/systemd/system/game.service.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Service]
        CPUAffinity=
        CPUAffinity=2-3
        NUMAPolicy=bind
        NUMAMask=
        NUMAMask=0
        TimerSlackNSec=1
        LimitMEMLOCK=infinity
        CPUSchedulingPolicy=fifo
        CPUSchedulingPriority=1
        Environment=GLIBC_TUNABLES=glibc.malloc.hugetlb=1
        CPUQuota=
        $ systemctl daemon-reload (undo: systemctl daemon-reload; booted; after ["/etc/systemd/system/game.service.d/90-evenkeel.conf"])
        process.cpu_affinity=2-3: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.numa_policy=0: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.timer_slack_ns=1: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.memory_lock=all: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.sched_policy=fifo: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.glibc_hugetlb=1: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        cgroup.cpu_max=max: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.memory_lock=all: CANNOT, /etc/systemd/system/game.service.d/90-evenkeel.conf only allows it: a program's memory is locked by the program itself; the server calls mlockall(MCL_CURRENT | MCL_FUTURE) when it starts
        process.sched_slice_ns=100000: CANNOT, systemd has no key for it, and the kernel keeps it for each thread; the server sets it in each thread: sched_setattr with sched_runtime=100000
        #### debian-13: as debian-12
        #### ubuntu-22.04: as debian-12
        #### ubuntu-24.04: as debian-12
        #### rhel-9: as debian-12
        #### amazon-2023: as debian-12
    "#####]].assert_eq(&on_all(&PROCESS));
    let facts = host("debian-12");
    let without = PersistContext { unit: None, ..context(&facts) };
    expect![[r#"
        process.cpu_affinity=2-3: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or start the server under taskset -c 2-3, or with CPUAffinity=2-3 in its systemd unit
        process.numa_policy=0: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or start the server with numactl --cpunodebind=0 --membind=0, or with NUMAPolicy=bind, NUMAMask=0 and the node's CPUs as CPUAffinity= in its unit
        process.timer_slack_ns=1: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or start the server so that process.timer_slack_ns=1 holds from its start
        process.memory_lock=all: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or call mlockall(MCL_CURRENT | MCL_FUTURE) when the server starts, for all of its memory, with LimitMEMLOCK=infinity in its unit
        process.sched_policy=fifo: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or start the server under chrt, or with CPUSchedulingPolicy=fifo in its systemd unit
        process.glibc_hugetlb=1: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or start the server with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 in its environment
        cgroup.cpu_max=max: CANNOT, it belongs to the server's process, and you gave no unit that starts it; name the server's systemd unit: --unit NAME.service; or write max to cpu.max of the server's control group (systemd: an empty CPUQuota=; Kubernetes: no CPU limit, or whole CPUs by the static CPU manager)
        process.sched_slice_ns=100000: CANNOT, it belongs to the server's process, and you gave no unit that starts it; the server sets it in each thread: sched_setattr with sched_runtime=100000
    "#]].assert_eq(&to_text(&plan(&without, &settings(&PROCESS))));
    let texts = ["process.numa_policy=1", "process.memory_lock=none", "process.sched_policy=other"];
    expect![[r#"
        == /etc/systemd/system/game.service.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Service]
        NUMAPolicy=bind
        NUMAMask=
        NUMAMask=1
        CPUSchedulingPolicy=other
        CPUAffinity=
        CPUAffinity=numa
        $ systemctl daemon-reload (undo: systemctl daemon-reload; booted; after ["/etc/systemd/system/game.service.d/90-evenkeel.conf"])
        process.numa_policy=1: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.sched_policy=other: /etc/systemd/system/game.service.d/90-evenkeel.conf (ProcessStart)
        process.memory_lock=none: CANNOT, a server locks nothing unless it asks for it; do not call mlockall in the server
    "#]].assert_eq(&to_text(&plan(&context(&facts), &settings(&texts))));
}

#[test]
fn a_held_device_and_the_unit_that_verifies() {
    let facts = host("debian-12");
    let context = PersistContext { program: Some("/usr/bin/evenkeel"), ..context(&facts) };
    let texts = ["cpuidle.dma_latency_us=2000000000", "cpuidle.dma_latency_us=2"];
    expect![[r#"
        == /etc/systemd/system/evenkeel-hold.service 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Unit]
        Description=Holds /dev/cpu_dma_latency at 2 us
        ConditionPathExists=/dev/cpu_dma_latency
        Before=game.service

        [Service]
        Type=exec
        ExecStart=/bin/sh -c 'exec 3>/dev/cpu_dma_latency && echo 0x00000002 >&3 && exec sleep infinity'
        Restart=always

        [Install]
        WantedBy=multi-user.target
        == /etc/systemd/system/multi-user.target.wants/evenkeel-hold.service -> /etc/systemd/system/evenkeel-hold.service
        == /etc/systemd/system/evenkeel-verify.service 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Unit]
        Description=Reports which settings of evenkeel do not hold after a boot
        After=evenkeel-settings.service evenkeel-hold.service game.service
        # A removed program is no failure of a boot.
        ConditionFileIsExecutable=/usr/bin/evenkeel

        [Service]
        Type=oneshot
        ExecStart=/usr/bin/evenkeel verify
        # What still waits for a restart is no failure.
        SuccessExitStatus=7

        [Install]
        WantedBy=multi-user.target
        == /etc/systemd/system/multi-user.target.wants/evenkeel-verify.service -> /etc/systemd/system/evenkeel-verify.service
        $ systemctl daemon-reload (undo: systemctl daemon-reload; booted; after ["/etc/systemd/system/evenkeel-hold.service", "/etc/systemd/system/evenkeel-verify.service"])
        $ systemctl restart evenkeel-hold.service (undo: systemctl stop evenkeel-hold.service; booted; after ["/etc/systemd/system/evenkeel-hold.service"])
        cpuidle.dma_latency_us=2: /etc/systemd/system/evenkeel-hold.service (AtOnce)
    "#]].assert_eq(&to_text(&plan(&context, &settings(&texts))));
    // A unit is impossible for a relative path, or for a path that systemd would split or expand.
    for program in ["evenkeel", "/opt/my tools/evenkeel", "/opt/%h/evenkeel", "/x;y"] {
        let plan = plan(&PersistContext { program: Some(program), ..context }, &settings(&texts));
        assert!(!to_text(&plan).contains(" verify\n") && plan.cannot.len() == 1, "{}", to_text(&plan));
    }
    // If evenkeel persists nothing, nothing needs verification.
    assert!(plan(&context, &settings(&["cloud.threads_per_core=1"])).is_empty());
}
