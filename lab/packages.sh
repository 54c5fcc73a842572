#!/usr/bin/env bash
# Tests the output of `make dist` like a stranger: the package in a fresh Debian without Rust, a setting applied by it, an upgrade, a
# removal while the setting is active, a purge; the tarball; the container image in a user namespace; Debian's and RPM's linters. The script
# changes vm.stat_interval of this machine for some seconds.
#
# usage: lab/packages.sh [-d DIST]
#
#   -d  the folder that `make dist` wrote [default: target/dist]
# The checks are called by name.
# shellcheck disable=SC2317
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

release "$@"
[ "$(id -u)" -eq 0 ] || die "packages are skipped: not root, and installing one into a folder needs chroot"
need debootstrap debootstrap
need lintian lintian
need skopeo skopeo
need umoci umoci
need jq jq
arch=$(uname -m)
package=$dist/evenkeel_$version-1_$(debian_arch "$arch").deb
[ -e "$package" ] || die "packages are skipped: $package is missing: make dist"

work=$WORK/packages root=$WORK/packages/root
clean_up() {
    for place in "$root/sys" "$root/proc" "$root" "$work/changes"; do
        if mountpoint -q "$place"; then
            umount -l "$place"
        fi
    done
    if [ -n "${interval:-}" ]; then
        sysctl -qw "vm.stat_interval=$interval"
    fi
}
trap clean_up EXIT
clean_up
rm -rf "$work"
mkdir -p "$work/changes" "$root"

fresh_root() {
    local debian
    debian=$("$LAB/disk.sh" root)
    mount -t tmpfs -o size=512M evenkeel-lab "$work/changes" || die "packages are skipped: this root may not mount"
    mkdir "$work/changes"/{upper,work}
    mount -t overlay -o "lowerdir=$debian,upperdir=$work/changes/upper,workdir=$work/changes/work" evenkeel-lab "$root"
    mount -t proc proc "$root/proc"
    mount --rbind --make-rslave /sys "$root/sys"
}
# The state of the fresh system, without what dpkg and ldconfig write about themselves.
files() { (cd "$work/changes/upper" && find . -name '*evenkeel*' | sort); }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
value_is() { [ "$(sysctl -n vm.stat_interval)" = "$1" ]; }
installs() {
    cp "$1" "$root/tmp/package.deb"
    inside dpkg -i /tmp/package.deb
    rm "$root/tmp/package.deb"
}
# Exit code 1 is a valid verdict too: with only six pairs, noise can decide.
demo() {
    local status=0
    inside evenkeel demo --pairs 6 --out /tmp || status=$?
    [ "$status" -le 1 ]
}
removes() {
    inside dpkg --remove evenkeel >"$work/removal" 2>&1
    grep '/var/lib/evenkeel/evenkeel revert' "$work/removal"
}
# shellcheck disable=SC2016 # the shell inside expands it
completes() {
    # The completions that the shell offers after these words.
    inside bash -c '. /usr/share/bash-completion/completions/evenkeel; COMP_WORDS=(evenkeel re); COMP_CWORD=1; _evenkeel evenkeel re evenkeel; echo "${COMPREPLY[@]}"' | grep -w revert
}
no_evenkeel() { [ -z "$(files)" ] || { files && false; }; }
man_pages() {
    local page
    for page in "$root"/usr/share/man/man1/evenkeel*.gz; do
        MANROFFSEQ='' man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null | tee "$work/warnings"
        [ ! -s "$work/warnings" ] || return 1
    done
}

life_of_a_package() {
    fresh_root
    # In a separate folder, so that the released files stay unchanged.
    mkdir "$work/older"
    ln -s "$(realpath "$dist/$arch")" "$work/older/$arch"
    DIST=$work/older REVISION=0 "$TOP/deploy/dist/packages.sh" "$arch"
    check 'an older package installs in a Debian without Rust' installs "$work/older/evenkeel_$version-0_$(debian_arch "$arch").deb"
    check 'its program runs' inside evenkeel --version
    check 'the demo runs, on a server of its own' demo
    check 'manual pages are without warnings' man_pages
    check 'bash completes a command' completes

    interval=$(sysctl -n vm.stat_interval)
    check 'a setting is applied' inside evenkeel apply "vm.stat_interval=$((interval + 7))"
    check 'the package upgrades with a journal in use' installs "$package"
    check 'the new program knows the setting' bash -c "chroot '$root' evenkeel history --json | grep -q in-force"
    check 'the package is removed, and names the way back' removes
    check 'the setting is still in force' value_is "$((interval + 7))"
    check 'the package is purged' inside dpkg --purge evenkeel
    check 'the purge restored the setting' value_is "$interval"
    rm -rf "$root/tmp"/* "$root/root/.local"
    check 'the purge left no file' no_evenkeel
}

tarball() {
    tar -xJf "$dist/evenkeel-$version-$arch-linux.tar.xz" -C "$work"
    "$work/evenkeel-$version-$arch-linux/usr/bin/evenkeel" inspect
}

image() {
    skopeo copy -q "oci-archive:$dist/evenkeel-$version-$arch.oci.tar" "oci:$work/oci:evenkeel"
    umoci unpack --image "$work/oci:evenkeel" "$work/bundle"
    unshare --user --map-user=65532 chroot "$work/bundle/rootfs" /usr/bin/evenkeel --version 2>/dev/null ||
        unshare --user --map-root-user chroot "$work/bundle/rootfs" /usr/bin/evenkeel --version
}

same_line_tables() {
    local id file
    id=$(readelf -n "$dist/$arch/bin/evenkeel" | sed -n 's/.*Build ID: \([0-9a-f]*\)/\1/p')
    file=$dist/$arch/debug/.build-id/${id:0:2}/${id:2}.debug
    readelf -S "$file" | grep -q debug_line
}

# The library: a program that uses it runs in the fresh system. That program is compiled here with only the files of the packages.
deb_of() { echo "$dist/$1_$version-1_$(debian_arch "$arch").deb"; }
unpacks_library() {
    rm -rf "${work:?}/dev"
    mkdir "$work/dev"
    for name in "libevenkeel-rt$abi" libevenkeel-rt-dev; do
        dpkg-deb -x "$(deb_of "$name")" "$work/dev"
    done
}
flags() { PKG_CONFIG_SYSROOT_DIR=$work/dev PKG_CONFIG_LIBDIR=$work/dev/usr/lib/$arch-linux-gnu/pkgconfig pkg-config --cflags --libs evenkeel-rt; }
# shellcheck disable=SC2046 # words are meant
pkg_config_builds() {
    local examples=$work/dev/usr/share/doc/libevenkeel-rt-dev/examples
    cc "$examples/server.c" -o "$root/tmp/server-c" $(flags)
    c++ -std=c++17 "$examples/server.cpp" -o "$root/tmp/server-cpp" $(flags)
}
cmake_builds() {
    cmake -S "$work/dev/usr/share/doc/libevenkeel-rt-dev/examples" -B "$work/cmake" \
        "-Devenkeel-rt_DIR=$work/dev/usr/lib/$arch-linux-gnu/cmake/evenkeel-rt"
    cmake --build "$work/cmake"
    cp "$work/cmake/server-cpp" "$root/tmp/server-cmake"
}
runs_inside() { inside "/tmp/$1" | grep '20 ticks'; }
life_of_the_library() {
    local name
    check 'the packages of the library unpack' unpacks_library
    check 'programs in C and C++ build with pkg-config alone' pkg_config_builds
    check 'programs build with CMake alone' cmake_builds
    check 'the shared library installs' installs "$(deb_of "libevenkeel-rt$abi")"
    # CMake notes the folder of the library in the program; the fresh system has it where the loader looks.
    for name in server-c server-cpp server-cmake; do
        check "$name runs with the installed library" runs_inside "$name"
    done
    check 'the library is purged' inside dpkg --purge "libevenkeel-rt$abi"
    rm -f "$root"/tmp/server-*
    check 'the purge left no file of the library' no_evenkeel
}

abi=$(sed -n 's/^#define EVENKEEL_ABI_VERSION //p' "$TOP/crates/rt-c/include/evenkeel_rt.h")
life_of_a_package
if [ -e "$(deb_of libevenkeel-rt-dev)" ] && command -v cmake >/dev/null && command -v c++ >/dev/null && command -v pkg-config >/dev/null; then
    life_of_the_library
    check 'lintian finds nothing in the library' lintian --no-cfg --fail-on error,warning "$(deb_of "libevenkeel-rt$abi")" "$(deb_of libevenkeel-rt-dev)"
else
    say 'skipped: the library, which needs its packages (make dist), cmake, g++ and pkg-config'
fi
check 'the tarball runs from its folder' tarball
check 'the image is valid, and runs without rights' image
check 'line tables are found by build id' same_line_tables
check 'lintian finds nothing' lintian --no-cfg --fail-on error,warning "$package"
if command -v rpmlint >/dev/null; then
    check 'rpmlint finds no error' rpmlint --rpmlintrc "$TOP/deploy/dist/rpmlintrc" "$dist/evenkeel-$version-1.$arch.rpm"
    check 'rpmlint finds no error in the library' rpmlint --rpmlintrc "$TOP/deploy/dist/rpmlintrc-library" \
        "$dist/libevenkeel-rt$abi-$version-1.$arch.rpm" "$dist/libevenkeel-rt-devel-$version-1.$arch.rpm"
else
    say 'skipped: rpmlint is not installed'
fi
is_bill() { jq -e '.bomFormat == "CycloneDX" and (.components | length > 10) and all(.components[]; .purl and .licenses)' "$1"; }
for name in evenkeel evenkeel-arena evenkeel-rt; do
    check "the bill of materials of $name has its crates and their licences" is_bill "$dist/$name-$version-$arch.cdx.json"
done
check 'checksums hold' bash -c "cd '$dist' && sha256sum --quiet -c SHA256SUMS"
exit "$wrong"
