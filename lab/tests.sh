#!/usr/bin/env bash
# Runs every test. The suites run at the same time as the unit tests and the documentation examples, because neither keeps all CPUs busy
# until its end. One after the other, they would take a quarter longer. The output of the unit tests and examples comes after that of the
# suites.
#
# usage: lab/tests.sh LOG OPTION-OF-CARGO-TEST...
#
# LOG is the file that keeps what the unit tests and examples print.
set -euo pipefail
# Each job is a process group of its own, which can be ended whole.
set -m

log=$1
shift
cargo=${CARGO:-cargo}
# Some tests wait for a watchdog or a lock, and leave their CPU idle. With one thread per CPU, the suite of the program takes a quarter
# longer.
suite_threads=${RUST_TEST_THREADS:-$((4 * $(nproc)))}
unit_threads=${RUST_TEST_THREADS:-$(nproc)}

"$cargo" test --locked --no-run "$@"

units() {
    local code=0
    RUST_TEST_THREADS=$unit_threads "$cargo" test --locked --no-fail-fast "$@" --lib --bins || code=1
    # With `--doc`, cargo selects other features of the Kubernetes crates, and would compile them again for half a minute. Only
    # evenkeel-fleet needs these crates. It has no documentation examples, and a test enforces that.
    RUST_TEST_THREADS=$unit_threads "$cargo" test --locked --no-fail-fast "$@" --exclude evenkeel-fleet --doc || code=1
    return "$code"
}
units "$@" >"$log" 2>&1 &
units=$!
trap 'kill -- -"$units" 2>/dev/null || true' EXIT

code=0
# Every test program but the live checks, which are all called `live`.
RUST_TEST_THREADS=$suite_threads "$cargo" test --locked --no-fail-fast "$@" --test '[!l]*' || code=1
echo "waiting for the unit tests and the examples"
wait "$units" || code=1
trap - EXIT
cat "$log"
exit "$code"
