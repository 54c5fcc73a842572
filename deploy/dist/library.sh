#!/bin/bash
# Builds the runtime library for C, C++ and C#, and makes its packages: the shared library, and everything that a program needs to compile
# with it.
#
# usage: deploy/dist/library.sh
#
# The library is for the processor of this machine, and needs the glibc of this machine or a newer one. So build it on the oldest system
# that it must run on. Writes target/dist/ARCH/library, and tarball, .deb and .rpm into target/dist.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

arch=$(uname -m)
own=$repository/deploy/dist
built=${DIST_BUILD:-$repository/target}/dist-library
library=$dist/$arch/library
triplet=$arch-linux-gnu
abi=$(sed -n 's/^#define EVENKEEL_ABI_VERSION //p' "$repository/crates/rt-c/include/evenkeel_rt.h")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
    # As in programs.sh, the library must not contain the names of this machine's folders, so that two builds are the same.
    local registry=${CARGO_HOME:-$HOME/.cargo}
    # Write both hash tables of symbols, because some distributions check for the old hash table.
    RUSTFLAGS="-C link-arg=-Wl,--build-id=sha1 -C link-arg=-Wl,--hash-style=both --remap-path-prefix=$repository=/usr/src/evenkeel --remap-path-prefix=$registry=/usr/src/cargo"
    RUSTFLAGS+=" --remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/usr/src/rust"
    export RUSTFLAGS CARGO_INCREMENTAL=0
    unset CARGO_TARGET_DIR
    (cd "$repository" && ${CARGO:-cargo} build --profile rt-c --locked --target-dir "$built" -p evenkeel-rt-c)
}

# install_to TREE PREFIX LIBDIR
install_to() {
    DESTDIR=$1 LIBDIR=$3 "$repository/crates/rt-c/install.sh" "$2" "$built/rt-c"
    strip --strip-unneeded "$1$2/$3/libevenkeel_rt.so.$abi".*
    # An archive stores the times and owners of its members, which would differ between builds.
    strip --strip-debug --enable-deterministic-archives "$1$2/$3/libevenkeel_rt.a"
}

# The oldest glibc that has every function of the library.
glibc_min() {
    objdump -T "$1" | sed -n 's/.*(\?GLIBC_\([0-9.]*\))\?.*/\1/p' | sort -uV | tail -1
}

tarball() {
    local name=evenkeel-rt-$version-$arch-linux
    install_to "$work" "/$name" lib
    # pkg-config computes the prefix from the position of the .pc file, so the tarball works in any folder.
    # shellcheck disable=SC2016 # pkg-config expands the variable
    sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$work/$name/lib/pkgconfig/evenkeel-rt.pc"
    install -m 644 "$repository/docs/rt-c.md" "$repository/LICENSE-MIT" "$repository/LICENSE-APACHE" "$work/$name/"
    pack "$dist/$name.tar.xz" "$work/$name"
}

debs() {
    local runtime=$work/runtime dev=$work/dev lib=usr/lib/$triplet
    mkdir -p "$runtime/$lib" "$runtime/DEBIAN" "$dev/DEBIAN"
    install_to "$dev" /usr "lib/$triplet"
    chmod 644 "$dev/$lib/libevenkeel_rt.so.$abi".*
    mv "$dev/$lib/libevenkeel_rt.so.$abi"* "$runtime/$lib/"
    mkdir -p "$dev/usr/share/doc/libevenkeel-rt-dev"
    mv "$dev/usr/share/evenkeel-rt/examples" "$dev/usr/share/doc/libevenkeel-rt-dev/"
    echo "libevenkeel_rt $abi libevenkeel-rt$abi (>= $version)" >"$runtime/DEBIAN/shlibs"
    echo 'activate-noawait ldconfig' >"$runtime/DEBIAN/triggers"
    cat >"$runtime/DEBIAN/control" <<CONTROL
Package: libevenkeel-rt$abi
Source: evenkeel
Version: $version-$revision
Architecture: $(debian_arch "$arch")
Multi-Arch: same
Maintainer: $maintainer
Depends: libc6 (>= $(glibc_min "$runtime/$lib/libevenkeel_rt.so.$abi")), libgcc-s1
Section: libs
Priority: optional
Description: tick, jobs and locks for game servers on rented machines
 A tick loop that keeps its rate on rented machines: it finds the time slices of
 the hypervisor and moves ticks to where they finish soonest. Also a job system,
 locks that spin only for a moment, a scope profiler, batched UDP and telemetry.
CONTROL
    cat >"$dev/DEBIAN/control" <<CONTROL
Package: libevenkeel-rt-dev
Source: evenkeel
Version: $version-$revision
Architecture: $(debian_arch "$arch")
Multi-Arch: same
Maintainer: $maintainer
Depends: libevenkeel-rt$abi (= $version-$revision)
Section: libdevel
Priority: optional
Description: tick, jobs and locks for game servers on rented machines (headers)
 Headers for C and C++, the static library, files for pkg-config and CMake,
 examples, and the binding for C#. See libevenkeel-rt$abi.
CONTROL
    debian_documents "$runtime" "libevenkeel-rt$abi"
    debian_documents "$dev" libevenkeel-rt-dev
    mkdir -p "$runtime/usr/share/lintian/overrides" "$dev/usr/share/lintian/overrides"
    echo "libevenkeel-rt$abi: initial-upload-closes-no-bugs" >"$runtime/usr/share/lintian/overrides/libevenkeel-rt$abi"
    echo "libevenkeel-rt-dev: initial-upload-closes-no-bugs" >"$dev/usr/share/lintian/overrides/libevenkeel-rt-dev"
    debian_package "$runtime" "libevenkeel-rt$abi" "$arch"
    debian_package "$dev" libevenkeel-rt-dev "$arch"
}

rpms() {
    local top=$work/rpm
    mkdir -p "$top/SPECS"
    install_to "$top/tree" /usr lib64
    sed -e "s/@VERSION@/$version/" -e "s/@RELEASE@/$revision/" -e "s/@ABI@/$abi/g" \
        -e "s/@DAY@/$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')/" "$own/evenkeel-rt.spec.in" >"$top/SPECS/evenkeel-rt.spec"
    rpm_packages "$top" evenkeel-rt.spec "$arch" --define "staged $top/tree" --define "sources $repository"
}

build
rm -rf "$library"
install_to "$library" /usr "lib/$triplet"
tarball
debs
if command -v rpmbuild >/dev/null; then
    rpms
else
    echo "skipped: the RPMs of the library, since rpmbuild is not installed" >&2
fi
