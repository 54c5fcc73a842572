#!/bin/sh
# Prepares a fresh Debian or Ubuntu machine to build evenkeel: checks the Rust toolchain, and installs a C linker.
# It installs only what is missing, and nothing without root.
#
# usage: deploy/setup.sh [lab|dist|site]
#
#   lab   installs the programs that lab/ and some tests use; without these programs, lab/ and the tests report what they skip
#   dist  installs what `make dist` needs to make packages
#   site  builds mdBook, which makes the documentation site, into target/tools
set -eu

if [ "${1:-}" = dist ]; then
    missing=
    while read -r program package; do
        command -v "$program" >/dev/null 2>&1 || missing="$missing $package"
    done <<LIST
help2man help2man
jq jq
musl-gcc musl-tools
objcopy binutils
rpmbuild rpm
xz xz-utils
zip zip
LIST
    [ -z "$missing" ] && exit 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "a release needs these Debian packages: apt-get install$missing" >&2
        exit 1
    fi
    echo "installing for the release:$missing" >&2
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
    exit 0
fi

if [ "${1:-}" = lab ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "error: installing the lab's programs needs root and apt-get" >&2
        exit 4
    fi
    missing=
    # Servers and games are in folders that root's PATH may lack.
    PATH=$PATH:/usr/sbin:/usr/games
    # A program of each package shows whether it is installed.
    while read -r program package; do
        command -v "$program" >/dev/null 2>&1 || missing="$missing $package"
    done <<LIST
qemu-system-x86_64 qemu-system-x86
qemu-system-aarch64 qemu-system-arm
qemu-img qemu-utils
busybox busybox-static
iasl acpica-tools
depmod kmod
cpio cpio
xz xz-utils
debootstrap debootstrap
mkfs.ext4 e2fsprogs
sfdisk fdisk
strace strace
cyclictest rt-tests
perf linux-perf
jq jq
shellcheck shellcheck
cloud-init cloud-init
ansible-playbook ansible-core
lstopo-no-graphics hwloc-nox
numactl numactl
ethtool ethtool
ip iproute2
sockperf sockperf
iperf3 iperf3
sysbench sysbench
c++ g++
cmake cmake
pkg-config pkgconf
memcached memcached
memcaslap libmemcached-tools
redis-server redis-server
nginx nginx-light
wrk wrk
mosquitto mosquitto
DDNet-Server ddnet-server
openarena-server openarena-server
mcs mono-mcs
mono mono-runtime
chromium chromium
promtool prometheus
curl curl
openssl openssl
prometheus-alertmanager prometheus-alertmanager
sshd openssh-server
LIST
    # `make check` compiles the runtime library for these systems, and skips them visibly where they are missing.
    if command -v rustup >/dev/null 2>&1; then
        rustup target add x86_64-pc-windows-gnu x86_64-apple-darwin >/dev/null 2>&1 ||
            echo "the targets of other systems could not be added: rustup target add x86_64-pc-windows-gnu x86_64-apple-darwin" >&2
    fi
    # This library, which a peer in benches/ needs, has no program.
    [ -e /usr/include/tbb/task_group.h ] || [ -e /usr/include/oneapi/tbb/task_group.h ] || missing="$missing libtbb-dev"
    # This module of Python has no program either.
    python3 -c 'import yaml' 2>/dev/null || missing="$missing python3-yaml"
    [ -z "$missing" ] && exit 0
    echo "installing for the lab:$missing" >&2
    # Debian starts servers after installation and at boot. Tests start their own servers, so prevent both.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
    for service in memcached redis-server nginx mosquitto prometheus prometheus-alertmanager; do
        case " $missing " in
        *" $service"*) systemctl disable "$service" >/dev/null 2>&1 || true ;;
        esac
    done
    case " $missing " in
    *" openssh-server "*) systemctl disable ssh >/dev/null 2>&1 || true ;;
    esac
    exit 0
fi

if [ "${1:-}" = site ]; then
    version=0.5.4
    tools=$(cd "$(dirname "$0")/.." && pwd)/target/tools
    [ "$("$tools/bin/mdbook" --version 2>/dev/null)" = "mdbook v$version" ] && exit 0
    echo "building mdBook $version" >&2
    # With the caller's CARGO_TARGET_DIR, the build of mdBook would mix with that of evenkeel.
    exec env -u CARGO_TARGET_DIR "${CARGO:-cargo}" install mdbook --version "$version" --locked --debug \
        --no-default-features --features search --root "$tools"
fi

if ! command -v "${CARGO:-cargo}" >/dev/null 2>&1; then
    echo "error: evenkeel needs Rust 1.89 or later. See rustup.rs, or run 'apt-get install rustup && rustup default stable' (Debian 13, Ubuntu 24.04)" >&2
    exit 1
fi

if command -v cc >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "error: evenkeel needs a C linker. Run 'sudo apt-get install gcc libc6-dev' and try again" >&2
    exit 1
fi
echo "installing a C linker (gcc, libc6-dev)" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev
