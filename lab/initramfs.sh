#!/usr/bin/env bash
# Makes the small system that a guest runs: busybox, a static evenkeel, the drivers of what QEMU emulates, and guest/init.
#
# usage: lab/initramfs.sh KERNEL-FOLDER EVENKEEL OUT
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

kernel=${1:?"the folder that lab/kernel.sh printed"} evenkeel=${2:?"the program"} out=${3:?"the file to write"}
need cpio cpio
need modprobe kmod
busybox=$(command -v busybox) || die "busybox is missing: apt-get install --no-install-recommends busybox-static"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,modules,proc,sys}
cp "$busybox" "$root/bin/busybox"
cp "$evenkeel" "$root/bin/evenkeel"
for applet in cat echo insmod ip mount poweroff sh sleep stty; do
    ln -s busybox "$root/bin/$applet"
done
cp "$LAB/guest/init" "$root/init"
chmod +x "$root/init"

release=$(ls "$kernel/lib/modules")
for driver in virtio_pci virtio_net virtio_blk nvme e1000e acpi-cpufreq; do
    # A driver that is built in, or that this kernel does not have, needs no file.
    modprobe -d "$kernel" -S "$release" --show-depends "$driver" 2>/dev/null || true
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
    name=${file##*/}
    case $name in
    *.xz) xz -dc "$file" >"$root/modules/${name%.xz}" ;;
    *) cp "$file" "$root/modules/$name" ;;
    esac
    echo "${name%.xz}" >>"$root/modules/order"
done
touch "$root/modules/order"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$out"
