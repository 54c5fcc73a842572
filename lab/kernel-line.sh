#!/usr/bin/env bash
# The short form of lab/reboot.sh, for CI: tests whether `evenkeel image` and Debian's grub scripts pass kernel arguments to a kernel, and
# remove them again. The image is a folder with Debian. update-grub runs in it at native speed. The image's kernel then boots with the line
# in grub.cfg, and a small system in its initramfs captures itself. Finally it tests images with arguments that would override evenkeel's.
# Once the folder exists, the test takes a minute or two.
#
# usage: lab/kernel-line.sh [-p PROGRAM]
#
#   -p  the evenkeel to test (default: a static one, built here)
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

evenkeel=''
while getopts p: option; do
    case $option in
    p) evenkeel=$OPTARG ;;
    *) exit 2 ;;
    esac
done

[ "$(id -u)" -eq 0 ] || die "kernel lines are skipped: not root, and a folder with Debian in it takes that"
need debootstrap debootstrap
need qemu-system-x86_64 qemu-system-x86
grep -qw overlay /proc/filesystems || modprobe -q overlay || die "kernel lines are skipped: the kernel has no overlay file system"

debian=$("$LAB/disk.sh" root)
[ -n "$evenkeel" ] || evenkeel=$("$LAB/guest-program.sh")
mapfile -t accelerator < <("$LAB/accelerator.sh")
work=$WORK/kernel-line
root=$work/root
mkdir -p "$work"
# tmpfs under the overlay, so that this also works if target/ is on an overlay itself.
clean_up() {
    for place in "$root" "$work/changes"; do
        if mountpoint -q "$place"; then
            umount -l "$place"
        fi
    done
}
trap clean_up EXIT
clean_up
rm -rf "$work"
mkdir -p "$work/changes" "$root"
mount -t tmpfs -o size=64M evenkeel-lab "$work/changes" || die "kernel lines are skipped: this root may not mount"
mkdir "$work/changes"/{upper,work}
mount -t overlay -o "lowerdir=$debian,upperdir=$work/changes/upper,workdir=$work/changes/work" evenkeel-lab "$root"

wrong=0
complain() {
    say "WRONG: $*"
    wrong=$((wrong + 1))
}

# line: prints the default arguments of grub's boot entry.
line() { sed -n 's/^[[:space:]]*linux[[:space:]]*[^ ]* //p' "$root/boot/grub/grub.cfg" | head -n 1; }

# update: generates grub.cfg anew, as the machine itself would.
update() { "$LAB/update-grub.sh" "$root" "$(sed -n 's/^UUID=\([^ ]*\) .*/\1/p' "$root/etc/fstab")"; }

# boot LINE: boots Debian's kernel with these arguments; the capture is then in $work/captured.
boot() {
    local status=0
    rm -f "$work/captured"
    timeout 120 qemu-system-x86_64 "${accelerator[@]}" -m 1024 -smp '4,sockets=1,cores=2,threads=2' -kernel "$debian"/boot/vmlinuz-* \
        -initrd "$work/initramfs" -append "settle=0 panic=-1 $1" -nodefaults -display none -no-reboot \
        -serial "file:$work/console.log" -serial "file:$work/captured" </dev/null || status=$?
    if [ "$status" -ne 0 ] || [ "$(tail -n 1 "$work/captured")" != end ]; then
        tail -n 20 "$work/console.log" >&2
        complain "QEMU ended with $status, and there is no whole capture, after booting by: $1"
    fi
}

# reads PATH TEXT: whether the guest's file has this text.
reads() {
    local found
    found=$(sed -n "s|^$1 = ||p" "$work/captured")
    [ "$found" = "$2" ] || complain "$1 reads '$found', not '$2'"
}

cp "$root/boot/grub/grub.cfg" "$work/grub.cfg.before"
before=$(line)
"$LAB/initramfs.sh" "$debian" "$("$LAB/busybox.sh" x86_64)" "$evenkeel" "$work/initramfs"

# left: prints the image's differences from Debian. The journal may stay, and grub.cfg is checked separately.
left() {
    local changes=$work/changes/upper file
    find "$changes" ! -type d | while read -r file; do
        case ${file#"$changes"} in
        /var/lib/evenkeel/* | /boot/grub/grub.cfg) ;;
        *) cmp -s "$file" "$debian${file#"$changes"}" || echo "${file#"$changes"}" ;;
        esac
    done
}

began=$SECONDS
"$evenkeel" image "$root" --unit memcached.service cmdline.processor.max_cstate=1 cmdline.isolcpus=3 cmdline.mitigations=off \
    cmdline.maxcpus=3 net.core.busy_read=50 clocksource=hpet irqbalance.banned_cpus=2 process.cpu_affinity=0 >"$work/image.out" ||
    complain "evenkeel image ended with $?: $(cat "$work/image.out")"
update
boot "$(line)"
reads /sys/module/processor/parameters/max_cstate 1
reads /sys/devices/system/cpu/isolated 3
reads /sys/devices/system/cpu/vulnerabilities/spec_store_bypass Vulnerable
reads /sys/devices/system/cpu/online 0-2

"$evenkeel" image --undo "$root" >"$work/undo.out" || complain "evenkeel image --undo ended with $?: $(cat "$work/undo.out")"
update
[ -z "$(left)" ] || complain "the image is not as before: $(left | tr '\n' ' ')"
difference=$(diff "$work/grub.cfg.before" "$root/boot/grub/grub.cfg") || complain "grub.cfg is not as before: $difference"
[ "$(line)" = "$before" ] || complain "the kernel's line is '$(line)', and was '$before'"

# refuses ROOT WHY ARGUMENT…: whether evenkeel refuses for this reason, and leaves the image unchanged.
refuses() {
    local image=$1 why=$2 status=0
    shift 2
    "$evenkeel" image "$image" "$@" >"$work/refused.out" 2>&1 || status=$?
    [ "$status" -eq 4 ] || complain "evenkeel image $* ended with $status where the image has $why"
    grep -qF -- "$why" "$work/refused.out" || complain "evenkeel image $* does not name $why: $(cat "$work/refused.out")"
}

# Arguments that an image already has: first the kernel's interpretation, then evenkeel's.
isolated=/sys/devices/system/cpu/isolated
meltdown=/sys/devices/system/cpu/vulnerabilities/meltdown
plain='console=ttyS0 loglevel=4'
boot "$plain -- lab-word isolcpus=3"
reads "$isolated" ''
boot "$plain mitigations=off mitigations=auto"
[ "$(sed -n "s|^$meltdown = ||p" "$work/captured")" != Vulnerable ] || complain 'the last of two arguments of a name did not win'

entry=$work/entries/boot/loader/entries/lab.conf
mkdir -p "${entry%/*}" "$work"/entries/{etc/default,usr/sbin,var/lib}
touch "$work"/entries/{etc/default/grub,usr/sbin/grubby}
# with OPTIONS: whether the image has one entry, with this line.
with() { printf 'title lab\nlinux /vmlinuz\n%s\n' "$1" >"$entry"; }
with "options $plain -- lab-word"
cp "$entry" "$work/entry.before"
"$evenkeel" image "$work/entries" cmdline.isolcpus=3 >"$work/image.out" || complain "evenkeel image ended with $?: $(cat "$work/image.out")"
boot "$(sed -n 's/^options //p' "$entry")"
reads "$isolated" 3
"$evenkeel" image --undo "$work/entries" >"$work/undo.out" || complain "evenkeel image --undo ended with $?: $(cat "$work/undo.out")"
cmp -s "$entry" "$work/entry.before" || complain "the entry is not as before: $(cat "$entry")"
with ''
refuses "$work/entries" '`options` line' cmdline.isolcpus=3
with "options $plain mitigations=auto"
refuses "$work/entries" mitigations=auto cmdline.mitigations=off

# lab.cfg is read before our file, and its arguments in the second variable come after ours on the kernel's line.
# shellcheck disable=SC2016 # update-grub puts the variable in
for line in 'GRUB_CMDLINE_LINUX_DEFAULT="isolcpus=2"' 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2"'; do
    echo "$line" >"$root/etc/default/grub.d/50-lab.cfg"
    refuses "$root" isolcpus=2 cmdline.isolcpus=3
done
rm "$root/etc/default/grub.d/50-lab.cfg"
[ -z "$(left)" ] || complain "an image that was refused is not as before: $(left | tr '\n' ' ')"

[ "$wrong" -eq 0 ] || exit 1
say "kernel arguments reached the kernel by an image and grub's scripts, and are gone again, in $((SECONDS - began)) s"
