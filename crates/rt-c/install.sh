#!/bin/sh
# Installs the library for C and C++ where compilers and loaders look: headers, shared and static library, files for pkg-config and CMake,
# examples, C# binding.
#
# usage: crates/rt-c/install.sh PREFIX BUILT
#
#   PREFIX   such as /usr/local; created if it does not exist
#   BUILT    the folder that cargo built libevenkeel_rt_c.so and .a into
#
# Environment: DESTDIR is put before PREFIX. LIBDIR is the folder of the libraries below PREFIX, such as lib/x86_64-linux-gnu [default: lib].
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
lib=${LIBDIR:-lib}
case /$lib/ in
*[!A-Za-z0-9/_-]* | */../* | //*)
    echo "error: failed to install: LIBDIR is $lib, and must be a folder below PREFIX, such as lib/x86_64-linux-gnu" >&2
    exit 2
    ;;
esac
# Read the ABI's number from the header, so that all installed files agree.
abi=$(sed -n 's/^#define EVENKEEL_ABI_VERSION //p' "$own/include/evenkeel_rt.h")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$own/../../Cargo.toml")
to=${DESTDIR:-}$prefix

install -d "$to/$lib/pkgconfig" "$to/$lib/cmake/evenkeel-rt" "$to/include" "$to/share/evenkeel-rt/examples"
install -m 644 "$own/include/evenkeel_rt.h" "$own/include/evenkeel_rt.hpp" "$to/include/"
install -m 644 "$own/csharp/EvenkeelRt.cs" "$own/csharp/TickThread.cs" "$to/share/evenkeel-rt/"
install -m 644 "$own"/examples/*.c "$own"/examples/*.cpp "$own/examples/CMakeLists.txt" "$to/share/evenkeel-rt/examples/"
install -m 644 "$built/libevenkeel_rt_c.a" "$to/$lib/libevenkeel_rt.a.new"
# Most of the archive is debug information and the compiler's bitcode, also of Rust's standard library. Removing it reduces 55 MB to 10 MB.
# Function names stay.
if command -v strip >/dev/null 2>&1; then
    strip --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$to/$lib/libevenkeel_rt.a.new"
fi
mv -f "$to/$lib/libevenkeel_rt.a.new" "$to/$lib/libevenkeel_rt.a"
# The loader searches for the name with the ABI's number. A running program keeps the old file that it has open.
install -m 755 "$built/libevenkeel_rt_c.so" "$to/$lib/libevenkeel_rt.so.$abi.$version.new"
if command -v strip >/dev/null 2>&1; then
    strip --strip-debug "$to/$lib/libevenkeel_rt.so.$abi.$version.new"
fi
mv -f "$to/$lib/libevenkeel_rt.so.$abi.$version.new" "$to/$lib/libevenkeel_rt.so.$abi.$version"
ln -sf "libevenkeel_rt.so.$abi.$version" "$to/$lib/libevenkeel_rt.so.$abi"
ln -sf "libevenkeel_rt.so.$abi" "$to/$lib/libevenkeel_rt.so"
# The path from the CMake files up to the prefix: out of cmake/evenkeel-rt, and out of the folders of LIBDIR.
up=$(printf '%s' "$lib/cmake/evenkeel-rt" | sed 's|[^/][^/]*|..|g')
fill() { # TEMPLATE FILE
    sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$lib|" -e "s|@VERSION@|$version|" -e "s|@ABI@|$abi|" -e "s|@UP@|$up|" "$own/$1" >"$to/$lib/$2"
    chmod 644 "$to/$lib/$2"
}
fill evenkeel-rt.pc.in pkgconfig/evenkeel-rt.pc
fill evenkeel-rt-config.cmake.in cmake/evenkeel-rt/evenkeel-rt-config.cmake
fill evenkeel-rt-config-version.cmake.in cmake/evenkeel-rt/evenkeel-rt-config-version.cmake
