#!/usr/bin/env bash
# Fetches one of Debian's packages, of any architecture, and unpacks it.
#
# usage: lab/fetch.sh SUITE ARCHITECTURE PACKAGE FOLDER
#
# apt fetches the package and checks the signatures, with the lab's own lists and cache. The script changes neither the machine's sources
# nor its installed packages. If PACKAGE is a metapackage for the newest kernel, the script fetches that kernel.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

usage='usage: lab/fetch.sh SUITE ARCHITECTURE PACKAGE FOLDER'
suite=${1:?"$usage"} architecture=${2:?"$usage"} package=${3:?"$usage"} unpacked=${4:?"$usage"}
need apt-get apt
need dpkg-deb dpkg
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || die "$keys is missing: apt-get install --no-install-recommends debian-archive-keyring"

apt=$WORK/apt/$suite-$architecture
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
echo "deb [arch=$architecture signed-by=$keys] http://deb.debian.org/debian $suite main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::parts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
CONF
export APT_CONFIG=$apt/apt.conf

apt-get -qq update >&2 || die "cannot fetch the list of packages of $suite"
# The kernel packages that a metapackage depends on: newer kernels have the image, the modules and their lists in separate packages.
of_kernel() {
    apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$package" 2>/dev/null |
        grep -E '^linux-(image|binary|modules|base)-[0-9]' | grep -v -e -unsigned- | sort -u
}
files=$(of_kernel) || files=$package
rm -rf "$unpacked"
mkdir -p "$unpacked"
for file in $files; do
    (cd "$apt" && apt-get -qq download "$file" >&2) || die "cannot fetch $file of $suite for $architecture"
    dpkg-deb -x "$apt/$file"_*.deb "$unpacked"
    rm -f "$apt/$file"_*.deb
done
