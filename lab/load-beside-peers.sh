#!/usr/bin/env bash
# Compares the load generator of the memcached preset with memcaslap, interleaved: one memcached on the first CPU, the generators on the
# last CPU, with the same connections, keys, sizes and share of reads. Prints one line per run, and for each number of connections the
# medians and the median ratio within a round. memcaslap compares no answer with the stored value; evenkeel compares each answer.
#
# usage: lab/load-beside-peers.sh [-r ROUNDS] [-t SECONDS] [-c CONNECTIONS,…] [PROGRAM]
#        PROGRAM is crates/workload/examples/load.rs, built: cargo build --release -p evenkeel-workload --example load
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

rounds=7 seconds=2 connections=1,4,16
while getopts r:t:c: option; do
    case $option in
    r) rounds=$OPTARG ;;
    t) seconds=$OPTARG ;;
    c) connections=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
program=${1:-$TOP/target/release/examples/load}

need memcached memcached
need memcaslap libmemcached-tools
need jq jq
[ -x "$program" ] || die "$program is missing: cargo build --release -p evenkeel-workload --example load"

port=21211 first=0 last=$(($(nproc) - 1))
lines=$(mktemp)
user=()
[ "$(id -u)" -ne 0 ] || user=(-u root)
taskset -c "$first" memcached -l 127.0.0.1 -p "$port" -U 0 -t 1 -m 512 -c 2048 "${user[@]}" &
server=$!
cleanup() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -f "$lines"
}
trap cleanup EXIT
trap 'exit 4' INT TERM
for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    kill -0 "$server" 2>/dev/null || die "memcached did not start"
    sleep 0.05
done

# memcaslap uses 10,000 keys of 64 bytes for each connection, so evenkeel does too.
ours() {
    taskset -c "$last" "$program" "127.0.0.1:$port" "$1" 0 "$seconds" $((10000 * $1)) 64 100 | jq -r .throughput_per_s
}
memcaslap_() {
    taskset -c "$last" memcaslap -s "127.0.0.1:$port" -T 1 -c "$1" -X 100 -t "${seconds}s" 2>/dev/null |
        sed -n 's/.*TPS: \([0-9]*\).*/\1/p' | tail -n 1
}

for count in ${connections//,/ }; do
    for round in $(seq "$rounds"); do
        order="ours memcaslap_"
        [ $((RANDOM % 2)) -eq 0 ] || order="memcaslap_ ours"
        for who in $order; do
            per_s=$("$who" "$count")
            [ -n "$per_s" ] || die "$who said no number"
            echo "$count $round ${who%_} $per_s" | tee -a "$lines"
        done
    done
done
echo
awk '
    function median(list, n,    i, j, t) {
        for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
        low = list[1]; high = list[n]
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    { value[$1, $2, $3] = $4; if (!($1 in rounds)) order[++counts] = $1; if ($2 > rounds[$1]) rounds[$1] = $2 }
    END {
        for (c = 1; c <= counts; c++) {
            count = order[c]; n = rounds[count]
            for (r = 1; r <= n; r++) { a[r] = value[count, r, "ours"]; b[r] = value[count, r, "memcaslap"]; q[r] = a[r] / b[r] }
            ours = median(a, n); ours_low = low; ours_high = high
            peer = median(b, n); peer_low = low; peer_high = high
            ratio = median(q, n)
            printf "%d connections: ours %.0f/s (%.0f to %.0f), memcaslap %.0f/s (%.0f to %.0f), ratio %.3f (%.3f to %.3f)\n",
                count, ours, ours_low, ours_high, peer, peer_low, peer_high, ratio, low, high
        }
    }' "$lines"
