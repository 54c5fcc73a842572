#!/bin/bash
# Makes the tarballs, the Debian package and the RPM of the programs.
#
# usage: deploy/dist/packages.sh ARCH
#
# Reads target/dist/ARCH/root and debug, writes into target/dist.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

arch=${1:?usage: packages.sh ARCH}
own=$repository/deploy/dist
root=$dist/$arch/root
description="Keeps latency-sensitive servers steady on rented Linux machines"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tarball() {
    local name=evenkeel-$version-$arch-linux
    cp -a "$root" "$work/$name"
    pack "$dist/$name.tar.xz" "$work/$name"
    mkdir "$work/$name-debug"
    cp -a "$dist/$arch/debug" "$work/$name-debug/debug"
    pack "$dist/$name-debug.tar.xz" "$work/$name-debug"
}

deb() {
    local tree=$work/deb
    cp -a "$root" "$tree"
    # Debian ships the licences itself.
    rm "$tree/usr/share/doc/evenkeel"/LICENSE-*
    debian_documents "$tree" evenkeel
    mkdir -p "$tree/DEBIAN" "$tree/usr/share/lintian/overrides"
    install -m 644 "$own/debian/lintian-overrides" "$tree/usr/share/lintian/overrides/evenkeel"
    install -m 755 "$own/debian/prerm" "$own/debian/postrm" "$own/debian/postinst" "$tree/DEBIAN/"
    echo /etc/evenkeel/waivers.toml >"$tree/DEBIAN/conffiles"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: evenkeel
Version: $version-$revision
Architecture: $(debian_arch "$arch")
Maintainer: $maintainer
Section: admin
Priority: optional
Description: $(tr '[:upper:]' '[:lower:]' <<<"${description:0:1}")${description:1}
 evenkeel shows what a cloud machine really is, advises settings for the server
 that runs on it, proves each one by an A/B test on that server, keeps what
 helped, and puts everything back when asked.
 .
 The package also has evenkeel-arena, a reference game server, and
 evenkeel-bots, its players.
CONTROL
    debian_package "$tree" evenkeel "$arch"
}

rpm() {
    local top=$work/rpm
    mkdir -p "$top/SPECS"
    cp -a "$root" "$top/tree"
    # The folder that RPM distributions use.
    mkdir -p "$top/tree/usr/share/zsh/site-functions"
    mv "$top/tree/usr/share/zsh/vendor-completions/_evenkeel" "$top/tree/usr/share/zsh/site-functions/"
    rmdir "$top/tree/usr/share/zsh/vendor-completions"
    sed -e "s/@VERSION@/$version/" -e "s/@RELEASE@/$revision/" -e "s/@DAY@/$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')/" -e "s/@DESCRIPTION@/$description/" "$own/evenkeel.spec.in" >"$top/SPECS/evenkeel.spec"
    rpm_packages "$top" evenkeel.spec "$arch" --define "staged $top/tree"
}

tarball
deb
if command -v rpmbuild >/dev/null; then
    rpm
else
    echo "skipped: the RPM, since rpmbuild is not installed" >&2
fi
