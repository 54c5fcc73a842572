#!/usr/bin/env bash
# Prints the QEMU options for accelerator and CPU, one word a line: KVM if a guest boots under it, else software emulation.
#
# A /dev/kvm is not enough: on some clouds, nested KVM hangs with stock kernels. So this script boots a guest under KVM, which must finish
# in time. The result is valid until the host reboots.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

mkdir -p "$WORK"
known=$WORK/accelerator
this_boot=$(cat /proc/sys/kernel/random/boot_id)
read -r boot accelerator 2>/dev/null <"$known" || boot=''
if [ "$boot" != "$this_boot" ]; then
    accelerator=tcg
    if [ -w /dev/kvm ]; then
        unpacked=$("$LAB/kernel.sh" 6.1-cloud)
        # There is no root to mount: the kernel boots completely, panics, and QEMU ends. A guest that hangs, or cannot start,
        # never ends by itself.
        log=$WORK/accelerator.log
        timeout 15 qemu-system-x86_64 -accel kvm -cpu host -m 256 -kernel "$unpacked"/boot/vmlinuz-* -append 'console=ttyS0 panic=-1' \
            -nodefaults -display none -no-reboot -serial "file:$log" >/dev/null 2>&1 </dev/null || true
        if grep -q 'Unable to mount root fs' "$log"; then
            accelerator=kvm
        else
            say "KVM is offered, but booted no guest within 15 s: guests are emulated in software"
        fi
    fi
    echo "$this_boot $accelerator" >"$known"
fi

# No CPU has MONITOR, because siblings that `nosmt` stops would spin in it.
case $accelerator in
kvm) printf '%s\n' -accel kvm -cpu 'host,-monitor' ;;
tcg) printf '%s\n' -accel 'tcg,thread=multi' -cpu 'max,vendor=GenuineIntel,family=6,model=85,stepping=4,-monitor' ;;
esac
