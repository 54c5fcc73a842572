#!/usr/bin/env bash
# Builds an evenkeel that needs no libraries, and prints where it is.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

target=x86_64-unknown-linux-musl
need cargo rustup
if ! rustc --print target-libdir --target "$target" | xargs test -d; then
    need rustup rustup
    rustup -q target add "$target" >&2 || die "the Rust target $target cannot be installed"
fi
cd "$TOP"
cargo build --quiet --release --locked --target "$target" -p evenkeel >&2
echo "${CARGO_TARGET_DIR:-$TOP/target}/$target/release/evenkeel"
