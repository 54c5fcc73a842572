//! Lines that would stop the machine, cut it off or open it to attacks, and lines that the kernel refuses.
//! The machine is a guest with two CPUs.

use std::fmt::Write;

use evenkeel_hostfs::{Capture, Root};
use expect_test::{Expect, expect};

use super::read;
use crate::Goal;
use crate::facts::Facts;
use crate::guide::{Readings, judge};

/// Files of the guest that its capture does not contain.
const MORE: &str = "\
/proc/sys/fs/file-nr = 1\t0\t9
/proc/sys/kernel/acpi_video_flags ! ENOENT
/proc/sys/kernel/exec-shield ! ENOENT
/proc/sys/kernel/kexec_load_disabled = 0
/proc/sys/kernel/modules_disabled = 0
/proc/sys/kernel/sched_domain/cpu0/domain0/flags ! ENOENT
/proc/sys/kernel/unprivileged_bpf_disabled = 2
/proc/sys/net/core/bpf_jit_enable = 1
/proc/sys/net/core/mod_cong ! ENOENT
/proc/sys/net/core/somaxconn = 4096
/proc/sys/net/ipv4/ip_forward = 1
/proc/sys/net/ipv4/inet_peer_gc_mintime ! ENOENT
/proc/sys/net/ipv4/tcp_available_congestion_control = reno cubic
/proc/sys/net/ipv4/tcp_congestion_control = cubic
/proc/sys/net/ipv4/tcp_cookie_size ! ENOENT
/proc/sys/net/ipv4/tcp_westwood ! ENOENT
/proc/sys/net/ipv4/vs/conn_reuse_mode ! ENOENT
/proc/sys/vm/drop_caches = 3
/proc/sys/vm/hugepages_treat_as_movable ! ENOENT
/proc/sys/vm/numa_zonelist_order = Node
/sys/kernel/mm/hugepages/ : hugepages-1048576kB hugepages-2048kB
/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages = 0
/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 0
end
";

/// Each setting of a guide on the guest, with its state and the reason.
#[track_caller]
fn check(lines: &[&str], expected: Expect) {
    let text = include_str!("../../../../../hosts/firecracker-2vcpu-6.18.txt");
    let own: Vec<&str> =
        text.lines().filter(|line| *line != "end" && !line.starts_with("/sys/kernel/mm/hugepages")).collect();
    let root = Root::captured(Capture::parse(&format!("{}\n{MORE}", own.join("\n"))).unwrap());
    let facts = Facts::probe(&root);
    let mut said = String::new();
    // Judge each line alone, so that no line overrides another.
    for line in lines {
        let guides = [read(line, None)];
        let readings = Readings::take(&root, &facts, &guides);
        let all = judge(&facts, &readings, &Goal::Latency.into(), &guides[0]);
        if all.is_empty() {
            writeln!(said, "no setting: {line}").unwrap();
        }
        for one in all {
            writeln!(said, "{:?} {}: {}", one.state, one.asked, one.why).unwrap();
        }
    }
    expected.assert_eq(&said);
}

#[test]
fn numbers_that_are_too_small() {
    check(
        &[
            "net.netfilter.nf_conntrack_max=10",
            "net.netfilter.nf_conntrack_max=1024",
            "net.core.netdev_budget=1",
            "net.core.netdev_budget=64",
            "kernel.sched_rt_runtime_us=0",
            "kernel.sched_rt_runtime_us=-1",
            "fs.epoll.max_user_watches=1",
        ],
        expect![[r#"
            Dangerous net.netfilter.nf_conntrack_max=10: evenkeel writes 1024 or more there: once the table is full, the kernel drops every new connection, your login among them
            Try net.netfilter.nf_conntrack_max=1024: evenkeel can try it, and restores the present value
            Dangerous net.core.netdev_budget=1: evenkeel writes 64 or more there: with less, each round ends after one queue, the other queues wait, and under load connections of the whole machine stall
            Try net.core.netdev_budget=64: risk: a larger budget delays ticks on the CPU for longer; a smaller one leaves packets in the device's ring
            Dangerous kernel.sched_rt_runtime_us=0: evenkeel writes 10000 or more there: with so little time, real-time threads hardly run, and at 0 kernels before 6.12 never run them; interrupt threads of drivers are among them
            Try kernel.sched_rt_runtime_us=-1: risk: without the limit, one endless loop in a real-time thread makes a CPU unreachable, and on a small machine the whole machine
            Dangerous fs.epoll.max_user_watches=1: evenkeel never writes it: it limits every program of the machine: a value that is too small stops logins
        "#]],
    );
}

#[test]
fn memory_that_the_rest_lacks() {
    let grub = |arguments: &str| format!("GRUB_CMDLINE_LINUX=\"{arguments}\"");
    check(
        &[
            "echo 40 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
            "echo 12000 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "echo 100 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "vm.nr_hugepages = 20000",
            &grub("hugepagesz=1G hugepages=64"),
            &grub("hugepagesz=1G hugepages=10 hugepagesz=2M hugepages=6000"),
            &grub("hugepages=12000"),
            &grub("hugepages=100"),
            &grub("crashkernel=20G"),
            &grub("crashkernel=1G"),
            &grub("crashkernel=auto"),
        ],
        expect![[r#"
            Dangerous /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages=40: 40 pages of 1.0 GiB are 40.0 GiB, and this machine has 23.5 GiB: you may reserve at most three quarters of that, 17 pages
            Dangerous /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages=12000: 12000 pages of 2 MiB are 23.4 GiB, and this machine has 23.5 GiB: you may reserve at most three quarters of that, 9039 pages
            ByHand /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages=100: evenkeel has no knob for it
            Dangerous vm.nr_hugepages=20000: 20000 pages of 2 MiB are 39.1 GiB, and this machine has 23.5 GiB: you may reserve at most three quarters of that, 9039 pages
            NeedsReboot kernel argument hugepagesz=1G: a kernel argument takes effect after a reboot
            Dangerous kernel argument hugepages=64: it reserves 64.0 GiB, and this machine has 23.5 GiB: with less than a quarter left, it may not start
            NeedsReboot kernel argument hugepagesz=1G: a kernel argument takes effect after a reboot
            NeedsReboot kernel argument hugepages=10: a kernel argument takes effect after a reboot
            NeedsReboot kernel argument hugepagesz=2M: a kernel argument takes effect after a reboot
            Dangerous kernel argument hugepages=6000: it reserves 21.7 GiB, and this machine has 23.5 GiB: with less than a quarter left, it may not start
            Dangerous kernel argument hugepages=12000: it reserves 23.4 GiB, and this machine has 23.5 GiB: with less than a quarter left, it may not start
            NeedsReboot kernel argument hugepages=100: a kernel argument takes effect after a reboot
            Dangerous kernel argument crashkernel=20G: it reserves 20.0 GiB, and this machine has 23.5 GiB: with less than a quarter left, it may not start
            NeedsReboot kernel argument crashkernel=1G: a kernel argument takes effect after a reboot
            no setting: GRUB_CMDLINE_LINUX="crashkernel=auto"
        "#]],
    );
}

#[test]
fn arguments_that_cut_off_or_open() {
    let grubby = |arguments: &str| format!("grubby --update-kernel=ALL --args=\"{arguments}\"");
    check(
        &[
            &grubby("lsm= lsm=landlock,yama root=/dev/sdb1 init=/bin/sh console=null kvm.nx_huge_pages=never"),
            &grubby(
                "systemd.mask=sshd.service systemd.mask=ssh.service systemd.mask=systemd-networkd systemd.mask=irqbalance",
            ),
            &grubby(
                "module_blacklist=floppy,virtio_net modprobe.blacklist=virtio-net modprobe.blacklist=floppy modprobe.blacklist=nvme",
            ),
            "GRUB_CMDLINE_LINUX=\"console=ttyS0 console=null root=/dev/vda1\"",
        ],
        expect![[r#"
            Dangerous kernel argument lsm: it switches every security module of the kernel off, AppArmor or SELinux among them
            NeedsReboot kernel argument lsm=landlock,yama: a kernel argument takes effect after a reboot
            Dangerous kernel argument root=/dev/sdb1: the kernel looks for its file system there: another machine's value keeps this one from starting
            Dangerous kernel argument init=/bin/sh: the kernel starts this program in place of the system: no services and no login come up
            Dangerous kernel argument console=null: nobody sees why the machine does not start, and no console offers a login
            Dangerous kernel argument kvm.nx_huge_pages=never: it removes a protection of the kernel
            Dangerous kernel argument systemd.mask=sshd.service: it stops a service that the machine needs to be reachable, or to start
            Dangerous kernel argument systemd.mask=ssh.service: it stops a service that the machine needs to be reachable, or to start
            Dangerous kernel argument systemd.mask=systemd-networkd: it stops a service that the machine needs to be reachable, or to start
            NeedsReboot kernel argument systemd.mask=irqbalance: a kernel argument takes effect after a reboot
            Dangerous kernel argument module_blacklist=floppy,virtio_net: virtio_net drives eth0: without it, nobody reaches the machine
            Dangerous kernel argument modprobe.blacklist=virtio-net: virtio-net drives eth0: without it, nobody reaches the machine
            NeedsReboot kernel argument modprobe.blacklist=floppy: a kernel argument takes effect after a reboot
            Dangerous kernel argument modprobe.blacklist=nvme: without nvme, the machine may start without disk or network
            Dangerous kernel argument console=null: nobody sees why the machine does not start, and no console offers a login
        "#]],
    );
}

#[test]
fn lists_of_cpus_with_words() {
    let grub = |arguments: &str| format!("GRUB_CMDLINE_LINUX=\"{arguments}\"");
    check(
        &[
            &grub("isolcpus=1"),
            &grub("isolcpus=domain,managed_irq,1"),
            &grub("nohz_full=1-N"),
            &grub("rcu_nocbs=all"),
            "taskset -c 1-3 ./server",
            "taskset -c 2-3 ./server",
            "[Service]\nCPUAffinity=1-3",
            "cpupower idle-set -d 2",
        ],
        expect![[r#"
            NotAdvised cmdline.isolcpus=1: 2 CPUs: the remaining CPUs would be too few for everything else
            NotAdvised kernel argument isolcpus=domain,managed_irq,1: 2 CPUs: the remaining CPUs would be too few for everything else
            NotHere kernel argument nohz_full=1-N: this kernel is built without CONFIG_NO_HZ_FULL
            NeedsReboot kernel argument rcu_nocbs=all: risk: the threads that run the callbacks need CPU time, and they cost more than the callbacks that they replace
            Try process.cpu_affinity=1-3: this machine runs CPUs 0-1, so the kernel keeps CPU 1 of the list; risk: CPUs that the server does not use stay idle; a server with more threads than CPUs queues
            NotHere process.cpu_affinity=2-3: there is no CPU 2: this machine has 0-1
            Try process.cpu_affinity=1-3: this machine runs CPUs 0-1, so the kernel keeps CPU 1 of the list; risk: CPUs that the server does not use stay idle; a server with more threads than CPUs queues
            ByHand cpupower idle-set -d 2: it disables idle state 2 alone, and each driver numbers its states in its own way: read /sys/devices/system/cpu/cpu0/cpuidle/state2/name first
        "#]],
    );
}

#[test]
fn commands_and_files_that_end_a_machine() {
    check(
        &[
            "echo c > /proc/sysrq-trigger",
            "echo s > /proc/sysrq-trigger",
            "echo 0 > /sys/devices/system/cpu/cpu0/online",
            "echo 0 > /sys/devices/system/cpu/cpu1/online",
            "wrmsr -a 0x1a4 0xf",
            "iptables -F",
            "nft flush ruleset",
            "#!/bin/sh\nip link set eth0 down\nip6tables -F\nip link set eth0 up",
            "systemctl disable --now sshd",
            "systemctl disable --now numad sshd",
            "for c in /sys/devices/system/cpu/cpu[1-3]*; do echo 0 > $c/online; done",
        ],
        expect![[r#"
            Dangerous /proc/sysrq-trigger=c: the kernel does it at once: it crashes, restarts, switches off, or ends programs without asking
            ByHand /proc/sysrq-trigger=s: evenkeel has no knob for it
            Dangerous /sys/devices/system/cpu/cpu0/online=0: CPU 0 serves interrupts and timers that other CPUs can't take on every machine, so the machine may stop
            ByHand /sys/devices/system/cpu/cpu1/online=0: evenkeel has no knob for it: it takes a CPU from every program and interrupt of the machine
            Dangerous wrmsr -a 0x1a4 0xf: it writes a register of the processor, and nobody checks the value: a wrong one crashes the machine
            Dangerous iptables -F: it changes the firewall: the machine may be open, or refuse your own connection
            Dangerous nft flush ruleset: it changes the firewall: the machine may be open, or refuse your own connection
            Dangerous ip link set eth0 down: it takes a network interface or its routes away, and your connection with them
            Dangerous ip6tables -F: it changes the firewall: the machine may be open, or refuse your own connection
            Dangerous systemctl disable --now sshd: it stops a service that the machine needs to be reachable, or to start
            NotHere daemon.numad=off: there is one memory node: all memory is equally close
            Dangerous systemctl disable sshd: it stops a service that the machine needs to be reachable, or to start
            ByHand /sys/devices/system/cpu/cpu[1-3]*/online=0: evenkeel has no knob for it: it takes a CPU from every program and interrupt of the machine
        "#]],
    );
}

#[test]
fn what_this_kernel_refuses() {
    check(
        &[
            "net.ipv4.tcp_congestion_control=htcp",
            "net.ipv4.tcp_congestion_control=reno",
            "echo hpet > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "echo kvm-clock > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "net.ipv4.tcp_available_congestion_control = bbr",
            "fs.file-nr=1 2 3",
            "net.core.somaxconn = 70000000000",
        ],
        expect![[r#"
            ByHand net.ipv4.tcp_congestion_control=htcp: the kernel does not offer it here: it offers reno, cubic; when root writes it, the kernel loads tcp_htcp if the machine has it: `modprobe tcp_htcp` lets evenkeel try it
            Try net.ipv4.tcp_congestion_control=reno: evenkeel has no advice for this sysctl; the kernel checks the value
            NotHere clocksource=hpet: the kernel does not offer it here: it offers tsc, kvm-clock
            Try clocksource=kvm-clock: evenkeel can try it, and restores the present value
            NotHere net.ipv4.tcp_available_congestion_control=bbr: the file only reports: the kernel lets nobody write it
            NotHere fs.file-nr=1 2 3: the file only reports: the kernel lets nobody write it
            BadValue net.core.somaxconn=70000000000: the kernel accepts at most 2147483647 there
        "#]],
    );
}

#[test]
fn reasons_are_those_of_the_value() {
    check(
        &[
            "kernel.unprivileged_bpf_disabled=0",
            "kernel.unprivileged_bpf_disabled=1",
            "kernel.modules_disabled=1",
            "kernel.kexec_load_disabled=1",
            "vm.numa_zonelist_order=N",
            "net.ipv4.ip_forward=1",
            "net.ipv4.ip_forward=0",
            "net.core.bpf_jit_enable=1",
            "vm.drop_caches=3",
            "net.core.somaxconn=1024\nnet.core.somaxconn=4096",
        ],
        expect![[r#"
            Dangerous kernel.unprivileged_bpf_disabled=0: evenkeel never writes it: it opens bpf() to every program, which attackers have used to take over kernels
            ByHand kernel.unprivileged_bpf_disabled=1: it protects the machine and does not make it faster: evenkeel leaves it to you; nobody can undo it before the next boot
            ByHand kernel.modules_disabled=1: it protects the machine and does not make it faster: evenkeel leaves it to you; nobody can undo it before the next boot
            ByHand kernel.kexec_load_disabled=1: it protects the machine and does not make it faster: evenkeel leaves it to you; nobody can undo it before the next boot
            Outdated vm.numa_zonelist_order=N: does nothing any more: the kernel chooses the order of nodes itself, since Linux 4.14
            AlreadySo net.ipv4.ip_forward=1: it is in force already
            Dangerous net.ipv4.ip_forward=0: evenkeel never writes it: it decides which packets pass, so it can cut your connection
            AlreadySo net.core.bpf_jit_enable=1: it is in force already
            Dangerous vm.drop_caches=3: evenkeel never writes it: writing it is an action, not a setting: there is no value to restore
            Overridden net.core.somaxconn=1024: line 2 sets another value, and wins: net.core.somaxconn=4096
            AlreadySo net.core.somaxconn=4096: it is in force already
        "#]],
    );
}

#[test]
fn what_does_not_exist_is_not_left_to_the_user() {
    check(
        &[
            "kernel.exec-shield=1",
            "net.ipv4.inet_peer_gc_mintime=10",
            "net.ipv4.vs.conn_reuse_mode=0",
            "kernel.acpi_video_flags=0",
            "vm.hugepages_treat_as_movable=1",
            "kernel.sched_domain.cpu0.domain0.flags=1",
            "net.ipv4.tcp_cookie_size=1",
            "net.ipv4.tcp_westwood=1",
            "net.core.mod_cong=1",
            "vm.nr_pdflush_threads=2",
            "net.ipv4.conf.*.rp_filter=1",
        ],
        expect![[r#"
            NotHere kernel.exec-shield=1: this kernel has no such sysctl: it was built without it, its module is not loaded, or the name is wrong
            NotHere net.ipv4.inet_peer_gc_mintime=10: this kernel has no such sysctl: it was built without it, its module is not loaded, or the name is wrong
            NotHere net.ipv4.vs.conn_reuse_mode=0: this kernel has no such sysctl: it was built without it, its module is not loaded, or the name is wrong
            NotHere kernel.acpi_video_flags=0: this kernel has no such sysctl: it was built without it, its module is not loaded, or the name is wrong
            Outdated vm.hugepages_treat_as_movable=1: removed, since Linux 4.16
            Outdated kernel.sched_domain.cpu0.domain0.flags=1: moved to debugfs, as /sys/kernel/debug/sched/domains, since Linux 5.13
            Outdated net.ipv4.tcp_cookie_size=1: removed, since Linux 3.10
            Outdated net.ipv4.tcp_westwood=1: removed from Linux long ago
            Outdated net.core.mod_cong=1: removed from Linux long ago
            Outdated vm.nr_pdflush_threads=2: does nothing any more, and newer kernels lack it, since Linux 3.6
            Dangerous net.ipv4.conf.*.rp_filter=1: evenkeel never writes it: it decides which packets pass, so it can cut your connection
        "#]],
    );
}
