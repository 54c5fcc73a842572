#!/bin/bash
# Runs Debian's Prometheus and Alertmanager on three hosts made of namespaces (hosts.sh), with the rules and the scrape configuration of a
# release. Tests that the alert fires for a host that drifts, and resolves for a healed host.
#
# usage: lab/fleet-alerts.sh PROGRAM
#
# Exit code 4: something is missing here; the last line says what. lab/fleet-alerts/check.py has the steps.
set -eu
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"
[ $# -eq 1 ] || {
    echo "usage: lab/fleet-alerts.sh PROGRAM" >&2
    exit 2
}
for program in prometheus prometheus-alertmanager python3; do need "$program" "$program"; done
program=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/evenkeel-alerts.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$LAB/hosts.sh" "$work" 3 "$program" python3 -B "$LAB/fleet-alerts/check.py" "$work"
