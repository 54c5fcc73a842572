#!/usr/bin/env bash
# Makes a Debian 12 that boots by itself: systemd, grub, irqbalance, memcached, and lab/guest/agent, which takes commands from
# lab/machine.sh. Prints the disk's path, or with `root` the path of the folder that the disk is made from.
#
# usage: lab/disk.sh [root]
#
# The disk and the folder stay in target/lab/disk until this script or its sources change. The script uses no loop device, so no loop device
# is left behind, and the host's kernel need not know the partitions: mkfs fills the file system, and the boot loader is written to its
# place directly.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

folder=$WORK/disk
root=$folder/root disk=$folder/debian-12.raw
uuid=6576656e-6b65-656c-6c61-626469736b31
# The partition begins at 1 MiB; the boot loader lives in the gap before it.
partition_start=$((1024 * 1024)) disk_bytes=$((2 * 1024 * 1024 * 1024))
packages=systemd-sysv,udev,dbus,kmod,procps,iproute2,initramfs-tools,lz4,linux-image-amd64,grub-pc,irqbalance,memcached

key=$(cat "$LAB/disk.sh" "$LAB/update-grub.sh" "$LAB"/guest/{agent,grub-probe} | sha256sum)
mkdir -p "$folder"
exec 9>"$folder/lock"
flock -w 900 9 || die "another lab/disk.sh is at work, and has been for 15 minutes"

[ "$(id -u)" -eq 0 ] || die "not root: installing Debian into a folder needs chroot"
need debootstrap debootstrap
need mkfs.ext4 e2fsprogs
need sfdisk fdisk

installer=''
clean_up() {
    if [ -n "$installer" ] && kill -TERM -- "-$installer" 2>/dev/null; then
        # Unmounts everything that the script had mounted.
        wait "$installer" || true
    fi
    release_root
}
release_root() {
    # Unmounts lazily, because a failed installation may have left processes running inside.
    for place in sys proc; do
        if mountpoint -q "$root/$place"; then
            umount -l "$root/$place"
        fi
    done
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# in_root COMMAND…: runs a command in the new system.
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

install_system() {
    say "installing Debian 12 into $root"
    release_root
    rm -rf "$root" "$disk" "$folder"/{root,disk}.key
    mkdir -p "$folder/packages"
    # Runs in the background and in its own process group, so that it ends together with this script.
    setsid debootstrap --variant=minbase --cache-dir="$folder/packages" --include="$packages" bookworm "$root" \
        http://deb.debian.org/debian >"$folder/debootstrap.log" 2>&1 9>&- &
    installer=$!
    wait "$installer" || {
        tail -n 5 "$folder/debootstrap.log" >&2
        die "debootstrap failed; all it said is in $folder/debootstrap.log"
    }
    installer=''
    # debootstrap may leave these folders mounted, and their contents must not be copied to the disk.
    release_root
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
}

configure_system() {
    echo evenkeel-lab >"$root/etc/hostname"
    # These files are written here and not by the first boot, so that /etc stays unchanged.
    echo 00000000000040008000000000000001 >"$root/etc/machine-id"
    : >"$root/etc/resolv.conf"
    echo "UUID=$uuid / ext4 defaults,noatime 0 1" >"$root/etc/fstab"
    cat >"$root/etc/default/grub" <<'GRUB'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=ttyS0 loglevel=4"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB_DISABLE_OS_PROBER=true
GRUB
    mkdir -p "$root/etc/default/grub.d"
    # Emulation reads and unpacks slowly, so only the modules that this disk needs are included.
    sed -i 's/^MODULES=.*/MODULES=list/; s/^#* *COMPRESS=.*/COMPRESS=lz4/' "$root/etc/initramfs-tools/initramfs.conf"
    printf 'virtio_pci\nvirtio_blk\next4\n' >"$root/etc/initramfs-tools/modules"
    install -m 755 "$LAB/guest/agent" "$root/usr/local/sbin/lab-agent"
    cat >"$root/etc/systemd/system/lab-agent.service" <<'UNIT'
[Unit]
Description=takes commands from the host of the lab
After=multi-user.target irqbalance.service memcached.service
[Service]
ExecStart=/usr/local/sbin/lab-agent
Restart=always
# This unit does not end the processes that a command leaves running.
KillMode=process
[Install]
WantedBy=multi-user.target
UNIT
    in_root systemctl --quiet enable lab-agent.service
    # Disables units that only cost time here, or change files by themselves.
    in_root systemctl --quiet mask getty@tty1.service serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer \
        dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-timesyncd.service
}

make_bootable() {
    mount -t proc proc "$root/proc" || die "this root may not mount, as in most containers"
    mount -t sysfs -o ro sysfs "$root/sys"
    in_root update-initramfs -u -k all >"$folder/initramfs.log" 2>&1 || die "update-initramfs failed; see $folder/initramfs.log"
    in_root grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /boot/grub/core.img biosdisk part_msdos ext2
    mkdir -p "$root/boot/grub/i386-pc"
    cp "$root"/usr/lib/grub/i386-pc/*.mod "$root"/usr/lib/grub/i386-pc/*.lst "$root/boot/grub/i386-pc/"
    "$LAB/update-grub.sh" "$root" "$uuid" || die "update-grub failed in $root"
    release_root
}

make_disk() {
    say "making $disk"
    rm -f "$disk"
    truncate -s "$disk_bytes" "$disk"
    echo "start=$((partition_start / 512)), type=83, bootable" | sfdisk -q "$disk"
    mkfs.ext4 -q -F -U "$uuid" -E "offset=$partition_start,lazy_itable_init=0" -d "$root" "$disk" \
        $(((disk_bytes - partition_start) / 1024))k
    # boot.img is the first sector, without the partition table; it loads the code that begins in the next sector.
    dd if="$root/usr/lib/grub/i386-pc/boot.img" of="$disk" bs=440 count=1 conv=notrunc status=none
    dd if="$root/boot/grub/core.img" of="$disk" bs=512 seek=1 conv=notrunc status=none
}

# fresh THING: whether the current version of this script made it.
fresh() { [ "$(cat "$folder/$1.key" 2>/dev/null)" = "$key" ]; }

if ! fresh root; then
    install_system
    configure_system
    make_bootable
    echo "$key" >"$folder/root.key"
fi
if [ "${1:-}" = root ]; then
    echo "$root"
    exit 0
fi
if ! fresh disk; then
    make_disk
    echo "$key" >"$folder/disk.key"
fi
echo "$disk"
