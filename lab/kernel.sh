#!/usr/bin/env bash
# Downloads and unpacks a Debian kernel, and prints its folder.
#
# usage: lab/kernel.sh NAME
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

names='5.10-cloud, 6.1-cloud, 6.1, 6.12-cloud, 7.3-cloud, 6.1-cloud-arm64 and 6.12-cloud-arm64'
name=${1:?"usage: lab/kernel.sh NAME; $names are there"}
architecture=amd64
case $name in
*-arm64) architecture=arm64 ;;
esac
case $name in
5.10-cloud) suite=bullseye package=linux-image-cloud ;;
6.1-cloud*) suite=bookworm package=linux-image-cloud ;;
6.1) suite=bookworm package=linux-image ;;
6.12-cloud*) suite=trixie package=linux-image-cloud ;;
7.3-cloud) suite=trixie-backports package=linux-image-cloud ;;
*) die "no kernel is called $name: $names are" ;;
esac

unpacked=$WORK/kernels/$name
if [ -e "$unpacked/complete" ]; then
    echo "$unpacked"
    exit 0
fi

need depmod kmod
"$LAB/fetch.sh" "$suite" "$architecture" "$package-$architecture" "$unpacked"
# Newer packages keep modules, and the image among them, under /usr. All later steps expect them in the old place.
[ -d "$unpacked/lib/modules" ] || { mkdir -p "$unpacked/lib" && mv "$unpacked/usr/lib/modules" "$unpacked/lib/modules"; }
release=$(ls "$unpacked/lib/modules")
[ -d "$unpacked/boot" ] || { mkdir "$unpacked/boot" && mv "$unpacked/lib/modules/$release/vmlinuz" "$unpacked/boot/vmlinuz-$release"; }
# Backports change over time. A capture's name must name the kernel that the capture was made with.
case $release in
"${name%%-*}".*) ;;
*) die "$suite has $release now, which is no $name" ;;
esac
depmod -b "$unpacked" "$release"
touch "$unpacked/complete"
echo "$unpacked"
