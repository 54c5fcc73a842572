#!/usr/bin/env bash
# Tests that `apply --try` undoes itself on a Debian with systemd, whatever happens to the watchdog: left alone, confirmed, and killed, so
# that only systemd's timer remains. The checks read the kernel directly, because an evenkeel command would itself undo an expired try.
#
# usage: lab/tries.sh [-p PROGRAM]
#
#   -p  the evenkeel to test, a static program (default: built here)
#
# Exit code 1: something failed, and the output says what.
set -euo pipefail
# shellcheck source=lab/common.sh
. "$(dirname "$0")/common.sh"

evenkeel=''
while getopts p: option; do
    case $option in
    p) evenkeel=$OPTARG ;;
    *) exit 2 ;;
    esac
done

one_guest tries
program=/usr/local/bin/evenkeel
seconds=20 wrong=0

guest() { "$machine" run "$@"; }
complain() {
    say "WRONG: $*"
    wrong=$((wrong + 1))
}

value() { guest cat /proc/sys/vm/swappiness; }
timers() { guest bash -c "systemctl list-units --all --no-legend --plain 'evenkeel-try-*' | cut -d' ' -f1"; }
# Finds watchdogs by the name of the program, which differs from the name of the checking shell.
watchdogs() { guest bash -c 'for at in /proc/[0-9]*; do [ "$(cat $at/comm 2>/dev/null)" = evenkeel ] && tr "\0" " " 2>/dev/null <$at/cmdline | grep -q " watchdog " && echo ${at#/proc/}; done; true'; }

# is WHAT WANTED FOUND
is() {
    if [ "$2" = "$3" ]; then say "  as it should be: $1"; else complain "$1: '$3', and it should be '$2'"; fi
}

# becomes VALUE SECONDS: waits until the setting has this value.
becomes() {
    local end=$((SECONDS + $2))
    until [ "$(value)" = "$1" ]; do
        [ $SECONDS -lt $end ] || return 1
        sleep 1
    done
}

try() {
    guest "$program" apply --try "$seconds" vm.swappiness=7 >"$work/apply.out" || complain "apply ended with $?: $(cat "$work/apply.out")"
    is 'the value is in force' 7 "$(value)"
    is 'a timer stands behind the watchdog' 1 "$(timers | grep -c 'timer$')"
}

[ -n "$evenkeel" ] || evenkeel=$("$LAB/guest-program.sh")
"$LAB/disk.sh" >/dev/null
"$machine" start
"$machine" push "$evenkeel" "$program"
before=$(value)

say "left alone"
try
becomes "$before" 120 || complain "the value is $(value) two minutes later"
sleep 2
is 'no timer is left' '' "$(timers)"
is 'no watchdog is left' '' "$(watchdogs)"

say "confirmed"
try
guest "$program" confirm >/dev/null || complain "confirm ended with $?"
is 'no timer is left' '' "$(timers)"
sleep $((seconds + 10))
is 'the value stays' 7 "$(value)"
guest "$program" revert >/dev/null || complain "revert ended with $?"
is 'the value is back' "$before" "$(value)"

say "the watchdog is killed"
try
guest kill -KILL "$(watchdogs)" || complain "there was no watchdog to kill"
is 'no watchdog is left' '' "$(watchdogs)"
becomes "$before" 180 || complain "nobody undid it in three minutes: $(timers)"
sleep 5
is 'no timer or service is left' '' "$(timers)"
guest "$program" verify >"$work/verify.out" || complain "verify ended with $?: $(cat "$work/verify.out")"

say "the watchdog is killed, and the machine reboots before the time is over"
try
guest kill -KILL "$(watchdogs)" || complain "there was no watchdog to kill"
"$machine" reboot
is 'the value is that of a fresh boot' "$before" "$(value)"
is 'no timer is left' '' "$(timers)"
guest "$program" verify >"$work/verify.out" || complain "verify ended with $?: $(cat "$work/verify.out")"

[ "$wrong" -eq 0 ] || {
    say "$wrong things were not as promised; $work has what was seen"
    exit 1
}
say "a try undoes itself: left alone, with its watchdog killed, and over a reboot"
