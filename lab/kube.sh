#!/bin/bash
# Agents and rollouts on a real Kubernetes control plane, in hosts made of namespaces (hosts.sh): goals come, drift, are healed and go; everything
# is killed at random moments; each right of the chart is taken away once.
#
# usage: lab/kube.sh PROGRAM [STEP…]
#
# PROGRAM is evenkeel built with the feature `kubernetes`. The control plane is in target/tools/kube, or in $EVENKEEL_KUBE: `make lab-kube` builds
# both. Exit code 77: something is missing here; the last line says what. lab/kube/check.py has the steps.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || {
    echo "usage: lab/kube.sh PROGRAM [STEP…]" >&2
    exit 2
}
tools=$(realpath -m "${EVENKEEL_KUBE:-$here/../target/tools/kube}")
[ -x "$tools/kube-apiserver" ] || {
    echo "kube: the control plane is not built: make lab-kube" >&2
    exit 77
}
for need in python3:python3 openssl:openssl; do
    command -v "${need%%:*}" >/dev/null || {
        echo "kube: ${need%%:*} is missing: apt-get install --no-install-recommends ${need#*:}" >&2
        exit 77
    }
done
program=$(realpath "$1")
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/evenkeel-kube.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$here/hosts.sh" "$work" 3 "$program" python3 -B "$here/kube/check.py" "$work" "$program" "$tools" "$@"
