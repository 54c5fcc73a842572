#!/usr/bin/env bash
# Runs the library for C under ThreadSanitizer: rt-c and Rust's own library are built with it, and so are C programs that share clocks,
# locks, events, scopes and handles between threads. A data race ends a program with its stack, and fails the test. First, a program with a
# deliberate race shows that ThreadSanitizer finds races here.
#
# usage: lab/thread-sanitizer.sh
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

need cargo rustup
need cc gcc
cargo +nightly --version >/dev/null 2>&1 || die "the nightly compiler is missing: rustup toolchain install nightly --profile minimal"
source=$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library
[ -d "$source" ] || die "Rust's own sources are missing: rustup component add --toolchain nightly rust-src"
target=$(rustc +nightly -vV | sed -n 's/^host: //p')
cd "$TOP"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$TOP/target}/tsan
say 'building, Rust itself included'
# Without the rest of the standard library's sources, this build is not possible.
RUSTFLAGS='-Zsanitizer=thread' cargo +nightly build -Zbuild-std --target "$target" -p evenkeel-rt-c >&2 ||
    die 'the library does not build with ThreadSanitizer'
built=$CARGO_TARGET_DIR/$target/debug
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# gcc instruments the C code, and Rust's sanitizer runtime runs it: gcc's own lacks functions that LLVM calls.
runtime=$(rustc +nightly --print sysroot)/lib/rustlib/$target/lib/librustc-nightly_rt.tsan.a
[ -f "$runtime" ] || die "the nightly compiler has no runtime of ThreadSanitizer: $runtime"
compile() {
    cc -g -O1 -fsanitize=thread -Wall -Wextra -Werror -I crates/rt-c/include -c "$1" -o "$2.o"
    cc "$2.o" "$built/libevenkeel_rt_c.a" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive -o "$2" \
        -lgcc_s -lutil -lrt -lpthread -lm -ldl
}
cat >"$out/race.c" <<'C'
#include <evenkeel_rt.h>
#include <pthread.h>
static int shared;
static void *write_it(void *none) { shared++; return none; }
int main(void)
{
    pthread_t one, two;
    pthread_create(&one, NULL, write_it, NULL);
    pthread_create(&two, NULL, write_it, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return evenkeel_abi_version() == EVENKEEL_ABI_VERSION ? shared - 2 : 1;
}
C
export TSAN_OPTIONS='halt_on_error=1 exitcode=66'
compile "$out/race.c" "$out/race" || die 'no program links with ThreadSanitizer here'
# If it cannot start (a kernel with more address randomisation than it supports), it reports that and finds nothing.
code=0
setarch "$(uname -m)" -R "$out/race" >"$out/race.log" 2>&1 || code=$?
[ "$code" -eq 66 ] || die "ThreadSanitizer does not find a race on purpose (exit code $code): $(head -c 300 "$out/race.log")"

failed=()
for program in threads jobs misuse; do
    compile "crates/rt-c/tests/c/$program.c" "$out/$program"
    code=0
    setarch "$(uname -m)" -R "$out/$program" >"$out/$program.log" 2>&1 || code=$?
    if [ "$code" -eq 0 ]; then
        say "$program: no race"
    else
        failed+=("$program")
        say "$program: exit code $code"
        tail -n 60 "$out/$program.log" >&2
    fi
done
[ ${#failed[@]} -eq 0 ] || { say "failed: ${failed[*]}"; exit 1; }
