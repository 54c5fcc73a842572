# shellcheck shell=bash
# What the scripts of the lab share: where things are, and one line for each thing that is missing.

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(dirname "$LAB")
# Kernels and programs land beside what cargo builds, so that `make clean` takes them away.
# shellcheck disable=SC2034 # those who source this use it
WORK=${EVENKEEL_LAB_WORK:-$TOP/target/lab}

say() { echo "lab: $*" >&2; }

die() {
    say "$@"
    exit 4
}

# need COMMAND PACKAGE: stops with one line unless COMMAND is installed.
need() {
    command -v "$1" >/dev/null 2>&1 || die "$1 is missing: apt-get install --no-install-recommends $2"
}
