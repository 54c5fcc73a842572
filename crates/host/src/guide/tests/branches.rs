//! Branches of scripts, the commands next to a setting, arithmetic and prompts.

use expect_test::expect;

use super::judged::{OF_6_12, check as judged};
use super::{check, read};
use crate::guide::Content;

#[test]
fn the_branch_of_stop_does_not_win() {
    let script = "#!/bin/sh\ncase \"$1\" in\nstart)\n  echo never > /sys/kernel/mm/transparent_hugepage/enabled\n  ;;\nstop)\n  \
                  echo always > /sys/kernel/mm/transparent_hugepage/enabled\n  ;;\nesac\nsysctl -w vm.swappiness=5\n";
    check(
        script,
        expect![[r#"
        Shell
        1 (Structure)
        2 (Structure)
        3 (Structure)
        4 thp.enabled=never
        5 (Structure)
        6 (Structure)
        7 ? it reverts the setting: it has thp.enabled=always for `stop`
        8 (Structure)
        9 (Structure)
        10 vm.swappiness=5
    "#]],
    );
    judged(
        OF_6_12,
        script,
        expect![[r#"
        Try thp.enabled=never: risk: without huge pages programs walk large data more slowly; existing huge pages stay; changing to or from never also changes vm.min_free_kbytes
        NotHere vm.swappiness=5: there is no swap here, so the value has no effect
    "#]],
    );
    check(
        "#!/bin/sh\ncase $1 in\n  start|restart) echo never > /sys/kernel/mm/transparent_hugepage/enabled ;;\n  \"stop\") echo always > /sys/kernel/mm/transparent_hugepage/enabled ;;\n  *) echo usage; exit 1 ;;\nesac\n\
         case $1 in up) sysctl -w vm.swappiness=1;; (down) sysctl -w vm.swappiness=60;; esac\n\
         if [ \"$1\" = start ]; then\n  sysctl -w net.core.busy_read=50\nelif [ \"$1\" = \"stop\" ]; then\n  sysctl -w net.core.busy_read=0\nfi\nsysctl -w net.core.busy_poll=50\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Structure)
            3 thp.enabled=never
            4 ? it reverts the setting: it has thp.enabled=always for `stop`
            5 (Structure)
            6 (Structure)
            7 vm.swappiness=1 + not understood: it reverts the setting: it has vm.swappiness=60 for `down`
            8 (Structure)
            9 net.core.busy_read=50
            10 (Structure)
            11 ? it reverts the setting: it has net.core.busy_read=0 for `stop`
            12 (Structure)
            13 net.core.busy_poll=50
        "#]],
    );
}

#[test]
fn functions_handlers_and_units_that_take_settings_back() {
    check(
        "#!/bin/sh\nstart() {\n  sysctl -w vm.swappiness=1\n}\nstop() {\n  sysctl -w vm.swappiness=60\n}\nfinish() { sysctl -w net.core.busy_poll=0; }\n\
         restore_all() { sysctl -w net.core.busy_read=$old; }\ntrap finish EXIT\ntrap 'sysctl -w vm.dirty_ratio=20' INT TERM\ntrap - INT\n\
         sysctl -w vm.dirty_ratio=5\nsysctl -w net.core.busy_poll=50\nstart\ncase \"$1\" in\nstop) stop ;;\nesac\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Structure)
            3 vm.swappiness=1
            4 (Structure)
            5 (Structure)
            6 ? it reverts the setting: it has vm.swappiness=60 for `stop`
            7 (Structure)
            8 ? it reverts the setting: it has net.core.busy_poll=0 for `finish`
            9 (Structure)
            10 (Structure)
            11 ? it reverts the setting: it has vm.dirty_ratio=20 for `trap`
            12 (Structure)
            13 vm.dirty_ratio=5
            14 net.core.busy_poll=50
            15 (Command)
            16 (Structure)
            17 (Command)
            18 (Structure)
        "#]],
    );
    check(
        "[Service]\nType=oneshot\nExecStart=/sbin/sysctl -w vm.swappiness=1\nExecStop=/sbin/sysctl -w vm.swappiness=60\nExecStopPost=-/bin/sh -c 'echo 1 > /proc/sys/kernel/numa_balancing'\n",
        expect![[r#"
            Sysctl
            1 (Structure)
            2 (Elsewhere)
            3 vm.swappiness=1
            4 ? it reverts the setting: it has vm.swappiness=60 for `ExecStop`
            5 ? it reverts the setting: it has kernel.numa_balancing=1 for `ExecStopPost`
        "#]],
    );
}

#[test]
fn branches_are_alternatives() {
    judged(
        OF_6_12,
        "#!/bin/sh\nif [ -d /x ]; then\n  sysctl -w net.core.busy_read=0\nelse\n  sysctl -w net.core.busy_read=50\nfi\n\
         if a; then sysctl -w vm.dirty_ratio=6; else sysctl -w vm.dirty_ratio=6; fi\n\
         case $1 in start) sysctl -w vm.stat_interval=9;; other) sysctl -w vm.stat_interval=2;; esac\n\
         if b; then sysctl -w net.core.busy_poll=7; fi\nsysctl -w net.core.busy_poll=50\n",
        expect![[r#"
            ByHand net.core.busy_read=0: another branch has net.core.busy_read=50, on line 5: evenkeel does not run the script's test, so it can't choose
            ByHand net.core.busy_read=50: another branch has net.core.busy_read=0, on line 3: evenkeel does not run the script's test, so it can't choose
            Overridden vm.dirty_ratio=6: line 7 repeats it: vm.dirty_ratio=6
            Try vm.dirty_ratio=6: risk: a lower share slows bursts of writing that a higher one would absorb
            Try vm.stat_interval=9: risk: figures in /proc/vmstat and /proc/meminfo lag by up to this interval
            ByHand vm.stat_interval=2: another branch has vm.stat_interval=9, on line 8: it is the one that applies the script's settings
            Overridden net.core.busy_poll=7: line 10 sets another value, and wins: net.core.busy_poll=50
            Try net.core.busy_poll=50: risk: each waiting thread spins on a CPU, takes time from the CPU's sibling, and uses power
        "#]],
    );
}

#[test]
fn commands_that_change_nothing_say_nothing_beside_a_setting() {
    let text = "#!/bin/sh\nsync; sysctl -w vm.dirty_ratio=6\nsudo sync && sudo sysctl -w vm.dirty_ratio=5\necho hi; date; sysctl -w vm.stat_interval=9\n\
                sync\nsysctl -w net.core.busy_read=50; frob x\n";
    check(
        text,
        expect![[r#"
        Shell
        1 (Structure)
        2 vm.dirty_ratio=6
        3 vm.dirty_ratio=5
        4 vm.stat_interval=9
        5 (Command)
        6 net.core.busy_read=50 + not understood: evenkeel does not know the command frob
    "#]],
    );
    let guide = read(text, None);
    assert_eq!(guide.asks().count(), 4, "what is not understood is no setting");
    assert_eq!(guide.lines[5].not_understood().as_deref(), Some("evenkeel does not know the command frob"));
    assert!(matches!(guide.lines[5].content, Content::Settings(_)));
}

#[test]
fn arithmetic_of_plain_numbers() {
    check(
        "#!/bin/sh\nsysctl -w kernel.timer_migration=$((0))\nbase=16\nsize=$(( base * 1024 * 1024 ))\nsysctl -w net.core.rmem_max=$size\n\
         echo $((1 << 3)) > /proc/sys/vm/dirty_ratio\nfor i in 1 2; do echo $((i + 1)) > /proc/irq/$((i + 23))/smp_affinity_list; done\n\
         sysctl -w vm.swappiness=$(( $(nproc) * 2 ))\nsysctl -w vm.min_free_kbytes=$((unknown / 2))\nsysctl -w vm.stat_interval=$unknown\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 kernel.timer_migration=0
            3 (Structure)
            4 (Structure)
            5 net.core.rmem_max=16777216
            6 vm.dirty_ratio=8
            7 irq.affinity@24=2 + irq.affinity@25=3
            8 ? evenkeel does not compute $((…))
            9 ? evenkeel does not compute $((…))
            10 ? only a shell could expand it, and evenkeel runs nothing
        "#]],
    );
}

#[test]
fn prompts_of_root() {
    let commands = "[root@db ~]# echo 50 > /proc/sys/net/core/busy_poll\nroot@host:~# ethtool -G eth0 rx 4096\n[me@db ~]$ sudo sysctl -w vm.swappiness=1\n\
                    root@host:~# cpupower frequency-set -g performance\nuser@host:~$ sudo sysctl -w vm.dirty_ratio=5\n";
    check(
        commands,
        expect![[r#"
        Markdown
        1 net.core.busy_poll=50
        2 net.rings@eth0=4096
        3 vm.swappiness=1
        4 cpufreq.governor=performance
        5 vm.dirty_ratio=5
    "#]],
    );
    check(
        &format!("# A page\n\n```\n{commands}```\n"),
        expect![[r#"
        Markdown
        1 (Prose)
        3 (Structure)
        4 net.core.busy_poll=50
        5 net.rings@eth0=4096
        6 vm.swappiness=1
        7 cpufreq.governor=performance
        8 vm.dirty_ratio=5
        9 (Structure)
    "#]],
    );
}

#[test]
fn sentences_and_texts_without_an_end_open_no_branch() {
    check(
        "case in point: the backlog\nif you can,\nelse not\n\n```\ncase in\nsysctl -w vm.dirty_ratio=5\n```\n```\nsh -c 'if a; then sysctl -w vm.swappiness=1'\n\
         else sysctl -w vm.swappiness=2\n```\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 (Prose)
            3 (Prose)
            5 (Structure)
            6 (Structure)
            7 vm.dirty_ratio=5
            8 (Structure)
            9 (Structure)
            10 vm.swappiness=1 + not understood: evenkeel does not know the command a
            11 vm.swappiness=2
            12 (Structure)
        "#]],
    );
    check(
        "- shell: |\n    case $1 in\n    off) sysctl -w vm.swappiness=60 ;;\n    on) sysctl -w vm.swappiness=1 ;;\n    esac\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 (Structure)
            3 ? it reverts the setting: it has vm.swappiness=60 for `off`
            4 vm.swappiness=1
            5 (Structure)
        "#]],
    );
}
