# Shared by the scripts of this folder: what a release is called, and when it was made. Sourced, not run.
# shellcheck shell=bash
# shellcheck disable=SC2034 # used where it is sourced
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dist=${DIST:-$repository/target/dist}

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$repository/Cargo.toml")
# For a tree without git history, such as a source tarball, the caller sets both variables.
EVENKEEL_COMMIT=${EVENKEEL_COMMIT:-$(git -C "$repository" describe --always --dirty --abbrev=12 --exclude '*')}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$repository" log -1 --format=%ct)}
EVENKEEL_VERSION="$version ($EVENKEEL_COMMIT $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d))"
export EVENKEEL_VERSION SOURCE_DATE_EPOCH

fail() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 1
}

# check WHAT COMMAND…: prints whether the command succeeded. If not, it also prints the end of the output and the file that has all of it,
# and sets `wrong`. It always continues.
wrong=0
check() {
    local what=$1 output status=0
    shift
    output=$(mktemp)
    # Not as the condition of an if: there, a command that fails does not end a function.
    "$@" >"$output" 2>&1 &
    wait $! || status=$?
    if [ "$status" -eq 0 ]; then
        echo "passed: $what"
    else
        echo "FAILED: $what"
        tail -n 20 "$output" | sed 's/^/    /'
        local kept=$repository/target/failed/${what//[^a-zA-Z0-9]/-}.log
        mkdir -p "${kept%/*}" && cp "$output" "$kept" && echo "    all of it: $kept"
        wrong=1
    fi
    rm -f "$output"
}

# pack: makes the same bytes wherever and whenever it runs: sorted names, one owner, one time.
pack() { # FILE.tar.xz FOLDER
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$(dirname "$2")" -c "$(basename "$2")" |
        xz -6 -T1 >"$1"
}

debian_arch() {
    case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    esac
}

maintainer='The evenkeel authors <evenkeel@example.invalid>'
revision=${REVISION:-1}

# debian_documents: writes the documents that Debian's policy requires in a package: licence and change log in Debian's own form.
debian_documents() { # TREE PACKAGE
    local doc=$1/usr/share/doc/$2
    mkdir -p "$doc"
    sed "s/@YEAR@/$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)/" "$repository/deploy/dist/debian/copyright" >"$doc/copyright"
    printf 'evenkeel (%s-%s) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' \
        "$version" "$revision" "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.Debian.gz"
}

# Packs TREE, whose control file has all but the size, as $dist/PACKAGE_VERSION_ARCH.deb.
debian_package() { # TREE PACKAGE ARCH
    local tree=$1
    (cd "$tree" && find . -path ./DEBIAN -prune -o -path ./etc -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    sed -i "s/^Section:/Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)\nSection:/" "$tree/DEBIAN/control"
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$dist/$2_$version-${revision}_$(debian_arch "$3").deb" >/dev/null
}

# Builds the packages of a spec file in FOLDER/SPECS into $dist. More arguments go to rpmbuild.
rpm_packages() { # FOLDER SPEC ARCH …
    local top=$1 spec=$2 arch=$3
    shift 3
    mkdir -p "$top"/{BUILD,RPMS}
    command rpmbuild --quiet -bb --target "$arch-linux" \
        --define "_topdir $top" --define "_buildhost evenkeel" --define "source_date_epoch_from_changelog 0" \
        --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" "$@" "$top/SPECS/$spec"
    cp "$top"/RPMS/*/*.rpm "$dist/"
}
