#!/usr/bin/env bash
# Runs every test. The suites run beside the unit tests and the examples of the documentation, because neither keeps all CPUs busy to its
# end: one after the other they take a quarter longer. What the second half prints comes after the suites.
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
# Some tests wait for a watchdog or for a lock, and the CPUs for them: with one thread per CPU, the suite of the program takes a quarter longer.
suite_threads=${RUST_TEST_THREADS:-$((4 * $(nproc)))}
unit_threads=${RUST_TEST_THREADS:-$(nproc)}

"$cargo" test --locked --no-run "$@"

units() {
    local code=0
    RUST_TEST_THREADS=$unit_threads "$cargo" test --locked --no-fail-fast "$@" --lib --bins || code=1
    # Without programs to build, other features of the crates for Kubernetes are selected, which then compile for half a minute again.
    # evenkeel-fleet, which alone needs them, has no examples in its documentation: a test of the rules holds that.
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
