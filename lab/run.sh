#!/usr/bin/env bash
# The parts of `make lab`: everything that takes too long, or needs too much software, for `make test`. A part that cannot run is reported
# as skipped, and listed again at the end with the reason. A part that fails makes the whole fail, after the others have run.
set -uo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
cd "$TOP" || exit 1
mkdir -p "$WORK"

failed=()
# part NAME COMMAND…: exit code 4 means that something is missing, as in `die`.
part() {
    local name=$1 status=0
    shift
    say "$name"
    # In a separate shell, and with its output saved: parts report what they skipped.
    { "$@" 2>&1 || echo "$?" >"$WORK/status"; } | tee -a "$WORK/run.log" >&2
    [ -e "$WORK/status" ] && status=$(cat "$WORK/status") && rm "$WORK/status"
    case $status in
    0) ;;
    4) say "skipped $name (it said: $(tail -n 1 "$WORK/run.log"))" 2>&1 | tee -a "$WORK/run.log" >&2 ;;
    *) failed+=("$name") ;;
    esac
}

mutations() {
    EVENKEEL_MUTATIONS=100000 cargo test --release --locked -p evenkeel-host -p evenkeel --test suite mutations -- --nocapture --skip files_of
}

files() {
    EVENKEEL_MUTATIONS=1000000 cargo test --release --locked -p evenkeel --test suite mutations::files_of -- --nocapture
}

crashes() {
    cargo build --release --locked -p evenkeel || return 1
    "$LAB/crash.sh"
}

pages() {
    cargo build --release --locked -p evenkeel || return 1
    "$LAB/pages.sh" "${CARGO_TARGET_DIR:-target}/release"
}

edits() {
    EVENKEEL_CASES=100000 cargo test --release --locked -p evenkeel-change --lib -- edit:: persist::tests::grub --nocapture
}

rm -f "$WORK/run.log" "$WORK/status"
part 'guests, captured anew' "$LAB/machines.sh"
part 'facts against independent tools, field by field' "$LAB/agree.sh"
part 'kernel arguments, by an image and by grub' "$LAB/kernel-line.sh"
part 'slots of a robbed virtual CPU' "$LAB/quantum.sh"
part 'a guest stopped and robbed under the gaps meter' "$LAB/gaps.sh"
part 'wakes of guests that idle in different ways' "$LAB/wake-in-guests.sh"
part 'packages in a fresh Debian' "$LAB/packages.sh"
part 'the image in containers' "$LAB/container.sh"
part 'the package under systemd' "$LAB/systemd.sh"
part 'reboots and power cuts' "$LAB/reboot.sh"
part 'tries that nobody confirms, under systemd' "$LAB/tries.sh"
part 'trials over boots' "$LAB/boots.sh"
part 'the Ansible collection, by ansible-test' "$LAB/ansible-sanity.sh"
part 'HTML pages in Chromium' pages
part '100,000 mutated captures' mutations
part '1,000,000 mutated files of every format' files
part 'killed at every system call' crashes
part '100,000 edited files of kernel arguments' edits
part 'the library for C under ThreadSanitizer' "$LAB/thread-sanitizer.sh"
part 'the runtime library as Windows programs' "$LAB/windows.sh"
part 'locks and jobs under miri' "$LAB/miri.sh"
part 'fuzz targets' "$LAB/fuzz.sh" -t "${EVENKEEL_FUZZ_SECONDS:-10}"

say 'what was skipped:'
grep -i skipped "$WORK/run.log" | cut -c1-200 >&2 || say 'nothing'
[ ${#failed[@]} -eq 0 ] || { say "failed: ${failed[*]}"; exit 1; }
