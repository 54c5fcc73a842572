#!/usr/bin/env bash
# Starts one server of the zoo in the foreground: servers that nobody prepared for evenkeel. The script ends by exec, so its process becomes
# the server. The server listens on loopback only, on a free port, with its state in a folder of its own under /tmp; `src/keeper.py`, in
# another session, removes that folder and ends the load once the server has ended. The caller bounds the time.
#
# usage: lab/zoo/run.sh NAME [idle|load]     ZOO_PORT=N takes that port; ZOO_WORK_PERCENT=110 plants more work (synthetic servers only);
#                                           ZOO_PRELOAD=LIBRARY is loaded into the server alone (planted.sh)
#                                           ZOO_LOG=FILE takes what the load prints (players say the server's own count of ticks)
#        lab/zoo/run.sh --list               truth.tsv as a table
#        lab/zoo/run.sh --names              NAME MODE, a line each
#        lab/zoo/run.sh --build              builds the synthetic servers (any start does that, too)
# Exit code 4: the server is not installed (lab/zoo/setup.sh).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$(dirname "$here")")
out=${CARGO_TARGET_DIR:-$top/target}/lab/zoo
src=$here/src
PATH=$PATH:/usr/sbin:/usr/games:/usr/lib/hedgewars/bin:/usr/local/go/bin

# Use Debian's Python: a version manager's `python3` is a script that takes a second to start.
python=/usr/bin/python3
[ -x $python ] || python=python3

die() {
    echo "zoo: $1" >&2
    exit "${2:-4}"
}

# stale FILE SOURCE…: whether FILE must be built.
stale() {
    local file=$1 source
    shift
    [ -e "$file" ] || return 0
    for source; do [ "$source" -nt "$file" ] && return 0; done
    return 1
}

build() {
    mkdir -p "$out"
    case $1 in
    asio*) ! stale "$out/asio" "$src/asio.cc" "$src/work.h" || c++ -O2 -std=c++17 -pthread -o "$out/asio" "$src/asio.cc" ;;
    pool) ! stale "$out/pool" "$src/pool.cc" "$src/work.h" || c++ -O2 -std=c++17 -pthread -o "$out/pool" "$src/pool.cc" ;;
    go-*) ! stale "$out/ticker" "$src/ticker.go" || go build -o "$out/ticker" "$src/ticker.go" ;;
    java-*) ! stale "$out/Fixed.class" "$src/Fixed.java" || javac -d "$out" "$src/Fixed.java" ;;
    tokio*)
        ! stale "$out/tokio/release/zoo-tokio" "$src/tokio/src/main.rs" ||
            (cd "$src/tokio" && CARGO_TARGET_DIR=$out/tokio cargo build -q --release)
        ;;
    esac >&2 || die "cannot build $1"
}

free_port() {
    $python -c 'import socket
while True:
    tcp = socket.socket(); tcp.bind(("127.0.0.1", 0)); port = tcp.getsockname()[1]
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", port)); print(port); break
    except OSError: pass'
}

# serve COMMAND…: starts the keeper and becomes the server. `closed=yes`: in a network namespace with its own loopback, for servers without
# an address option. `user=nobody`: for those that refuse root.
serve() {
    local before=()
    command -v "$1" >/dev/null 2>&1 || { rm -rf "$dir"; die "$1 is not installed: lab/zoo/setup.sh"; }
    cd "$dir"
    export HOME=$dir
    if [ "${closed:-no}" = yes ]; then
        # shellcheck disable=SC2016 # the inner shell expands it
        before=(unshare -n sh -c 'ip link set lo up; exec "$@"' sh)
        [ "${#load[@]}" -eq 0 ] || load=(nsenter -t $$ -n "${load[@]}")
    fi
    if [ -n "${user:-}" ] && [ "$(id -u)" -eq 0 ]; then
        chown -R "$user" "$dir"
        before+=(setpriv --reuid="$user" --regid=nogroup --clear-groups)
    fi
    "$python" "$src/keeper.py" $$ "$dir" "${load[@]}" </dev/null >/dev/null 2>&1
    [ -z "${ZOO_PRELOAD:-}" ] || before+=(env "LD_PRELOAD=$ZOO_PRELOAD")
    # Standard input stays open, like a terminal where nobody types: some servers spin on a standard input that has ended.
    mkfifo "$dir/stdin"
    exec "${before[@]}" "$@" 0<>"$dir/stdin"
}

case ${1:-} in
--list)
    exec column -t -s "$(printf '\t')" "$here/truth.tsv"
    ;;
--names)
    exec awk -F '\t' 'NR > 1 { print $1, $2 }' "$here/truth.tsv"
    ;;
--build)
    for one in asio pool go- java- tokio; do build "$one"; done
    exit 0
    ;;
'' | -*) die "usage: lab/zoo/run.sh NAME [idle|load] | --list | --names | --build" 2 ;;
esac
name=$1 mode=${2:-idle}
case $mode in idle | load) ;; *) die "$mode is neither idle nor load" 2 ;; esac
build "$name"
port=${ZOO_PORT:-$(free_port)}
dir=$(mktemp -d "/tmp/zoo-$name.XXXXXX")
load=()
# with KIND [ARGUMENT…]: src/load.py is the load, if the mode is `load`.
with() { [ "$mode" = idle ] || load=("$python" "$src/load.py" "$1" "$port" "${@:2}"); }
# players GAME: four players of src/players.py are the load.
players() { [ "$mode" = idle ] || load=("$python" "$src/players.py" "$1" "$port" 4); }
# no_load: this server has no load but its own.
no_load() { [ "$mode" = idle ] || { rm -rf "$dir"; die "$name has no load: run it idle" 2; }; }
# shellcheck source=lab/zoo/servers.sh
. "$here/servers.sh"
rm -rf "$dir"
die "$name is not in the zoo: see --list" 2
