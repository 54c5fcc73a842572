#!/usr/bin/env bash
# shellcheck disable=SC2034 # the parts share variables
# Tests that evenkeel restores everything: this script kills it at every system call, and gives it broken disks and damaged journals. The
# script uses the running kernel, with copies of /etc and /boot.
#
# usage: lab/crash.sh [--quick] [--shard=K/N] [PART…]     parts: kills children signals errors disks journals tries watchdogs
#
# Needs root and strace. Everything happens in its own mount and process namespaces. The kernel's values are the machine's real ones, and a
# guard always restores them. --quick takes a sample of all crash points, in about two minutes. --shard=K/N takes each Nth crash point
# from the Kth on (0 to N-1): N runs cover everything, in parts that are N times as short.
set -uo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
for name in stage kill fault try; do
    # shellcheck source=/dev/null
    . "$LAB/crash/$name.sh"
done

PARTS=(kills children signals errors disks journals tries watchdogs)
# The tests of `prove` switch the same values, possibly from another checkout: a lock keeps them apart.
HOST_LOCK=${TMPDIR:-/tmp}/evenkeel-tests-of-this-host.lock

hold_host() { flock 9; }
free_host() { flock -u 9; }

outside() {
    [ "$(id -u)" = 0 ] || die 'skipped: to kill evenkeel at every system call needs root'
    need strace strace
    need unshare util-linux
    local program=${EVENKEEL_PROGRAM:-${CARGO_TARGET_DIR:-$TOP/target}/release/evenkeel} status=0 before inner=
    [ -x "$program" ] || die "$program is missing: cargo build --release -p evenkeel"
    exec 9>"$HOST_LOCK"
    hold_host
    before=$(values)
    free_host
    # The processes in the namespace hold our lock. They must end before the values are restored and the lock is released.
    trap 'if [ -n "${inner:-}" ]; then kill -KILL "$inner" && wait "$inner"; fi 2>/dev/null; hold_host; put_values_back "$before"; free_host' EXIT
    trap 'exit 130' INT TERM HUP
    # --kill-child: if this script ends, the kernel ends the whole process namespace, including watchdogs.
    unshare --mount --pid --fork --mount-proc --kill-child --propagation private \
        "$BASH" "$LAB/crash.sh" --inside "$program" "$@" &
    inner=$!
    wait "$inner" || status=$?
    inner=
    hold_host
    if [ "$(values)" != "$before" ]; then
        say "FAILED: the machine's values are not as before; they are put back now:"
        diff <(echo "$before") <(values) >&2
        status=1
    fi
    free_host
    exit "$status"
}

inside() {
    local program=$1 part
    shift
    if [ "${1:-}" = --quick ]; then QUICK=1 && shift; fi
    SHARD=0/1
    if [[ ${1:-} == --shard=* ]]; then SHARD=${1#--shard=} && shift; fi
    [[ $SHARD =~ ^[0-9]+/[1-9][0-9]*$ ]] || die "--shard=$SHARD is invalid: use K/N"
    [ $# -gt 0 ] || set -- "${PARTS[@]}"
    build_stage "$program"
    choose WANTED
    choose LASTING --persist
    IMAGED=("${LASTING[@]}")
    # A value that the kernel refuses, after several that it accepts: the earlier changes are rolled back.
    REFUSED=(clocksource=none)
    REVERT=("$EVENKEEL" revert)
    : >"$T/figures"
    for part in "$@"; do
        case $part in
        kills) kills ;;
        children) child_kills ;;
        signals) signals ;;
        errors) errors ;;
        disks) disks ;;
        journals) journals ;;
        tries) tries ;;
        watchdogs) watchdog_deaths ;;
        *) die "no part is called $part: ${PARTS[*]} are" ;;
        esac
    done
    say "tried $TRIED crash points in ${SECONDS} s${QUICK:+, a sample}, shard $SHARD; $FAILED failed:"
    cat "$T/figures"
    [ "$FAILED" -eq 0 ]
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
else
    outside "$@"
fi
