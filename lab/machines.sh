#!/usr/bin/env bash
# Captures the guests under hosts/ anew, and reports at the end what it skipped and why.
#
# usage: lab/machines.sh [NAME…]          (default: all of them)
#
# Each guest has one feature that no available machine has; the guest's name says which feature. A guest takes about 15 seconds, the one
# with 128 CPUs a minute. Run this script after a change of what evenkeel reads, so that every guest answers the new readings.
set -uo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
cd "$TOP" || exit 1

only=("$@") taken=0 skipped=()

# guest NAME OPTION-OF-CAPTURE.SH… -- QEMU-OPTION…
guest() {
    local name=$1 options=()
    shift
    if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then
        return
    fi
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    local why
    if why=$("$LAB/capture.sh" "${options[@]}" "$name" "$@" 2>&1); then
        echo "$why" >&2
        taken=$((taken + 1))
    else
        skipped+=("$name (${why##*$'\n'})")
    fi
}

mkdir -p "$WORK/guests"
truncate -s 64M "$WORK/guests/disk.raw" "$WORK/guests/other.raw"
nic=(-netdev 'user,id=net' -device 'virtio-net-pci,netdev=net')
block=(-drive "file=target/lab/guests/disk.raw,format=raw,if=none,id=disk,snapshot=on")
eight=(-smp '8,sockets=1,cores=4,threads=2')
nodes=(
    -smp '8,sockets=2,cores=2,threads=2' -m 2048
    -object 'memory-backend-ram,id=m0,size=512M' -object 'memory-backend-ram,id=m1,size=512M'
    -object 'memory-backend-ram,id=m2,size=512M' -object 'memory-backend-ram,id=m3,size=512M'
    -numa 'node,nodeid=0,cpus=0-1,memdev=m0' -numa 'node,nodeid=1,cpus=2-3,memdev=m1'
    -numa 'node,nodeid=2,cpus=4-5,memdev=m2' -numa 'node,nodeid=3,cpus=6-7,memdev=m3'
    -numa 'dist,src=0,dst=1,val=12' -numa 'dist,src=0,dst=2,val=21' -numa 'dist,src=0,dst=3,val=21'
    -numa 'dist,src=1,dst=2,val=21' -numa 'dist,src=1,dst=3,val=21' -numa 'dist,src=2,dst=3,val=12'
)

# One small machine under three kernels, to see the differences of the kernels.
guest qemu-4cpu-5.10 -k 5.10-cloud -w 'Two cores of two threads, one NIC with one queue, Debian 11 kernel' -- "${nic[@]}"
guest qemu-4cpu-6.1 -w 'Two cores of two threads, one NIC with one queue, Debian 12 kernel' -- "${nic[@]}"
guest qemu-4cpu-6.12 -k 6.12-cloud -w 'Two cores of two threads, one NIC with one queue, Debian 13 kernel' -- "${nic[@]}"

guest qemu-4cpu-7.3 -k 7.3-cloud -w 'Two cores of two threads, one NIC with one queue, kernel of Debian 13 backports' -- "${nic[@]}"
guest qemu-preempt-none-7.3 -k 7.3-cloud -a preempt=none -w 'preempt=none, which this kernel does not take any more' -- "${nic[@]}"

# Arm, which has no CPUID and no TSC, and has other files than x86.
guest qemu-arm64-4cpu-6.1 -k 6.1-cloud-arm64 -w 'Four Arm cores (Neoverse N1), one NIC with one queue, Debian 12 kernel' -- "${nic[@]}"
guest qemu-arm64-2-nodes-6.12 -k 6.12-cloud-arm64 -w 'Two sockets of four Arm cores, a memory node each, Debian 13 kernel' -- \
    -cpu max -smp '8,sockets=2,cores=4,threads=1' -m 1024 "${nic[@]}" \
    -object 'memory-backend-ram,id=m0,size=512M' -object 'memory-backend-ram,id=m1,size=512M' \
    -numa 'node,nodeid=0,cpus=0-3,memdev=m0' -numa 'node,nodeid=1,cpus=4-7,memdev=m1' -numa 'dist,src=0,dst=1,val=20'

# Features that the command line disables.
guest qemu-nosmt-6.1 -a nosmt -w 'Four cores of two threads, nosmt: the second threads are off' -- "${eight[@]}" "${nic[@]}"
guest qemu-maxcpus-6.1 -a maxcpus=2 -w 'Four CPUs, maxcpus=2: two of them were never started' -- "${nic[@]}"
guest qemu-isolcpus-6.1 -a 'isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1' \
    -w 'Four CPUs, two of them isolated from the scheduler, the tick and interrupts' -- "${nic[@]}"
guest qemu-numa-off-6.1 -a numa=off -w 'Four memory nodes that numa=off hides' -- "${nodes[@]}" "${nic[@]}"
guest qemu-mitigations-off-6.12 -k 6.12-cloud -a 'mitigations=off preempt=full threadirqs transparent_hugepage=never' \
    -w 'mitigations=off, preempt=full, threadirqs, transparent_hugepage=never in force' -- "${nic[@]}"

# Clocks.
guest qemu-hpet-6.1 -a clocksource=hpet -w 'clocksource=hpet: a slow clock by order' -- "${nic[@]}"
guest qemu-notsc-6.1 -a notsc -w 'notsc: the fast clock is unavailable' -- "${nic[@]}"

# Idle states and frequencies, as a real server's firmware provides them.
bare=(
    -cpu 'max,vendor=GenuineIntel,family=6,model=85,stepping=4,-monitor,-hypervisor' -smp '16,sockets=2,cores=4,threads=2' -m 2048
    -object 'memory-backend-ram,id=m0,size=1G' -object 'memory-backend-ram,id=m1,size=1G'
    -numa 'node,nodeid=0,cpus=0-7,memdev=m0' -numa 'node,nodeid=1,cpus=8-15,memdev=m1' -numa 'dist,src=0,dst=1,val=21'
    -smbios 'type=0,vendor=Dell Inc.,version=2.19.1' -smbios 'type=1,manufacturer=Dell Inc.,product=PowerEdge R640'
    -smbios 'type=3,manufacturer=Dell Inc.'
)
if table=$("$LAB/idle-table.sh" 2) && large=$("$LAB/idle-table.sh" 16); then
    idle=(-smp '2,sockets=1,cores=2,threads=1' -acpitable "file=$table")
    guest qemu-acpi-idle-6.1 -k 6.1 -w 'Idle states by acpi_idle, frequencies by acpi-cpufreq (lab/idle.asl)' -- "${idle[@]}" "${nic[@]}"
    guest qemu-max-cstate-6.1 -k 6.1 -a 'processor.max_cstate=1 intel_idle.max_cstate=1' \
        -w 'The same with processor.max_cstate=1 in force; intel_idle.max_cstate=1 has nothing to act on' -- "${idle[@]}" "${nic[@]}"
    guest qemu-as-bare-metal-2-nodes-6.1 -k 6.1 -t 300 \
        -w 'DMI strings of a rack server, no word of a hypervisor, two sockets, idle states and frequencies (lab/idle.asl)' -- \
        "${bare[@]}" -acpitable "file=$large" -netdev 'user,id=net' -device 'e1000e,netdev=net'
else
    skipped+=('qemu-acpi-idle-6.1, qemu-max-cstate-6.1, qemu-as-bare-metal-2-nodes-6.1 (iasl is missing or fails: apt-get install --no-install-recommends acpica-tools)')
fi

# Devices.
guest qemu-4-queues-6.1 -w 'One virtio NIC with four queues, one virtio disk with eight, one NVMe disk' -- "${eight[@]}" "${block[@]}" \
    -netdev 'tap,id=net,ifname=evenkeel-lab,script=no,downscript=no,queues=4' \
    -device 'virtio-net-pci,netdev=net,mq=on,vectors=10' -device 'virtio-blk-pci,drive=disk,num-queues=8' \
    -drive 'file=target/lab/guests/disk.raw,format=raw,if=none,id=flash,snapshot=on' -device 'nvme,drive=flash,serial=1'
guest qemu-e1000e-6.1 -k 6.1 -w 'Two NICs of Intel: no virtio at all' -- -netdev 'user,id=net' -device 'e1000e,netdev=net' \
    -netdev 'user,id=other' -device 'e1000e,netdev=other'
guest qemu-bond-vlan-6.1 -k 6.1 -a setup=bond -w 'A bond of two NICs with a VLAN on it (lab/guest/setup/bond)' -- \
    "${nic[@]}" -netdev 'user,id=other' -device 'virtio-net-pci,netdev=other'
guest qemu-swap-hugepages-6.12 -k 6.12-cloud -a 'setup=swap hugepages=64' \
    -w 'Swap on a disk, in a file and in compressed memory; 64 huge pages; THP always (lab/guest/setup/swap)' -- \
    "${nic[@]}" "${block[@]}" -device 'virtio-blk-pci,drive=disk' \
    -drive 'file=target/lab/guests/other.raw,format=raw,if=none,id=other,snapshot=on' -device 'virtio-blk-pci,drive=other'

# Shapes.
guest qemu-1cpu-6.1 -w 'One CPU: nothing to spread, nothing to isolate' -- -smp '1,sockets=1,cores=1,threads=1' "${nic[@]}"
guest qemu-4-nodes-6.1 -w 'Two sockets of two cores of two threads; four memory nodes at distances 12 and 21' -- "${nodes[@]}" "${nic[@]}"
guest qemu-no-hypervisor-6.1 -w 'A processor that does not tell of a hypervisor: what a machine without one would look like' -- \
    -cpu 'max,vendor=GenuineIntel,family=6,model=85,stepping=4,-monitor,-hypervisor' "${nic[@]}"
guest qemu-as-c5n.xlarge-6.1 -w 'DMI strings as an Amazon EC2 c5n.xlarge gives them, on another machine' -- "${nic[@]}" \
    -smbios 'type=0,vendor=Amazon EC2,version=1.0' -smbios 'type=1,manufacturer=Amazon EC2,product=c5n.xlarge' \
    -smbios 'type=3,manufacturer=Amazon EC2,asset=Amazon EC2'
guest qemu-as-azure-6.1 -w 'DMI strings as a virtual machine of Azure gives them, on another machine' -- "${nic[@]}" \
    -smbios 'type=0,vendor=Microsoft Corporation,version=Hyper-V UEFI Release v4.1' \
    -smbios 'type=1,manufacturer=Microsoft Corporation,product=Virtual Machine,version=Hyper-V UEFI Release v4.1' \
    -smbios 'type=3,manufacturer=Microsoft Corporation,asset=7783-7084-3265-9085-8269-3286-77'
guest qemu-as-gce-6.12 -k 6.12-cloud -w 'DMI strings as a Google Compute Engine instance gives them, on another machine' -- "${nic[@]}" \
    -smbios 'type=0,vendor=Google,version=Google' -smbios 'type=1,manufacturer=Google,product=Google Compute Engine' \
    -smbios 'type=3,manufacturer=Google'
# QEMU emulates all CPUs in one thread: 128 threads on a few CPUs would mostly wait for each other.
guest qemu-128cpu-6.1 -t 600 -w 'Four sockets of sixteen cores of two threads, one memory node each: as many CPUs as an x1.32xlarge has' -- \
    -accel 'tcg,thread=single' -smp '128,sockets=4,cores=16,threads=2' -m 4096 "${nic[@]}" \
    -object 'memory-backend-ram,id=m0,size=1G' -object 'memory-backend-ram,id=m1,size=1G' \
    -object 'memory-backend-ram,id=m2,size=1G' -object 'memory-backend-ram,id=m3,size=1G' \
    -numa 'node,nodeid=0,cpus=0-31,memdev=m0' -numa 'node,nodeid=1,cpus=32-63,memdev=m1' \
    -numa 'node,nodeid=2,cpus=64-95,memdev=m2' -numa 'node,nodeid=3,cpus=96-127,memdev=m3'

say "$taken captured; read what changed with 'git diff hosts', then bless what follows from it with 'UPDATE_EXPECT=1 cargo test -p evenkeel-host'"
for machine in ${skipped[@]+"${skipped[@]}"}; do
    say "skipped $machine"
done
