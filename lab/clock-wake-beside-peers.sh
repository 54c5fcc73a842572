#!/usr/bin/env bash
# Compares `evenkeel measure clock` and `measure wake` with a C loop, perf bench and cyclictest in interleaved rounds. Prints for each row
# the median, smallest and largest ratio of evenkeel to the peer.
#
# usage: [EVENKEEL=PROGRAM] lab/clock-wake-beside-peers.sh [ROUNDS]
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

need jq jq
need cc gcc
need perf linux-perf
need cyclictest rt-tests
need taskset util-linux
[ "$(id -u)" -eq 0 ] || die "cyclictest's real-time rows take root"
EVENKEEL=${EVENKEEL:-$TOP/target/release/evenkeel}
[ -x "$EVENKEEL" ] || die "$EVENKEEL is missing: cargo build --release -p evenkeel"
rounds=${1:-5}

mkdir -p "$WORK"
table=$(mktemp "$WORK/clock-wake.XXXXXX")
trap 'rm -f "$table"' EXIT
cc -O2 -Wall -o "$WORK/clock-cost" "$LAB/clock-cost.c"
# Both sides measure the last usable CPU.
cpu=$(taskset -pc $$ | sed 's/.*[:, -]//')
on() { taskset -c "$cpu" "$@"; }

# row NAME OURS PEER: one round's figures, in nanoseconds.
row() { printf '%s\t%s\t%s\n' "$@" >>"$table"; }

# The p50 in nanoseconds of a histogram by cyclictest, whose buckets are nanoseconds too.
cyclic() {
    cyclictest -q -N -h 1000000 -t 1 -a "$cpu" -i 1000 -D 2 "$@" 2>/dev/null | awk '
        /^#/ { next }
        NF == 2 && $2 > 0 { count[$1 + 0] = $2; all += $2 }
        END { for (ns = 0; ns < 1000000; ns++) { sum += count[ns]; if (sum * 2 >= all) { print ns; exit } } }'
}

bench() { # CALLS ARGUMENTS...: nanoseconds an operation
    local calls=$1
    shift
    on perf bench --format=simple "$@" -l "$calls" 2>/dev/null | awk -v calls="$calls" 'NF == 1 && $1 > 0 { print $1 * 1e9 / calls; exit }'
}

for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    clock=$(on "$EVENKEEL" measure clock --json --cpus 0 --calls 300000)
    on "$WORK/clock-cost" 300000 >"$table.c"
    while read -r call peer; do
        ours=$(jq -r --arg call "$call" '.sources[0].costs[] | select(.conditions.call == $call) | .summary.p50 / 1000' <<<"$clock")
        [ -z "$ours" ] || row "$call, C loop" "$ours" "$peer"
    done <"$table.c"
    rm -f "$table.c"
    ours=$(jq -r '.sources[0].costs[] | select(.conditions.call == "empty_system_call") | .summary.p50 / 1000' <<<"$clock")
    row "empty system call, perf bench syscall basic" "$ours" "$(bench 2000000 syscall basic)"

    # The order of the programs changes from round to round, so that none always runs on a machine that another has warmed up.
    wake() {
        "$EVENKEEL" measure wake --json --seconds 6 --cpus "$cpu" --kinds timer --gaps-us 1000 \
            --variants plain,fifo,fifo-dma-latency-0 >"$table.json"
    }
    peers() {
        other=$(cyclic --policy=other --laptop)
        fifo=$(cyclic -p 50 --laptop)
        held=$(cyclic -p 50)
        pipe=$(bench 50000 sched pipe -T)
    }
    if [ $((round % 2)) -eq 0 ]; then wake && peers; else peers && wake; fi
    p50() { jq -r --arg variant "$1" '.cells[] | select(.variant == $variant) | .latency.summary.p50' "$table.json"; }
    row "timer after 1 ms, ordinary; cyclictest --policy=other --laptop" "$(p50 plain)" "$other"
    row "timer after 1 ms, FIFO; cyclictest -p 50 --laptop" "$(p50 fifo)" "$fifo"
    row "timer after 1 ms, FIFO, dma latency 0; cyclictest -p 50" "$(p50 fifo-dma-latency-0)" "$held"
    row "pipe round trip on one CPU; perf bench sched pipe -T" "$(jq -r '.round_trips[0].summary.p50' "$table.json")" "$pipe"
    rm -f "$table.json"
done

echo "row | evenkeel ns | peer ns | ours / peer (least, largest)"
cut -f 1 "$table" | awk '!seen[$0]++' | while read -r name; do
    column() { awk -F '\t' -v name="$name" -v what="$1" '$1 == name { print what == "ratio" ? $2 / $3 : (what == "ours" ? $2 : $3) }' "$table" | sort -g; }
    middle() { awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'; }
    printf '%s | %.1f | %.1f | %.3f (%.3f, %.3f)\n' "$name" "$(column ours | middle)" "$(column peer | middle)" \
        "$(column ratio | middle)" "$(column ratio | head -n 1)" "$(column ratio | tail -n 1)"
done
