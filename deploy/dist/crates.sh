#!/bin/bash
# Packages the Rust libraries as a registry gets them, and builds each from its package.
#
# usage: deploy/dist/crates.sh
#
# The script packages the last commit in a copy, and allows publishing there: cargo resolves packages among themselves only if they may be
# published. It uses the network only if a dependency is missing here. Writes target/dist/crates.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

libraries=(-p evenkeel-sys -p evenkeel-stats -p evenkeel-rt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q "$repository" "$work/copy"
cd "$work/copy"
sed -i 's/^publish = false$/publish = true/' Cargo.toml
grep -q '^publish = true$' Cargo.toml || fail "Cargo.toml has no line 'publish = false'"

package() { CARGO_TARGET_DIR=$work/built CARGO_INCREMENTAL=0 "${CARGO:-cargo}" package --locked --allow-dirty "$@" "${libraries[@]}"; }
package --offline || package
# Every feature that the documentation is built with must compile too.
package --offline --all-features || package --all-features
mkdir -p "$dist/crates"
cp "$work"/built/package/*.crate "$dist/crates/"
