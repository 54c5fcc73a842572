#!/usr/bin/env bash
# Runs every `podman run` of docs/containers.md with the image of `make dist`: without capabilities except those that the line adds. This
# script changes vm.stat_interval of this machine for some seconds, and keeps the journal in a folder of its own.
#
# usage: lab/container.sh [-d DIST]
#
#   -d  the folder that `make dist` wrote [default: target/dist]
#
# Exit code 1: a line failed, and the output says how.
# The checks are called by name.
# shellcheck disable=SC2317
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

release "$@"
[ "$(id -u)" -eq 0 ] || die 'containers are skipped: not root'
need podman podman
need runc runc
image=$dist/evenkeel-$version-$(uname -m).oci.tar
[ -e "$image" ] || die "containers are skipped: $image is missing: make dist"

work=$WORK/containers
rm -rf "$work"
mkdir -p "$work/state" "$work/tmp"
interval=$(sysctl -n vm.stat_interval)
# podman's storage is in the work folder, and is removed with it. runc works with both versions of control groups.
podman() { command podman --root "$work/storage" --runroot "$work/run" --runtime runc --cgroup-manager cgroupfs "$@"; }
clean_up() {
    sysctl -qw "vm.stat_interval=$interval"
    podman system reset --force >/dev/null 2>&1 || true
    if mountpoint -q "$work/storage/overlay"; then
        umount -l "$work/storage/overlay"
    fi
    rm -rf "$work"
}
trap clean_up EXIT

# By default podman raises these limits, and on some systems root may not raise them. So this script sets the limits.
run() {
    podman run --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --cap-drop=all "$@"
}
# Exit code 1 of a demo is a valid verdict: with only six pairs, noise can decide.
succeeds() {
    local status=0 words
    read -r -a words <<<"$1"
    run "${words[@]}" || status=$?
    [ "$status" -eq 0 ] || { [ "$status" -eq 1 ] && [[ " $1 " == *" demo "* ]]; }
}
refuses_to_persist() {
    local status=0
    run --rm --user 0 --security-opt unmask=ALL -v "$work/state:/var/lib/evenkeel" -v /run/evenkeel:/run/evenkeel "evenkeel:$version" \
        apply --persist "vm.stat_interval=$interval" --plan-only >"$work/persist" 2>&1 || status=$?
    cat "$work/persist"
    tr -s ' \n' ' ' <"$work/persist" | grep 'goes with the container'
}
loads() {
    podman load -i "$image"
    mkdir -p /run/evenkeel
}

check 'the image loads' loads
while read -r line; do
    line=${line#podman run }
    line=${line//\/var\/lib\/evenkeel:/$work/state:}
    line=${line//\/tmp:/$work/tmp:}
    line=${line//evenkeel:0.1.0/evenkeel:$version}
    check "${line#*"evenkeel:$version" }" succeeds "$line"
done < <(grep '^podman run ' "$TOP/docs/containers.md")
check 'nothing is kept in a container' refuses_to_persist
exit "$wrong"
