#!/usr/bin/env bash
# Makes the small system of a guest: busybox, evenkeel, drivers for QEMU's devices, and the files of guest/.
#
# usage: lab/initramfs.sh KERNEL-FOLDER BUSYBOX EVENKEEL OUT [TOOL…]
#
# EVENKEEL may need libraries of this machine; the script includes them. Tools are programs of this machine, with their libraries, which
# guest/said runs.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

usage='usage: lab/initramfs.sh KERNEL-FOLDER BUSYBOX EVENKEEL OUT [TOOL…]'
kernel=${1:?"$usage"} busybox=${2:?"$usage"} evenkeel=${3:?"$usage"} out=${4:?"$usage"}
shift 4
need cpio cpio
need modprobe kmod
need xz xz-utils

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,modules,proc,sys,setup,tmp}
cp "$busybox" "$root/bin/busybox"
# libraries FILE: also copies the libraries that FILE is linked with. A static program has none, which ldd reports as an error.
libraries() {
    { ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r library; do
        [ -e "$root$library" ] || { mkdir -p "$root${library%/*}" && cp -L "$library" "$root$library"; }
    done || true
}
# Line tables are nine tenths of the file, and an emulated guest takes seconds to unpack them.
strip -o "$root/bin/evenkeel" "$evenkeel" 2>/dev/null || cp "$evenkeel" "$root/bin/evenkeel"
libraries "$evenkeel"
for applet in cat dd echo grep insmod ip mkswap mke2fs mkdir mount poweroff sh sleep stty swapon tr; do
    ln -s busybox "$root/bin/$applet"
done
cp "$LAB/guest/init" "$root/init"
cp "$LAB/guest/setup"/* "$root/setup/"
chmod +x "$root/init"

# order DRIVER…: unpacks the modules of these drivers and their dependencies, and prints their names in loading order. A driver that is
# built into this kernel, or that the kernel does not have, needs no file.
release=$(ls "$kernel/lib/modules")
order() {
    local driver file name
    for driver in "$@"; do
        modprobe -d "$kernel" -S "$release" --show-depends "$driver" 2>/dev/null || true
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
        name=${file##*/}
        case $name in
        *.xz) xz -dc "$file" >"$root/modules/${name%.xz}" ;;
        *) cp "$file" "$root/modules/$name" ;;
        esac
        echo "${name%.xz}"
    done
}
order virtio_pci virtio_net virtio_blk virtio_console nvme e1000e acpi-cpufreq >"$root/modules/order"
# Only setups need these files. A guest without a setup must not look as if it used these files.
order bonding 8021q >"$root/modules/order.bond"
order zram ext4 >"$root/modules/order.swap"
need ldd libc-bin
if [ $# -gt 0 ]; then
    mkdir -p "$root/tools"
    cp "$LAB/guest/tools.list" "$LAB/guest/counters.list" "$root/"
    cp "$LAB/guest/said" "$root/said"
    chmod +x "$root/said"
    for tool in "$@"; do
        file=$(command -v "$tool") || { say "guest without $tool, which is not installed"; continue; }
        cp -L "$file" "$root/tools/"
        libraries "$file"
    done
fi
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$out"
