#!/bin/bash
# Debian's Prometheus and Alertmanager on three hosts made of namespaces (hosts.sh), with the rules and the scrape configuration that are
# shipped: a host that drifts fires, a healed one resolves.
#
# usage: lab/fleet-alerts.sh PROGRAM
#
# Exit code 77: something is missing here; the last line says what. lab/fleet-alerts/check.py has the steps.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || {
    echo "usage: lab/fleet-alerts.sh PROGRAM" >&2
    exit 2
}
for need in prometheus prometheus-alertmanager python3; do
    command -v "$need" >/dev/null || {
        echo "fleet-alerts: $need is missing: apt-get install --no-install-recommends $need" >&2
        exit 77
    }
done
program=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/evenkeel-alerts.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$here/hosts.sh" "$work" 3 "$program" python3 -B "$here/fleet-alerts/check.py" "$work"
