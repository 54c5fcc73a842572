#!/usr/bin/env bash
# Compares what `evenkeel measure gaps`, oslat and cyclictest measure of a planted disturbance, interleaved in one run, and the CPU time of
# each. A real-time hog takes 2 ms of every 20 ms of the last CPU. Each program measures that CPU for SECONDS, ROUNDS times.
# hwlatdetect runs too, if the kernel has the hwlat tracer.
#
# usage: lab/gaps-beside-peers.sh [SECONDS [ROUNDS]]     (5 seconds, 3 rounds)
# Exit code 4: a program, root or a second CPU is missing.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

seconds=${1:-5}
rounds=${2:-3}
evenkeel=${EVENKEEL:-${CARGO_TARGET_DIR:-$TOP/target}/release/evenkeel}
[ -x "$evenkeel" ] || die "$evenkeel is missing: make build (or name it in EVENKEEL)"
need cyclictest rt-tests
need oslat rt-tests
need python3 python3-minimal
[ "$(id -u)" -eq 0 ] || die "the real-time hog needs root"
cpu=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')

scratch=$(mktemp -d)
hog=
tidy() {
    [ -z "$hog" ] || kill "$hog" 2>/dev/null || true
    rm -rf "$scratch"
}
trap tidy EXIT

# The disturbance: bounded in time by itself, and ended by the kernel if this script is killed (PR_SET_PDEATHSIG).
cat >"$scratch/hog.py" <<'PY'
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
cpu, seconds = int(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
turn, turns, taken = time.monotonic_ns() + 10**7, 0, 0
end = turn + int(seconds * 1e9)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    while turn < end:
        time.sleep(max(0, turn - time.monotonic_ns()) / 1e9)
        start = time.monotonic_ns()
        while time.monotonic_ns() < turn + 2_000_000:
            pass
        taken += time.monotonic_ns() - start
        turns += 1
        turn += 20_000_000
finally:
    print(f"took {turns} times, {taken / 1e6:.1f} ms in all", flush=True)
PY

# under NAME COMMAND…: runs the command under the disturbance; prints wall time and CPU time of the whole process.
under() {
    local name=$1
    shift
    python3 "$scratch/hog.py" "$cpu" "$((seconds + 4))" >"$scratch/hog.out" &
    hog=$!
    sleep 0.3
    TIMEFORMAT="%R %U %S"
    { time "$@" >"$scratch/$name.out" 2>"$scratch/$name.err" || true; } 2>"$scratch/time"
    kill "$hog" 2>/dev/null || true
    wait "$hog" 2>/dev/null || true
    hog=
    awk -v name="$name" '{ printf "  %-22s wall %.2f s, CPU %.2f s (%.1f %% of one CPU)\n", name, $1, $2 + $3, ($2 + $3) / $1 * 100 }' "$scratch/time"
    sed 's/^/    hog: /' "$scratch/hog.out"
}

gaps_saw() {
    python3 - "$1" <<'PY'
import json, sys
cpu = json.load(open(sys.argv[1]))["cpus"][0]
hog = [gap for gap in cpu["gaps"] if 1_000_000 < gap["length_ns"] and (gap.get("by") or "").startswith("python3")]
lengths = sorted(gap["length_ns"] for gap in hog)
middle = lengths[len(lengths) // 2] / 1e3 if lengths else 0
causes = ", ".join(f"{name} {cause['count']} ({cause['total_ns'] / 1e6:.1f} ms)" for name, cause in sorted(cpu["causes"].items()))
print(f"    saw: {len(hog)} gaps over 1 ms by the hog, by name, median {middle:.1f} us; all: {causes}; longest {cpu['all']['longest_ns'] / 1e3:.0f} us")
PY
}

for ((round = 1; round <= rounds; round++)); do
    echo "round $round of $rounds, CPU $cpu, $seconds s each, 2 ms of every 20 ms taken"
    under gaps "$evenkeel" measure gaps --cpus "$cpu" --seconds "$seconds" --json
    gaps_saw "$scratch/gaps.out"
    under gaps-sample "$evenkeel" measure gaps --cpus "$cpu" --seconds "$seconds" --sample --json
    python3 -c 'import json, sys
cpu = json.load(open(sys.argv[1]))["cpus"][0]
late = cpu["wake_late"]["summary"]
print("    saw:", cpu["all"]["count"], "gaps in", cpu["watched_ns"] // 1000, "us watched;", late["count"], "wakes, the latest by", late["max"] // 1000, "us")' "$scratch/gaps-sample.out"
    under oslat oslat -c "$cpu" -D "$seconds" -b 32 -q
    grep -E '^ *(Maximum|Minimum|Average|Over|Max|Min|Avg)' "$scratch/oslat.out" | sed 's/^/    saw: /' || true
    # By default cyclictest holds /dev/cpu_dma_latency at 0, and so changes the machine that it measures. --default-system turns that off.
    under cyclictest cyclictest -q -a "$cpu" -t 1 -p 20 -i 1000 -D "$seconds" --default-system
    grep -E '^T:' "$scratch/cyclictest.out" | sed 's/^/    saw: /' || true
done
if command -v hwlatdetect >/dev/null 2>&1; then
    echo "hwlatdetect: $(hwlatdetect --duration=1 2>&1 | tail -1)"
else
    echo "hwlatdetect: not installed"
fi
