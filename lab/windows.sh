#!/usr/bin/env bash
# Runs the unit tests of evenkeel-rt as Windows programs, under Wine: ticks, locks and jobs on the plain fallback of src/portable in
# evenkeel-sys. Tests of what only Linux has are excluded by `cfg` in their source; src/other_systems.rs of evenkeel-rt runs only
# here.
#
# usage: lab/windows.sh
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

target=x86_64-pc-windows-gnu
need rustup rustup
rustup target list --installed | grep -qx "$target" || die "$target is missing: rustup target add $target"
need x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
need wine "wine wine64"

cd "$TOP"
# A separate folder for Wine's files, so that the user's settings are neither read nor changed.
WINEPREFIX=$(mktemp -d)
export WINEPREFIX WINEDEBUG=-all
trap 'wineserver -k 2>/dev/null || true; rm -rf "$WINEPREFIX"' EXIT
say "$(wine --version 2>/dev/null)"
wine wineboot --init >/dev/null 2>&1 || true

# Rust takes random numbers from a library that older Wine (Debian 12 has 8.0) lacks.
library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
if [ ! -e "$library" ]; then
    x86_64-w64-mingw32-gcc -shared -o "$library" -x c - -ladvapi32 <<'C' || die 'no stand-in for bcryptprimitives.dll could be built'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T size) { return SystemFunction036(bytes, (ULONG)size); }
C
fi
CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine cargo test --locked --target "$target" -p evenkeel-rt --lib
