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
revision=${REVISION:-1}
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
    local tree=$work/deb package
    package=evenkeel_$version-${revision}_$(debian_arch "$arch").deb
    cp -a "$root" "$tree"
    local doc=$tree/usr/share/doc/evenkeel
    # As Debian's policy has it: its own form of licence and change log, and no copy of the licences that it ships.
    rm "$doc"/LICENSE-*
    sed "s/@YEAR@/$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)/" "$own/debian/copyright" >"$doc/copyright"
    printf 'evenkeel (%s-%s) unstable; urgency=medium\n\n  * Release %s.\n\n -- The evenkeel authors <evenkeel@example.invalid>  %s\n' \
        "$version" "$revision" "$version" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.Debian.gz"
    mkdir -p "$tree/DEBIAN" "$tree/usr/share/lintian/overrides"
    install -m 644 "$own/debian/lintian-overrides" "$tree/usr/share/lintian/overrides/evenkeel"
    install -m 755 "$own/debian/prerm" "$own/debian/postrm" "$own/debian/postinst" "$tree/DEBIAN/"
    echo /etc/evenkeel/waivers.toml >"$tree/DEBIAN/conffiles"
    (cd "$tree" && find . -path ./DEBIAN -prune -o -path ./etc -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: evenkeel
Version: $version-$revision
Architecture: $(debian_arch "$arch")
Maintainer: The evenkeel authors <evenkeel@example.invalid>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)
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
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$dist/$package" >/dev/null
}

rpm() {
    local top=$work/rpm
    mkdir -p "$top"/{BUILD,RPMS,SPECS}
    cp -a "$root" "$top/tree"
    # Where the RPM distributions have it.
    mkdir -p "$top/tree/usr/share/zsh/site-functions"
    mv "$top/tree/usr/share/zsh/vendor-completions/_evenkeel" "$top/tree/usr/share/zsh/site-functions/"
    rmdir "$top/tree/usr/share/zsh/vendor-completions"
    sed -e "s/@VERSION@/$version/" -e "s/@RELEASE@/$revision/" -e "s/@DAY@/$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')/" -e "s/@DESCRIPTION@/$description/" "$own/evenkeel.spec.in" >"$top/SPECS/evenkeel.spec"
    command rpmbuild --quiet -bb --target "$arch-linux" \
        --define "_topdir $top" --define "staged $top/tree" --define "_buildhost evenkeel" --define "source_date_epoch_from_changelog 0" \
        --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" "$top/SPECS/evenkeel.spec"
    cp "$top"/RPMS/*/*.rpm "$dist/"
}

tarball
deb
if command -v rpmbuild >/dev/null; then
    rpm
else
    echo "skipped: the RPM, since rpmbuild is not installed" >&2
fi
