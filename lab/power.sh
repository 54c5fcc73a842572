#!/usr/bin/env bash
# Measures how many pairs `prove` needs to find a known, planted change: the arena's tick gets 2, 5, 10 and 20 % longer, in its median
# (every tick works more) or in its tail (one tick in fifty does). Prints one line per session, and for each change the verdicts and the
# median pairs of sessions that found it.
#
# usage: lab/power.sh [-n SESSIONS] [-e PERCENT,…] [-k median,tail] [-w WINDOW_MS] [-p PAIRS] [-s SEED] [PROGRAM]
#        Measures on this machine: keep it idle. The script switches no setting of the host, and needs no root.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

sessions=5 percents=2,5,10,20 kinds=median,tail window_ms=1000 pairs=100 seed=1
while getopts n:e:k:w:p:s: option; do
    case $option in
    n) sessions=$OPTARG ;;
    e) percents=$OPTARG ;;
    k) kinds=$OPTARG ;;
    w) window_ms=$OPTARG ;;
    p) pairs=$OPTARG ;;
    s) seed=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
program=${1:-$TOP/target/release/evenkeel}

need jq jq
[ -x "$program" ] || die "$program is missing: cargo build --release"
[ -x "$(dirname "$program")/evenkeel-arena" ] || die "evenkeel-arena is missing next to it: cargo build --release"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 4' INT TERM

# The work of a tick without a change, in microseconds: long enough that a planted 2 % of it exceeds the clock's resolution.
work_us=2000 tail_us=3000

# prove OPTION…: one session, with its report on standard output. A verdict of worse is expected here, because it was planted.
prove() {
    local code=0
    "$program" prove --workload arena --set "work-us=$work_us" --set "tail-us=$2" --metric "$1" --guard none --settle 20ms \
        --window-ms "$window_ms" --state "$folder/state" --json "${@:3}" 2>"$folder/errors" || code=$?
    case $code in
    0 | 1) ;;
    *)
        cat "$folder/errors" >&2
        die "prove ended with $code"
        ;;
    esac
}

for kind in ${kinds//,/ }; do
    case $kind in
    median) setting=work-us metric=work_us_p50 base=$work_us tail=0 ;;
    tail) setting=tail-us metric=due_to_done_us_p99 base=$tail_us tail=$tail_us ;;
    *) die "$kind: median or tail" ;;
    esac
    # The size of the number without a change, which the planted share refers to.
    level=$(prove "$metric" "$tail" "workload.$setting=$base" --control --fixed --pairs 6 --control-pairs 0 | jq -r '.arms[0].median')
    for percent in ${percents//,/ }; do
        value=$(jq -n --argjson base "$base" --argjson level "$level" --argjson percent "$percent" '$base + $level * $percent / 100 | round')
        : >"$folder/lines"
        for session in $(seq "$sessions"); do
            prove "$metric" "$tail" "workload.$setting=$value" --smallest-effect "$percent" --pairs "$pairs" --control-pairs 0 \
                --seed $((seed + session)) |
                jq -c --arg kind "$kind" --arg percent "$percent" --argjson planted $((value - base)) \
                    '{kind: $kind, percent: ($percent | tonumber), planted_us: $planted, verdict, pairs, ratio: .effect.ratio,
                      dropped: (.dropped | length)}' | tee -a "$folder/lines"
        done
        jq -rs --argjson level "$level" 'def median: sort | if length == 0 then null else .[(length - 1) / 2 | floor] end;
            {kind: .[0].kind, percent: .[0].percent, level_us: $level, planted_us: .[0].planted_us, sessions: length,
             found: map(select(.verdict == "worse")) | length, verdicts: (map(.verdict) | group_by(.) | map({(.[0]): length}) | add),
             pairs_median: (map(select(.verdict == "worse").pairs) | median), pairs: map(.pairs), ratio_median: (map(.ratio) | median)}' \
            -c "$folder/lines"
    done
done
