#!/usr/bin/env bash
# Compiles lab/idle.asl for this many CPUs, and prints its path. The entry of CPU 0 is repeated for each CPU.
#
# usage: lab/idle-table.sh CPUS
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

cpus=${1:?"usage: lab/idle-table.sh CPUS"}
need iasl acpica-tools
mkdir -p "$WORK/guests"
file=$WORK/guests/idle-$cpus
{
    sed '/^    Scope (.*C000)/,$d' "$LAB/idle.asl"
    sed -n '/^    Scope (.*C000)/,/^    }/p' "$LAB/idle.asl"
    for ((cpu = 1; cpu < cpus; cpu++)); do
        sed -n '/External.*C000/p; /^    Scope (.*C000)/,/^    }/p' "$LAB/idle.asl" |
            sed "s/C000/C$(printf '%03X' "$cpu")/; s/5, 0, 0, 0xFC, 1/5, 0, $cpu, 0xFC, 1/"
    done
    echo '}'
} >"$file.asl"
iasl -p "$file" "$file.asl" >"$file.log" 2>&1 || die "iasl fails; $file.log has what it said"
echo "$file.aml"
