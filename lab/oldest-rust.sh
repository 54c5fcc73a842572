#!/usr/bin/env bash
# Checks whether the oldest Rust that Cargo.toml promises (rust-version) compiles the workspace. The benches are left out, because the peers
# that they compare with need a later Rust.
#
# usage: lab/oldest-rust.sh [OPTION-OF-CARGO-CHECK ...]
#
# The script installs that toolchain if rustup can get it. Exit code 4: rustup cannot get the toolchain.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

cd "$TOP"
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v rustup >/dev/null 2>&1 || die "Rust $oldest is skipped: rustup is missing"
rustup run "$oldest" rustc --version >/dev/null 2>&1 || rustup -q toolchain install --profile minimal "$oldest" >&2 ||
    die "Rust $oldest is skipped: rustup cannot install it"
# Uses that toolchain's own cargo, because `cargo` may belong to another one. The target folder is separate, because toolchains cannot share
# it.
rustup run "$oldest" cargo check --locked --target-dir "${CARGO_TARGET_DIR:-target}/oldest" \
    --workspace --exclude evenkeel-bench --exclude evenkeel-bench-uring "$@"
