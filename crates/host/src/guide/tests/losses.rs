//! Lines of which evenkeel lost a part, and lines that wrongly affected other lines.

use expect_test::expect;

use super::{Content, Guide, GuideFormat, check, read};

#[test]
fn shifts_and_sentences_open_no_text() {
    check(
        "#!/bin/sh\necho $((1 << 3))\nsysctl -w net.core.busy_read=50\ncat <<NEVER > /etc/sysctl.d/x.conf\nsysctl -w vm.swappiness=1\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Command)
            3 net.core.busy_read=50
            4 (Command)
            5 vm.swappiness=1
        "#]],
    );
}

#[test]
fn words_of_loops_that_are_several_stand_for_none() {
    check(
        "#!/bin/sh\nfor k in busy_read busy_poll; do sysctl -w net.core.$k=50; done\nfor k in busy_read; do sysctl -w net.core.$k=50; done\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 net.core.busy_read=50 + net.core.busy_poll=50
            3 net.core.busy_read=50
        "#]],
    );
}

#[test]
fn nothing_of_a_line_is_lost() {
    check(
        "{\"settings\": [\"vm.swappiness=1\", \"nothing\"]}\n",
        expect![[r#"
        Plan
        1 vm.swappiness=1 + not understood: it is not a setting of the host
    "#]],
    );
    check(
        "tune: [net, disks]\nnum_rx_queues: 2\n",
        expect![[r#"
        Perftune
        1 net.core.rps_sock_flow_entries=32768 + net.core.somaxconn=4096 + net.ipv4.tcp_max_syn_backlog=4096 + perftune's tune: disks
        2 net.channels=2
    "#]],
    );
    check(
        "#!/bin/sh\necho \"vm.swappiness=1\\nwhat is this\" >> /etc/sysctl.conf\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 vm.swappiness=1 + not understood: "what is this" in a file of sysctls
        "#]],
    );
}

#[test]
fn rows_and_breaks_of_pages() {
    check(
        "<html><table>\n<tr><th>name</th><th>value</th></tr>\n<tr>\n<td>net.core.rmem_max</td>\n<td>16777216</td>\n</tr>\n<tr><td>vm.swappiness</td><td>1</td></tr>\n\
         </table>\n<p>net.core.busy_read=50<br>net.core.busy_poll=50</p>\n<div>\n</html>\n",
        expect![[r#"
            Html
            1 (Structure)
            2 (Prose)
            3 net.core.rmem_max=16777216
            4 (Structure)
            5 (Structure)
            6 (Structure)
            7 vm.swappiness=1
            8 (Structure)
            9 net.core.busy_read=50 + net.core.busy_poll=50
            10 (Structure)
            11 (Structure)
        "#]],
    );
}

#[test]
fn kernel_arguments_in_sentences() {
    check(
        "## Boot\nAdd `isolcpus=2-3 nohz_full=2-3 nosmt` and reboot.\n\n```\nisolcpus=2-3 skew_tick=1\n```\nUse `foo=1` too.\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 cmdline.isolcpus=2-3 + cmdline.nohz_full=2-3 + kernel argument nosmt
            4 (Structure)
            5 cmdline.isolcpus=2-3 + kernel argument skew_tick=1
            6 (Structure)
            7 (Prose)
        "#]],
    );
}

#[test]
fn profiles_with_comments_and_removed_arguments() {
    check(
        "[sysctl] # of the network\nnet.core.busy_read=50\n[bootloader]\ncmdline_a=+skew_tick=1\ncmdline_b=-quiet\n",
        expect![[r#"
            Tuned
            1 (Structure)
            2 net.core.busy_read=50
            3 (Structure)
            4 kernel argument skew_tick=1
            5 without the kernel argument quiet
        "#]],
    );
    assert_ne!(read("- sysctl:net.core.busy_read=50\n", None).format, GuideFormat::Ansible);
}

#[test]
fn maps_and_lists_on_one_line() {
    check(
        "- hosts: all\n  tasks:\n    - ansible.posix.sysctl: {name: vm.swappiness, value: '10'}\n    - {net.core.busy_read: 50, net.core.busy_poll: 51}\n\
         \x20   - loop: [{name: vm.dirty_ratio, value: 5}, {name: net.core.somaxconn, value: \"{{ x }}\"}]\n      with: ['vm.swappiness=3', 7]\n\
         \x20   - sysctl: {name: '{{ item.name }}', value: '{{ item.value }}'}\n    - {other: [1, {deep: {net.core.netdev_budget: 600}}]}\n\
         \x20   - {a: {b: {c: {d: {e: {net.core.netdev_budget: 600}}}}}}\n\
         \x20   - {\n        name: vm.swappiness,\n        value: 7 }\n",
        expect![[r#"
            Ansible
            1 (Elsewhere)
            2 (Structure)
            3 vm.swappiness=10
            4 net.core.busy_read=50 + net.core.busy_poll=51
            5 vm.dirty_ratio=5 + not understood: its value is empty, or a variable of Ansible
            6 vm.swappiness=3
            7 ? its name is a variable of Ansible
            8 net.core.netdev_budget=600
            9 net.core.netdev_budget=600
            10 (Elsewhere)
            11 (Structure)
            12 vm.swappiness=7
        "#]],
    );
}

#[test]
fn a_stranger_beside_a_setting_is_named() {
    check(
        "#!/bin/sh\nsysctl -w net.core.busy_read=50; frob x\ncd /tmp && frob y\ncd /tmp && ls\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 net.core.busy_read=50 + not understood: evenkeel does not know the command frob
            3 ? evenkeel does not know the command frob
            4 (Command)
        "#]],
    );
}

#[test]
fn units_that_are_off_are_not_tried() {
    let base = "[disk]\nelevator=none\nreadahead=64\n[sysctl]\nvm.swappiness=10\nvm.dirty_ratio=5\n[vm]\ntransparent_hugepages=never\n";
    let text = "[main]\ninclude=base\n[disk]\nenabled=false\n[sysctl]\ndrop=vm.dirty_ratio\nvm.dirty_background_ratio=3\n[vm]\nreplace=1\n\
                dirty_bytes=10%\n[cpu]\nenabled=0\ngovernor=performance\n[net]\nenabled=true\nmtu=9000\ndevices_udev_regex=x\n";
    let guide = Guide::parse("a guide", text, None, &|_| Some(base.to_owned())).unwrap();
    let said = guide.lines.iter().map(|line| match &line.content {
        Content::Settings(asks) => asks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
        Content::NotASetting(skip) => format!("({skip:?})"),
        Content::NotUnderstood(why) => format!("? {why}"),
    });
    expect![[r#"
        (Structure)
        (SwitchedOff)
        (SwitchedOff)
        (Structure)
        vm.swappiness=10
        (SwitchedOff)
        (Structure)
        (SwitchedOff)
        (Structure)
        (Structure)
        (Structure)
        (Structure)
        (Structure)
        (Structure)
        vm.dirty_background_ratio=3
        (Structure)
        (Structure)
        vm.dirty_ratio=10
        (Structure)
        (Structure)
        (SwitchedOff)
        (Structure)
        (Structure)
        ? evenkeel can't tell which devices the unit means
        (Structure)"#]]
    .assert_eq(&(said.collect::<Vec<_>>().join("\n")));
}

#[test]
fn commands_that_no_knob_expresses_stay_as_they_are() {
    check(
        "#!/bin/sh\nethtool -C eth0 adaptive-rx on rx-usecs 0\nethtool -L eth0 rx 2 tx 2\nethtool -L eth0 combined 1 rx 1\n\
         ethtool -N eth0 flow-type udp4 dst-port 7777 action 2\nethtool -L eth0 combined 2\ncpupower frequency-set -g performance -d 2GHz\n\
         cpupower -c all frequency-set --governor=powersave\ncpufreq-set -c 1 -g performance\ncpupower -c x frequency-set -g performance\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 ethtool -C eth0 adaptive-rx on rx-usecs 0
            3 ethtool -L eth0 rx 2 tx 2
            4 ethtool -L eth0 combined 1 rx 1
            5 ethtool -N eth0 flow-type udp4 dst-port 7777 action 2
            6 net.channels@eth0=2
            7 cpupower frequency-set -g performance -d 2GHz
            8 cpufreq.governor=powersave
            9 cpufreq.governor@cpu1=performance
            10 cpupower -c x frequency-set -g performance
        "#]],
    );
}

#[test]
fn commands_of_boot_loaders() {
    check(
        "#!/bin/sh\necho 'GRUB_CMDLINE_LINUX=\"preempt=full\"' >> /etc/default/grub\necho 'GRUB_CMDLINE_LINUX=\"preempt=full\"' | sudo tee -a /etc/default/grub\n\
         grubby --update-kernel=ALL --remove-args=\"mitigations quiet\" --args \"nohz=off\"\nkernelstub -a \"maxcpus=2\"\n\
         rpm-ostree kargs --append=skew_tick=1 --delete=rhgb\necho GRUB_TIMEOUT=0 >> /etc/default/grub\n\
         sudo sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash mitigations=off\"/' /etc/default/grub\n\
         sed -n 's/a/b/' /etc/default/grub\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 kernel.preempt=full
            3 kernel.preempt=full
            4 without the kernel argument mitigations + without the kernel argument quiet + kernel argument nohz=off
            5 cmdline.maxcpus=2
            6 kernel argument skew_tick=1 + without the kernel argument rhgb
            7 (Command)
            8 cmdline.mitigations=off
            9 (Command)
        "#]],
    );
}

#[test]
fn loops_groups_and_redirections() {
    check(
        "#!/bin/sh\nfor k in vm.dirty_ratio=33 vm.stat_interval=9; do sysctl -w $k; done\n{ echo 24; } > /proc/sys/vm/dirty_ratio\n\
         (echo 25) > /proc/sys/vm/dirty_ratio\n>/proc/sys/kernel/timer_migration echo 0\necho never 2>/dev/null > /sys/kernel/mm/transparent_hugepage/enabled\n\
         echo 0 > /proc/sys/kernel/numa_balancing 2>&1\ntee /proc/sys/vm/swappiness <<< 5\nfor i in $(seq 2 3); do\n\
         echo performance > /sys/devices/system/cpu/cpu$i/cpufreq/scaling_governor\ndone\nfor d in eth0 eth1; do\nfor q in /sys/class/net/$d/queues/rx-0; do\n\
         echo 1 > $q/rps_cpus\ndone\ndone\n{ cat x; } > /proc/sys/vm/dirty_ratio\n{\necho 1\n} > /proc/sys/vm/dirty_ratio\n\
         printf '%s\\n' madvise > /sys/kernel/mm/transparent_hugepage/defrag\nprintf \"%d\\n\" 1 > /proc/sys/vm/compaction_proactiveness\n\
         printf '%x' 1 > /proc/sys/vm/swappiness\nfor k in $(cat list); do sysctl -w $k; done\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 vm.dirty_ratio=33 + vm.stat_interval=9
            3 vm.dirty_ratio=24
            4 vm.dirty_ratio=25
            5 kernel.timer_migration=0
            6 thp.enabled=never
            7 kernel.numa_balancing=0
            8 vm.swappiness=5
            9 (Structure)
            10 cpufreq.governor@cpu2=performance + cpufreq.governor@cpu3=performance
            11 (Structure)
            12 (Structure)
            13 (Structure)
            14 net.rps_cpus@eth0/rx-0=0 + net.rps_cpus@eth1/rx-0=0
            15 (Structure)
            16 (Structure)
            17 ? the text that the group writes is not on this line
            18 (Structure)
            19 (Command)
            20 vm.dirty_ratio=1
            21 thp.defrag=madvise
            22 vm.compaction_proactiveness=1
            23 ? evenkeel can't tell what `printf` prints
            24 ? only a shell could expand it, and evenkeel runs nothing
        "#]],
    );
}

#[test]
fn texts_between_quotes_over_several_lines() {
    check(
        "#!/bin/sh\nSYSCTLS=\"vm.dirty_ratio=15\nnet.core.busy_read=50\"\nUSED='vm.swappiness=1\nvm.stat_interval=9'\n\
         for s in $USED; do sysctl -w $s; done\nsudo sh -c '\n  echo 1 > /proc/sys/vm/zone_reclaim_mode\n  sysctl -w net.core.busy_poll=50\n'\n\
         echo \"vm.dirty_ratio=3\nvm.dirty_background_ratio=2\" > /etc/sysctl.d/x.conf\n# don't\nsysctl -w vm.swappiness=2\necho it's\nsysctl -w vm.swappiness=3\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 ? it is in the variable SYSCTLS, and evenkeel can't tell its value
            3 ? it is in the variable SYSCTLS, and evenkeel can't tell its value
            4 (Structure)
            5 (Structure)
            6 vm.swappiness=1 + vm.stat_interval=9
            7 vm.zone_reclaim_mode=1 + net.core.busy_poll=50
            8 (Structure)
            9 (Structure)
            10 (Structure)
            11 vm.dirty_ratio=3 + vm.dirty_background_ratio=2
            12 (Structure)
            13 (Comment)
            14 vm.swappiness=2
            15 (Command)
            16 vm.swappiness=3
        "#]],
    );
}

#[test]
fn tasks_in_every_form() {
    check(
        "---\n- sysctl: name=\"net.ipv4.udp_mem\" value=\"65536 131072 262144\" state=present\n- sysctl: name=net.ipv4.tcp_tw_recycle value=1 state=absent\n\
         - sysctl: {name: kernel.nmi_watchdog, value: false}\n- ansible.posix.sysctl:\n    name: kernel.numa_balancing\n    value: \"no\"\n\
         - sysctl: {name: \"{{ item }}\", value: 0}\n  loop: [kernel.nmi_watchdog, kernel.watchdog]\n\
         - sysctl:\n    name: \"{{ item.0 }}\"\n    value: \"{{ item.1 }}\"\n  loop:\n    - [vm.compaction_proactiveness, 0]\n    - [vm.stat_interval, 9]\n\
         - sysctl: {name: \"{{ item }}\", value: 0}\n  loop: \"{{ 'kernel.timer_migration kernel.sched_autogroup_enabled'.split() }}\"\n\
         - local_action: sysctl name=net.core.busy_read value=50\n- sysctl:\n    name: net.core.busy_poll\n    value: >-\n      50\n\
         - sysctl: {name: \"{{ item.key }}\", value: \"{{ item.value }}\"}\n  with_dict:\n    vm.dirty_ratio: 5\n\
         - sysctl: {name: \"{{ item }}\", state: absent}\n  loop:\n    - net.ipv4.tcp_fack\n\
         - sysctl: {name: \"{{ item }}\", value: 1}\n  loop: \"{{ others }}\"\n- sysctl: {name: \"{{ knob.name }}\", value: \"{{ knob.value }}\"}\n\
         \x20 loop: \"{{ mine }}\"\n  loop_control: {loop_var: knob}\n- vars:\n    mine:\n      - {name: vm.swappiness, value: 1}\n",
        expect![[r#"
            Ansible
            1 (Structure)
            2 net.ipv4.udp_mem=65536 131072 262144
            3 (Command)
            4 kernel.nmi_watchdog=0
            5 (Structure)
            6 (Structure)
            7 kernel.numa_balancing=0
            8 (Structure)
            9 kernel.nmi_watchdog=0 + kernel.watchdog=0
            10 (Structure)
            11 (Structure)
            12 (Structure)
            13 (Structure)
            14 vm.compaction_proactiveness=0
            15 vm.stat_interval=9
            16 (Structure)
            17 kernel.timer_migration=0 + kernel.sched_autogroup_enabled=0
            18 net.core.busy_read=50
            19 (Structure)
            20 (Structure)
            21 net.core.busy_poll=50
            22 (Elsewhere)
            23 (Structure)
            24 (Structure)
            25 vm.dirty_ratio=5
            26 (Command)
            27 (Structure)
            28 (Structure)
            29 ? its names are in others, which is not in this text
            30 (Elsewhere)
            31 (Structure)
            32 (Elsewhere)
            33 (Elsewhere)
            34 (Structure)
            35 (Structure)
            36 vm.swappiness=1
        "#]],
    );
}

#[test]
fn tasks_that_write_files() {
    check(
        "---\n- lineinfile:\n    path: /etc/default/grub\n    regexp: '^GRUB_CMDLINE_LINUX='\n    line: 'GRUB_CMDLINE_LINUX=\"isolcpus=2-3 mitigations=off\"'\n\
         - lineinfile: {path: /etc/default/grub, regexp: '^(GRUB_CMDLINE_LINUX=\".*)\"$', line: '\\1 nohz=off\"', backrefs: yes}\n\
         - replace:\n    path: /etc/default/grub\n    regexp: 'quiet splash'\n    replace: 'quiet splash preempt=full'\n\
         - copy:\n    dest: /etc/sysctl.d/99-x.conf\n    content: |\n      # mine\n      vm.swappiness = 1\n      vm.dirty_ratio = {{ ratio }}\n\
         - shell: |\n    echo never > /sys/kernel/mm/transparent_hugepage/enabled\n    sysctl -w vm.stat_interval={{ x }}\n\
         - command: sysctl -w net.core.busy_read=50\n- lineinfile: path=/etc/sysctl.conf line='vm.dirty_ratio=3' state=absent\n",
        expect![[r#"
            Ansible
            1 (Structure)
            2 (Structure)
            3 (Elsewhere)
            4 (Elsewhere)
            5 cmdline.isolcpus=2-3 + cmdline.mitigations=off
            6 kernel argument nohz=off
            7 (Structure)
            8 (Elsewhere)
            9 (Elsewhere)
            10 kernel.preempt=full
            11 (Structure)
            12 (Elsewhere)
            13 (Elsewhere)
            14 (Comment)
            15 vm.swappiness=1
            16 ? its value is empty, or a variable of Ansible
            17 (Elsewhere)
            18 thp.enabled=never
            19 ? its value is empty, or a variable of Ansible
            20 net.core.busy_read=50
            21 (Command)
        "#]],
    );
    check(
        "#cloud-config\nwrite_files:\n  - path: /etc/sysctl.d/99-x.conf\n    content: |\n      net.core.rmem_max=8388608\n  - path: /etc/other\n    content: |\n      vm.swappiness=1\n\
         runcmd:\n  - [sysctl, -w, vm.swappiness=1]\n  - echo 0 > /proc/sys/kernel/numa_balancing\n  - [sh, -c, 'echo 1 > /proc/sys/vm/zone_reclaim_mode']\n\
         bootcmd:\n  - sed -i 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX=\"nosmt\"/' /etc/default/grub\n",
        expect![[r#"
            Ansible
            1 (Comment)
            2 (Structure)
            3 (Elsewhere)
            4 (Elsewhere)
            5 net.core.rmem_max=8388608
            6 (Elsewhere)
            7 (Elsewhere)
            8 (Elsewhere)
            9 (Structure)
            10 vm.swappiness=1
            11 kernel.numa_balancing=0
            12 vm.zone_reclaim_mode=1
            13 (Structure)
            14 kernel argument nosmt
        "#]],
    );
    check(
        "services:\n  game:\n    sysctls:\n      - net.core.somaxconn=1024\n      - net.ipv4.tcp_syncookies=0\n",
        expect![[r#"
            Ansible
            1 (Structure)
            2 (Structure)
            3 (Structure)
            4 net.core.somaxconn=1024
            5 net.ipv4.tcp_syncookies=0
        "#]],
    );
}

#[test]
fn arrays_units_and_images() {
    check(
        "#!/bin/bash\nSYSCTLS=(\n  \"net.core.rmem_max=8388608\" # large\n  vm.swappiness=1\n)\nfor s in \"${SYSCTLS[@]}\"; do\n  sysctl -w \"$s\"\ndone\n\
         OTHER=(vm.dirty_ratio=5)\nLOST=(\n\"vm.stat_interval=9\"\n)\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Structure)
            3 (Structure)
            4 (Structure)
            5 (Structure)
            6 (Structure)
            7 net.core.rmem_max=8388608 + vm.swappiness=1
            8 (Structure)
            9 ? it is in the variable OTHER, and evenkeel can't tell its value
            10 (Structure)
            11 ? it is in the variable LOST, and evenkeel can't tell its value
            12 (Structure)
        "#]],
    );
    check(
        "[Unit]\nDescription=game\n[Service]\nCPUAffinity=2 3\nLimitNOFILE=65536\nExecStartPre=-/sbin/sysctl -w net.core.busy_poll=50\n\
         ExecStartPre=+/bin/sh -c 'echo 0 > /proc/sys/kernel/numa_balancing'\nExecStart=/srv/server\n",
        expect![[r#"
            Sysctl
            1 (Structure)
            2 (Elsewhere)
            3 (Structure)
            4 process.cpu_affinity=2,3
            5 LimitNOFILE=65536
            6 net.core.busy_poll=50
            7 kernel.numa_balancing=0
            8 (Elsewhere)
        "#]],
    );
    check(
        "# syntax\nFROM debian:12\nRUN apt-get update\nRUN sysctl -w net.core.rmem_max=8388608 && \\\n    sysctl -w vm.swappiness=1\nCMD [\"./server\"]\n",
        expect![[r#"
            Shell
            1 (Comment)
            2 (Command)
            3 (Command)
            4 net.core.rmem_max=8388608 + vm.swappiness=1
            5 (Structure)
            6 (Command)
        "#]],
    );
}
