#!/bin/bash
# Tests agents and rollouts on a real Kubernetes control plane, in hosts made of namespaces (hosts.sh). Goals are created, drift, are healed
# and are deleted; every process is killed at random moments; the API server refuses what the chart's roles do not allow.
#
# usage: lab/kube.sh PROGRAM [STEP…]
#
# PROGRAM is evenkeel built with the feature `kubernetes`. The control plane is in target/tools/kube, or in $EVENKEEL_KUBE: `make lab-kube`
# builds PROGRAM and the control plane. Exit code 4: something is missing here; the last line says what. lab/kube/check.py has the steps.
set -eu
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
[ $# -ge 1 ] || {
    echo "usage: lab/kube.sh PROGRAM [STEP…]" >&2
    exit 2
}
tools=$(realpath -m "${EVENKEEL_KUBE:-$TOP/target/tools/kube}")
[ -x "$tools/kube-apiserver" ] || die "the control plane is not built: make lab-kube"
need python3 python3
need openssl openssl
program=$(realpath "$1")
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/evenkeel-kube.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$LAB/hosts.sh" "$work" 3 "$program" python3 -B "$LAB/kube/check.py" "$work" "$program" "$tools" "$@"
