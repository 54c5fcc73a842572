#!/bin/bash
# Runs `ansible-test sanity` on the collection, in a copy below target/lab.
#
# usage: lab/ansible-sanity.sh [ansible-test's options…]
#
# ansible-test installs its own linters with pip, each into an environment of its own. Exit code 4: ansible-test is missing.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
set -eu

need ansible-test ansible-core
need git git
copy=$WORK/ansible-sanity
rm -rf "$copy/ansible_collections"
mkdir -p "$copy/ansible_collections" "$copy/home/.ansible/test/cache"
cp -r "$TOP/deploy/ansible/evenkeel" "$copy/ansible_collections/"
cd "$copy/ansible_collections/evenkeel/host"
# ansible-test reads the list of files from git.
git init -q .
git add -A
export HOME=$copy/home LC_ALL=C.UTF-8
# ansible-test fetches a script that installs pip. If that script's address cannot be reached, use the pip that comes with Python.
bootstrap=$HOME/.ansible/test/cache/get_pip_21_3_1.py
[ -e "$bootstrap" ] || printf 'import ensurepip\nensurepip.bootstrap()\n' >"$bootstrap"
ansible-test sanity --color no --python "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$@"
