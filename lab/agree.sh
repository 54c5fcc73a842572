#!/usr/bin/env bash
# Compares evenkeel's facts with independent tools, field by field: on this machine, on a guest with two sockets, four nodes, two kinds of
# card, disks and swap, and on a guest with a bond and a VLAN. Prints the number of fields, and what was skipped.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
cd "$TOP"

compare() {
    cargo test --quiet --locked -p evenkeel-host --test suite agree_fields -- --nocapture >"$WORK/agree.log" 2>&1 || {
        cat "$WORK/agree.log" >&2
        return 1
    }
    sed -n '/ compared in /p; /^skipped/p' "$WORK/agree.log" | cut -c1-300 >&2
}

mkdir -p "$WORK/guests"
say "this machine"
compare
truncate -s 64M "$WORK/guests/disk.raw" "$WORK/guests/other.raw"
disk() { printf 'file=%s,format=raw,if=none,id=%s,snapshot=on' "$WORK/guests/$1.raw" "$2"; }
tools='dash lscpu numactl numastat lstopo-no-graphics sysctl ip lsblk swapon free uname ethtool'
if "$LAB/capture.sh" -k 6.1 -a 'setup=swap hugepages=16' -t 300 -s "$tools" agree \
    -smp '8,sockets=2,cores=2,threads=2' -m 2048 \
    -object 'memory-backend-ram,id=m0,size=512M' -object 'memory-backend-ram,id=m1,size=512M' \
    -object 'memory-backend-ram,id=m2,size=512M' -object 'memory-backend-ram,id=m3,size=512M' \
    -numa 'node,nodeid=0,cpus=0-1,memdev=m0' -numa 'node,nodeid=1,cpus=2-3,memdev=m1' \
    -numa 'node,nodeid=2,cpus=4-5,memdev=m2' -numa 'node,nodeid=3,cpus=6-7,memdev=m3' \
    -numa 'dist,src=0,dst=1,val=12' -numa 'dist,src=0,dst=2,val=21' -numa 'dist,src=0,dst=3,val=21' \
    -numa 'dist,src=1,dst=2,val=21' -numa 'dist,src=1,dst=3,val=21' -numa 'dist,src=2,dst=3,val=12' \
    -netdev 'user,id=net' -device 'virtio-net-pci,netdev=net' -netdev 'user,id=other' -device 'e1000e,netdev=other' \
    -drive "$(disk disk disk)" -device 'virtio-blk-pci,drive=disk,num-queues=8' \
    -drive "$(disk other other)" -device 'virtio-blk-pci,drive=other' \
    -drive "$(disk disk flash)" -device 'nvme,drive=flash,serial=1'; then
    say "a guest with two sockets and four nodes"
    EVENKEEL_AGREE=$WORK/agree compare
else
    say "skipped the guest: see above"
fi
if "$LAB/capture.sh" -k 6.1 -a 'setup=bond' -t 300 -s "$tools" agree-bond \
    -netdev 'user,id=net' -device 'virtio-net-pci,netdev=net' -netdev 'user,id=other' -device 'virtio-net-pci,netdev=other'; then
    say "a guest with a bond and a VLAN"
    EVENKEEL_AGREE=$WORK/agree-bond compare
else
    say "skipped the guest with a bond: see above"
fi
