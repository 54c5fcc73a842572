#!/usr/bin/env bash
# Checks whether evenkeel-rt and its library for C compile for systems other than Linux, where they have a plain fallback. The script checks
# each target that rustup has installed, and lists the other targets as skipped: deploy/setup.sh lab installs them.
#
# usage: lab/other-systems.sh
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

cd "$TOP"
if ! command -v rustup >/dev/null 2>&1; then
    say 'other systems are skipped: rustup is missing'
    exit 0
fi
installed=$(rustup target list --installed)
for target in x86_64-pc-windows-gnu x86_64-apple-darwin; do
    if grep -qx "$target" <<<"$installed"; then
        # Makes warnings errors by clippy's own flags. RUSTFLAGS would rebuild files that other builds share.
        "${CARGO:-cargo}" clippy --locked -p evenkeel-rt -p evenkeel-rt-c --features evenkeel-rt/agones,evenkeel-rt/tracing \
            --target "$target" -- -D warnings
    else
        say "$target is skipped: rustup target add $target (deploy/setup.sh lab)"
    fi
done
