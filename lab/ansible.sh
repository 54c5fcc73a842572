#!/bin/bash
# Runs the collection `evenkeel.host` with Debian's ansible-playbook over sshd on three hosts made of namespaces (hosts.sh).
#
# usage: lab/ansible.sh PROGRAM
#
# Exit code 77: something is missing here; the last line says what. lab/ansible/check.py has the steps.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || {
    echo "usage: lab/ansible.sh PROGRAM" >&2
    exit 2
}
for need in python3:python3 ansible-playbook:ansible-core; do
    command -v "${need%%:*}" >/dev/null || {
        echo "ansible: ${need%%:*} is missing: apt-get install --no-install-recommends ${need#*:}" >&2
        exit 77
    }
done
program=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/evenkeel-ansible.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$here/hosts.sh" "$work" 3 "$program" python3 -B "$here/ansible/check.py" "$work" "$program"
