#!/bin/sh
# Puts the library for C where compilers and loaders look: header, shared and static library, pkg-config file, C# binding.
#
# usage: crates/rt-c/install.sh PREFIX BUILT
#
#   PREFIX   such as /usr/local; made if it is not there
#   BUILT    the folder that cargo built libevenkeel_rt_c.so and .a into
#
# DESTDIR is put before it, as packagers expect.
set -eu

prefix=$1 built=$2
own=$(cd "$(dirname "$0")" && pwd)
case $prefix in
/*) ;;
*)
    echo "failed to install: PREFIX is $prefix, and has to be an absolute path" >&2
    exit 2
    ;;
esac
# Of the header, so that all that is installed is of one piece.
abi=$(sed -n 's/^#define EVENKEEL_ABI_VERSION //p' "$own/include/evenkeel_rt.h")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$own/../../Cargo.toml")
to=${DESTDIR:-}$prefix

install -d "$to/lib/pkgconfig" "$to/include" "$to/share/evenkeel-rt"
install -m 644 "$own/include/evenkeel_rt.h" "$to/include/"
install -m 644 "$own/csharp/EvenkeelRt.cs" "$to/share/evenkeel-rt/"
install -m 644 "$built/libevenkeel_rt_c.a" "$to/lib/libevenkeel_rt.a.new"
# Most of the archive is debug information and the compiler's own bitcode, also of Rust's standard library: 55 MB become 10. Function
# names stay.
if command -v strip >/dev/null 2>&1; then
    strip --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$to/lib/libevenkeel_rt.a.new"
fi
mv -f "$to/lib/libevenkeel_rt.a.new" "$to/lib/libevenkeel_rt.a"
# The loader asks for the ABI's number; a program in use keeps the file that it has open.
install -m 755 "$built/libevenkeel_rt_c.so" "$to/lib/libevenkeel_rt.so.$abi.$version.new"
mv -f "$to/lib/libevenkeel_rt.so.$abi.$version.new" "$to/lib/libevenkeel_rt.so.$abi.$version"
ln -sf "libevenkeel_rt.so.$abi.$version" "$to/lib/libevenkeel_rt.so.$abi"
ln -sf "libevenkeel_rt.so.$abi" "$to/lib/libevenkeel_rt.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$own/evenkeel-rt.pc.in" >"$to/lib/pkgconfig/evenkeel-rt.pc"
chmod 644 "$to/lib/pkgconfig/evenkeel-rt.pc"
