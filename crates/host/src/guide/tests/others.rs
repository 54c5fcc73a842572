//! What experts bring: files of other programs, blocks in pages, loops that count, commands within sentences, and the state of such lines.

use expect_test::expect;

use evenkeel_hostfs::{Capture, Root};

use super::judged::{OF_6_12, check as judged, said};
use super::{check, read};

/// Each setting of a guide on a machine with these files, with its state and the reason.
#[track_caller]
fn on(files: &str, text: &str, expected: expect_test::Expect) {
    let host = format!(
        "evenkeel-capture 1\n@uname = Linux 6.8.0 x86_64\n/proc/sys/kernel/osrelease = 6.8.0\n/proc/cmdline = quiet\n{files}end\n"
    );
    let root = Root::captured(Capture::parse(&host).unwrap());
    expected.assert_eq(&said(&root, read(text, None)));
}

#[test]
fn files_of_other_programs_keep_every_line() {
    check(
        "# /etc/security/limits.conf\n*               soft    nofile          1048576\ngame - rtprio 99\n# End of file\n",
        expect![[r#"
            Sysctl
            1 (Comment)
            2 * soft nofile 1048576
            3 game - rtprio 99
            4 (Comment)
        "#]],
    );
    check(
        "options nf_conntrack hashsize=262144\noptions kvm halt_poll_ns=0\nblacklist pcspkr\n",
        expect![[r#"
        Sysctl
        1 net.netfilter.nf_conntrack_buckets=262144
        2 options kvm halt_poll_ns=0
        3 blacklist pcspkr
    "#]],
    );
    check(
        "title Linux\nlinux /vmlinuz-6.1\noptions root=UUID=a rw quiet idle=poll isolcpus=1\n",
        expect![[r#"
        Sysctl
        1 ? it is not a key = value
        2 (Command)
        3 cmdline.idle=poll + cmdline.isolcpus=1
    "#]],
    );
    check(
        "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet isolcpus=domain,1 nosoftlockup\n",
        expect![[r#"
        Sysctl
        1 kernel argument isolcpus=domain,1 + kernel argument nosoftlockup
    "#]],
    );
    check(
        "echo 1 > /proc/sys/vm/swappiness\nappend=\"noapic elevator=deadline\"\nkernel /boot/vmlinuz ro root=/dev/sda1 nohz=off\n",
        expect![[r#"
            Sysctl
            1 vm.swappiness=1
            2 kernel argument noapic + kernel argument elevator=deadline
            3 kernel argument nohz=off
        "#]],
    );
    check(
        "[Match]\nOriginalName=ens5\n\n[Link]\nRxBufferSize=8192\nTxBufferSize=1024\nCombinedChannels=2\nUseAdaptiveRxCoalesce=false\nRxCoalesceSec=8us\nMTUBytes=9001\nDescription=x\n",
        expect![[r#"
            Sysctl
            1 (Structure)
            2 (Elsewhere)
            4 (Structure)
            5 net.rings@ens5=8192
            6 ethtool -G ens5 tx 1024
            7 net.channels@ens5=2
            8 ethtool -C ens5 adaptive-rx off
            9 net.coalesce_rx_us@ens5=8
            10 MTUBytes=9001
            11 (Elsewhere)
        "#]],
    );
    check(
        "# If you change this\nGRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"quiet idle=poll\"\nIRQBALANCE_ARGS=\"--powerthresh=2\"\nENABLED=\"0\"\nkern.ipc.maxsockbuf=1\n",
        expect![[r#"
            Sysctl
            1 (Comment)
            2 (Elsewhere)
            3 cmdline.idle=poll
            4 IRQBALANCE_ARGS=--powerthresh=2
            5 ? it is an option of another program, which evenkeel does not know
            6 ? it is a sysctl of FreeBSD or macOS, which Linux does not have
        "#]],
    );
    check(
        "ACTION==\"add|change\", KERNEL==\"vd[a-z]\", ATTR{queue/scheduler}=\"none\", ATTR{queue/nr_requests}=\"512\"\nKERNEL==\"rtc0\", GROUP=\"audio\"\n",
        expect![[r#"
            Sysctl
            1 disk.scheduler@vd[a-z]=none + /sys/block/vd[a-z]/queue/nr_requests=512
            2 (Elsewhere)
        "#]],
    );
}

#[test]
fn nixos_has_sysctls_as_options() {
    check(
        "{ config, pkgs, ... }:\n{\n  boot.kernel.sysctl = {\n    \"net.core.rmem_max\" = 16777216;\n    \"vm.swappiness\" = lib.mkDefault 1;\n    \"net.ipv4.tcp_sack\" = true;\n  };\n  \
         boot.kernel.sysctl.\"net.core.default_qdisc\" = \"fq\";\n  boot.kernelParams = [ \"mitigations=off\" \"quiet\" ];\n}\n",
        expect![[r#"
            Sysctl
            1 ? it is not a key = value
            2 (Structure)
            3 (Structure)
            4 net.core.rmem_max=16777216
            5 vm.swappiness=1
            6 net.ipv4.tcp_sack=1
            7 (Structure)
            8 net.core.default_qdisc=fq
            9 cmdline.mitigations=off
            10 (Structure)
        "#]],
    );
}

#[test]
fn here_documents_may_be_any_file() {
    check(
        "#!/bin/sh\ncat <<EOF > /etc/systemd/system/x.service\n[Service]\nNice=-10\nExecStart=/bin/sh -c 'echo never > /sys/kernel/mm/transparent_hugepage/enabled'\nEOF\n\
         cat > /etc/security/limits.d/x.conf <<EOF\n* soft nofile 65536\nEOF\ncat <<'EOF' > /etc/rc.local\nfor q in 0 1; do echo 1 > /sys/class/net/eth0/queues/rx-$q/rps_cpus; done\nexit 0\nEOF\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Command)
            3 (Structure)
            4 Nice=-10
            5 thp.enabled=never
            6 (Structure)
            7 (Command)
            8 * soft nofile 65536
            9 (Structure)
            10 (Command)
            11 net.rps_cpus@eth0/rx-0=0 + net.rps_cpus@eth0/rx-1=0
            12 (Command)
            13 (Structure)
        "#]],
    );
}

#[test]
fn transcripts_and_terraform_are_scripts() {
    check(
        "$ sudo sysctl -a | grep rmem\nnet.core.rmem_default = 212992\n$ sudo sysctl -w net.core.rmem_max=8388608\nnet.core.rmem_max = 8388608\n",
        expect![[r#"
            Shell
            1 (Command)
            2 (Prose)
            3 net.core.rmem_max=8388608
            4 (Prose)
        "#]],
    );
    check(
        "resource \"aws_instance\" \"game\" {\n  ami = \"x\"\n  user_data = <<-EOF\n    #!/bin/bash\n    cat >> /etc/sysctl.d/9.conf <<SYSCTL\n    net.core.rmem_max=16777216\n    net.core.wmem_max=${var.wmem}\n    SYSCTL\n    \
         echo never > /sys/kernel/mm/transparent_hugepage/enabled\n  EOF\n  tags = { Name = \"game\" }\n}\n",
        expect![[r#"
            Shell
            1 (Command)
            2 (Command)
            3 (Command)
            4 (Comment)
            5 (Command)
            6 net.core.rmem_max=16777216
            7 ? its value is empty, a placeholder to fill in, or has other text with it
            8 (Command)
            9 thp.enabled=never
            10 (Structure)
            11 (Command)
            12 (Structure)
        "#]],
    );
}

#[test]
fn groups_and_quotes_go_over_lines() {
    check(
        "#!/bin/sh\n{\n  echo \"net.ipv4.udp_rmem_min=16384\"\n  echo \"vm.dirty_ratio=5\"\n} | sudo tee -a /etc/sysctl.conf\n\
         sudo bash -c 'cat > /etc/sysctl.d/99.conf << EOF\nvm.dirty_ratio=10\nvm.dirty_background_ratio=5\nEOF'\n\
         if true; then {\n  echo hello\n}; fi\necho 1 > /proc/sys/vm/swappiness\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 (Structure)
            3 (Command)
            4 (Command)
            5 net.ipv4.udp_rmem_min=16384 + vm.dirty_ratio=5
            6 vm.dirty_ratio=10 + vm.dirty_background_ratio=5
            7 (Structure)
            8 (Structure)
            9 (Structure)
            10 (Structure)
            11 (Command)
            12 (Structure)
            13 vm.swappiness=1
        "#]],
    );
}

#[test]
fn files_of_distributions_are_read() {
    check(
        "# /etc/sysfs.conf\nkernel/mm/transparent_hugepage/enabled = never\nblock/vda/queue/scheduler = none\nGOVERNOR=\"performance\"\nring-rx=4096\n\
         ETHTOOL_OPTS=\"-G ${DEVICE} rx 4096; -K ${DEVICE} gro off\"\nMTU=9000\n",
        expect![[r#"
            Sysctl
            1 (Comment)
            2 thp.enabled=never
            3 disk.scheduler@vda=none
            4 cpufreq.governor=performance
            5 [ethtool] ring-rx=4096
            6 net.rings=4096 + ethtool -K * gro off
            7 ? it is an option of another program, which evenkeel does not know
        "#]],
    );
    check(
        "auto eth0\niface eth0 inet dhcp\n    post-up ethtool -G eth0 rx 4096\n    up ip link set $IFACE txqueuelen 10000\n@reboot root echo never > /sys/kernel/mm/transparent_hugepage/enabled\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 (Prose)
            3 net.rings@eth0=4096
            4 ? only a shell could expand it, and evenkeel runs nothing
            5 thp.enabled=never
        "#]],
    );
}

#[test]
fn loops_that_count_are_for_every_device() {
    check(
        "#!/bin/bash\nfor ((i=0;i<2;i++)); do echo performance > /sys/devices/system/cpu/cpu$i/cpufreq/scaling_governor; done\n\
         for ((i=0;i<$N;i++)); do echo performance > /sys/devices/system/cpu/cpu$i/cpufreq/scaling_governor; done\n\
         i=0\nwhile [ $i -lt 4 ]; do\n  echo performance > /sys/devices/system/cpu/cpu$i/cpufreq/scaling_governor\n  i=$((i+1))\ndone\n\
         n=0; until (( n > 3 )); do echo performance > /sys/devices/system/cpu/cpu$n/cpufreq/scaling_governor; done\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 cpufreq.governor@cpu0=performance + cpufreq.governor@cpu1=performance
            3 cpufreq.governor=performance
            4 (Structure)
            5 (Structure)
            6 cpufreq.governor=performance
            7 (Structure)
            8 (Structure)
            9 cpufreq.governor=performance
        "#]],
    );
}

#[test]
fn placeholders_and_usual_values_are_read() {
    check(
        "#!/bin/bash\nethtool -C <interface> adaptive-rx off rx-usecs 0\nethtool -G [interface] rx 4096\nethtool -L ethX combined 2\n\
         sysctl -w net.core.rmem_default=${RMEM:-1048576}\nRMEM=2097152\nsysctl -w net.core.rmem_default=${RMEM:-1048576}\n\
         sysctl -w net.core.wmem_default=${x/-/_}\nsysctl -w vm.swappiness 30\nsudo su -c \"echo 5 > /proc/sys/vm/dirty_ratio\"\nssh root@host \"echo 5 > /proc/sys/vm/dirty_ratio\"\n\
         (crontab -l; echo x) | crontab -\necho \"* soft nofile 1048576\" | sudo tee -a /etc/security/limits.conf\necho 'options kvm halt_poll_ns=0' > /etc/modprobe.d/kvm.conf\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 ethtool -C <interface> adaptive-rx off + net.coalesce_rx_us=0
            3 net.rings=4096
            4 net.channels=2
            5 net.core.rmem_default=1048576
            6 (Structure)
            7 net.core.rmem_default=2097152
            8 ? only a shell could expand it, and evenkeel runs nothing
            9 ? `sysctl -w` needs KEY=VALUE: without the =, it sets nothing
            10 vm.dirty_ratio=5
            11 vm.dirty_ratio=5
            12 ? evenkeel does not know the command crontab
            13 * soft nofile 1048576
            14 options kvm halt_poll_ns=0
        "#]],
    );
}

#[test]
fn tools_that_tune_are_left_to_the_user() {
    check(
        "#!/bin/sh\nip route change default via 10.0.0.1 initcwnd 20\ntc -s qdisc show dev eth0\nrenice -n -10 -p $(pidof server)\nchrt -f -p 50 $(pgrep server)\n\
         nice -n -20 chrt -f 50 ./server\nsystemctl set-property game.service AllowedCPUs=1\nethtool --set-priv-flags eth0 rx_cqe_compress on\ntuned-adm off\ntuned-adm active\n\
         docker run --sysctl net.core.somaxconn=4096 --sysctl=net.ipv4.tcp_fastopen=3 --ulimit nofile=65536 -v $PWD:/x image --port 1\ndocker ps\nrpk redpanda tune all\nionice -c1 ./server\n",
        expect![[r#"
            Shell
            1 (Structure)
            2 ip route change default via 10.0.0.1 initcwnd 20
            3 (Command)
            4 renice -n -10 -p
            5 process.sched_policy=fifo
            6 nice -n -20 chrt -f 50 ./server + process.sched_policy=fifo
            7 systemctl set-property game.service AllowedCPUs=1
            8 ethtool --set-priv-flags eth0 rx_cqe_compress on
            9 tuned-adm off
            10 (Command)
            11 net.core.somaxconn=4096 + net.ipv4.tcp_fastopen=3 + docker --ulimit nofile=65536
            12 (Command)
            13 rpk redpanda tune all
            14 ionice -c1 ./server
        "#]],
    );
}

#[test]
fn commands_within_sentences_count() {
    check(
        "# Tips\n- Run `echo never > /sys/kernel/mm/transparent_hugepage/enabled` as root.\n- Then run `sysctl -w vm.dirty_ratio=10` and `cpupower frequency-set -g performance`.\n\
         - Do not use `ethtool -G eth0 rx 4096`.\n- Run the server with chrt -f 99.\n- The net.core.busy_poll parameter should be set to 50.\n- Increase net.core.somaxconn from 128 to 4096.\n\
         - net.core.busy_poll is set to 0.\n- before: vm.dirty_ratio=20, after: vm.dirty_ratio=5\n- some people say kernel.sched_rt_runtime_us=-1 but that froze my box\n\
         - Setting vm.zone_reclaim_mode=1 crashed our database.\n",
        expect![[r#"
            Markdown
            1 (Prose)
            2 thp.enabled=never
            3 vm.dirty_ratio=10 + cpufreq.governor=performance
            4 ? it names net.rings@eth0=4096, but has "not", so it may not recommend this value
            5 ? it names the command chrt, and has no line of its own for it
            6 net.core.busy_poll=50
            7 net.core.somaxconn=4096
            8 ? it names net.core.busy_poll without a value to set
            9 ? it has several values to choose from: vm.dirty_ratio=20, vm.dirty_ratio=5
            10 ? it names kernel.sched_rt_runtime_us=-1, but has "people say", so it may not recommend this value
            11 ? it names vm.zone_reclaim_mode=1, but has "crashed", so it may not recommend this value
        "#]],
    );
    check(
        "<html><body><pre># <strong>tuned-adm profile network-latency</strong></pre>\n<pre># <b>nmcli connection modify ens5 ethtool.ring-rx 4096</b></pre></body></html>\n",
        expect![[r#"
            Html
            1 tuned-adm profile network-latency
            2 nmcli connection modify ens5 ethtool.ring-rx 4096
        "#]],
    );
}

#[test]
fn sections_for_some_machines_are_not_tried() {
    check(
        "[variables]\ncores=1\n[bootloader]\ncmdline_part=+nohz=on${cmd_isolcpus} nohz_full=${cores} tuned.non_isolcpus=${f:cpulist2hex:${cores}}\n",
        expect![[r#"
            Tuned
            1 (Structure)
            2 (Structure)
            3 (Structure)
            4 cmdline.nohz_full=1 + not understood: it needs a variable or a function of TuneD: nohz=on${cmd_isolcpus} + not understood: it needs a variable or a function of TuneD: tuned.non_isolcpus=${f:cpulist2hex:${cores}}
        "#]],
    );
    check(
        "[main]\nsummary=x\n[cpu_amd]\ntype=cpu\ncpuinfo_regex=AuthenticAMD\ngovernor=performance\n[sysctl]\nvm.dirty_ratio=5\n",
        expect![[r#"
            Tuned
            1 (Structure)
            2 (Elsewhere)
            3 (Structure)
            4 (Structure)
            5 (Structure)
            6 ? its section is for some machines only: cpuinfo_regex=AuthenticAMD, which evenkeel does not test
            7 (Structure)
            8 vm.dirty_ratio=5
        "#]],
    );
}

#[test]
fn higher_limits_and_own_names_are_judged_for_what_they_are() {
    on(
        "/proc/sys/fs/file-max = 9223372036854775807\n/proc/sys/kernel/pid_max = 32768\n/proc/sys/vm/max_map_count = 65530\n\
         /proc/sys/net/ipv4/ip_local_port_range = 32768 60999\n/proc/sys/net/ipv4/tcp_congestion_control = cubic\n\
         /proc/sys/net/ipv4/tcp_available_congestion_control = reno cubic\n/proc/sys/kernel/no_such_thing ! ENOENT\n\
         /proc/sys/net/core/rmem_max = 4194304\n",
        "fs.file-max=2097152\nkernel.pid_max=4194304\nvm.max_map_count=262144\nnet.ipv4.ip_local_port_range=1024 65535\nnet.ipv4.ip_local_port_range=40000 50000\n\
         net.ipv4.tcp_congestion_control=bbr\nnet.ipv4.tcp_congestion_control=CUBIC\nkernel.no_such_thing=1\nnet.core.rmem_max=212992\n",
        expect![[r#"
            Dangerous fs.file-max=2097152: evenkeel never writes it: it limits every program of the machine: a value that is too small stops logins
            ByHand kernel.pid_max=4194304: it raises a limit, which changes speed only for a program at the limit
            ByHand vm.max_map_count=262144: it raises a limit, which changes speed only for a program at the limit
            ByHand net.ipv4.ip_local_port_range=1024 65535: it gives outgoing connections more ports; a server that starts later may find its own port in use
            Dangerous net.ipv4.ip_local_port_range=40000 50000: evenkeel never writes it: it decides which ports programs get: with too few, new connections of every program fail
            ByHand net.ipv4.tcp_congestion_control=bbr: the kernel does not offer it here: it offers reno, cubic; when root writes it, the kernel loads tcp_bbr if the machine has it: `modprobe tcp_bbr` lets evenkeel try it
            NotHere net.ipv4.tcp_congestion_control=CUBIC: the kernel does not offer it here: it offers reno, cubic; its name there is cubic
            NotHere kernel.no_such_thing=1: this kernel has no such sysctl: it was built without it, its module is not loaded, or the name is wrong
            Try net.core.rmem_max=212992: evenkeel can try it, and restores the present value
        "#]],
    );
    judged(
        OF_6_12,
        "fs.file-max=100\nfs.inotify.max_user_watches=99999999\nkernel.pid_max=4194304\nvm.max_map_count=2621440\nnet.ipv4.ip_local_port_range=1024 65535\nnet.ipv4.tcp_mtu_probing=1\n\
         net.ipv4.tcp_mtu_probing=2\nkernel.preempt=full\nnet.threaded_napi=1\nnet.coalesce_rx_us=0\nnet.inet.tcp.sendbuf_max=1\nvm.bdflush=1 2\nkernel.no_such_thing=1\n\
         net.ipv4.tcp_congestion_control=htcp\nnet.ipv4.tcp_congestion_control=HTCP\n",
        expect![[r#"
            Dangerous fs.file-max=100: evenkeel never writes it: it limits every program of the machine: a value that is too small stops logins
            Dangerous fs.inotify.max_user_watches=99999999: evenkeel never writes it: it limits every program of the machine: a value that is too small stops logins
            Dangerous kernel.pid_max=4194304: evenkeel never writes it: it limits every program of the machine: a value that is too small stops logins
            Dangerous vm.max_map_count=2621440: evenkeel never writes it: a wrong value makes the kernel refuse memory, or end other programs
            Dangerous net.ipv4.ip_local_port_range=1024 65535: evenkeel never writes it: it decides which ports programs get: with too few, new connections of every program fail
            ByHand net.ipv4.tcp_mtu_probing=1: it helps only on paths that drop large packets silently
            Dangerous net.ipv4.tcp_mtu_probing=2: evenkeel never writes it: it decides how large packets are: with a wrong size, connections stall, yours among them
            NeedsReboot kernel.preempt=full: risk: full interrupts work more often, which lowers throughput
            Try net.threaded_napi=1: risk: the threads compete with the server unless you pin them; a wake-up for each round
            ByHand net.coalesce_rx_us=0: ethtool -C eth0 adaptive-rx off rx-usecs 0
            NotHere net.inet.tcp.sendbuf_max=1: it is a sysctl of FreeBSD or macOS, which Linux does not have
            Outdated vm.bdflush=1 2: removed from Linux long ago
            ByHand kernel.no_such_thing=1: evenkeel does not try it: it is outside the areas whose sysctls change speed alone, and evenkeel can't tell what a write does
            Unknown net.ipv4.tcp_congestion_control=htcp: /proc/sys/net/ipv4/tcp_congestion_control is not in the capture
            Unknown net.ipv4.tcp_congestion_control=HTCP: /proc/sys/net/ipv4/tcp_congestion_control is not in the capture
        "#]],
    );
}

#[test]
fn commands_of_other_tools_have_a_reason() {
    judged(
        OF_6_12,
        "#!/bin/sh\ntuned-adm profile network-latency\ntuned-adm profile mine\nblacklist virtio_net\n",
        expect![[r#"
            ByHand tuned-adm profile network-latency: `evenkeel guide tuned:network-latency` judges its lines
            ByHand tuned-adm profile mine: `evenkeel guide` judges the lines of /usr/lib/tuned/mine/tuned.conf
            Dangerous blacklist virtio_net: it takes a device away from its driver: the machine may lose its disk or its network
        "#]],
    );
    judged(
        OF_6_12,
        "* soft nofile 1\noptions kvm halt_poll_ns=0\n",
        expect![[r#"
        ByHand * soft nofile 1: it is for programs that log in: a service of systemd needs the Limit…= of its unit
        ByHand options kvm halt_poll_ns=0: the module reads it when it is loaded; a module that is built into the kernel reads a kernel argument instead
    "#]],
    );
}
