#!/bin/bash
# Runs the collection `evenkeel.host` with Debian's ansible-playbook over sshd on three hosts made of namespaces (hosts.sh).
#
# usage: lab/ansible.sh PROGRAM
#
# Exit code 4: something is missing here; the last line says what. lab/ansible/check.py has the steps.
set -eu
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
[ $# -eq 1 ] || {
    echo "usage: lab/ansible.sh PROGRAM" >&2
    exit 2
}
need python3 python3
need ansible-playbook ansible-core
program=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/evenkeel-ansible.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$LAB/hosts.sh" "$work" 3 "$program" python3 -B "$LAB/ansible/check.py" "$work" "$program"
