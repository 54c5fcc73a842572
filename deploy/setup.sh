#!/bin/sh
# Makes sure that a fresh Debian or Ubuntu machine can build evenkeel: a Rust toolchain, and a C linker for it.
# Installs nothing that is there already, and nothing at all without root.
set -eu

if ! command -v "${CARGO:-cargo}" >/dev/null 2>&1; then
    echo "evenkeel needs a Rust toolchain, 1.89 or later: see rustup.rs, or run 'apt-get install rustup && rustup default stable' (Debian 13, Ubuntu 24.04)" >&2
    exit 1
fi

if command -v cc >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "evenkeel needs a C linker: run 'sudo apt-get install gcc libc6-dev' and try again" >&2
    exit 1
fi
echo "installing a C linker (gcc, libc6-dev)" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev
