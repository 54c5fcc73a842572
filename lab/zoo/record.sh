#!/usr/bin/env bash
# Records a server of the zoo, for the replay tests (crates/measure/tests/suite/ticks_zoo): starts it, waits until it has settled, and
# watches it from outside. The script stores the page's contents, and the server's own count of its ticks if there is one, next to the
# recording.
#
# usage: lab/zoo/record.sh NAME [idle|load] [FOLDER] [SECONDS]     FOLDER is target/zoo unless named; 8 seconds
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$(dirname "$here")")
name=${1:?usage: lab/zoo/record.sh NAME [idle|load] [FOLDER] [SECONDS]} mode=${2:-idle} folder=${3:-$top/target/zoo} seconds=${4:-8}
evenkeel=${EVENKEEL:-$top/target/release/evenkeel}
mkdir -p "$folder"
setsid "$here/run.sh" "$name" "$mode" >"$folder/$name-$mode.own" 2>&1 &
server=$!
end() {
    kill -TERM -- "-$server" 2>/dev/null || true
    sleep 0.5
    kill -KILL -- "-$server" 2>/dev/null || true
}
trap end EXIT
sleep 5
kill -0 "$server" 2>/dev/null || { cat "$folder/$name-$mode.own" >&2; exit 4; }
"$evenkeel" measure ticks --pid "$server" --seconds "$seconds" --save "$folder/$name-$mode.txt" | tee "$folder/$name-$mode.page"
