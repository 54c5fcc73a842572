# shellcheck shell=bash
# Shared by the lab's scripts: paths, and an error line for each missing program.

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(dirname "$LAB")
# Kernels and programs are in cargo's target folder, so `make clean` removes them.
# shellcheck disable=SC2034 # the scripts that source this file use it
WORK=${EVENKEEL_LAB_WORK:-$TOP/target/lab}

say() { echo "lab: $*" >&2; }

die() {
    say "$@"
    exit 4
}

# need COMMAND PACKAGE: exits with an error line unless COMMAND is installed.
need() {
    command -v "$1" >/dev/null 2>&1 || die "$1 is missing: apt-get install --no-install-recommends $2"
}

# one_guest STORY: prepares scripts that reboot a guest of the lab: root, Debian on a disk, and a guest of their own, which is stopped when
# they end. Sets `machine`, the command for the guest, and `work`, an empty folder.
one_guest() {
    [ "$(id -u)" -eq 0 ] || die "lab/$1.sh is skipped: not root, and a disk with Debian on it takes that"
    need debootstrap debootstrap
    need qemu-system-x86_64 qemu-system-x86
    export EVENKEEL_LAB_MACHINE=$1
    machine=$LAB/machine.sh
    work=$WORK/$1
    mkdir -p "$WORK"
    # One machine per test: a second run would push its own program into the first one's guest.
    exec {alone}>"$WORK/$1.lock"
    flock -n "$alone" || die "another lab/$1.sh is at work in $WORK"
    rm -rf "$work"
    mkdir -p "$work"
    trap '"$machine" stop' EXIT
}

# release OPTION…: prepares scripts that test what `make dist` wrote. Reads the one option of these scripts, and sets what
# deploy/dist/common.sh sets: `version`, `dist`, `check`.
release() {
    # shellcheck source=deploy/dist/common.sh
    . "$TOP/deploy/dist/common.sh"
    local option
    while getopts d: option; do
        case $option in
        d) dist=$OPTARG ;;
        *) exit 2 ;;
        esac
    done
}
