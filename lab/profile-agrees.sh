#!/usr/bin/env bash
# Compares `evenkeel profile view` with `perf report` on the same recording: servers under load, recorded by perf. The script looks for
# perf's top ten functions in evenkeel's result, and prints the largest difference in percentage points, and how many frames of programs
# have a name. It compares functions without a name by their file, because perf shows only an address for each of them.
#
# usage: lab/profile-agrees.sh [-t SECONDS] [-f HZ] [-p POINTS] [SERVER …]
#        SERVER is arena, memcached, redis or ddnet (default: all installed ones). Exit code 1: a function differs by more than POINTS.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

seconds=10 hz=999 points=2
while getopts t:f:p: option; do
    case $option in
    t) seconds=$OPTARG ;;
    f) hz=$OPTARG ;;
    p) points=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
servers=("$@")
[ ${#servers[@]} -gt 0 ] || servers=(arena memcached redis ddnet)
build=${EVENKEEL_BUILD:-$TOP/target/release}

need perf linux-perf
need jq jq
need python3 python3
[ "$(id -u)" -eq 0 ] || die "recording other users' processes takes root"
[ -x "$build/evenkeel" ] || die "$build/evenkeel is missing: cargo build --release, or name its folder in EVENKEEL_BUILD"

folder=$(mktemp -d)
# The arena ends when its standard input ends: nothing is ever written here.
mkfifo "$folder/commands"
exec 9<>"$folder/commands"
started=()
cleanup() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 4' INT TERM

# start COMMAND…: runs the command in the background until this script ends; its process number is in $last.
start() {
    "$@" >"$folder/log" 2>&1 <&9 &
    last=$!
    started+=("$last")
}

wait_for_port() {
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.05
    done
    die "nobody listens on port $1"
}

# Each starts a server under load for longer than the recording, and leaves its process in $server.
serve_arena() {
    for program in evenkeel-arena evenkeel-bots; do [ -x "$build/$program" ] || return 4; done
    start "$build/evenkeel-arena" --listen 127.0.0.1:27960 --players 64
    server=$last
    sleep 1
    start "$build/evenkeel-bots" --connect 127.0.0.1:27960 --bots 60
}
serve_memcached() {
    command -v memcached memcaslap >/dev/null || return 4
    start memcached -l 127.0.0.1 -p 21212 -U 0 -t 2 -m 256 -u root
    server=$last
    wait_for_port 21212
    start memcaslap -s 127.0.0.1:21212 -T 1 -c 16 -X 200 -t $((seconds + 5))s
}
serve_redis() {
    command -v redis-server redis-benchmark >/dev/null || return 4
    start redis-server --bind 127.0.0.1 --port 21213 --save '' --dir "$folder"
    server=$last
    wait_for_port 21213
    start redis-benchmark -p 21213 -c 20 -n 100000000 -r 100000 -t set,get,lpush -q
}
serve_ddnet() {
    local program=/usr/games/DDNet-Server
    [ -x "$program" ] || return 4
    # The server writes its log into the current folder.
    start env -C "$folder" "$program" 'sv_port 28303' 'bindaddr 127.0.0.1' 'sv_ipv4only 1' 'sv_register 0' 'sv_high_bandwidth 1'
    server=$last
    sleep 2
    # The server answers queries for its status: a load of small packets on its socket.
    start python3 -c '
import socket, time
end = time.time() + float(__import__("sys").argv[1])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setblocking(False)
ask = b"\xff" * 10 + b"gie3" + b"\x00"
while time.time() < end:
    for _ in range(20):
        line.sendto(ask, ("127.0.0.1", 28303))
    try:
        while True:
            line.recv(2048)
    except BlockingIOError:
        pass
    time.sleep(0.001)
' $((seconds + 4))
}

cat >"$folder/compare.py" <<'PY'
"""Both tables by name, and where there is no name by file; the ten greatest of perf's."""
import json, re, subprocess, sys

ours_file, theirs_file, limit = sys.argv[1:]
ours = json.load(open(ours_file))


def bare(name):
    """A name without what the two write in different ways: hashes, parameters, what copies of a function are called."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"\(.*\)( const)?", "", name)
    return name.replace(" ", "")


theirs, unnamed_theirs = {}, 0.0
for line in open(theirs_file):
    found = re.match(r"\s*([\d.]+)%\s*\t(\S+)\s*\t\[(.)\] (.*)", line)
    if not found:
        continue
    share, file, kind, name = float(found[1]), found[2], found[3], found[4].strip()
    if re.fullmatch(r"0x[0-9a-f]+", name):
        name = "[%s]" % ("unknown" if file == "[unknown]" else file)
    name = bare(name)
    theirs[name] = theirs.get(name, 0) + share
mine = {}
for row in ours["functions"]:
    name = bare(row["function"])
    mine[name] = mine.get(name, 0) + 100 * row["own_share"]
if not theirs:
    sys.exit("perf report says nothing")
top = sorted(theirs.items(), key=lambda item: -item[1])[:10]
worst = 0.0
for name, share in top:
    other = mine.get(name, 0.0)
    worst = max(worst, abs(other - share))
    print(f"  {share:6.2f} % {other:6.2f} %  {name[:90]}")
names = ours.get("names", {})
for whose in ("user", "kernel"):
    counted = names.get(whose, {})
    if counted.get("frames"):
        print(f"  {whose} frames with a name: {100 * counted['named'] / counted['frames']:.1f} % of {counted['frames']}")
for row in names.get("unnamed", [])[:5]:
    print(f"    {100 * row['share']:.1f} % without one: {row['file']}, {row['why']}")
print(f"  greatest difference of the ten: {worst:.2f} points")
sys.exit(worst > float(limit))
PY

failed=0
for name in "${servers[@]}"; do
    server=
    case $name in
    arena) serve_arena ;;
    memcached) serve_memcached ;;
    redis) serve_redis ;;
    ddnet) serve_ddnet ;;
    *) exit 2 ;;
    esac || { say "skipped $name: it is not installed"; continue; }
    sleep 1
    kill -0 "$server" 2>/dev/null || { say "skipped $name: it did not start: $(tail -n 1 "$folder/log")"; continue; }
    perf record -q -o "$folder/$name.data" -e cpu-clock -F "$hz" -g -p "$server" -- sleep "$seconds" >/dev/null 2>&1
    perf report -i "$folder/$name.data" --no-children -g none --percent-limit 0 --sort dso,sym -t $'\t' 2>/dev/null |
        grep -v '^#' >"$folder/theirs" || true
    "$build/evenkeel" profile view --no-cache --json --top 10000 "$folder/$name.data" >"$folder/ours"
    echo "$name: $(perf script -i "$folder/$name.data" -F time 2>/dev/null | grep -c . || true) samples; perf, evenkeel"
    python3 "$folder/compare.py" "$folder/ours" "$folder/theirs" "$points" || failed=1
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    started=()
done
[ "$failed" -eq 0 ]
