#!/usr/bin/env bash
# Runs the unsafe parts of the locks and the job system under miri: undefined behaviour, races, leaks. The model checker (`make model`) and
# ThreadSanitizer cover the parts that miri cannot run: locks with priority inheritance (miri has no FUTEX_LOCK_PI), calls that ask the
# kernel how long a thread waited, and rings that the kernel writes to.
#
# usage: lab/miri.sh
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

need cargo rustup
cargo +nightly miri --version >/dev/null 2>&1 || die "miri is missing: rustup component add --toolchain nightly miri rust-src"
cd "$TOP"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$TOP/target}/miri
# rustix uses libc, whose calls miri knows. The clock and the number of CPUs are the machine's.
export MIRIFLAGS=-Zmiri-disable-isolation RUSTFLAGS='--cfg rustix_use_libc'
cargo +nightly miri test --locked -p evenkeel-sys --lib -- \
    job:: lock::event lock::plain lock::read_write telemetry::sequence --skip clock::
