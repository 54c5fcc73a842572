#!/bin/sh
# Installs the servers of the zoo, all from Debian 12: about 360 MB to fetch and 800 MB on disk, most of it hedgewars (177 MB, 247 MB on disk)
# and crossfire-server (20 MB, 284 MB on disk). So `deploy/setup.sh lab` does not call this script. The script starts no service and leaves
# no service enabled. It does not install Node.js, Go, a JDK or cargo; run.sh says which of them is missing.
#
# usage: lab/zoo/setup.sh [small]     small: without hedgewars and crossfire
set -eu
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "zoo: root and apt-get are needed" >&2
    exit 4
fi
packages="minetest-server teeworlds-server ddnet-server openarena-server freeciv-server mosquitto mumble-server bzflag-server openttd
openttd-opengfx wesnoth-1.16-server armagetronad-dedicated pioneers-console coturn liquidwar-server netpanzer nats-server beanstalkd ngircd
memcached redis-server nginx-light strace linux-perf python3 g++ libasio-dev"
[ "${1:-}" = small ] || packages="$packages hedgewars crossfire-server"
# Debian starts a server as soon as it is installed. The zoo starts its own servers.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
before=$(systemctl list-unit-files --state=enabled --no-legend 2>/dev/null | cut -d' ' -f1 | sort || true)
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
# The units that the packages enabled for the next boot, and no others.
for unit in $(systemctl list-unit-files --state=enabled --no-legend 2>/dev/null | cut -d' ' -f1 | sort || true); do
    printf '%s\n' "$before" | grep -qxF "$unit" || systemctl disable "$unit" >/dev/null 2>&1 || true
done
