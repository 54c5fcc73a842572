#!/usr/bin/env bash
# Prints the path of a static busybox for x86_64 or aarch64: the installed one, or Debian's, downloaded into target/lab.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

machine=${1:?"usage: lab/busybox.sh x86_64 | aarch64"}
if [ "$machine" = "$(uname -m)" ]; then
    need busybox busybox-static
    command -v busybox
    exit
fi
case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) die "no busybox for $machine: x86_64 and aarch64 are there" ;;
esac
unpacked=$WORK/busybox-$architecture
[ -e "$unpacked/bin/busybox" ] || "$LAB/fetch.sh" bookworm "$architecture" busybox-static "$unpacked"
echo "$unpacked/bin/busybox"
