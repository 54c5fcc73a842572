#!/bin/bash
# Makes a release from this tree: static programs, the library, tarballs, packages for Linux and for engines, container
# images, bills of materials, checksums.
#
# usage: deploy/dist.sh [ARCH ...]
#
#   ARCH   x86_64 or aarch64 [default: the processor of this machine]
#
# Writes target/dist, or the folder that DIST names. `make release-check` compares two builds.
# shellcheck source-path=SCRIPTDIR source=dist/common.sh
. "$(dirname "$0")/dist/common.sh"

[ $# -gt 0 ] || set -- "$(uname -m)"
steps=$repository/deploy/dist
mkdir -p "$dist"
rm -f "$dist"/{,lib,com.}evenkeel*"$version"* "$dist/SHA256SUMS"

# This machine's processor comes first, because its program writes the manual pages of every package.
built=
for arch in "$(uname -m)" "$@"; do
    case " $built " in
    *" $arch "*) continue ;;
    esac
    "$steps/programs.sh" "$arch"
    built="$built $arch"
done
for arch in "$@"; do
    "$steps/stage.sh" "$arch"
    "$steps/packages.sh" "$arch"
    "$steps/image.sh" "$arch"
    "$steps/sbom.sh" "$arch"
done
case " $* " in
*" $(uname -m) "*)
    "$steps/library.sh"
    "$steps/engines.sh"
    ;;
*) echo "skipped: the library and the packages for engines, which are built for the processor of this machine only" >&2 ;;
esac
(cd "$dist" && sha256sum -- *evenkeel* >SHA256SUMS)
du -h "$dist"/*evenkeel*
