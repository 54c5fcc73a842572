//! Tests what is written for kernel files, devices and interrupts, on each distribution.

use super::goldens::on_all;
use super::*;

#[test]
fn files_under_sys() {
    let texts = [
        "thp.enabled=madvise",
        "workqueue.cpumask=0-1,33",
        "sched.min_granularity_ns=3000000",
        "disk.scheduler=none",
        "disk.read_ahead_kb@nvme0n1=64",
        "cpufreq.governor=performance",
    ];
    expect![[r#####"
        #### debian-12
        == /etc/evenkeel/settings.sh 755
        #!/bin/sh
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        #
        # Settings that only the running kernel knows; evenkeel-settings.service runs this at each boot. A value that did not take effect is reported,
        # and the rest is set all the same.
        LC_ALL=C
        export LC_ALL
        failed=0

        miss() {
            echo "evenkeel: $*" >&2
            failed=1
        }

        # shown FILE: its text on one line, with single spaces.
        shown() {
            text=$(tr -s '[:space:]' ' ' <"$1") 2>/dev/null || return
            text=${text# }
            printf '%s' "${text% }"
        }

        # digits MASK: without commas and leading zeros, however many CPUs the kernel was built for.
        digits() {
            printf '%s' "$1" | tr -d ',' | sed 's/^0*\(.\)/\1/'
        }

        # put KIND FILE VALUE: writes it and reads it back: as it is, as the word in brackets, or as a mask.
        put() {
            if ! (printf '%s\n' "$3" >"$2") 2>/dev/null; then
                miss "$2: writing $3 was refused"
                return
            fi
            now=$(shown "$2")
            case $1/$now in
                mask/*) [ "$(digits "$now")" = "$(digits "$3")" ] && return ;;
                "$1/$3") return ;;
                "$1/[$3]" | "$1/[$3] "* | *" [$3]" | *" [$3] "*) return ;;
            esac
            miss "$2: $3 was written, and it reads $now"
        }

        # is_hardware FILE: whether it is there, and its device is more than software.
        is_hardware() {
            [ -e "$1" ] || return
            case $1 in
                /sys/class/net/*)
                    device=${1#/sys/class/net/}
                    [ -e "/sys/class/net/${device%%/*}/device" ]
                    ;;
                /sys/block/*)
                    device=${1#/sys/block/}
                    case ${device%%/*} in
                        *[!a-zA-Z0-9]* | loop[0-9]* | ram[0-9]* | zram[0-9]* | md[0-9]* | sr[0-9]* | fd[0-9]* | nbd[0-9]*) return 1 ;;
                    esac
                    ;;
            esac
        }

        # each KIND VALUE FILE...: puts it into the file of each device.
        each() {
            kind=$1
            value=$2
            shift 2
            any=
            for file; do
                is_hardware "$file" || continue
                any=1
                put "$kind" "$file" "$value"
            done
            [ -n "$any" ] || miss "$1: no device has it"
        }

        # first VALUE FILE...: puts it into the first of the files that this kernel has.
        first() {
            value=$1
            shift
            for file; do
                if [ -e "$file" ]; then
                    put plain "$file" "$value"
                    return
                fi
            done
            miss "this kernel has none of $*"
        }

        put plain /sys/kernel/mm/transparent_hugepage/enabled madvise
        put mask /sys/devices/virtual/workqueue/cpumask 2,00000003
        first 3000000 /sys/kernel/debug/sched/base_slice_ns /sys/kernel/debug/sched/min_granularity_ns /proc/sys/kernel/sched_min_granularity_ns
        each plain none /sys/block/*/queue/scheduler
        put plain /sys/block/nvme0n1/queue/read_ahead_kb 64
        each plain performance /sys/devices/system/cpu/cpufreq/policy*/scaling_governor

        exit "$failed"
        == /etc/systemd/system/evenkeel-settings.service 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Unit]
        Description=Settings of the running kernel that evenkeel keeps over a boot
        After=systemd-modules-load.service systemd-sysctl.service tuned.service irqbalance.service
        Before=game.service

        [Service]
        Type=oneshot
        RemainAfterExit=yes
        TimeoutStartSec=60
        ExecStart=/bin/sh /etc/evenkeel/settings.sh

        [Install]
        WantedBy=multi-user.target
        == /etc/systemd/system/multi-user.target.wants/evenkeel-settings.service -> /etc/systemd/system/evenkeel-settings.service
        $ systemctl daemon-reload (undo: systemctl daemon-reload; booted; after ["/etc/systemd/system/evenkeel-settings.service"])
        thp.enabled=madvise: /etc/evenkeel/settings.sh (AtOnce)
        workqueue.cpumask=0-1,33: /etc/evenkeel/settings.sh (AtOnce)
        sched.min_granularity_ns=3000000: /etc/evenkeel/settings.sh (AtOnce)
        disk.scheduler=none: /etc/evenkeel/settings.sh (AtOnce)
        disk.read_ahead_kb@nvme0n1=64: /etc/evenkeel/settings.sh (AtOnce)
        cpufreq.governor=performance: /etc/evenkeel/settings.sh (AtOnce)
        #### debian-13: as debian-12
        #### ubuntu-22.04: as debian-12
        #### ubuntu-24.04: as debian-12
        #### rhel-9: as debian-12
        #### amazon-2023: as debian-12
    "#####]].assert_eq(&on_all(&texts));
}

#[test]
fn network_devices_and_interrupts() {
    let texts = [
        "net.rps_cpus=1",
        "net.xps_cpus@ens5/tx-1=",
        "net.gro_flush_timeout_ns=20000",
        "irq.affinity=0",
        "irq.affinity@29=1",
    ];
    let facts = host("debian-12");
    let plan = plan(&PersistContext { unit: None, ..context(&facts) }, &settings(&texts));
    let text = to_text(&plan);
    // Another test shows the functions of the script.
    let tail = text.find("\n\neach ").unwrap_or_default();
    expect![[r#"


        each mask 2 /sys/class/net/*/queues/rx-*/rps_cpus
        put mask /sys/class/net/ens5/queues/tx-1/xps_cpus 0
        each plain 20000 /sys/class/net/*/gro_flush_timeout
        serve_all 0
        serve ens5 ens5-Tx-Rx-1 1

        exit "$failed"
        == /etc/systemd/system/evenkeel-settings.service 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Unit]
        Description=Settings of the running kernel that evenkeel keeps over a boot
        Wants=network-online.target
        After=systemd-modules-load.service systemd-sysctl.service tuned.service irqbalance.service network-online.target

        [Service]
        Type=oneshot
        RemainAfterExit=yes
        TimeoutStartSec=60
        ExecStart=/bin/sh /etc/evenkeel/settings.sh

        [Install]
        WantedBy=multi-user.target
        == /etc/systemd/system/multi-user.target.wants/evenkeel-settings.service -> /etc/systemd/system/evenkeel-settings.service
        $ systemctl daemon-reload (undo: systemctl daemon-reload; booted; after ["/etc/systemd/system/evenkeel-settings.service"])
        net.rps_cpus=1: /etc/evenkeel/settings.sh (AtOnce)
        net.xps_cpus@ens5/tx-1=: /etc/evenkeel/settings.sh (AtOnce)
        net.gro_flush_timeout_ns=20000: /etc/evenkeel/settings.sh (AtOnce)
        irq.affinity=0: /etc/evenkeel/settings.sh (AtOnce)
        irq.affinity@29=1: /etc/evenkeel/settings.sh (AtOnce)
    "#]].assert_eq(&text[tail..]);
    let refused = settings(&["irq.affinity@7=1", "net.rps_cpus@ens5/rx-x=1", "sched.wakeup_granularity_ns=1"]);
    let facts = host("debian-13");
    expect![[r#"
        irq.affinity@7=1: CANNOT, interrupt 7 belongs to no known network interface, and interrupt numbers change at a boot; set it after each boot: evenkeel apply irq.affinity@7=1
        net.rps_cpus@ens5/rx-x=1: CANNOT, "ens5/rx-x" is not the name of a device of this kind; set it after each boot: evenkeel apply net.rps_cpus@ens5/rx-x=1
        sched.wakeup_granularity_ns=1: CANNOT, Linux 6.12.43 has no file for it; do not set it; `evenkeel explain sched.wakeup_granularity_ns` shows since when
    "#]].assert_eq(&to_text(&super::plan(&context(&facts), &refused)));
}

#[test]
fn renders_driver_settings() {
    let texts = ["net.coalesce_rx_us=0", "net.rings=4096", "net.channels@ens5=1"];
    expect![[r#"
        #### debian-12
        == /etc/systemd/network/90-evenkeel-1-ens5.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Property=ID_NET_NAME_SLOT=ens5

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path
        MACAddressPolicy=persistent
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        CombinedChannels=1
        == /etc/systemd/network/90-evenkeel-2-ena.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Driver=ena

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path
        MACAddressPolicy=persistent
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        == /etc/systemd/network/10-netplan-ens5.link.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Link]
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        CombinedChannels=1
        net.coalesce_rx_us=0: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.rings=4096: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.channels@ens5=1: /etc/systemd/network/90-evenkeel-1-ens5.link (Reboot)
        #### debian-13
        == /etc/systemd/network/90-evenkeel-1-ens5.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Property=ID_NET_NAME_SLOT=ens5

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path mac
        MACAddressPolicy=persistent
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        CombinedChannels=1
        == /etc/systemd/network/90-evenkeel-2-ena.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Driver=ena

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path mac
        MACAddressPolicy=persistent
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        == /etc/systemd/network/10-netplan-ens5.link.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Link]
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        CombinedChannels=1
        net.coalesce_rx_us=0: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.rings=4096: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.channels@ens5=1: /etc/systemd/network/90-evenkeel-1-ens5.link (Reboot)
        #### ubuntu-22.04
        == /etc/systemd/network/90-evenkeel-1-ens5.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Property=ID_NET_NAME_SLOT=ens5

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path
        MACAddressPolicy=persistent
        RxBufferSize=4096
        CombinedChannels=1
        == /etc/systemd/network/90-evenkeel-2-ena.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Driver=ena

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path
        MACAddressPolicy=persistent
        RxBufferSize=4096
        == /etc/systemd/network/10-netplan-ens5.link.d/90-evenkeel.conf 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Link]
        RxBufferSize=4096
        CombinedChannels=1
        net.rings=4096: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.channels@ens5=1: /etc/systemd/network/90-evenkeel-1-ens5.link (Reboot)
        net.coalesce_rx_us=0: CANNOT, systemd 249 of this distribution does not support it in .link files; 250 does; run at each boot, in your own udev rule or unit: ethtool -C DEVICE adaptive-rx off rx-usecs 0
        #### ubuntu-24.04: as debian-13
        #### rhel-9
        == /etc/systemd/network/90-evenkeel-1-ens5.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Property=ID_NET_NAME_SLOT=ens5

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path
        MACAddressPolicy=persistent
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        CombinedChannels=1
        == /etc/systemd/network/90-evenkeel-2-ena.link 644
        # Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.
        [Match]
        Driver=ena

        [Link]
        NamePolicy=keep kernel database onboard slot path
        AlternativeNamesPolicy=database onboard slot path
        MACAddressPolicy=persistent
        UseAdaptiveRxCoalesce=no
        RxCoalesceSec=0us
        RxBufferSize=4096
        net.coalesce_rx_us=0: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.rings=4096: /etc/systemd/network/90-evenkeel-2-ena.link (Reboot)
        net.channels@ens5=1: /etc/systemd/network/90-evenkeel-1-ens5.link (Reboot)
        #### amazon-2023: as rhel-9
    "#]].assert_eq(&on_all(&texts));
}

#[test]
fn an_image_does_not_know_its_interfaces() {
    let more = "/sys/class/net/ens5 ->! ENOENT\n/proc/cmdline = idle=halt\n";
    let lines =
        host_lines("ubuntu-24.04", more).lines().filter(|line| !line.contains("ens5/")).collect::<Vec<_>>().join("\n");
    let facts = facts(&(lines + "\n"));
    let context = PersistContext { is_image: true, unit: None, ..context(&facts) };
    // The script finds the files that moved between kernels.
    // The image does not use the kernel line of the build machine.
    let texts = ["net.rings=4096", "cmdline.idle=poll", "sched.wakeup_granularity_ns=1"];
    let text = to_text(&plan(&context, &settings(&texts)));
    let shown = |line: &&str| {
        ["Driver=", "GRUB", "first ", "net.", "cmdline.", "sched."].iter().any(|word| line.starts_with(word))
    };
    let lines: String = text.lines().filter(shown).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX idle=poll"
        first 1 /sys/kernel/debug/sched/wakeup_granularity_ns /proc/sys/kernel/sched_wakeup_granularity_ns
        Driver=ena gve hv_netvsc iavf ixgbevf mana mlx5_core virtio_net vmxnet3
        cmdline.idle=poll: /etc/default/grub.d/90-evenkeel.cfg (Reboot)
        sched.wakeup_granularity_ns=1: /etc/evenkeel/settings.sh (AtOnce)
        net.rings=4096: /etc/systemd/network/90-evenkeel-2-clouds.link (Reboot)
    "#]]
    .assert_eq(&lines);
}

#[test]
fn an_interface_is_identified_by_what_persists() {
    let mut all = String::new();
    for name in ["eth0", "ens5", "enp0s31f6", "enP2s1", "eno1", "enx02004c4f4f50", "game0", "lan"] {
        let more = format!(
            "/sys/class/net/{name} -> ../../devices/pci0000:00/0000:00:06.0/net/{name}\n\
            /sys/class/net/{name}/device -> ../../../0000:00:06.0\n\
            /sys/class/net/{name}/device/driver -> ../../../../bus/pci/drivers/virtio_net\n"
        );
        let facts = host_with("rhel-9", if name == "ens5" { "" } else { &more });
        let plan = plan(&context(&facts), &settings(&[&format!("net.rings@{name}=512")]));
        let text = to_text(&plan);
        let line = text
            .lines()
            .find(|line| line.contains("=en") || line.starts_with("OriginalName") || line.contains("CANNOT"));
        all += &format!("{name}: {}\n", line.unwrap_or("?"));
    }
    expect![[r#"
        eth0: OriginalName=eth0
        ens5: Property=ID_NET_NAME_SLOT=ens5
        enp0s31f6: Property=ID_NET_NAME_PATH=enp0s31f6
        enP2s1: Property=ID_NET_NAME_SLOT=enP2s1
        eno1: Property=ID_NET_NAME_ONBOARD=eno1
        enx02004c4f4f50: Property=ID_NET_NAME_MAC=enx02004c4f4f50
        game0: net.rings@game0=512: CANNOT, nothing permanent distinguishes game0 from other interfaces: somebody chose its name; run at each boot, in your own udev rule or unit: ethtool -G game0 rx 512
        lan: net.rings@lan=512: CANNOT, nothing permanent distinguishes lan from other interfaces: somebody chose its name; run at each boot, in your own udev rule or unit: ethtool -G lan rx 512
    "#]].assert_eq(&all);
}
