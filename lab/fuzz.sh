#!/usr/bin/env bash
# Runs fuzz targets for a number of seconds each, and prints what they found. New corpus files go to target/lab/fuzz, not into git.
#
# usage: lab/fuzz.sh [-t SECONDS] [TARGET…]          (default: all targets, 30 seconds each)
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

seconds=30
while getopts t: option; do
    case $option in
    t) seconds=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

need cargo rustup
export PATH=$PATH:$TOP/target/tools/bin
cargo fuzz --version >/dev/null 2>&1 || die "cargo-fuzz is missing: cargo install --locked cargo-fuzz --root target/tools"
cargo +nightly --version >/dev/null 2>&1 || die "the nightly compiler is missing: rustup toolchain install nightly --profile minimal"
cd "$TOP"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$TOP/target}/fuzz
if [ $# -eq 0 ]; then
    mapfile -t all < <(sed -n '/^\[\[bin\]\]/{n;s/^name = "\(.*\)"$/\1/p}' fuzz/Cargo.toml)
    set -- "${all[@]}"
fi
# Without a sanitizer, because only evenkeel-sys has unsafe code, and targets run several times as fast.
for target in "$@"; do
    cargo +nightly fuzz build -s none "$target" >&2 || die "the fuzz target $target does not build"
done
failed=()
for target in "$@"; do
    found=$WORK/fuzz/$target
    mkdir -p "$found"
    # A run that takes over a second, or over 1 GB, is a finding.
    if cargo +nightly fuzz run -s none "$target" "$found" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=1 -rss_limit_mb=1024 -print_final_stats=1 >"$found.log" 2>&1; then
        stat() { sed -n "s/^stat::$1: *//p" "$found.log"; }
        say "$target: $(stat number_of_executed_units) runs in $seconds s, $(stat new_units_added) new inputs, $(stat peak_rss_mb) MB at most"
    else
        failed+=("$target")
        say "$target: FOUND SOMETHING; see $found.log; the input is in fuzz/artifacts/$target"
    fi
done
[ ${#failed[@]} -eq 0 ] || { say "findings in ${failed[*]}"; exit 1; }
