#!/usr/bin/env bash
# Fetches one of Debian's kernels, and prints the folder that it was unpacked to.
#
# usage: lab/kernel.sh 5.10-cloud | 6.1-cloud | 6.1 | 6.12-cloud
#
# apt does the fetching and checks the signatures, with lists and a cache of the lab's own: neither the machine's sources nor its
# installed packages are touched.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

name=${1:?"usage: lab/kernel.sh 5.10-cloud | 6.1-cloud | 6.1 | 6.12-cloud"}
case $name in
5.10-cloud) suite=bullseye package=linux-image-cloud-amd64 ;;
6.1-cloud) suite=bookworm package=linux-image-cloud-amd64 ;;
6.1) suite=bookworm package=linux-image-amd64 ;;
6.12-cloud) suite=trixie package=linux-image-cloud-amd64 ;;
*) die "no kernel is called $name: 5.10-cloud, 6.1-cloud, 6.1 and 6.12-cloud are" ;;
esac

unpacked=$WORK/kernels/$name
if [ -e "$unpacked/complete" ]; then
    echo "$unpacked"
    exit 0
fi

need apt-get apt
need dpkg-deb dpkg
need depmod kmod
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || die "$keys is missing: apt-get install --no-install-recommends debian-archive-keyring"

apt=$WORK/apt/$suite
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
echo "deb [arch=amd64 signed-by=$keys] http://deb.debian.org/debian $suite main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::parts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
APT::Architecture "amd64";
APT::Sandbox::User "root";
Acquire::Languages "none";
CONF
export APT_CONFIG=$apt/apt.conf

apt-get -qq update >&2 || die "cannot fetch the list of packages of $suite"
# The package is only a name for the newest kernel of its kind.
kernel=$(apt-cache depends "$package" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$kernel" ] || die "$suite has no $package"
rm -rf "$unpacked"
mkdir -p "$unpacked"
(cd "$apt" && apt-get -qq download "$kernel" >&2) || die "cannot fetch $kernel"
dpkg-deb -x "$apt/$kernel"_*.deb "$unpacked"
rm -f "$apt/$kernel"_*.deb
# Newer packages keep modules under /usr; depmod wants them where they have always been.
[ -d "$unpacked/lib/modules" ] || { mkdir -p "$unpacked/lib" && mv "$unpacked/usr/lib/modules" "$unpacked/lib/modules"; }
depmod -b "$unpacked" "$(ls "$unpacked/lib/modules")"
touch "$unpacked/complete"
echo "$unpacked"
