//! Lines of which a part was lost, or that took others along.

use expect_test::expect;

use super::{GuideFormat, check, read};

#[test]
fn shifts_and_sentences_open_no_text() {
    check(
        "#!/bin/sh\necho $((1 << 3))\nsysctl -w net.core.busy_read=50\ncat <<NEVER > /etc/sysctl.d/x.conf\nsysctl -w vm.swappiness=1\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 ? evenkeel does not know the command 1
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
            2 ? only a shell could expand it, and evenkeel runs nothing
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
        1 vm.swappiness=1 + not understood: it is no setting of the host
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
            5 vm.dirty_ratio=5 + not understood: its key is no sysctl, or its value is a variable
            6 vm.swappiness=3
            7 (Structure)
            8 net.core.netdev_budget=600
            9 ? its lists are nested too deep
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
