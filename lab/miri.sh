#!/usr/bin/env bash
# The parts of the locks and the job system that are unsafe, interpreted by miri: undefined behaviour, races, leaks. What it can't run is
# left to the model checker (`make model`) and ThreadSanitizer: locks whose holder inherits priority (it has no FUTEX_LOCK_PI), what asks
# the kernel for the time a thread waited, rings that the kernel writes to.
#
# usage: lab/miri.sh
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

need cargo rustup
cargo +nightly miri --version >/dev/null 2>&1 || die "miri is missing: rustup component add --toolchain nightly miri rust-src"
cd "$TOP"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$TOP/target}/miri
# rustix by way of libc, whose calls miri knows; the clock and the number of CPUs are the machine's.
export MIRIFLAGS=-Zmiri-disable-isolation RUSTFLAGS='--cfg rustix_use_libc'
cargo +nightly miri test --locked -p evenkeel-sys --lib -- \
    job:: lock::event lock::plain lock::read_write telemetry::sequence --skip clock::
