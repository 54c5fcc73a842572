#!/usr/bin/env bash
# Runs trials on unprepared servers with an effect of known size: the server does this many percent more work while vm.dirty_ratio has
# another value (src/plant.c). That value is one percent higher, which by itself has no effect. 0 percent compares the machine with itself.
# Writes one line of JSON per trial to the file. evenkeel restores the sysctl when the script ends, for any reason.
#
# usage: lab/zoo/planted.sh FILE BUDGET PERCENT,… NAME:MODE…     such as planted.sh out.jsonl 90s 10,5,0 minetest:load teeworlds:load
#        lab/zoo/planted.sh --table FILE…                          the results against the truth
# Exit code 3: not root; 4: no compiler. EVENKEEL names the program [default: target/release/evenkeel].
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$(dirname "$here")")
evenkeel=${EVENKEEL:-$top/target/release/evenkeel}

die() {
    echo "planted: $1" >&2
    exit "$2"
}

if [ "${1:-}" = --table ]; then
    shift
    exec python3 "$here/src/planted.py" "$@"
fi
[ $# -ge 4 ] || die "usage: lab/zoo/planted.sh FILE BUDGET PERCENT,… NAME:MODE… | --table FILE…" 2
[ "$(id -u)" -eq 0 ] || die "you need root to change a sysctl" 3
command -v cc >/dev/null || die "no C compiler" 4
file=$1 budget=$2 percents=$3
shift 3
work=$(mktemp -d /tmp/zoo-planted.XXXXXX)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -o "$work/plant.so" "$here/src/plant.c" -ldl -lpthread
now=$(cat /proc/sys/vm/dirty_ratio)
other=$((now + 1))
for percent in ${percents//,/ }; do
    for server; do
        name=${server%:*} mode=${server#*:} code=0
        export ZOO_PRELOAD=$work/plant.so ZOO_PLANT_FILE=/proc/sys/vm/dirty_ratio ZOO_PLANT_VALUE=$other ZOO_PLANT_PERCENT=$percent
        timeout -s INT -k 30 600 "$evenkeel" prove --json --see ticks --budget "$budget" --state "$work/state" \
            "vm.dirty_ratio=$other" -- "$here/run.sh" "$name" "$mode" >"$work/answer" 2>"$work/said" || code=$?
        python3 "$here/src/planted.py" --row "$name" "$mode" "$percent" "$code" "$work/answer" "$work/said" | tee -a "$file"
    done
done
