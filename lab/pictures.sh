#!/bin/sh
# Makes the pictures of the README by the program itself: the topology of a captured machine, a flame graph of the reference server under
# players, and a terminal session. The flame graph and the session are recordings of the machine that runs this script, so they differ a
# little each time.
#
# usage: lab/pictures.sh PROGRAMS    the folder of evenkeel, evenkeel-arena and evenkeel-bots
set -eu
cd "$(dirname "$0")/.."

programs=$(cd "$1" && pwd)
evenkeel=$programs/evenkeel
folder=$(mktemp -d)
server=
bots=
end() {
    # The server and its players end when their standard input ends. Wait for them, so that no process is left behind.
    exec 3>&- 4>&- || true
    [ -z "$bots" ] || wait "$bots" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

"$evenkeel" inspect --topology=svg --host hosts/aws-c5n.xlarge-nitro-6.1.txt >docs/topology.svg

if [ "$(id -u)" -eq 0 ]; then
    mkfifo "$folder/server" "$folder/bots"
    "$programs/evenkeel-arena" --players 64 <"$folder/server" >"$folder/says" &
    server=$!
    exec 3>"$folder/server"
    until grep -q '[0-9]' "$folder/says" 2>/dev/null; do sleep 0.1; done
    address=$(grep -o '127\.0\.0\.1:[0-9]*' "$folder/says" | head -n 1)
    "$programs/evenkeel-bots" --connect "$address" --bots 40 <"$folder/bots" >/dev/null &
    bots=$!
    exec 4>"$folder/bots"
    # Wait until the players have spread over the map.
    sleep 5
    # The picture shows the command that recorded it, so the command is run without folder names.
    (cd "$folder" && PATH=$programs:$PATH evenkeel profile record --pid "$server" --hz 199 --seconds 8 --output arena.data) >/dev/null
    "$evenkeel" profile view "$folder/arena.data" --by nothing --output docs/flame.svg --force >/dev/null
else
    echo "skipped: docs/flame.svg needs root, to record a server"
fi

if command -v python3 >/dev/null 2>&1; then
    PATH=$programs:$PATH python3 lab/terminal_svg.py docs/session.svg \
        'evenkeel audit --host hosts/gcp-n2-kvm-swap-5.14.txt | head -n 6' \
        'evenkeel prove process.timer_slack_ns=1 --workload tick --window 300ms --seed 5'
else
    echo "skipped: docs/session.svg needs python3"
fi
ls -l docs/topology.svg docs/flame.svg docs/session.svg
