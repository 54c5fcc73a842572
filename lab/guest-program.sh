#!/usr/bin/env bash
# Builds a static evenkeel for x86_64 (default) or aarch64, and prints its path.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

machine=${1:-x86_64}
target=$machine-unknown-linux-musl
need cargo rustup
if ! rustc --print target-libdir --target "$target" | xargs test -d; then
    need rustup rustup
    rustup -q target add "$target" >&2 || die "the Rust target $target cannot be installed"
fi
cd "$TOP"
# evenkeel contains no C, so the linker and the libraries of the Rust toolchain are enough to build for another processor.
linker=()
[ "$machine" = "$(uname -m)" ] || linker=(--config "target.$target.linker='rust-lld'")
cargo build --quiet --profile guest --locked --target "$target" "${linker[@]}" -p evenkeel >&2
echo "${CARGO_TARGET_DIR:-$TOP/target}/$target/guest/evenkeel"
