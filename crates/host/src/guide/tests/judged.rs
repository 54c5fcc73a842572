//! Judges the lines of guides on captured machines: the state of each, and why.

use std::path::Path;

use evenkeel_hostfs::{Capture, Root};
use expect_test::{Expect, expect};

use super::read;
use crate::Goal;
use crate::facts::Facts;
use crate::guide::{Guide, Readings, judge};

/// Each setting of a guide on a captured machine, with its state and the reason.
#[track_caller]
pub(super) fn check(host: &str, text: &str, expected: Expect) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts").join(host);
    let root = Root::captured(Capture::load(&path).unwrap());
    expected.assert_eq(&said(&root, read(text, None)));
}

/// Each setting of a guide on a machine, with its state and the reason.
pub(super) fn said(root: &Root, guide: Guide) -> String {
    let (facts, guides) = (Facts::probe(root), [guide]);
    let readings = Readings::take(root, &facts, &guides);
    let judged = judge(&facts, &readings, &Goal::Latency.into(), &guides[0]);
    judged.iter().map(|one| format!("{:?} {}: {}\n", one.state, one.asked, one.why)).collect()
}

const OF_5_10: &str = "qemu-4cpu-5.10.txt";
pub(super) const OF_6_12: &str = "qemu-4cpu-6.12.txt";

#[test]
fn values_are_read_as_the_kernel_reads_them() {
    check(
        OF_6_12,
        "vm.dirty_ratio=0\nvm.dirty_background_ratio=0x0f\nvm.stat_interval=010\nvm.swappiness=+15\nvm.min_free_kbytes=1\nnet.core.netdev_budget=many\n",
        expect![[r#"
            BadValue vm.dirty_ratio=0: evenkeel accepts a whole number of percent from 1 to 100 there
            Try vm.dirty_background_ratio=0x0f: evenkeel can try it, and restores the present value
            Try vm.stat_interval=010: risk: figures in /proc/vmstat and /proc/meminfo lag by up to this interval
            BadValue vm.swappiness=+15: evenkeel accepts a whole number from 0 to 200 there
            BadValue vm.min_free_kbytes=1: evenkeel accepts a whole number of KiB from 1024 to 2147483647 there
            BadValue net.core.netdev_budget=many: evenkeel accepts a whole number of packets from 1 to 2147483647 there
        "#]],
    );
    check(
        OF_5_10,
        "vm.watermark_scale_factor=2000\nvm.swappiness=150\n",
        expect![[r#"
        BadValue vm.watermark_scale_factor=2000: before Linux 5.15 the kernel accepts at most 1000 there
        NotHere vm.swappiness=150: there is no swap here, so the value has no effect
    "#]],
    );
    check(
        OF_6_12,
        "vm.watermark_scale_factor=2000\n",
        expect![[r#"
        Try vm.watermark_scale_factor=2000: risk: a larger distance keeps more memory free that files could use
    "#]],
    );
    check(
        OF_6_12,
        "#!/bin/sh\necho 0-3 > /sys/class/net/eth0/queues/rx-0/rps_cpus\necho 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus\necho 0-1 > /proc/irq/24/smp_affinity\n",
        expect![[r#"
            BadValue net.rps_cpus@eth0/rx-0=0-3: the kernel reads a hexadecimal mask of CPUs there, such as c for CPUs 2-3
            Try net.rps_cpus@eth0/rx-0=0-1: risk: an interrupt between CPUs for packets, drops in the per-CPU backlog (net.core.netdev_max_backlog)
            BadValue irq.affinity@24=0-1: the kernel reads a hexadecimal mask of CPUs there, such as c for CPUs 2-3
        "#]],
    );
}

#[test]
fn the_past_is_known_before_the_area() {
    check(
        OF_6_12,
        "net.ipv4.ip_conntrack_max=1\nnet.ipv4.netfilter.ip_conntrack_generic_timeout=1\nnet.ipv4.route.max_size=1\n\
         net.ipv4.route.gc_timeout=1\nnet.nf_conntrack_max=1000\nkernel.sched_latency_ns=1\nkernel.sched_nr_migrate=1\nvm.block_dump=1\n\
         vm.percpu_pagelist_fraction=8\nnet.ipv4.tcp_thin_dupack=1\nkernel.sched_child_runs_first=1\nnet.ipv4.rt_cache_rebuild_count=4\n\
         net.ipv4.tcp_adv_win_scale=1\nkernel.numa_balancing_scan_size_mb=1\nGRUB_CMDLINE_LINUX=\"elevator=noop\"\n",
        expect![[r#"
            Outdated net.ipv4.ip_conntrack_max=1: renamed: the sysctls below net.netfilter have it now, since Linux 4.9
            Outdated net.ipv4.netfilter.ip_conntrack_generic_timeout=1: renamed: the sysctls below net.netfilter have it now, since Linux 4.9
            Outdated net.ipv4.route.max_size=1: the cache of routes was removed, so it does nothing, since Linux 3.6
            Outdated net.ipv4.route.gc_timeout=1: the cache of routes was removed, so it does nothing, since Linux 3.6
            NotHere net.netfilter.nf_conntrack_max=1000: connection tracking is not loaded, so it limits no flows: /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory (ENOENT)
            Outdated kernel.sched_latency_ns=1: removed with the EEVDF scheduler, since Linux 6.6
            Outdated kernel.sched_nr_migrate=1: moved to debugfs, as /sys/kernel/debug/sched/nr_migrate, since Linux 5.13
            Outdated vm.block_dump=1: removed: tracepoints of the block layer show the same, since Linux 5.13
            Outdated vm.percpu_pagelist_fraction=8: removed: vm.percpu_pagelist_high_fraction took its place, since Linux 5.14
            Outdated net.ipv4.tcp_thin_dupack=1: removed, since Linux 4.11
            Outdated kernel.sched_child_runs_first=1: removed, since Linux 6.7
            Outdated net.ipv4.rt_cache_rebuild_count=4: the cache of routes was removed, so it does nothing, since Linux 3.6
            Outdated net.ipv4.tcp_adv_win_scale=1: does nothing any more: each socket has its own factor, since Linux 6.6
            Outdated kernel.numa_balancing_scan_size_mb=1: moved to debugfs, as /sys/kernel/debug/sched/numa_balancing/scan_size_mb, since Linux 5.13
            Outdated kernel argument elevator=noop: does nothing any more: each disk has its own queue/scheduler in /sys/block, since Linux 5.0
        "#]],
    );
    check(
        OF_5_10,
        "kernel.sched_latency_ns=1\nvm.percpu_pagelist_fraction=8\nkernel.sched_child_runs_first=1\n",
        expect![[r#"
            Unknown kernel.sched_latency_ns=1: /proc/sys/kernel/sched_latency_ns is not in the capture
            Unknown vm.percpu_pagelist_fraction=8: /proc/sys/vm/percpu_pagelist_fraction is not in the capture
            Unknown kernel.sched_child_runs_first=1: /proc/sys/kernel/sched_child_runs_first is not in the capture
        "#]],
    );
}

#[test]
fn a_reason_is_one_for_the_value() {
    check(
        OF_6_12,
        "GRUB_CMDLINE_LINUX=\"idle=halt\"\n",
        expect![[r#"
        NeedsReboot cmdline.idle=halt: a kernel argument takes effect after a reboot
    "#]],
    );
    check(
        OF_6_12,
        "GRUB_CMDLINE_LINUX=\"idle=poll tsc=reliable isolcpus=2 maxcpus=2\"\n",
        expect![[r#"
            NotAdvised cmdline.idle=poll: idle=poll: every idle CPU would spin, prevent turbo on other cores and look fully loaded; each CPU would take time from its sibling; cpuidle.dma_latency_us does the same only while the server runs
            NotAdvised cmdline.tsc=reliable: the counter is not constant and nonstop: without the check, nobody notices its errors
            NeedsReboot cmdline.isolcpus=2: risk: a server with several threads uses one CPU unless it pins each thread; nothing else can use the CPUs until the next reboot
            NotAdvised cmdline.maxcpus=2: maxcpus=2 would leave CPUs 0-1, which are both threads of half of the cores; one thread of each core is 0,2: `smt.control` disables the others
        "#]],
    );
    check(
        "qemu-notsc-6.1.txt",
        "GRUB_CMDLINE_LINUX=\"tsc=reliable\"\n",
        expect![[r#"
        NotAdvised cmdline.tsc=reliable: the counter is not constant and nonstop: without the check, nobody notices its errors
    "#]],
    );
}

#[test]
fn a_risk_is_one_of_the_value() {
    let text = "kernel.watchdog=1\nkernel.watchdog=0\nvm.compaction_proactiveness=60\nvm.compaction_proactiveness=0\n\
                vm.watermark_boost_factor=100000\nvm.dirty_ratio=30\nvm.dirty_ratio=10\nkernel.nmi_watchdog=1\n";
    for line in text.lines() {
        let expected = match line {
            "kernel.watchdog=1" => expect![[r#"
                AlreadySo kernel.watchdog=1: it is in force already
            "#]],
            "kernel.watchdog=0" => expect![[r#"
                Try kernel.watchdog=0: risk: the kernel no longer reports hung CPUs, neither soft nor hard lockups
            "#]],
            "vm.compaction_proactiveness=60" => expect![[r#"
                Try vm.compaction_proactiveness=60: evenkeel can try it, and restores the present value
            "#]],
            "vm.compaction_proactiveness=0" => expect![[r#"
                Try vm.compaction_proactiveness=0: risk: at 0, huge pages are found less often, or only after a wait at the fault
            "#]],
            "vm.watermark_boost_factor=100000" => expect![[r#"
                Try vm.watermark_boost_factor=100000: evenkeel can try it, and restores the present value
            "#]],
            "vm.dirty_ratio=30" => expect![[r#"
                Try vm.dirty_ratio=30: evenkeel can try it, and restores the present value
            "#]],
            "vm.dirty_ratio=10" => expect![[r#"
                Try vm.dirty_ratio=10: risk: a lower share slows bursts of writing that a higher one would absorb
            "#]],
            _ => expect![[r#"
                Try kernel.nmi_watchdog=1: evenkeel can try it, and restores the present value
            "#]],
        };
        check(OF_6_12, line, expected);
    }
}

#[test]
fn commands_are_the_knobs_that_exist() {
    check(
        OF_6_12,
        "#!/bin/sh\nblockdev --setra 512 /dev/vda\ntaskset -c 2,3 ./server\nchrt -f 50 ./server\nnumactl --cpunodebind=0 ./server\n\
         systemctl disable --now numad\ncpupower idle-set -d 2\nx86_energy_perf_policy performance\n\
         for i in 0 1; do echo 1 > /sys/devices/system/cpu/cpu$i/cpuidle/state2/disable; done\n",
        expect![[r#"
            NotHere disk.read_ahead_kb@vda=256: there is no disk here
            Try process.cpu_affinity=2-3: risk: CPUs that the server does not use stay idle; a server with more threads than CPUs queues
            Try process.sched_policy=fifo: risk: an endless loop takes its CPU from everything else, even from the login
            NotHere process.numa_policy=0: there is one memory node: all memory is equally close
            NotHere daemon.numad=off: there is one memory node: all memory is equally close
            NotHere cpupower idle-set -d 2: there is no idle driver here: there are no states to disable
            ByHand x86_energy_perf_policy performance: evenkeel has no knob for it
            NotHere cpuidle.state_disable=1: there is no idle driver here: there are no states to disable
        "#]],
    );
    check(
        OF_6_12,
        "[Service]\nTimerSlackNSec=1us\nCPUSchedulingPolicy=fifo\nCPUAffinity=2 3\n",
        expect![[r#"
        Try process.timer_slack_ns=1000: risk: more wake-ups in a process with many timers
        Try process.sched_policy=fifo: risk: an endless loop takes its CPU from everything else, even from the login
        Try process.cpu_affinity=2,3: risk: CPUs that the server does not use stay idle; a server with more threads than CPUs queues
    "#]],
    );
}

#[test]
fn danger_has_its_own_reason() {
    check(
        OF_6_12,
        "#!/bin/sh\ngrubby --update-kernel=ALL --args=\"init=/bin/sh acpi=off nosmp noapic mem=1G cgroup_disable=memory net.ifnames=0 tsx=on maxcpus=0\"\n",
        expect![[r#"
            Dangerous kernel argument init=/bin/sh: the kernel starts this program in place of the system: no services and no login come up
            Dangerous kernel argument acpi=off: without ACPI the kernel may not find the CPUs, the devices and their interrupts, and may not start
            Dangerous kernel argument nosmp: the kernel uses one CPU alone, and some machines do not start without the others
            Dangerous kernel argument noapic: interrupts of devices may not arrive, so the machine may start without disk or network
            Dangerous kernel argument mem=1G: it takes memory from the machine, which does not start if what is left is too little
            Dangerous kernel argument cgroup_disable=memory: services and containers that need this controller of the control groups fail, or lose their limits
            Dangerous kernel argument net.ifnames=0: network interfaces get other names, so their configuration may not fit, and the machine may not be reachable
            Dangerous kernel argument tsx=on: it lets programs use transactions, which a program can exploit to read the memory of others
            Dangerous cmdline.maxcpus=0: the kernel uses one CPU alone, and some machines do not start without the others
        "#]],
    );
    check(
        OF_6_12,
        "net.unix.max_dgram_qlen=512\nnet.ipv4.ip_local_port_range=1024 65535\nnet.ipv4.tcp_mtu_probing=1\nnet.ipv4.tcp_mem=1 2 3\n\
         net.ipv4.conf.all.rp_filter=1\nfs.suid_dumpable=0\nfs.suid_dumpable=1\nnet.ipv4.tcp_rfc1337=1\nkernel.randomize_va_space=0\n\
         kernel.kptr_restrict=2\n",
        expect![[r#"
            Dangerous net.unix.max_dgram_qlen=512: evenkeel never writes it: services of this machine, such as its log, talk through these sockets: a value that is too small blocks them
            Dangerous net.ipv4.ip_local_port_range=1024 65535: evenkeel never writes it: it decides which ports programs get: with too few, new connections of every program fail
            ByHand net.ipv4.tcp_mtu_probing=1: it helps only on paths that drop large packets silently
            Dangerous net.ipv4.tcp_mem=1 2 3: evenkeel never writes it: it limits the memory of all TCP connections: at the limit they stall, yours among them
            Dangerous net.ipv4.conf.all.rp_filter=1: evenkeel never writes it: it decides which packets pass, so it can cut your connection
            ByHand fs.suid_dumpable=0: it protects the machine and does not make it faster: evenkeel leaves it to you
            Dangerous fs.suid_dumpable=1: evenkeel never writes it: it decides where the memory of programs that crash goes, and who can read it
            ByHand net.ipv4.tcp_rfc1337=1: it protects the machine and does not make it faster: evenkeel leaves it to you
            Dangerous kernel.randomize_va_space=0: evenkeel never writes it: it protects the machine: evenkeel does not open it for a trial
            ByHand kernel.kptr_restrict=2: it protects the machine and does not make it faster: evenkeel leaves it to you
        "#]],
    );
}
