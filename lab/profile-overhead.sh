#!/usr/bin/env bash
# Measures the cost of recording for a busy server: CPU time per tick of evenkeel-arena, with constant work per tick and bots that play, in
# windows without a recorder, with `evenkeel profile record` and with `perf record` at the same rate, in random order within each block.
# Each recorder records the whole machine, stacks by frame pointer, with the kernel's clock. Prints one line per window and appends it to
# FILE. Then prints, for all of FILE, what each recorder adds, with two standard errors over the blocks, its own CPU time, and its largest
# memory.
#
# usage: lab/profile-overhead.sh [-b BLOCKS] [-t SECONDS] [-w WORK_US] [-r RATE] [-o FILE] [-k KIND]
#        KIND is samples, or switches to record switches too (perf record --switch-events)
#        EVENKEEL, ARENA and BOTS name the programs: cargo build --release -p evenkeel -p evenkeel-arena
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

blocks=5 seconds=3 work_us=12000 rate=99 kind=samples lines=
while getopts b:t:w:r:o:k: option; do
    case $option in
    b) blocks=$OPTARG ;;
    t) seconds=$OPTARG ;;
    w) work_us=$OPTARG ;;
    r) rate=$OPTARG ;;
    o) lines=$OPTARG ;;
    k) kind=$OPTARG ;;
    *) exit 2 ;;
    esac
done
evenkeel=${EVENKEEL:-$TOP/target/release/evenkeel}
arena=${ARENA:-$TOP/target/release/evenkeel-arena}
bots=${BOTS:-$TOP/target/release/evenkeel-bots}

need perf linux-perf
need jq jq
for program in "$evenkeel" "$arena" "$bots"; do
    [ -x "$program" ] || die "$program is missing: cargo build --release -p evenkeel -p evenkeel-arena"
done

ours=(profile record --hz "$rate") theirs=(record -q -a -g -e cpu-clock -F "$rate")
case $kind in
samples) ;;
switches)
    ours+=(--switches)
    theirs+=(--switch-events)
    ;;
*) die "no such kind: $kind" ;;
esac

work=$(mktemp -d)
lines=${lines:-$work/lines}
first=0 last=$(($(nproc) - 1)) port=27971 recorder='' player=''
cleanup() {
    for process in "$recorder" "$player" "${server_PID:-}"; do
        [ -z "$process" ] || kill "$process" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 4' INT TERM

coproc server { exec taskset -c "$first" "$arena" --work-us "$work_us" --listen "127.0.0.1:$port"; }
read -r _ <&"${server[0]}"
taskset -c "$last" "$bots" --connect "127.0.0.1:$port" --bots 16 --no-control >"$work/bots" &
player=$!
sleep 3

# CPU time of all threads of a process, in nanoseconds.
spent() {
    cat /proc/"$1"/task/*/schedstat 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

ask() {
    echo '{"cmd":"window"}' >&"${server[1]}"
    read -r answer <&"${server[0]}"
}

# window ARM BLOCK: prints ARM, BLOCK, CPU time a tick in us, ticks, the recorder's own CPU time as a share of one CPU, its memory in KiB.
window() {
    local before=0 after=0 memory=0
    recorder=''
    case $1 in
    evenkeel) "$evenkeel" "${ours[@]}" --output "$work/ours.data" >"$work/ours.log" 2>&1 & recorder=$! ;;
    perf) perf "${theirs[@]}" -o "$work/theirs.data" >"$work/theirs.log" 2>&1 & recorder=$! ;;
    esac
    # The start of a recording costs more CPU time than the rest, so it is not measured.
    sleep 1
    [ -z "$recorder" ] || before=$(spent "$recorder")
    ask
    sleep "$seconds"
    ask
    if [ -n "$recorder" ]; then
        after=$(spent "$recorder")
        memory=$(awk '/VmHWM/ { print $2 }' "/proc/$recorder/status") || die "$1 has ended: $(cat "$work"/*.log)"
        kill -INT "$recorder"
        wait "$recorder" || true
        recorder=''
    fi
    jq -r --arg arm "$1" --arg block "$2" --argjson spent "$((after - before))" --arg memory "$memory" \
        '[$arm, $block, .cpu_us / .ticks, .ticks, $spent / 1000 / .span_us, $memory] | @tsv' <<<"$answer" | tee -a "$lines"
}

for _ in $(seq "$blocks"); do
    block=$(date +%s%N)
    for arm in $(shuf -e off evenkeel perf); do
        window "$arm" "$block"
    done
done

awk -F'\t' '
    { cost[$2, $1] = $3; own[$1] += $5; count[$1]++; blocks[$2]; if ($6 > memory[$1]) memory[$1] = $6 }
    function compare(name, one, other,    block, x, n, sum, squares, mean, spread) {
        for (block in blocks) {
            if (!((block, one) in cost) || !((block, other) in cost)) continue
            x = log(cost[block, one] / cost[block, other]) * 100; n++; sum += x; squares += x * x
        }
        if (n < 2) return
        mean = sum / n; spread = sqrt((squares - n * mean * mean) / (n - 1) / n)
        printf "%s: %+.2f %% of CPU time a tick, from %+.2f to %+.2f (%d blocks)\n", name, mean, mean - 2 * spread, mean + 2 * spread, n
    }
    END {
        compare("evenkeel against none", "evenkeel", "off")
        compare("perf against none", "perf", "off")
        compare("evenkeel against perf", "evenkeel", "perf")
        for (arm in count) if (arm != "off")
            printf "%s itself: %.3f %% of one CPU, at most %d KiB of memory\n", arm, own[arm] / count[arm] * 100, memory[arm]
    }' "$lines"
