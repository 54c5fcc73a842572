#!/usr/bin/env bash
# Tests the Debian package on a Debian with a running systemd: its units, a setting that outlives a reboot, CPUs for services, an upgrade,
# a removal, a purge. The checks read the kernel and systemd directly.
#
# usage: lab/systemd.sh [-d DIST]
#
#   -d  the folder that `make dist` wrote [default: target/dist]
#
# Exit code 1: something failed, and the output says what.
# The checks are called by name.
# shellcheck disable=SC2317
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

release "$@"
package=$dist/evenkeel_$version-1_$(debian_arch "$(uname -m)").deb
[ -e "$package" ] || die "the package under systemd is skipped: $package is missing: make dist"

one_guest systemd
guest() { "$machine" run "$@"; }
# A line of shell in the guest.
inside() { guest bash -c "$1"; }
value() { guest cat "/proc/sys/vm/$1"; }
# A check runs in a shell of its own, which ends at once: bash would go on after `||`.
differs() {
    echo "$1"
    exit 1
}
is() { [ "$1" = "$2" ] || differs "'$1', and it should be '$2'"; }
# ends CODE COMMAND…: whether a command in the guest ends with this exit code.
ends() {
    local code=0 wanted=$1
    shift
    guest "$@" || code=$?
    is "$code" "$wanted"
}

older_package() {
    mkdir "$work/older"
    ln -s "$(realpath "$dist/$(uname -m)")" "$work/older/$(uname -m)"
    DIST=$work/older REVISION=0 "$TOP/deploy/dist/packages.sh" "$(uname -m)"
    cp "$work/older/evenkeel_$version-0_$(debian_arch "$(uname -m)").deb" "$work/older.deb"
}
installs() {
    "$machine" push "$1" /root/evenkeel.deb
    guest apt-get install -y -q --no-install-recommends /root/evenkeel.deb
    guest rm /root/evenkeel.deb
}
# systemd-analyze prints what it finds, also for units of others.
units_are_clean() {
    local said
    said=$(inside 'systemd-analyze verify --man=no /usr/lib/systemd/system/evenkeel-* 2>&1') || true
    is "$(grep evenkeel <<<"$said" || true)" ''
}

# Sessions, as a user's units have them. The arena ends when its input does.
unit='[Service]
ExecStart=/bin/sh -c "sleep infinity | exec /usr/bin/evenkeel-arena --tick-hz 20 --work-us 100 --listen 127.0.0.1:2700%i --session lab-%i"'
starts_sessions() {
    echo "$unit" >"$work/unit"
    "$machine" push "$work/unit" /etc/systemd/system/arena@.service
    guest systemctl daemon-reload
    guest systemctl start arena@1 arena@2 arena@3
    sleep 5
    guest systemctl is-active arena@1 arena@2 arena@3
}

# get PATH: prints the answer of `evenkeel serve`, without a program that a small system lacks.
get() { inside "exec 3<>/dev/tcp/127.0.0.1/9177; printf 'GET $1 HTTP/1.1\r\nHost: 127.0.0.1:9177\r\nConnection: close\r\n\r\n' >&3; timeout 60 cat <&3"; }
serves() {
    guest systemctl enable --now evenkeel-serve.socket
    is "$(guest systemctl is-active evenkeel-serve.service || true)" inactive
    get /healthz | grep -q '200 OK'
    is "$(guest systemctl is-active evenkeel-serve.service)" active
}
# A server's telemetry, read by a service that may write nothing.
sees_the_sessions() {
    local end=$((SECONDS + 120))
    until get /metrics >"$work/metrics" && [ "$(grep -c '^evenkeel_ticks_total{.*lab-[123]' "$work/metrics")" -ge 3 ]; do
        [ "$SECONDS" -lt "$end" ] || differs "$(grep -m 9 '^evenkeel_server' "$work/metrics")"
        sleep 5
    done
    get /api/v1/model >"$work/model"
}
# systemd restarts the service after 60 s without a sign of life (WatchdogSec).
outlives_its_watchdog() {
    sleep 150
    is "$(guest systemctl show --property ActiveState,NRestarts --value evenkeel-serve.service | tr '\n' ' ')" '0 active '
}
says_nothing_bad() { is "$(inside 'journalctl -q -b -p warning -u "evenkeel-serve*" -o cat')" ''; }

verifies_daily() {
    guest systemctl enable --now evenkeel-verify.timer
    guest systemctl list-timers --no-legend evenkeel-verify.timer | grep evenkeel-verify
    guest systemctl start evenkeel-verify.service
}
# Drift makes the unit fail, so that a monitor of failed units reports it.
reports_drift() {
    guest sysctl -qw vm.swappiness=61
    ends 1 systemctl start evenkeel-verify.service
    is "$(guest systemctl is-failed evenkeel-verify.service)" failed
    guest sysctl -qw vm.swappiness=7
    guest systemctl start evenkeel-verify.service
}

table='session,count,cpus,tick_hz,unit,cpu_weight
arena,3,0.2,20,arena@{n}.service,200'
group() { guest cat "/sys/fs/cgroup/system.slice/system-arena.slice/arena@$1.service/$2"; }
# The CPUs of the sessions' processes, as the kernel reports them.
# shellcheck disable=SC2016 # the guest's shell expands it
cpus_of_sessions() {
    inside 'for at in /proc/[0-9]*; do
        [ "$(cat $at/comm 2>/dev/null)" = evenkeel-arena ] && sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" $at/status
    done | sort -u'
}
packs() {
    echo "$table" >"$work/sessions.csv"
    "$machine" push "$work/sessions.csv" /root/sessions.csv
    guest evenkeel pack apply /root/sessions.csv
    local cpus
    cpus=$(guest systemctl show --property AllowedCPUs --value arena@1)
    [ -n "$cpus" ] || differs 'no AllowedCPUs'
    # Running services get their CPUs at once.
    is "$(cpus_of_sessions)" "$(tr ' ' ',' <<<"$cpus")"
    is "$(group 2 cpu.weight)" 200
    guest evenkeel verify
    echo "$cpus" >"$work/cpus"
}
unpacks() {
    guest evenkeel revert
    is "$(cpus_of_sessions)" 0-3
    is "$(guest systemctl show --property CPUWeight --value arena@2)" '[not set]'
    is "$(guest systemctl show --property AllowedCPUs --value arena@1)" ''
}
# While a service of the slice has AllowedCPUs=, its slice has the cpuset controller. systemd removes the controller afterwards, and Linux
# before 6.2 then resets the CPUs of every process in the slice.
slice_without_cpuset() {
    local end=$((SECONDS + 60))
    while inside 'grep -qw cpuset /sys/fs/cgroup/system.slice/system-arena.slice/cgroup.subtree_control'; do
        [ "$SECONDS" -lt "$end" ] || differs 'the cpuset controller is still enabled 60 s after no service needs it'
        sleep 1
    done
}
# The CPUs of the main process of a session.
cpus_of() { inside "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/\$(systemctl show --property MainPID --value arena@$1)/status"; }
packs_by_process() {
    slice_without_cpuset
    guest evenkeel pack apply --by process /root/sessions.csv
    # Running services keep their CPUs until the next start.
    ends 7 evenkeel verify
    guest systemctl restart arena@1 arena@2 arena@3
    sleep 5
    guest evenkeel verify
    is "$(cpus_of 1)" "$(cat "$work/cpus")"
}

# Linux before 6.2 resets the CPUs of running processes when another service of their slice gets AllowedCPUs=.
notices_a_reset() {
    local said
    guest systemctl set-property --runtime arena@4 AllowedCPUs=0-1
    guest systemctl start arena@4
    sleep 5
    is "$(cpus_of 1)" 0-3
    said=$(guest evenkeel verify --json) && differs "$said"
    echo "$said"
    grep 'was started with this value, which was changed since' <<<"$said"
    guest systemctl stop arena@4
    inside 'rm -rf /run/systemd/system.control/arena@4.service.d; systemctl daemon-reload'
    slice_without_cpuset
    guest systemctl restart arena@1 arena@2 arena@3
    sleep 5
    guest evenkeel verify
}

reboots() { "$machine" reboot; }
outlives_reboot() {
    is "$(value swappiness)" 7
    guest systemctl start arena@1 arena@2 arena@3
    is "$(cpus_of_sessions)" "$(cat "$work/cpus")"
    guest evenkeel verify
    is "$(guest systemctl is-active evenkeel-serve.socket)" active
    guest systemctl list-timers --no-legend evenkeel-verify.timer | grep evenkeel-verify
}
# After the upgrade, the new program must answer.
upgrades() {
    local before after
    get /healthz | grep -q '200 OK'
    before=$(guest systemctl show --property MainPID --value evenkeel-serve.service)
    installs "$package"
    get /healthz | grep -q '200 OK'
    after=$(guest systemctl show --property MainPID --value evenkeel-serve.service)
    [ "$before" != "$after" ] || differs "process $before, of the old package, still answers"
    guest evenkeel verify
}
removes() {
    guest apt-get remove -y -q evenkeel >"$work/removal" 2>&1
    grep '/var/lib/evenkeel/evenkeel revert' "$work/removal"
    is "$(value swappiness)" 7
}
nothing_runs() {
    # shellcheck disable=SC2016 # the guest's shell expands it
    is "$(inside 'for at in /proc/[0-9]*; do [ "$(cat $at/comm 2>/dev/null)" = evenkeel ] && echo $at; done; true')" ''
    # The unit that verifies after a boot belongs to the setting, which is still in force. Without its program, systemd does not start the
    # unit.
    is "$(inside 'find /etc/systemd -lname "*evenkeel*"')" /etc/systemd/system/multi-user.target.wants/evenkeel-verify.service
    is "$(guest systemctl list-units --no-legend --plain --state=active,activating,failed 'evenkeel-*')" ''
}
purges() {
    guest apt-get purge -y -q evenkeel
    is "$(value swappiness)" "$swappiness"
    is "$(cpus_of_sessions)" 0-3
}
no_file() { is "$(inside 'find /etc /usr /var /root /opt /run/evenkeel -xdev -name "*evenkeel*" | grep -v "^/var/log/\|^/var/lib/dpkg/info.*list$"; true')" ''; }
as_before() {
    is "$(value swappiness)" "$swappiness"
    is "$(inside 'systemctl --failed --plain --no-legend')" ''
}

"$LAB/disk.sh" >/dev/null
"$machine" start
swappiness=$(value swappiness)
older_package >"$work/older.log" 2>&1
check 'the package installs with apt' installs "$work/older.deb"
check 'systemd finds nothing in its units' units_are_clean
check 'sessions start' starts_sessions
check 'a request to the socket starts evenkeel serve' serves
check 'it sees the ticks of the sessions' sees_the_sessions
check 'it withstands its watchdog' outlives_its_watchdog
guest systemd-analyze security --no-pager evenkeel-serve.service | tail -n 1 >&2 || true
check 'a lasting setting is applied' guest evenkeel apply --persist vm.swappiness=7
check 'the daily check is due, and runs' verifies_daily
check 'drift fails the unit of the check' reports_drift
guest evenkeel revert >/dev/null
check 'services that run get their CPUs' packs
check 'and all CPUs again by revert' unpacks
check 'services get CPUs of their process at the next start' packs_by_process
check 'verify notices that the kernel has reset their CPUs' notices_a_reset
guest evenkeel revert >/dev/null
guest systemctl restart arena@1 arena@2 arena@3
check 'both are applied again' guest bash -c 'evenkeel apply --persist vm.swappiness=7 && evenkeel pack apply /root/sessions.csv'
check 'evenkeel serve logged no warning' says_nothing_bad
check 'the machine reboots' reboots
check 'setting, CPUs and units are as before the reboot' outlives_reboot
check 'the package is upgraded, and the new program serves' upgrades
check 'the package is removed, and names the way back' removes
check 'no unit of it runs or is enabled' nothing_runs
check 'the purge restores the setting and the CPUs' purges
check 'the purge leaves no file' no_file
check 'the machine reboots after it' reboots
check 'it is as it was at first' as_before
exit "$wrong"
