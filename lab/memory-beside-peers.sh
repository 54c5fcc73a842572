#!/usr/bin/env bash
# Compares `evenkeel measure memory` with a pointer chase and walks in C (and lmbench's lat_mem_rd and sysbench if installed), interleaved:
# the medians over the rounds, and the median ratio to the chase within a round.
#
# usage: lab/memory-beside-peers.sh [ROUNDS] [MIB]
#
# EVENKEEL names the program to measure [default: target/release/evenkeel].
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
mib=${2:-64}
evenkeel=${EVENKEEL:-$TOP/target/release/evenkeel}
need cc gcc
need jq jq
[ -x "$evenkeel" ] || die "$evenkeel is missing: cargo build --release -p evenkeel"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc -O2 -o "$dir/chase" "$LAB/chase.c"
# gcc before 12 does not vectorise at -O2, and gcc 12 only if the code does not grow. Without vectors, the loop adds one word at a time, and
# its speed is not that of the memory.
cc -O3 -march=native -o "$dir/walk" "$LAB/chase.c"
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')

ours() {
    "$evenkeel" measure memory --largest "$mib" --cpu "$cpu" --json >"$dir/ours.json"
    jq -r --arg round "$1" '(.latency[] | "\($round) ours \(.working_set_bytes) \(.small.summary.p50)"),
        (.bandwidth[] | select(.threads == 1) | "\($round) ours \(.kind) \(.bytes_per_s.summary.p50)")' "$dir/ours.json"
}

chase() {
    { taskset -c "$cpu" "$dir/chase" latency "$mib" && taskset -c "$cpu" "$dir/walk" bandwidth; } | sed "s/^/$1 chase /"
}

others() {
    if command -v lat_mem_rd >/dev/null 2>&1; then
        # lat_mem_rd prints sizes in MiB and latencies in nanoseconds; -t makes the order random within pages.
        taskset -c "$cpu" lat_mem_rd -t "$mib" 64 2>&1 | awk -v round="$1" '
            NF == 2 && $1 > 0 { bytes = int($1 * 1048576 + 0.5); if (bytes >= 16384) print round, "lat_mem_rd", bytes, int($2 * 1000) }'
    fi
    if command -v sysbench >/dev/null 2>&1; then
        for kind in read write; do
            taskset -c "$cpu" sysbench memory --memory-block-size=128M --memory-oper="$kind" --memory-total-size=1T --time=1 run |
                awk -v round="$1" -v kind="$kind" '/MiB\/sec/ { gsub(/[()]/, ""); print round, "sysbench", kind, $4 * 1048576 }'
        done
    fi
}

for round in $(seq "$rounds"); do
    # The program that runs first changes from round to round.
    if [ $((round % 2)) = 1 ]; then order="ours chase others"; else order="others chase ours"; fi
    for who in $order; do "$who" "$round"; done
done >"$dir/all"

# ROUND WHO WHAT VALUE to a row for each WHAT.
sort -k3,3 -k2,2 -k4,4n "$dir/all" | awk '
    function median(list, n) { return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }
    function sorted(text, list,    n, i, j, t) {
        n = split(text, list, " ")
        for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j - 1] + 0 > list[j] + 0; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
        return n
    }
    { at[$1, $2, $3] = $4; values[$2, $3] = values[$2, $3] " " $4; what[$3]; who[$2]; if ($1 > rounds) rounds = $1 }
    END {
        printf "%-12s %14s %14s %14s %14s %10s %s\n", "what", "ours", "chase", "lat_mem_rd", "sysbench", "ours/chase", "[lowest, highest]"
        for (w in what) {
            row = w
            split("ours chase lat_mem_rd sysbench", names, " ")
            for (i = 1; i <= 4; i++) {
                n = sorted(values[names[i], w], list)
                row = row sprintf(" %s", n ? sprintf("%.0f", median(list, n)) : "-")
            }
            text = ""
            for (round = 1; round <= rounds; round++)
                if (at[round, "chase", w] > 0 && at[round, "ours", w] > 0) text = text " " at[round, "ours", w] / at[round, "chase", w]
            n = sorted(text, list)
            split(row, cells, " ")
            printf "%-12s %14s %14s %14s %14s %10s [%.3f, %.3f]\n", cells[1], cells[2], cells[3], cells[4], cells[5], n ? sprintf("%.3f", median(list, n)) : "-", list[1], list[n] | "sort -k1,1n"
        }
    }'
