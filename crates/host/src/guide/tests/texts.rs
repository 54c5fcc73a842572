//! A guide of each format, as people write them.

pub(super) const SYSCTL: &str = "# /etc/sysctl.d/99-game.conf
net.core.rmem_max = 8388608
net/ipv4/tcp_fin_timeout=15   # seconds
-net.core.somaxconn = 4096
net.ipv4.tcp_rmem=4096 87380 16777216
dirty_background_ratio=10
net.core.rmem_default = New_Value
net.core.wmem_max = <VALUE>
net.ipv4.conf.eth0/100.rp_filter = 0
; an old comment
thp.enabled=never
this is not a setting
";

pub(super) const TUNED: &str = "[main]
summary=Low latency
include=network-latency, missing

[variables]
cores=2-3
mask=${f:cpulist2hex:${cores}}

[sysctl]
net.core.somaxconn=>2048
vm.dirty_ratio=<40
kernel.sched_min_granularity_ns=${unset}

[my_vm]
type=vm
transparent_hugepages=never
dirty_bytes=10%

[cpu]
governor=performance|powersave
force_latency=cstate.id_no_zero:1|3
energy_perf_bias=performance

[net]
coalesce=adaptive-rx off rx-usecs 0
[disk]
readahead=>4096
[bootloader]
cmdline_own=+skew_tick=1 tsc=reliable isolcpus=managed_irq,${cores} nohz_full=${cores}
[sysfs]
/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor=performance
/sys/kernel/mm/ksm/run=0
[script]
script=${i:PROFILE_DIR}/script.sh
[audio]
timeout=10
";

pub(super) const SHELL: &str = r#"#!/bin/bash
# tune the host
set -e
sysctl -w net.core.busy_poll=50 net.core.busy_read=50
sudo sysctl -w 'kernel.numa_balancing=0'
sysctl -p
echo 0 > /proc/sys/kernel/timer_migration
echo never | sudo tee /sys/kernel/mm/transparent_hugepage/enabled
echo "vm.swappiness = 10" | sudo tee -a /etc/sysctl.conf
sudo sh -c 'echo f > /sys/class/net/eth0/queues/rx-0/rps_cpus'
for g in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $g; done
ethtool -C eth0 adaptive-rx off \
    rx-usecs 0
ethtool -G eth0 rx 4096 && ethtool -K eth0 gro off
cpupower frequency-set -g performance
grubby --update-kernel=ALL --args="intel_idle.max_cstate=1 mitigations=off"
GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0 intel_pstate=disable"
systemctl stop irqbalance
systemctl restart game
echo $VALUE > /proc/sys/net/core/rmem_max
cat <<END > /etc/sysctl.d/x.conf
net.core.netdev_max_backlog=5000
END
rm -rf /nowhere; echo 2 > /proc/irq/24/smp_affinity
frobnicate --hard
"#;

pub(super) const MARKDOWN: &str = "# Tuning a server

Some pages say you should set `net.core.rmem_max = 16777216` first.
Set net.core.busy_poll to 50, then look at `net.ipv4.tcp_mem`.

```bash
# sysctl -w net.core.netdev_budget=600
$ echo 1 > /proc/sys/vm/zone_reclaim_mode
# a comment
net.ipv4.udp_mem = 102400 873800 16777216
```

| key | value | why |
|---|---|---|
| `vm.swappiness` | 10 | less swap |
| net.core.somaxconn | see below | |
1. Export the data, and read it.
";

pub(super) const HTML: &str = "<!DOCTYPE html>
<html><head><script>
sysctl -w kernel.panic=1
</script></head><body>
<p>Set <code>vm.swappiness=1</code> and
<pre>echo 0 &gt; /proc/sys/kernel/numa_balancing
sysctl -w net.core.busy_read=50</pre>
<table><tr><td>a < b</td></tr></table>
</body></html>
";

pub(super) const ANSIBLE: &str = r#"---
- hosts: game
  tasks:
    - name: Set the backlog
      ansible.posix.sysctl:
        name: net.core.netdev_max_backlog
        value: '5000'
        state: present
    - name: Old one
      sysctl:
        name: net.ipv4.tcp_tw_recycle
        value: 1
        state: absent
    - sysctl: name=vm.swappiness value=10 state=present
    - sysctl:
        name: "{{ item.name }}"
        value: "{{ item.value }}"
      loop:
        - { name: 'net.core.somaxconn', value: '1024' }
        - name: net.core.rmem_max
          value: "8388608"
        - name: net.core.wmem_max
    - apt: name=htop
    - shell: echo never > /sys/kernel/mm/transparent_hugepage/enabled
  vars:
    sysctl_config:
      net.ipv4.tcp_fin_timeout: 15
      kernel.randomize_va_space: "{{ aslr }}"
"#;

pub(super) const PERFTUNE: &str =
    "nic: eth0\nirq_cpu_mask: '0x00000003'\ntune:\n  - net\n  - system\nmode: sq\nnum_rx_queues: 2\n";

pub(super) const PLAN: &str = r#"{
  "format": 1,
  "title": "tuned",
  "settings": [
    "vm.swappiness=10",
    "net.rps_cpus@eth0/rx-0=1-3"
  ],
  "evidence": { "settings": ["vm.swappiness=99"] }
}
"#;

pub(super) const ALL: [&str; 8] = [SYSCTL, TUNED, SHELL, MARKDOWN, HTML, ANSIBLE, PERFTUNE, PLAN];
