#!/usr/bin/env bash
# Runs update-grub in a folder that holds a system, at native speed, and leaves the grub.cfg there that update-grub would write on the lab's
# disk.
#
# usage: lab/update-grub.sh ROOT UUID-OF-ITS-FILE-SYSTEM
#
# grub's scripts ask grub-probe which device and file system / is on. For a folder they write nothing, and report no error. So
# lab/guest/grub-probe replaces grub-probe while they run.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

root=${1:?"the folder"} uuid=${2:?"the UUID"}
probe=$root/usr/sbin/grub-probe
put_back() {
    if [ -e "$probe.real" ]; then
        mv "$probe.real" "$probe"
    fi
    rm -rf "$root/dev/disk" "$root/etc/lab-uuid"
}
trap put_back EXIT
[ -e "$probe.real" ] || mv "$probe" "$probe.real"
install -m 755 "$LAB/guest/grub-probe" "$probe"
echo "$uuid" >"$root/etc/lab-uuid"
# The scripts use a UUID only if its name exists.
mkdir -p "$root/dev/disk/by-uuid"
: >"$root/dev/disk/by-uuid/$uuid"

chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C update-grub >"$WORK/update-grub.log" 2>&1 || {
    tail -n 5 "$WORK/update-grub.log" >&2
    exit 1
}
grep -q "^[[:space:]]*linux.*root=UUID=$uuid" "$root/boot/grub/grub.cfg" || die "update-grub wrote no entry into $root/boot/grub/grub.cfg"
