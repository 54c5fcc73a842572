#!/usr/bin/env bash
# Compares `measure udp` and `measure bandwidth` with sockperf and iperf3, interleaved: the same veth pair between two network namespaces,
# the same rate and size, servers on the first CPU and clients on the last CPU. Prints one line per run, and medians with ratios at the end.
#
# usage: lab/udp-beside-peers.sh [-r ROUNDS] [-t SECONDS] [-w WHAT,…] [PROGRAM]
#        WHAT of latency, packets, bandwidth (default: all)
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

rounds=5 seconds=3 what=latency,packets,bandwidth
while getopts r:t:w: option; do
    case $option in
    r) rounds=$OPTARG ;;
    t) seconds=$OPTARG ;;
    w) what=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
program=${1:-$TOP/target/release/evenkeel}
rate=1000 bytes=64 mbit=200

need sockperf sockperf
need iperf3 iperf3
need ip iproute2
need jq jq
[ -x "$program" ] || die "$program is missing: make build"
[ "$(id -u)" -eq 0 ] || die "namespaces need root"

client=evk-c-$$ server=evk-s-$$
first=0 last=$(($(nproc) - 1))
lines=$(mktemp)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns delete "$client" 2>/dev/null || true
    ip netns delete "$server" 2>/dev/null || true
    rm -f "$lines"
}
trap cleanup EXIT
trap 'exit 4' INT TERM

ip netns add "$client"
ip netns add "$server"
ip link add evk0 netns "$client" type veth peer name evk0 netns "$server"
ip -n "$client" address add 10.77.0.1/24 dev evk0
ip -n "$server" address add 10.77.0.2/24 dev evk0
for end in "$client" "$server"; do
    ip -n "$end" link set lo up
    ip -n "$end" link set evk0 up
done

# Background programs are killed by their own id: `ip netns exec` becomes the program.
serve() {
    ip netns exec "$server" taskset -c "$first" "$@" >/dev/null 2>&1 &
    pids+=($!)
}
serve sockperf server -i 10.77.0.2 -p 11111
serve iperf3 -s -B 10.77.0.2 -p 5201
serve "$program" measure udp --serve 10.77.0.2:7007 --seconds 3600
serve "$program" measure bandwidth --serve 10.77.0.2:7008 --seconds 3600
sleep 1

ask() { ip netns exec "$client" taskset -c "$last" "$@"; }
note() {
    echo "$*"
    echo "$*" >>"$lines"
}
# sockperf reports complete round trips on request; evenkeel's `from_send_ns` counts the same.
of_sockperf() {
    sed -n 's/.*percentile 50\.000 = *\([0-9.]*\).*/p50 \1/p; s/.*percentile 99\.000 = *\([0-9.]*\).*/p99 \1/p' | sort | tr '\n' ' '
}
sockperf_latency() {
    local mode=$1
    shift
    note "$mode sockperf $(ask sockperf "$@" -i 10.77.0.2 -p 11111 -m "$bytes" --mps "$rate" -t "$seconds" --full-rtt 2>&1 | of_sockperf)"
}
our_latency() {
    local mode=$1 pace=$2
    note "$mode evenkeel $(ask "$program" measure udp 10.77.0.2:7007 --json --part echo --rate "$rate" --size "$bytes" --seconds "$seconds" --pace "$pace" |
        jq -r '.echo.from_send_ns.summary | "p50 \(.p50 / 1000) p99 \(.p99 / 1000)"')"
}
latency() {
    sockperf_latency ping-pong ping-pong
    our_latency ping-pong awake
    sockperf_latency under-load under-load --reply-every 1
    our_latency under-load spin
}
packets() {
    note "packets sockperf sent $(ask sockperf throughput -i 10.77.0.2 -p 11111 -m "$bytes" -t 2 2>&1 | sed -n 's/.*Message Rate is \([0-9]*\).*/\1/p')"
    note "packets evenkeel $(ask "$program" measure udp 10.77.0.2:7007 --json --part ceiling --size "$bytes" |
        jq -r '.ceiling | "sent \(.send.per_s | floor) taken \(.receive.per_s | floor)"')"
    # iperf3 reports what its own server received.
    note "packets iperf3 $(ask iperf3 -c 10.77.0.2 -u -b 0 -l "$bytes" -t 2 -J |
        jq -r '.end.sum | "sent \(.packets / .seconds | floor) taken \((.packets - .lost_packets) / .seconds | floor)"')"
}
bandwidth() {
    note "tcp iperf3 mbit $(ask iperf3 -c 10.77.0.2 -t "$seconds" -J | jq -r '.end.sum_received.bits_per_second / 1e6 | floor')"
    note "tcp evenkeel mbit $(ask "$program" measure bandwidth 10.77.0.2:7008 --json --seconds "$seconds" | jq -r '.arrived_bits_per_s / 1e6 | floor')"
    note "tcp-back iperf3 mbit $(ask iperf3 -R -c 10.77.0.2 -t "$seconds" -J | jq -r '.end.sum_received.bits_per_second / 1e6 | floor')"
    note "tcp-back evenkeel mbit $(ask "$program" measure bandwidth 10.77.0.2:7008 --reverse --json --seconds "$seconds" |
        jq -r '.arrived_bits_per_s / 1e6 | floor')"
    note "udp iperf3 mbit $(ask iperf3 -c 10.77.0.2 -u -b ${mbit}M -l 1400 -t "$seconds" -J |
        jq -r '.end.sum | .bits_per_second * (1 - .lost_percent / 100) / 1e6 | . * 10 | floor / 10')"
    note "udp evenkeel mbit $(ask "$program" measure bandwidth 10.77.0.2:7008 --json --by udp --rate $mbit --size 1400 --seconds "$seconds" |
        jq -r '.arrived_bits_per_s / 1e6 | . * 10 | floor / 10')"
    note "udp-back iperf3 mbit $(ask iperf3 -R -c 10.77.0.2 -u -b ${mbit}M -l 1400 -t "$seconds" -J |
        jq -r '.end.sum | .bits_per_second * (1 - .lost_percent / 100) / 1e6 | . * 10 | floor / 10')"
    note "udp-back evenkeel mbit $(ask "$program" measure bandwidth 10.77.0.2:7008 --reverse --json --by udp --rate $mbit --size 1400 \
        --seconds "$seconds" | jq -r '.arrived_bits_per_s / 1e6 | . * 10 | floor / 10')"
}

for ((round = 1; round <= rounds; round++)); do
    for part in ${what//,/ }; do "$part"; done
done

# The median of a figure, by test and program.
median() {
    awk -v test="$1" -v who="$2" -v figure="$3" \
        '$1 == test && $2 == who { for (at = 3; at < NF; at += 2) if ($at == figure) print $(at + 1) }' "$lines" |
        sort -g | awk '{ all[NR] = $1 } END { if (NR) print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2; else print "none" }'
}
compare() {
    local test=$1 peer=$2 figure=$3 ours theirs
    ours=$(median "$test" evenkeel "$figure") theirs=$(median "$test" "$peer" "$figure")
    [ "$ours" = none ] || [ "$theirs" = none ] && return 0
    awk -v ours="$ours" -v theirs="$theirs" -v name="$test $figure" -v peer="$peer" \
        'BEGIN { printf "median %s: evenkeel %s, %s %s, ratio %.3f\n", name, ours, peer, theirs, ours / theirs }'
}
for figure in p50 p99; do
    compare ping-pong sockperf $figure
    compare under-load sockperf $figure
done
compare packets sockperf sent
compare packets iperf3 sent
compare packets iperf3 taken
compare tcp iperf3 mbit
compare tcp-back iperf3 mbit
compare udp iperf3 mbit
compare udp-back iperf3 mbit
