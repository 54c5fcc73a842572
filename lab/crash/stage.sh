# shellcheck shell=bash disable=SC2034 # the parts share variables
# Prepares private copies of /etc, /boot and the journal's folder, in separate namespaces on the real kernel, and checks whether everything
# is as before.

EVENKEEL=/opt/evenkeel
T=/run/crash
IMAGE=$T/image
STATE=/var/lib/evenkeel

# Knobs of different kinds: a plain sysctl, a sysctl with a side effect, one of two spellings of one limit, a module's parameter, a mask of
# a queue. The script leaves out knobs that this machine does not have, and names them.
WANTED=(
    vm.swappiness=10
    thp.enabled=never
    net.core.busy_poll=50
    haltpoll.guest_halt_poll_ns=100000
    vm.dirty_background_bytes=67108864
    net.rps_cpus@eth0/rx-0=0-1
)
LASTING=(
    vm.swappiness=10
    vm.dirty_background_bytes=67108864
    thp.enabled=never
    haltpoll.guest_halt_poll_ns=100000
    cmdline.processor.max_cstate=1
)

# Every file that these knobs may change, side effects included.
VALUES=(
    /proc/sys/vm/swappiness
    /proc/sys/vm/min_free_kbytes
    /proc/sys/vm/dirty_background_bytes
    /proc/sys/vm/dirty_background_ratio
    /proc/sys/net/core/busy_poll
    /sys/kernel/mm/transparent_hugepage/enabled
    /sys/kernel/mm/transparent_hugepage/khugepaged/defrag
    /sys/module/haltpoll/parameters/guest_halt_poll_ns
    /sys/class/net/eth0/queues/rx-0/rps_cpus
)

# values: prints the values of all these files, each as one line of text.
values() {
    local path lines
    for path in "${VALUES[@]}"; do
        lines=()
        [ -r "$path" ] && mapfile -t lines <"$path"
        echo "$path ${lines[*]}"
    done
}

# put_values_back TEXT: writes the values that `values` printed before; the guard for a failing run. Of two spellings of one limit, the
# spelling that is not 0 counts. Values that the kernel changes along with others come last.
put_values_back() {
    local path value
    while read -r path value; do
        [[ $value == *\[* ]] && value=${value#*\[} && value=${value%%\]*}
        [[ $path == */dirty_background_* && $value == 0 ]] && continue
        [ -w "$path" ] && echo "$value" >"$path"
    done < <(grep -v min_free_kbytes <<<"$1"; grep min_free_kbytes <<<"$1")
    return 0
}

build_stage() {
    mount -t tmpfs -o mode=755 none /run
    mkdir -p "$T/etc" /run/systemd/system
    local name
    for name in passwd group nsswitch.conf ld.so.cache ld.so.conf os-release debian_version localtime sysctl.conf sysctl.d \
        alternatives default modprobe.d modules-load.d udev systemd tmpfiles.d kernel security grub.d; do
        [ -e "/etc/$name" ] && cp -a "/etc/$name" "$T/etc/"
    done
    mkdir -p "$T/etc/default/grub.d" "$T/etc/sysctl.d"
    echo 'GRUB_CMDLINE_LINUX="quiet"' >"$T/etc/default/grub"
    mount -t tmpfs -o mode=755,size=8m none /etc
    cp -a "$T/etc/." /etc/
    mount -t tmpfs -o mode=755,size=8m none /boot
    mount -t tmpfs -o mode=755 none /var/lib
    mount -t tmpfs -o mode=755 none /opt
    mount -t tmpfs -o mode=755 none /usr/local/sbin
    cp "$1" "$EVENKEEL"
    mkdir -p "$T/over" "$T/over-work" "$T/bin" /boot/grub
    cp "$LAB/crash/update-grub" "$T/over/update-grub"
    mount -t overlay -o "lowerdir=/usr/sbin,upperdir=$T/over,workdir=$T/over-work" none /usr/sbin 2>/dev/null ||
        say "skipped the boot loader's part: no overlay file system here"
    # The namespace has no program of the host with this name. The test does not cover what the program does to the running system.
    printf '#!/bin/sh\nexit 0\n' >/usr/local/sbin/systemctl
    chmod 755 /usr/local/sbin/systemctl "$T/over/update-grub"
    if [ -x /usr/sbin/update-grub ]; then update-grub; fi
    build_image
    tar -cf "$T/tree.tar" -C / etc boot
    tar -cf "$T/image.tar" -C "$IMAGE" .
}

# A root file system in the state of a cloud image before its first boot.
build_image() {
    mkdir -p "$IMAGE"/{etc/default/grub.d,etc/sysctl.d,etc/systemd/system,boot/grub,usr/sbin,usr/bin,usr/lib/systemd,var/lib,run,proc,sys}
    cp "$T/etc/default/grub" "$IMAGE/etc/default/grub"
    cp "$T/over/update-grub" "$IMAGE/usr/sbin/update-grub"
    cp -L /etc/os-release "$IMAGE/etc/os-release" 2>/dev/null || true
}

# The content, mode, owner, links and folders below /etc and /boot, and in the image without its journal. Times are left out.
tree_sum() {
    tar --sort=name --mtime=@0 --numeric-owner -cf - -C / etc boot -C "$IMAGE" --exclude=./var/lib/evenkeel . | cksum
}

remember() {
    VALUES_BEFORE=$(values)
    TREE_BEFORE=$(tree_sum)
}

# as_before WHAT: whether everything is as before. If not, it prints the differences, and restores them for the following tests.
as_before() {
    local values tree ok=0
    values=$(values)
    tree=$(tree_sum)
    if [ "$values" != "$VALUES_BEFORE" ]; then
        fail "$1: values are not as before:
$(diff <(echo "$VALUES_BEFORE") <(echo "$values"))"
        put_values_back "$VALUES_BEFORE"
        ok=1
    fi
    if [ "$tree" != "$TREE_BEFORE" ]; then
        rm -rf "$T/pristine" && mkdir -p "$T/pristine" && tar -xf "$T/tree.tar" -C "$T/pristine"
        fail "$1: files are not as before:
$(diff -r "$T/pristine/etc" /etc; diff -r "$T/pristine/boot" /boot; find "$IMAGE" -newer "$T/image.tar")"
        tree_back
        ok=1
    fi
    return $ok
}

tree_back() {
    find /etc /boot -mindepth 1 -delete
    tar -xf "$T/tree.tar" -C /
    rm -rf "$IMAGE" && mkdir "$IMAGE" && tar -xf "$T/image.tar" -C "$IMAGE"
}

# is_as_before: the same check without output.
is_as_before() {
    [ "$(values)" = "$VALUES_BEFORE" ] && [ "$(tree_sum)" = "$TREE_BEFORE" ]
}

# fresh: removes the journal, and ends the watchdogs of an earlier journal.
fresh() {
    local pid
    for pid in $(watchdogs); do kill -KILL "$pid" 2>/dev/null; done
    rm -rf "$STATE" "$IMAGE$STATE"
}

# breathe NUMBER: from time to time, lets tests of other checkouts use the host between two points.
breathe() {
    if (($1 % 50 == 49)); then
        free_host
        hold_host
    fi
}

FAILED=0
fail() {
    FAILED=$((FAILED + 1))
    say "FAILED $*"
    [ "$FAILED" -lt "${EVENKEEL_LAB_MAX_FAILED:-20}" ] || { say "too many failed: the rest is not tried"; exit 1; }
}

# choose ARRAY ARGUMENT…: leaves in ARRAY the settings that can be planned on this machine.
choose() {
    local -n array=$1
    shift
    local setting kept=()
    for setting in "${array[@]}"; do
        if "$EVENKEEL" apply --plan-only "$@" "$setting" >"$T/said" 2>&1; then
            kept+=("$setting")
        else
            say "skipped apply $* $setting: $(grep -m1 . "$T/said")"
        fi
    done
    # shellcheck disable=SC2034 # the caller's array
    array=("${kept[@]}")
}
