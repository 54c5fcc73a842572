//! The shapes in which containers, cloud-init, units and other programs have settings.

use expect_test::expect;

use super::check;

#[test]
fn containers_and_their_scripts() {
    check(
        "spec:\n  securityContext:\n    sysctls:\n    - name: net.core.somaxconn\n      value: \"1024\"\n  initContainers:\n  - name: s3\n    command:\n    - sh\n    - -c\n    - |\n      \
         sysctl -w net.core.netdev_max_backlog=30000\n      echo never > /sys/kernel/mm/transparent_hugepage/enabled\n      sysctl -w \\\n        net.core.busy_poll=50\n  \
         - name: s4\n    command: [\"/bin/sh\"]\n    args:\n    - -ec\n    - |\n      sysctl -w net.core.busy_read=50\n  \
         - name: s5\n    command:\n    - bash\n    - -c\n    - sysctl -w vm.swappiness=1\n  - name: s6\n    args: [--port=80, net.core.rmem_max=8388608]\n",
        expect![[r#"
            Ansible
            1 (Structure)
            2 (Structure)
            3 (Structure)
            4 (Structure)
            5 net.core.somaxconn=1024
            6 (Structure)
            7 (Elsewhere)
            8 (Structure)
            9 (Command)
            10 (Command)
            11 (Command)
            12 net.core.netdev_max_backlog=30000
            13 thp.enabled=never
            14 net.core.busy_poll=50
            15 (Structure)
            16 (Elsewhere)
            17 (Command)
            18 (Structure)
            19 (Command)
            20 (Command)
            21 net.core.busy_read=50
            22 (Elsewhere)
            23 (Structure)
            24 (Command)
            25 (Command)
            26 vm.swappiness=1
            27 (Elsewhere)
            28 net.core.rmem_max=8388608
        "#]],
    );
    check(
        "#cloud-config\nruncmd:\n- - sh\n  - -c\n  - |\n    sysctl -w vm.dirty_ratio=5\n    sysctl -w vm.swappiness=1\n- [sysctl, -w, net.core.busy_read=50]\n",
        expect![[r#"
            Ansible
            1 (Comment)
            2 (Structure)
            3 (Command)
            4 (Command)
            5 (Command)
            6 vm.dirty_ratio=5
            7 vm.swappiness=1
            8 net.core.busy_read=50
        "#]],
    );
    check(
        "machine:\n  install:\n    extraKernelArgs:\n      - transparent_hugepage=never\n      - -quiet\n      - idle=poll\n",
        expect![[r#"
            Ansible
            1 (Structure)
            2 (Structure)
            3 (Structure)
            4 kernel argument transparent_hugepage=never
            5 without the kernel argument quiet
            6 cmdline.idle=poll
        "#]],
    );
}

#[test]
fn containers_alone_are_yaml() {
    check(
        "kind: Pod\nspec:\n  initContainers:\n  - command:\n    - sh\n    - -c\n    - |\n      sysctl -w vm.dirty_ratio=5\n      echo 1 > /proc/sys/vm/swappiness\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Structure)
            3 (Structure)
            4 (Structure)
            5 (Command)
            6 (Command)
            7 (Command)
            8 vm.dirty_ratio=5
            9 vm.swappiness=1
        "#]],
    );
}

#[test]
fn a_map_of_a_loop_counts_once() {
    check(
        "- hosts: all\n  vars:\n    s: {net.core.busy_poll: 50}\n    m:\n      - {name: vm.swappiness, value: 1}\n    other:\n      vm.dirty_ratio: 5\n  tasks:\n    \
         - sysctl: {name: \"{{ item.key }}\", value: \"{{ item.value }}\"}\n      loop: \"{{ s | dict2items }}\"\n    \
         - sysctl: {name: \"{{ item.name }}\", value: \"{{ item.value }}\"}\n      loop: \"{{ m }}\"\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Structure)
            3 net.core.busy_poll=50
            4 (Structure)
            5 vm.swappiness=1
            6 (Structure)
            7 vm.dirty_ratio=5
            8 (Structure)
            9 (Structure)
            10 (Elsewhere)
            11 (Structure)
            12 (Elsewhere)
        "#]],
    );
}

#[test]
fn settings_of_units_and_other_programs() {
    check(
        "[Service]\nNUMAPolicy=bind\nNUMAMask=0\nCPUQuota=200%\nCPUQuota=\nAllowedCPUs=1\nNice=-15\nRestart=no\nTimerSlackNSec=1us\n",
        expect![[r#"
            Sysctl
            1 (Structure)
            2 (Structure)
            3 process.numa_policy=0
            4 cgroup.cpu_max=200%
            5 cgroup.cpu_max=max
            6 AllowedCPUs=1
            7 Nice=-15
            8 (Elsewhere)
            9 process.timer_slack_ns=1000
        "#]],
    );
    check(
        "[Service]\nNUMAPolicy=interleave\nNUMAMask=all\n",
        expect![[r#"
        Sysctl
        1 (Structure)
        2 NUMAPolicy=interleave
        3 NUMAMask=all
    "#]],
    );
    check(
        "#!/bin/sh\nexec 3<>/dev/cpu_dma_latency; echo -ne \"\\0\\0\\0\\0\" >&3\nexec 4> /dev/cpu_dma_latency\nprintf '\\x05\\x00\\x00\\x00' >&4\n\
         echo 0 > /dev/cpu_dma_latency\necho oops >&2\necho IRQBALANCE_BANNED_CPULIST=1 >> /etc/default/irqbalance\nIRQBALANCE_BANNED_CPUS=c\n\
         cpufreq-set -r -g performance\necho 'w /sys/kernel/mm/transparent_hugepage/defrag - - - - never' > /etc/tmpfiles.d/thp.conf\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 cpuidle.dma_latency_us=0
            3 (Structure)
            4 cpuidle.dma_latency_us=5
            5 ? the kernel drops the value as soon as the command ends and closes the file
            6 (Command)
            7 irqbalance.banned_cpus=1
            8 irqbalance.banned_cpus=2-3
            9 cpufreq.governor@cpu0=performance
            10 thp.defrag=never
        "#]],
    );
    check(
        "IRQBALANCE_BANNED_CPULIST=1\n",
        expect![[r#"
        Sysctl
        1 irqbalance.banned_cpus=1
    "#]],
    );
    check(
        "# /etc/tmpfiles.d/thp.conf\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - never\nw! /proc/sys/vm/swappiness - - - - 1\nw /sys/kernel/mm/transparent_hugepage/defrag\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 thp.enabled=never
            3 vm.swappiness=1
            4 ? its seventh field, the value, is missing
        "#]],
    );
}
