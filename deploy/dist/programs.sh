#!/bin/bash
# Builds the programs for one processor, static and stripped. Their line tables are in separate files, which debuggers find by build id.
#
# usage: deploy/dist/programs.sh ARCH
#
#   ARCH   x86_64 or aarch64
#
# Writes target/dist/ARCH/bin, target/dist/ARCH/debug, and target/dist/ARCH/kubernetes for the container image.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

arch=${1:?usage: programs.sh ARCH}
target=$arch-unknown-linux-musl
# The maximum size of the program, because hosts download it and images contain it.
bytes_max=15000000
built=${DIST_BUILD:-$repository/target}/dist-$arch
cargo=${CARGO:-cargo}

# A panic aborts the program, so it needs no index of its unwind tables. The 16,000 relative relocations are packed.
to_linker=(--build-id=sha1 --no-eh-frame-hdr -z pack-relative-relocs)
case $arch in
"$(uname -m)") linker='' to_linker=("${to_linker[@]/#/-Wl,}") ;;
# The toolchain's own linker, called without a compiler in between: no cross compiler has to be installed.
x86_64 | aarch64) linker='-C linker=rust-lld' ;;
*) fail "no release is built for $arch" "x86_64 or aarch64" ;;
esac
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    command -v rustup >/dev/null || fail "the standard library for $target is missing" "install it, or rustup, which installs it"
    rustup target add "$target"
fi

# Panic messages and line tables name source files. Without these options they would name the folders of the build machine.
registry=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="$linker ${to_linker[*]/#/-C link-arg=} --remap-path-prefix=$repository=/usr/src/evenkeel --remap-path-prefix=$registry=/usr/src/cargo"
RUSTFLAGS+=" --remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/usr/src/rust"
RUSTFLAGS+=" -C force-unwind-tables=no"
export RUSTFLAGS CARGO_INCREMENTAL=0
unset CARGO_TARGET_DIR
(cd "$repository" && $cargo build --profile dist --locked --target "$target" --target-dir "$built" -p evenkeel -p evenkeel-arena)

rm -rf "${dist:?}/$arch"
mkdir -p "$dist/$arch/bin" "$dist/$arch/debug"
# This objcopy handles object files of any processor; the system's objcopy may handle only those of its own processor.
objcopy=(objcopy)
if [ "$arch" != "$(uname -m)" ]; then
    # The toolchain has such an objcopy, which finds its library only in the toolchain's folder.
    sysroot=$(rustc --print sysroot)
    of_rust=$(find "$sysroot" -name rust-objcopy | head -1)
    [ -n "$of_rust" ] || fail "no objcopy for $arch" "rustup component add llvm-tools"
    objcopy=(env "LD_LIBRARY_PATH=$sysroot/lib" "$of_rust")
fi
# The unwind tables are a ninth of the program, and the program never reads them: a panic aborts. Without them a debugger shows functions and
# lines, but no callers. The arena and its bots keep theirs, because people profile them. The toolchain's own objcopy leaves a hole in place
# of a section, so it saves nothing.
without_tables=()
[ "$arch" != "$(uname -m)" ] || without_tables=(--remove-section=.eh_frame --remove-section=.gcc_except_table)
# The container image also runs as the agent of a Kubernetes node. The Kubernetes client would make the program for hosts a third larger.
kubernetes=$dist/$arch/kubernetes
mkdir -p "$kubernetes"
# The TLS library of that client has parts in C and assembler.
export CC_x86_64_unknown_linux_musl=musl-gcc CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc
if [ "$arch" = aarch64 ] && ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    fail "the program of the image has parts in C, and there is no compiler for $arch" "apt-get install --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
fi
(cd "$repository" && $cargo build --profile dist --locked --target "$target" --target-dir "$built/kubernetes" -p evenkeel --features kubernetes)
"${objcopy[@]}" --strip-all "${without_tables[@]}" "$built/kubernetes/$target/dist/evenkeel" "$kubernetes/evenkeel"
for program in evenkeel evenkeel-arena evenkeel-bots; do
    from=$built/$target/dist/$program to=$dist/$arch/bin/$program
    id=$(readelf -n "$from" | sed -n 's/.*Build ID: \([0-9a-f]*\)/\1/p')
    [ ${#id} -eq 40 ] || fail "$from has no build id"
    by_id=.build-id/${id:0:2}/${id:2}.debug
    mkdir -p "$dist/$arch/debug/$(dirname "$by_id")"
    "${objcopy[@]}" --only-keep-debug --compress-debug-sections=zlib "$from" "$dist/$arch/debug/$by_id"
    chmod 644 "$dist/$arch/debug/$by_id"
    removed=()
    [ "$program" != evenkeel ] || removed=("${without_tables[@]}")
    "${objcopy[@]}" --strip-all "${removed[@]}" "$from" "$to"
    bytes=$(stat -c %s "$to")
    [ "$bytes" -lt "$bytes_max" ] || fail "$to has $bytes bytes, and may have $bytes_max" "Cargo.toml, profile.dist.package, says what is compiled to be small"
done
